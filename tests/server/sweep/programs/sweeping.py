"""Programs to be swept, with kazoo: they start in a tenth of a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyzk.server.sweep.programs.command import main

_FRAME = """
import os, sys, threading, time, urllib.request
from urllib.error import HTTPError
from kazoo.client import KazooClient
from kazoo.exceptions import *

def connect(name):
    zk = KazooClient(os.environ["ZOOKEEPER_HOSTS_" + name.upper()])
    zk.start()
    return zk

def ask(what, body="", headers={}):
    request = urllib.request.Request(os.environ["PYZK_SWEEP"] + "/sweep/" + what, body.encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()

def at_once(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

"""
ADD = """
def add(zk):
    data, stat = zk.get("/n")
    zk.set("/n", b"%d" % (int(data or b"0") + 1))

def check(zk):
    data, _ = zk.get("/n")
    if data != b"2":
        print("the number is", data)
        sys.exit(1)

a, b = connect("a"), connect("b")
a.create("/n")
ask("start")
at_once(lambda: add(a), lambda: add(b))
ask("stop")
check(a)
"""
"""A race: two clients add 1 to a number whatever its version is."""
REPEATED = """
def add(zk):
    while True:
        try:
            data, stat = zk.get("/n")
            zk.set("/n", b"%d" % (int(data or b"0") + 1), stat.version)
            return
        except (ConnectionLoss, BadVersionError):
            pass

a = connect("a")
a.create("/n")
ask("start")
add(a)
ask("stop")
data, _ = a.get("/n")
sys.exit(data != b"1")
"""
"""A client adds 1, and adds it again when the reply is lost."""

Write = Callable[[str], str]
Sweep = Callable[..., int]


@pytest.fixture
def program(tmp_path: Path) -> Write:
    """Writes a program; returns its path."""

    def write(text: str) -> str:
        path = tmp_path / f"program{len(list(tmp_path.iterdir()))}.py"
        path.write_text(_FRAME + text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Sweeps a program in Python; returns the exit status."""
    # Without its site module Python starts in half of the time; an editable install is found by that.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return lambda *arguments: main([*arguments[:-1], "--", sys.executable, "-S", arguments[-1]])

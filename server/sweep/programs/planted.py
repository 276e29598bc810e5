"""The race that a sweep of programs must find before the sweep itself: two threads of a kept program add 1 to
a number."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Callable
from functools import partial

from ....blocking import ZooKeeper, connect


def main() -> None:
    """Make one run after the other, until there is no further run."""
    verdict = ""
    while hosts := _ask("next", verdict):
        verdict = _run(dict(line.split("=") for line in hosts.splitlines()))


def _run(hosts: dict[str, str]) -> str:
    """Make one run; return what is wrong, or an empty string if nothing is wrong."""
    with connect(hosts["a"]) as first, connect(hosts["b"]) as second:
        first.create("/number", b"0")
        _ask("start")
        _at_once(partial(_add, first), partial(_add, second))
        _ask("stop")
        data, _ = first.get("/number")
    return "" if data == b"2" else "an increment is lost"


def _add(zk: ZooKeeper) -> None:
    data, _ = zk.get("/number")
    zk.set("/number", str(int(data or b"") + 1).encode())


def _at_once(*functions: Callable[[], None]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _ask(what: str, body: str = "") -> str:
    with urllib.request.urlopen(f"{os.environ['PYZK_SWEEP']}/sweep/{what}", body.encode()) as answer:
        text: str = answer.read().decode()
    return text


if __name__ == "__main__":
    main()

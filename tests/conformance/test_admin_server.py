"""The admin server beside the real one of ``PYZK_JARS``: its commands, and the fields of their answers.

Where that is not set, it is not collected: the commands of Debian's 3.8.0 are fewer.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..support.jvm import missing, scratch
from ..support.needs import need
from ..support.ports import kept_ports
from ..support.waiting import PATIENCE
from . import ours, real_zookeeper
from .servers import CONFIG, Server, four_letter_word

LISTS = ("expiry_time_to_session_ids", "session_id_to_watched_paths")
"""Objects whose keys are data."""
OWN_VALUES = {"environment", "system_properties"}
"""Commands whose answers tell of a JVM."""


def _get(port: int, path: str) -> tuple[int, str | None, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/commands/{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.headers.get("content-type"), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("content-type"), error.read()


def _fields(value: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(value, dict) and not prefix.endswith(LISTS):
        for key, inner in value.items():
            yield f"{prefix}.{key}"
            yield from _fields(inner, f"{prefix}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner, f"{prefix}[]")


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[tuple[Server, int], tuple[Server, int]]]:
    """Both servers, and the ports of their admin servers."""
    need(missing())
    with scratch() as folder, scratch() as real_folder, kept_ports(2) as (own_port, real_port):
        more = {"admin.enableServer": "true"}
        real = real_zookeeper.start(
            {**CONFIG, **more, "admin.serverPort": str(real_port)}, Path(real_folder), admin=True
        )
        try:
            release = ".".join(map(str, real.version))
            own_config = {**CONFIG, **more, "admin.serverPort": str(own_port), "emulate": release}
            own = ours.start(own_config, Path(folder))
            try:
                yield (own, own_port), (real, real_port)
            finally:
                own.stop()
        finally:
            real.stop()


def _commands(port: int) -> set[str]:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return set(re.findall(r">([a-z_]+)</a>", _get(port, "")[2].decode()))
        except urllib.error.URLError:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # between two looks: the admin server announces nothing


def test_the_commands_and_their_fields(ports: tuple[tuple[Server, int], tuple[Server, int]]) -> None:
    (_, own), (_, real) = ports
    names = _commands(real)
    assert _commands(own) - {"shed_connections"} == names
    for name in sorted(names - OWN_VALUES | {"nonsense", "ruok/"}):
        mine, theirs = _get(own, name), _get(real, name)
        assert mine[:2] == theirs[:2], name
        if theirs[0] == 200:
            found = [set(_fields(json.loads(body))) for *_, body in (mine, theirs)]
            assert found[0] == found[1], name


@pytest.mark.parametrize("word", [b"mntr", b"envi", b"conf"])
def test_the_keys_of_a_word(ports: tuple[tuple[Server, int], tuple[Server, int]], word: bytes) -> None:
    keys = []
    for server, _ in ports:
        lines = four_letter_word((server.host, server.port), word).decode().splitlines()
        keys.append(sorted(re.split(r"[\t=]", line)[0] for line in lines))
    assert keys[0] == keys[1]

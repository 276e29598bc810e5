"""Clients at two servers of a pretend ensemble, of which one is behind at times."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import attrs

from pyzk.protocol.errors import NodeExistsError, NoNodeError
from pyzk.server.testing import EmbeddedEnsemble
from tests.ensemble.pretend.client import Client, Clients
from tests.support.requests import check_op, set_op

from .clients import EPHEMERAL


@attrs.frozen
class Scene:
    """A reader at server 1, which lags at times, and a writer at server 3, which leads."""

    ensemble: EmbeddedEnsemble
    at: Clients
    reader: Client
    writer: Client

    def behind(self, write: Callable[[Client], object]) -> None:
        """The writer writes, and server 1 does not hear of it yet."""
        self.ensemble.lag(1)
        write(self.writer)

    def catch_up(self) -> None:
        self.ensemble.catch_up(1)

    def sync(self) -> None:
        """What a repaired client does before it reads."""
        self.reader.later.sync("/")
        self.catch_up()
        assert len(self.reader.arrivals()) == 1

    def found(self) -> list[str]:
        return [found.rule for found in self.ensemble.advice()]


def counters(text: str) -> str:
    """The text with zxids without their epochs, which are another each time."""
    return re.sub(r"\b0x[0-9a-f]{7}0*", "0x", text)


# --- the faulty clients and their repaired twins -----------------------------------------------------------

Act: TypeAlias = Callable[[Scene, Callable[[], object]], None]
"""A client reads and writes; what is given to it comes before its read."""


def overwrites(scene: Scene, before: Callable[[], object]) -> None:
    scene.writer.create("/count", b"0")
    scene.behind(lambda writer: writer.set("/count", b"1"))
    before()
    count = int(scene.reader.data("/count"))
    scene.catch_up()
    scene.reader.set("/count", b"%d" % (count + 1))


def is_refused_a_version(scene: Scene, before: Callable[[], object]) -> None:
    scene.writer.create("/count", b"0")
    scene.behind(lambda writer: writer.set("/count", b"1"))
    before()
    version = scene.reader.get("/count").record.stat.version
    scene.catch_up()
    scene.reader.multi(check_op("/", -1), set_op("/count", b"1", version))
    scene.reader.close_session()


def is_refused_a_create(scene: Scene, before: Callable[[], object]) -> None:
    scene.behind(lambda writer: writer.create("/leader", flags=EPHEMERAL))
    before()
    free = scene.reader.exists("/leader").err == NoNodeError.code
    scene.catch_up()
    if free:
        assert scene.reader.create("/leader", flags=EPHEMERAL).err == NodeExistsError.code
    scene.reader.close_session()


def is_refused_what_has_gone(scene: Scene, before: Callable[[], object]) -> None:
    scene.writer.create("/tasks")
    scene.writer.create("/tasks/1")
    scene.behind(lambda writer: writer.delete("/tasks/1"))
    before()
    names = scene.reader.children("/tasks").record.children
    scene.catch_up()
    for name in names:
        assert scene.reader.set(f"/tasks/{name}", b"done").err == NoNodeError.code
    scene.reader.close_session()

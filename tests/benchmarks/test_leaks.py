"""Nothing stays in memory of clients that are gone: counted in live objects, so that one would be seen."""

from __future__ import annotations

import gc
import itertools
import logging

import pytest

from pyzk.protocol.constants import AddWatchMode, CreateMode

from ..support.requests import create_op, delete_op, set_op
from ..support.world import World

ROUND = 20  # clients


def round_of_clients(world: World, names: itertools.count[int]) -> None:
    """Clients come, do a bit of everything under names never used before, and go in all ways there are."""
    witness = world.connect()
    for ending in range(ROUND):
        client = world.connect()
        path = f"/n{next(names)}"
        client.create(path, b"data")
        client.get(path, watch=True)
        witness.exists(f"{path}/child", watch=True)
        witness.children(path, watch=True)
        witness.exists(f"{path}/missing", watch=True)
        witness.add_watch(path, AddWatchMode(ending % 2))
        client.set(path, b"other")
        client.create(f"{path}/child", b"", flags=CreateMode.EPHEMERAL)
        client.create("/s", b"", flags=CreateMode.EPHEMERAL_SEQUENTIAL)
        client.multi(create_op(f"{path}/b"), set_op(path, b"x"), delete_op(f"{path}/b"))
        client.multi(create_op(f"{path}/b"), delete_op(f"{path}/nowhere"))
        client.delete(f"{path}/nowhere")
        client.delete(f"{path}/child")
        client.delete(path)
        match ending % 4:
            case 0:
                client.close_session()
            case 1:
                client.connection.receive_eof()  # its session expires
            case 2:
                client.reconnect().close_session()
            case 3:
                client.feed(b"\xff\xff\xff\xff")  # nonsense
        witness.take_events()
    witness.connection.receive_eof()
    world.pass_time(60)


def live_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_nothing_is_left_of_clients_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("pyzk.server"), "disabled", True)  # pytest keeps what is logged
    world = World()
    world.engine.on_txn = None  # the history grows by intent
    names = itertools.count(10**6)
    round_of_clients(world, names)
    before = live_objects()
    for _ in range(3):
        round_of_clients(world, names)
    assert live_objects() - before < ROUND  # one object left by each client would be three times that
    assert len(world.tree) == len(World().tree)
    assert not world.engine.watches.watchers
    assert not world.service.connections

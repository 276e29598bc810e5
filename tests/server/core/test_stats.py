"""What is counted of requests and replies (operator-surface.md section 3)."""

from __future__ import annotations

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server.core import stats
from pyzk.server.core.stats import ServerStats

from ...support.world import Peer, World


def sizes(world: World) -> tuple[int, int, int]:
    """Of the last, the least and the greatest reply or event."""
    found = world.engine.stats
    return found.last_response, found.min_response, found.max_response


def get(path: str) -> bytes:
    return wire.request(OpCode.GET_DATA, r.GetDataRequest(path, False), 1)


SMALL, LARGE = 16 + 4 + 68, 16 + 4 + 100 + 68


@pytest.mark.parametrize("times", [1, 3])
def test_response_sizes_of_requests_alone_and_in_a_batch(world: World, client: Peer, times: int) -> None:
    client.create("/small", b"")
    client.create("/large", b"x" * 100)
    world.engine.stats.reset()
    assert sizes(world) == (-1, -1, -1)
    client.exchange(get("/small") * times)
    assert sizes(world) == (SMALL, SMALL, SMALL)
    client.exchange(get("/large") * times)
    assert sizes(world) == (LARGE, SMALL, LARGE)
    client.exchange(get("/missing") * times)
    assert sizes(world) == (16, 16, LARGE)
    client.exchange(get("/small") * times)
    assert sizes(world) == (SMALL, 16, LARGE)


def test_events_and_what_the_connection_answers_itself_count_and_handshakes_do_not(
    world: World, client: Peer
) -> None:
    path = "/" + "n" * 100
    client.exists(path, watch=True)
    world.engine.stats.reset()
    other = world.connect()
    assert sizes(world) == (-1, -1, -1)
    other.exchange(wire.request(OpCode.CREATE, r.CreateRequest(path, b"", r.OPEN_ACL, 0), 1))
    created, event = 16 + 4 + len(path), 16 + 12 + len(path)
    assert sizes(world) == (created, created, event)
    world.engine.stats.reset()
    client.take_events()
    client.auth("digest", b"a:b")
    assert sizes(world) == (16, 16, 16)


def test_many_sizes_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_SIZES", 3)
    found = ServerStats()
    for size in (5, 9, 2, 7, 6, 8):
        found.new_response_size(size)
        assert len(found.response_sizes) <= 3
    assert (found.min_response, found.max_response) == (2, 9)

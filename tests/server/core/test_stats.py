"""What is counted of requests and replies (operator-surface.md section 3)."""

from __future__ import annotations

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
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


def test_all_begins_at_nothing_and_srst_begins_anew() -> None:
    found = ServerStats()

    def numbers() -> dict[str, object]:
        return {name: value for name, value in vars(found).items() if isinstance(value, int)}

    begun = numbers()
    sizes_ = {"last_response", "min_response", "max_response"}
    assert len(begun) > 15
    assert {name: value for name, value in begun.items() if value != 0} == dict.fromkeys(sizes_, -1)
    assert found.ensemble_auth == {"success": 0, "fail": 0, "skip": 0}
    for outcomes in (found.snapshots, found.restores):
        assert (outcomes.failed, outcomes.limited) == (0, 0)
    for summary in (found.snapshot_time, found.restore_time, *found.watchers.values()):
        assert (summary.count, summary.total, summary.minimum, summary.maximum) == (0, 0, 0, 0)
    assert set(found.watchers) == {event for event in EventType if event > 0}
    assert (found.requests, found.packets_received, found.packets_sent) == (0, 0, 0)
    assert (found.latency.count, found.latency.average) == (0, 0.0)
    for name in begun:
        setattr(found, name, 7)
    found.snapshots.failed = 3
    found.read_latency.zeros = 5
    found.reset()
    assert numbers() == begun
    assert (found.snapshots.failed, found.requests) == (0, 0)


def test_packets_are_requests_and_others() -> None:
    found = ServerStats()
    found.read_latency.zeros = 5
    found.read_latency.add(3, 2)
    found.update_latency.add(7)
    found.more_received, found.more_sent = 10, 20
    assert (found.requests, found.packets_received, found.packets_sent) == (8, 18, 28)
    both = found.latency
    assert (both.count, both.total, both.minimum, both.maximum) == (8, 13, 0, 7)
    assert both.average == 13 / 8


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(5, 1)], (1, 5, 5, 5)),
        ([(5, 1), (3, 2)], (3, 11, 3, 5)),
        ([(3, 2), (5, 1)], (3, 11, 3, 5)),
        ([(3, 1), (4, 1), (5, 1)], (3, 12, 3, 5)),
        ([(0, 4)], (4, 0, 0, 0)),
        ([(6, 3), (6, 1)], (4, 24, 6, 6)),
    ],
)
def test_a_summary(values: list[tuple[int, int]], expected: tuple[int, ...]) -> None:
    found = stats.Summary()
    for value, count in values:
        found.add(value, count)
    assert (found.count, found.total, found.minimum, found.maximum) == expected
    assert found.average == found.total / found.count


def test_a_histogram() -> None:
    found = stats.Histogram()
    assert (len(found), found.counts(), found.percentile(0.5)) == (0, {}, 0)
    found.add(9, 0)
    assert found.counts() == {}
    found.add(9)
    found.add(4, 3)
    found.add(9, 2)
    assert (len(found), list(found.counts().items())) == (6, [(4, 3), (9, 3)])
    found.zeros = 4
    assert (len(found), list(found.counts().items())) == (10, [(0, 4), (4, 3), (9, 3)])
    shares = (0.0, 0.1, 0.4, 0.41, 0.7, 0.71, 1.0)
    assert [found.percentile(share) for share in shares] == [0, 0, 0, 4, 4, 9, 9]
    summary = found.summary()
    assert (summary.count, summary.total, summary.minimum, summary.maximum) == (10, 39, 0, 9)

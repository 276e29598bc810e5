"""Operations that are done in steps, and what fails at one step: each alone, at the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server.core.engine import Engine
from pyzk.server.core.operations.long import Unfinished
from pyzk.server.core.txn import Refused, Replace
from pyzk.server.core.znode import copy_tree

from ...support.requests import get_op
from ...support.world import Peer, World
from .slow import Slow


def answered(engine: Engine, client: Slow, op: int, body: bytes) -> tuple[int, int, bytes]:
    """The answer of a request that takes many turns."""
    call = lambda: engine.handle(client, op, bytes(8) + body, 0)  # type: ignore[arg-type] # noqa: E731
    while True:
        try:
            return call()
        except Unfinished as unfinished:
            steps = unfinished.steps
            call = lambda steps=steps: engine.resume(client, op, steps)  # type: ignore[misc] # noqa: E731


@pytest.fixture
def slow(world: World, client: Peer) -> Slow:
    return Slow(client)


@pytest.mark.parametrize(("paths", "steps"), [(0, 0), (31, 0), (32, 1), (63, 1), (64, 2), (200, 6)])
@pytest.mark.parametrize("kind", ["data", "child"])
def test_watches_are_set_32_at_a_time(world: World, slow: Slow, paths: int, steps: int, kind: str) -> None:
    names = [f"/{number}" for number in range(paths)]
    data, child = (names, []) if kind == "data" else ([], ["/"] * paths)
    request = r.SetWatches(world.zxid, [], data, child)
    zxid, code, body = answered(world.engine, slow, OpCode.SET_WATCHES, request.encode())
    assert (zxid, code, body) == (world.zxid, 0, b"")
    assert slow.steps == steps
    assert world.engine.watches.count() == (paths if kind == "data" else min(paths, 1))


def test_many_reads_are_answered_32_at_a_time(world: World, slow: Slow) -> None:
    for count, steps in ((31, 0), (32, 1), (65, 2)):
        slow.steps = 0
        body = encode_multi([get_op("/")] * count)
        _, code, answer = answered(world.engine, slow, OpCode.MULTI_READ, body)
        assert (code, slow.steps) == (0, steps), count
        assert len(answer) > count * 68


def test_an_operation_that_fails_at_a_later_step_answers_its_error(
    world: World, slow: Slow, tracebacks: list[str]
) -> None:
    def steps() -> Iterator[float]:
        yield 0.0
        raise ValueError("a bug")

    refused: list[Exception] = []
    world.engine.on_refusal = refused.append
    with pytest.raises(Unfinished) as caught:
        world.engine.resume(slow, OpCode.GET_CHILDREN, steps())  # type: ignore[arg-type]
    answer = world.engine.resume(slow, OpCode.GET_CHILDREN, caught.value.steps)  # type: ignore[arg-type]
    assert answer == (world.zxid, -5, b"")
    assert tracebacks == [
        "a request of op 8 failed, and was answered with error -5; this is a bug of the server: "
        "please report it"
    ]
    assert refused == []
    wrong = r.SetWatches(0, [*["/x"] * 40, None], [], []).encode()
    zxid, code, body = answered(world.engine, slow, OpCode.SET_WATCHES, wrong)
    assert (zxid, code, body) == (world.zxid, -5, b"")
    assert len(refused) == 1


def test_a_session_whose_end_fails_is_over_all_the_same(
    world: World, client: Peer, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create("/e", flags=1)
    other = world.connect(timeout=5000)
    record = world.engine.record

    def fail(effect: Any, *more: Any) -> None:
        if type(effect).__name__ == "CloseSession":
            raise ValueError("a bug")
        record(effect, *more)

    monkeypatch.setattr(world.engine, "record", fail)
    world.pass_time(30)
    assert len(world.engine.sessions) == 0
    assert "/e" not in world.tree.nodes
    assert len(tracebacks) == 2
    assert all("has expired, but some of its ephemerals may remain" in line for line in tracebacks)
    assert other.closed


@pytest.mark.parametrize(("before", "given", "after"), [(5, 3, 6), (5, 9, 10), (5, 5, 6)])
def test_a_tree_that_is_replaced_takes_the_next_zxid(before: int, given: int, after: int) -> None:
    world = World(initial_zxid=before)
    assert world.zxid == before
    root = World().tree.nodes["/"]
    world.engine.replace_tree(Replace(root, frozenset()), given)
    assert world.zxid == after
    assert world.txns[-1].zxid == after


def test_a_tree_takes_a_copy_that_was_made_before(world: World, client: Peer) -> None:
    """The session of its ephemeral has ended since."""
    client.create("/e", flags=1)
    client.create("/a", data=b"before")
    root = copy_tree(world.tree.nodes["/"])
    effect = Replace(root, frozenset([client.session_id]), [copy_tree(root)])
    client.set("/a", b"later")
    world.engine.replace_tree(effect, 0)
    assert effect.copies == []
    assert world.tree.nodes["/a"].data == b"before"
    assert "/e" not in world.tree.nodes
    assert root.children is not None
    assert world.tree.nodes["/a"] is not root.children["a"]


def test_a_write_that_is_refused_unseen_takes_a_zxid(world: World, client: Peer) -> None:
    before = world.zxid
    assert world.engine.refuse(-7, client.session_id) == before + 1 == world.zxid
    assert (world.txns[-1].zxid, world.txns[-1].effect) == (before + 1, Refused(-7))

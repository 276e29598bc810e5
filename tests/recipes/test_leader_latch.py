"""A candidate in the background: what it says of itself is true, and it never gives up."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes import LockLost, LossReason
from pyzk.recipes.election import ElectionLayout, Term
from pyzk.recipes.leader_latch import LeaderLatch

from ..support.lab import SESSION_TIMEOUT, TICK, Lab
from .candidates import candidates, layouts, nothing_left


@layouts
async def test_latches_take_turns(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ElectionLayout
) -> None:
    clients = [zk, await lab.client()]
    latches = [LeaderLatch(zk, "/leader", id=str(number), layout=layout) for number, zk in enumerate(clients)]
    first, second = latches
    assert not first.is_leader
    async with trio.open_nursery() as nursery:

        async def stand(latch: LeaderLatch, seconds: float) -> None:
            async with latch:
                await trio.sleep(seconds)

        nursery.start_soon(stand, first, 10)
        await trio.sleep(1)
        await first.wait_leader()
        nursery.start_soon(stand, second, 20)
        await trio.sleep(5)
        assert (first.is_leader, second.is_leader) == (True, False)
        assert [node.data for node in await second.election.contenders()] == [b"0", b"1"]
        leader = await second.election.leader()
        assert leader is not None
        assert leader.data == b"0"

        term = await second.wait_leader()
        assert trio.current_time() == pytest.approx(10)
        assert (first.is_leader, second.is_leader) == (False, True)
        assert term.session_id == clients[1].session.id
    await nothing_left(lab, *clients)


async def test_the_block_begins_at_once_and_is_its_own_business(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    latch = LeaderLatch(zk, "/leader")
    with pytest.raises(ZeroDivisionError):
        async with latch:
            assert not latch.is_leader
            await latch.wait_leader()
            raise ZeroDivisionError
    await nothing_left(lab, zk)
    with pytest.raises(RuntimeError):
        await latch.wait_leader()
    async with latch:
        with pytest.raises(RuntimeError):
            async with latch:
                pass
        assert (await latch.wait_leader()).number == 2


async def test_leaving_a_term_resigns_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with LeaderLatch(zk, "/leader") as latch:
        async with latch.term() as first:
            pass
        assert latch.is_leader
        async with latch.term() as second:
            assert second is first
        assert candidates(lab) == [first.path]


@pytest.mark.row("F8", "F14", "F15", "E-04", "E-32")
@pytest.mark.parametrize("how", ["expire", "delete", "cut off"])
async def test_a_latch_that_is_deposed_is_a_candidate_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, how: str
) -> None:
    other = await lab.client()
    expected = {
        "expire": LossReason.SESSION_EXPIRED,
        "delete": LossReason.NODE_DELETED,
        "cut off": LossReason.LEASE_EXPIRED,
    }[how]
    async with LeaderLatch(zk, "/leader") as latch:
        tokens = []
        for number in (1, 2, 3):
            with pytest.raises(LockLost) as caught:
                async with latch.term() as term:
                    tokens.append(term.token)
                    assert term.number == number
                    stat = await zk.exists(term.path)
                    assert stat is not None
                    assert stat.ephemeralOwner == term.session_id == zk.session.id
                    if how == "expire":
                        lab.server.expire(zk.session.id)
                    elif how == "delete":
                        await other.delete(term.path)
                    else:
                        lab.cut_off(zk)
                    await trio.sleep_forever()
            assert caught.value.reason is term.reason is expected
            assert not latch.is_leader
            if how == "cut off":
                assert candidates(lab) == [term.path], "the server does not know yet"
                await trio.sleep(SESSION_TIMEOUT)
                assert candidates(lab) == []
                lab.let_through(zk)
        assert tokens == sorted(set(tokens))
    await nothing_left(lab, zk, other)


async def test_it_is_deposed_before_another_is_elected(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with LeaderLatch(zk, "/leader") as first:
        await first.wait_leader()
        async with LeaderLatch(other, "/leader") as second:
            lab.cut_off(zk)
            first_led = True
            while not second.is_leader:
                assert trio.current_time() < 2 * SESSION_TIMEOUT
                first_led = first.is_leader
                await trio.sleep(TICK / 2)
            assert not first_led
            assert not first.is_leader
            lab.let_through(zk)
            await trio.sleep(SESSION_TIMEOUT)
            assert (first.is_leader, second.is_leader) == (False, True)


@pytest.mark.row("E-29")
async def test_a_reconnect_changes_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with LeaderLatch(zk, "/leader") as first:
        term = await first.wait_leader()
        async with LeaderLatch(other, "/leader") as second:
            await trio.sleep(1)
            before = candidates(lab)
            assert len(before) == 2
            for _ in range(5):
                lab.server.disconnect_all()
                assert first.is_leader
                await trio.sleep(SESSION_TIMEOUT / 2)
                assert candidates(lab) == before
                assert await first.wait_leader() is term
                assert not second.is_leader


async def test_it_can_resign_at_once_without_a_connection(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """As Curator's latch does by default; but it is a candidate again of its own accord."""
    async with LeaderLatch(zk, "/leader", suspended="cancel") as latch:
        term = await latch.wait_leader()
        lab.server.disconnect(zk.session.id)
        await term.lost.wait()
        assert term.reason is LossReason.SUSPENDED
        assert not latch.is_leader
        again = await latch.wait_leader()
        assert again.token > term.token
        assert zk.session.generation == 1
        await trio.sleep(1)
        assert candidates(lab) == [again.path]


@pytest.mark.row("F19")
async def test_a_process_that_was_stopped_is_no_leader(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with LeaderLatch(zk, "/leader") as latch:
        await latch.wait_leader()
        autojump_clock.jump(3 * SESSION_TIMEOUT)
        assert not latch.is_leader, "nobody had time to notice"


async def test_what_runs_in_a_term_is_cancelled_before_another_is_elected(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    ends: list[tuple[float, LossReason]] = []
    elected = 0.0

    async def work(latch: LeaderLatch, started: trio.Event) -> None:
        try:
            async with latch.term():
                started.set()
                await trio.sleep_forever()
        except LockLost as error:
            ends.append((trio.current_time(), error.reason))

    async def other_candidate() -> None:
        nonlocal elected
        async with LeaderLatch(other, "/leader") as latch, latch.term():
            elected = trio.current_time()

    async with trio.open_nursery() as nursery, LeaderLatch(zk, "/leader") as latch:
        for _ in range(3):
            started = trio.Event()
            nursery.start_soon(work, latch, started)
            await started.wait()
        nursery.start_soon(other_candidate)
        await trio.sleep(5)
        # The deletion takes its time, and so has the work.
        fault = lab.server.fault(op="delete", action="delay", seconds=0.5)
        fault.__enter__()
    fault.__exit__(None, None, None)
    assert ends == [(5.0, LossReason.RELEASED)] * 3
    assert elected == 5.5


async def test_waiting_for_leadership_ends_with_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:

        async def wait(latch: LeaderLatch) -> None:
            with pytest.raises(RuntimeError):
                await latch.wait_leader()

        async with LeaderLatch(zk, "/leader") as holder:
            await holder.wait_leader()
            async with LeaderLatch(other, "/leader") as latch:
                nursery.start_soon(wait, latch)
                await trio.sleep(1)
    await nothing_left(lab, zk, other)


@pytest.mark.row("F21")
async def test_a_denied_request_cancels_the_block(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/leader", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with LeaderLatch(zk, "/leader"):
            await trio.sleep_forever()
    await nothing_left(lab, zk)


async def test_a_client_that_closes(autojump_clock: MockClock, lab: Lab) -> None:
    terms: list[Term] = []

    async def stand(zk: ZooKeeper) -> None:
        with pytest.raises(ClosingError):
            async with LeaderLatch(zk, "/leader") as latch:
                terms.append(await latch.wait_leader())
                await trio.sleep_forever()
        assert not latch.is_leader

    async with trio.open_nursery() as nursery, lab.connect() as zk:
        nursery.start_soon(stand, zk)
        await trio.sleep(1)
    assert [term.reason for term in terms] == [LossReason.CLIENT_CLOSED]
    assert candidates(lab) == []
    with pytest.raises(ClosingError):
        async with LeaderLatch(zk, "/leader"):
            pass


@pytest.mark.row("F1", "F2", "F3", "F4", "F5")
@pytest.mark.parametrize("op", ["create", "delete", "get_children", "get_data"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_lost_with_any_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, op: str, when: Any
) -> None:
    await zk.create("/leader")
    with lab.server.fault(op=op, path="/leader**", when=when, action="disconnect"):
        async with LeaderLatch(zk, "/leader") as latch:
            term = await latch.wait_leader()
            assert candidates(lab) == [term.path]
        await zk.cleanup.idle()
    await nothing_left(lab, zk)


@pytest.mark.row("F20", "E-05")
async def test_left_at_every_instant(autojump_clock: MockClock, lab: Lab) -> None:
    """Quick to come and quick to go: nothing appears after that."""
    zk, other = await lab.client(), await lab.client()
    led = 0
    for tenths in range(30):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=0.3, times=None, required=False
        ):
            async with LeaderLatch(other, "/leader"):
                async with LeaderLatch(zk, "/leader") as latch:
                    await trio.sleep(tenths / 10)
                    if tenths % 2:
                        lab.server.expire(other.session.id)
                        await trio.sleep(0.7)
                    led += latch.is_leader
                assert not latch.is_leader
        await trio.sleep(5)
        await nothing_left(lab, zk, other)
    assert 5 < led < 25


async def test_the_default_client_ends_with_its_session(autojump_clock: MockClock, lab: Lab) -> None:
    terms: list[Term] = []
    with pytest.raises(SessionExpiredError):
        async with lab.connect(on_expired="cancel") as zk, LeaderLatch(zk, "/leader") as latch:
            terms.append(await latch.wait_leader())
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert [term.reason for term in terms] == [LossReason.SESSION_EXPIRED]
    assert candidates(lab) == []

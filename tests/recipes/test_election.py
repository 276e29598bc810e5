"""Elections as their users see them. What goes wrong is in test_election_faults.py."""

from __future__ import annotations

import itertools
import re

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import NoNodeError, SetData, ZooKeeper
from pyzk.recipes import Contender, Deadlock, Lock, LockLost, LockRevoked, revoke
from pyzk.recipes.election import ElectionLayout, LeaderElection, Term
from pyzk.recipes.leader_latch import LeaderLatch

from ..support.lab import SESSION_TIMEOUT, Lab
from .candidates import NAMES, candidates, layouts, lead_for, lead_for_ever, nothing_left


@layouts
async def test_candidates_lead_in_turn(autojump_clock: MockClock, lab: Lab, layout: ElectionLayout) -> None:
    clients = [await lab.client() for _ in range(3)]
    log: list[str] = []
    async with trio.open_nursery() as nursery:
        for name, zk in zip("abc", clients, strict=True):
            election = LeaderElection(zk, "/leader", id=name, layout=layout)
            nursery.start_soon(lead_for, election, 1, log, name)
            await trio.sleep(0.1)
        assert [node.data for node in await election.contenders()] == [b"a", b"b", b"c"]
        leader = await election.leader()
        assert leader is not None
        assert leader.data == b"a"
        assert re.fullmatch(NAMES[layout], leader.name)
    assert log == ["a", "b", "c"]
    await nothing_left(lab, *clients)


async def test_a_term(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/state")
    election = LeaderElection(zk, "/leader")
    tokens = []
    for number in (1, 2, 3):
        async with election.lead() as term:
            stat = await zk.exists(term.path)
            assert stat is not None
            assert (term.number, term.token) == (number, stat.czxid)
            assert stat.ephemeralOwner == term.session_id == zk.session.id
            await zk.multi([term.fence(), SetData("/state", b"mine")])
        tokens.append(term.token)
        await zk.delete("/leader")  # the numbers in the names start again
    assert tokens == sorted(set(tokens))
    with pytest.raises(NoNodeError):
        await zk.multi([term.fence(), SetData("/state", b"late")])


async def test_terms_are_counted_by_each_candidate_and_tokens_grow_over_all(
    autojump_clock: MockClock, lab: Lab
) -> None:
    terms = []
    for _ in range(2):
        async with LeaderElection(await lab.client(), "/leader").lead() as term:
            terms.append(term)
    assert [term.number for term in terms] == [1, 1]
    assert terms[0].token < terms[1].token


async def test_candidates_of_every_layout_wait_for_each_other(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(9)]
    log: list[int] = []
    async with trio.open_nursery() as nursery:
        # Each layout once behind each.
        order: list[ElectionLayout] = ["curator-latch", "curator-selector", "kazoo"] * 2
        order += ["kazoo", "curator-selector", "curator-latch"]
        for number, (zk, layout) in enumerate(zip(clients, order, strict=True)):
            nursery.start_soon(lead_for, LeaderElection(zk, "/leader", layout=layout), 1, log, number)
            await trio.sleep(0.1)
        assert log == [0]
    assert log == list(range(9))
    assert trio.current_time() >= 9


async def test_a_task_cannot_wait_for_itself(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    election = LeaderElection(zk, "/leader")
    async with election.lead():
        with pytest.raises(Deadlock):
            async with election.lead():
                pass


@pytest.mark.parametrize("option", ["monitor", "reentrant", "local_queue", "max_handoffs", "recognise"])
async def test_what_makes_no_sense_for_a_leader(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, option: str
) -> None:
    with pytest.raises(TypeError, match=option):
        LeaderElection(zk, "/leader", **{option: 1})  # type: ignore[arg-type]


# --- running for it again and again -------------------------------------------------------------------------


async def test_run_stands_again_after_each_term(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(3)]
    log: list[tuple[str, int]] = []
    tokens: list[int] = []
    async with trio.open_nursery() as nursery:
        for name, zk in zip("abc", clients, strict=True):

            async def lead(term: Term, name: str = name) -> None:
                log.append((name, term.number))
                tokens.append(term.token)
                await trio.sleep(1)

            nursery.start_soon(LeaderElection(zk, "/leader").run, lead)
            await trio.sleep(0.1)
        await trio.sleep(8.5)
        nursery.cancel_scope.cancel()
    assert log == [(name, number) for number in (1, 2, 3) for name in "abc"]
    assert tokens == sorted(set(tokens))
    await nothing_left(lab, *clients)


async def test_run_stands_again_however_it_was_deposed(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    terms: list[Term] = []

    async def lead(term: Term) -> None:
        terms.append(term)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(LeaderElection(zk, "/leader", on_revoke="cancel").run, lead)
        await trio.sleep(1)
        await other.delete(terms[-1].path)
        await trio.sleep(1)
        lab.server.expire(zk.session.id)
        await trio.sleep(1)
        await revoke(other, terms[-1].path)
        await trio.sleep(1)
        lab.cut_off(zk)
        await trio.sleep(2 * SESSION_TIMEOUT)
        lab.let_through(zk)
        await trio.sleep(5)
        assert [term.number for term in terms] == [1, 2, 3, 4, 5]
        assert [term.lost.is_set() for term in terms] == [True] * 4 + [False]
        assert candidates(lab) == [terms[-1].path]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


async def test_run_raises_what_the_leader_raises(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()

    async def fail(term: Term) -> None:
        raise ZeroDivisionError

    async def lose_something_else(term: Term) -> None:
        async with Lock(zk, "/lock") as grant:
            await other.delete(grant.path)
            await trio.sleep_forever()

    with pytest.raises(ZeroDivisionError):
        await LeaderElection(zk, "/leader").run(fail)
    with pytest.raises(LockLost) as caught:
        await LeaderElection(zk, "/leader").run(lose_something_else)
    assert caught.value.path.startswith("/lock/")
    await nothing_left(lab, zk, other)


async def test_run_is_not_ended_by_the_calls_of_a_leader_whose_session_ends(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    terms: list[Term] = []

    async def lead(term: Term) -> None:
        terms.append(term)
        if len(terms) == 1:
            with lab.server.fault(op="exists", action="delay", seconds=5):
                await zk.exists("/")
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(LeaderElection(zk, "/leader").run, lead)
        await trio.sleep(1)
        lab.server.expire(zk.session.id)
        await trio.sleep(5)
        assert [term.number for term in terms] == [1, 2]
        nursery.cancel_scope.cancel()


@pytest.mark.row("E-31")
async def test_a_leader_asked_to_go_before_it_leads(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """An interrupt that comes too early is not lost, and neither is the candidacy."""
    other = await lab.client()
    terms: list[Term] = []

    async def lead(term: Term) -> None:
        terms.append(term)
        await trio.sleep_forever()

    election = LeaderElection(zk, "/leader", on_revoke="cancel")
    async with trio.open_nursery() as nursery:
        async with LeaderElection(other, "/leader").lead():
            nursery.start_soon(election.run, lead)
            await trio.sleep(1)
            _, waiting = await election.contenders()
            await revoke(other, waiting)
            await revoke(other, waiting)
        await trio.sleep(1)
        assert len(terms) == 2, "one that was over at once, and one more"
        assert terms[0].path == waiting.path
        assert terms[0].lost.is_set()
        assert not terms[1].lost.is_set()
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


# --- looking on ---------------------------------------------------------------------------------------------


async def test_an_observer_creates_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    election = LeaderElection(zk, "/a/leader")
    before = lab.server.dump()
    assert await election.leader() is None
    assert await election.contenders() == []
    with trio.move_on_after(1):
        async for leader in election.observe():
            assert leader is None
    assert lab.server.dump() == before
    await nothing_left(lab, zk)


async def follow(election: LeaderElection, log: list[bytes | None]) -> None:
    async for leader in election.observe():
        data = None if leader is None else leader.data
        log.append(data)


async def test_an_observer_sees_every_leader(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    log: list[bytes | None] = []
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, LeaderElection(zk, "/a/leader"), log)
        await trio.sleep(1)
        for name in ("a", "b"):
            async with LeaderElection(other, "/a/leader", id=name).lead() as term:
                await trio.sleep(1)
            await trio.sleep(1)
        await other.delete("/a", recursive=True)
        await trio.sleep(1)
        async with LeaderElection(other, "/a/leader", id="c", layout="kazoo").lead() as term:
            await trio.sleep(1)
            await other.set(term.path, b"changed")
            await trio.sleep(1)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert log == [None, b"a", None, b"b", None, b"c", b"changed", None]
    assert lab.requests(zk)["create2"] == lab.requests(zk)["create"] == 0
    await nothing_left(lab, zk)


async def test_an_observer_is_woken_by_the_leader_alone(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    log: list[bytes | None] = []
    others = [await lab.client() for _ in range(5)]
    terms: list[Term] = []
    async with trio.open_nursery() as nursery:
        for number, other in enumerate(others):
            election = LeaderElection(other, "/leader", id=str(number))
            nursery.start_soon(lead_for_ever, election, terms)
            await trio.sleep(0.1)
        nursery.start_soon(follow, LeaderElection(zk, "/leader"), log)
        await trio.sleep(1)
        assert zk.watch_count == 1
        events, requests = zk.event_count, lab.requests(zk)
        for number in (2, 4):
            lab.server.expire(others[number].session.id)
        await trio.sleep(1)
        assert zk.event_count == events
        assert lab.requests(zk) == requests
        lab.server.expire(others[0].session.id)
        await trio.sleep(1)
        assert zk.event_count == events + 1
        nursery.cancel_scope.cancel()
    assert log == [b"0", b"1"]


async def test_an_observer_outlives_its_connections_and_sessions(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    log: list[bytes | None] = []
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, LeaderElection(zk, "/leader"), log)
        for number in itertools.count():
            await trio.sleep(2)
            if number == 0:
                lab.server.disconnect(zk.session.id)
            elif number == 1:
                lab.server.expire(zk.session.id)
            elif number == 2:
                lab.cut_off(zk)
            else:
                break
            async with LeaderElection(other, "/leader", id=str(number)).lead():
                if number == 2:
                    await trio.sleep(3 * SESSION_TIMEOUT)
                    lab.let_through(zk)
                await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert log == [None, b"0", None, b"1", None, b"2", None]
    assert zk.session.generation == 3
    await nothing_left(lab, zk)


async def test_a_candidate_that_goes_while_it_is_looked_at(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    found: list[Contender | None] = []

    async def look() -> None:
        found.append(await LeaderElection(zk, "/leader").leader())

    async with trio.open_nursery() as nursery, LeaderElection(other, "/leader").lead():
        # The list is answered, the read of the first is not carried out yet.
        with lab.server.fault(op="get_data", session=zk.session.id, action="delay", seconds=5) as fault:
            nursery.start_soon(look)
            await trio.sleep(1)
            assert fault.fired
    assert found == [None]
    await nothing_left(lab, zk, other)


async def test_a_leader_that_was_asked_to_resign_is_told(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(LockRevoked):
        async with LeaderElection(zk, "/leader", on_revoke="cancel").lead() as term:
            await revoke(zk, term.path)
            await trio.sleep_forever()


async def test_an_id_is_text(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    for kind in (LeaderElection, LeaderLatch):
        with pytest.raises(TypeError, match="id must be a str, not b'me'"):
            kind(zk, "/leader", id=b"me")  # type: ignore[arg-type]

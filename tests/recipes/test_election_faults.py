"""Elections meet the faults and traps of recipe-rules.md D.13 and E that concern them. The engine below is
the lock's: see locks/test_lock_faults.py for what they have in common."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, NoNodeError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes import LockLost, LossReason, SequenceExhausted
from pyzk.recipes.election import ElectionLayout, LeaderElection, Term

from ..support.lab import SESSION_TIMEOUT, TICK, Lab, lose_while_stopped
from .candidates import candidates, layouts, lead_for, lead_for_ever, nothing_left


@pytest.mark.row("F8")
async def test_the_session_of_the_leader_expires(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught:
        async with LeaderElection(zk, "/leader").lead() as term:
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is term.reason is LossReason.SESSION_EXPIRED
    await zk.session.wait_connected()
    await nothing_left(lab, zk)
    assert "delete" not in lab.requests(zk)


@pytest.mark.row("F15", "E-32")
@layouts
async def test_an_operator_deletes_the_leaders_znode(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ElectionLayout
) -> None:
    """Two latches of Curator believe to lead then."""
    other = await lab.client()
    terms: list[Term] = []
    async with trio.open_nursery() as nursery:
        with pytest.raises(LockLost) as caught:
            async with LeaderElection(zk, "/leader", layout=layout).lead() as term:
                nursery.start_soon(lead_for_ever, LeaderElection(other, "/leader", layout=layout), terms)
                await trio.sleep(1)
                assert terms == []
                await other.delete(term.path)
                await trio.sleep_forever()
        assert caught.value.reason is LossReason.NODE_DELETED
        await trio.sleep(1)
        assert [after.token > term.token for after in terms] == [True]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F10", "E-29")
async def test_a_reconnect_changes_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The leader keeps its znode and its term, and so does who waits."""
    other = await lab.client()
    terms: list[Term] = []
    async with trio.open_nursery() as nursery:
        async with LeaderElection(zk, "/leader").lead() as term:
            nursery.start_soon(lead_for_ever, LeaderElection(other, "/leader"), terms)
            await trio.sleep(1)
            before = candidates(lab)
            assert len(before) == 2
            for number in range(6):
                if number % 2:
                    lab.server.restart(keep_data=True)
                else:
                    lab.server.disconnect_all()
                await trio.sleep(SESSION_TIMEOUT / 3)
            assert candidates(lab) == before
            assert terms == []
            await term.verify()
        await trio.sleep(1)
        assert [(term.retries, term.sequence) for term in terms] == [(0, 1)]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F11")
async def test_the_server_forgets_everything(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    election = LeaderElection(zk, "/a/leader")
    with pytest.raises(LockLost):
        async with election.lead():
            lab.server.restart(keep_data=False)
            await trio.sleep_forever()
    await zk.session.wait_connected()
    async with election.lead() as term:
        assert (term.number, term.sequence) == (2, 0)


@pytest.mark.row("F19")
async def test_a_leader_that_was_stopped_learns_of_the_loss_at_the_first_checkpoint(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await lose_while_stopped(autojump_clock, LeaderElection(zk, "/leader").lead())


# --- D.13, E: becoming a candidate, waiting, resigning ------------------------------------------------------


@pytest.mark.row("F1", "F2", "F3")
@layouts
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_connection_is_lost_with_the_create(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ElectionLayout, when: Any
) -> None:
    await zk.create("/leader")
    with lab.server.fault(op="create", path="/leader/*", when=when, action="disconnect"):
        async with LeaderElection(zk, "/leader", layout=layout).lead() as term:
            assert candidates(lab) == [term.path]
    assert term.retries == 0
    if when == "after":
        done = [entry.op for entry in lab.server.history(kind="request", session=zk.session.id)]
        lost = done.index("create", 1)
        assert done[lost + 1 : lost + 3] == ["multi", "get_children"], "a lagging follower would not know"
    await nothing_left(lab, zk)


@pytest.mark.row("F4", "F5")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_connection_is_lost_with_the_delete(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    with lab.server.fault(op="delete", path="/leader/*", when=when, action="disconnect"):
        async with LeaderElection(zk, "/leader").lead():
            pass
        await zk.cleanup.idle()
    await nothing_left(lab, zk)


@pytest.mark.row("E-04")
@layouts
async def test_a_znode_of_another_session_is_never_taken_for_our_own(
    autojump_clock: MockClock,
    lab: Lab,
    zk: ZooKeeper,
    layout: ElectionLayout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a session of ours that has ended has left, and a server that lags may still show."""
    await zk.create("/leader")
    attempt = uuid.uuid4()
    monkeypatch.setattr(uuid, "uuid4", lambda: attempt)
    prefix = {
        "curator-latch": f"_c_{attempt}-latch-",
        "curator-selector": f"_c_{attempt}-lock-",
        "kazoo": f"{attempt.hex}__lock__",
    }[layout]
    old = await lab.client()
    left = await old.create(f"/leader/{prefix}", ephemeral=True, sequential=True)
    with lab.server.fault(
        op="create", path="/leader/*", session=zk.session.id, when="before", action="disconnect"
    ):
        async with LeaderElection(zk, "/leader", layout=layout).lead() as term:
            assert term.path != left
            stat = await zk.exists(term.path)
            assert stat is not None
            assert stat.ephemeralOwner == zk.session.id == term.session_id
            assert term.token == stat.czxid


@pytest.mark.row("E-04")
@layouts
async def test_a_former_session_that_lives_on_leads_nobody(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ElectionLayout
) -> None:
    terms: list[Term] = []

    async def lead(term: Term) -> None:
        terms.append(term)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(LeaderElection(zk, "/leader", layout=layout).run, lead)
        await trio.sleep(1)
        lab.outlive(zk)
        await trio.sleep(1)
        assert len(candidates(lab)) == 2
        assert [term.lost.is_set() for term in terms] == [True], "the former znode stands before the new one"
        await trio.sleep(SESSION_TIMEOUT)
        assert [term.session_id for term in terms[1:]] == [zk.session.id]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk)


@pytest.mark.row("F6")
async def test_the_session_expires_while_the_candidate_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/leader")
    async with trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)

        nursery.start_soon(expire)
        with lab.server.fault(op="create", when="after", action="delay", seconds=5):
            async with LeaderElection(zk, "/leader").lead() as term:
                assert (term.retries, term.generation) == (1, 2)
                assert candidates(lab) == [term.path]
    await nothing_left(lab, zk)


@pytest.mark.row("F7")
@pytest.mark.parametrize("on_session_loss", ["requeue", "raise"])
async def test_the_session_expires_while_waiting(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, on_session_loss: Any
) -> None:
    other = await lab.client()
    log: list[str] = []

    async def wait() -> None:
        election = LeaderElection(zk, "/leader", on_session_loss=on_session_loss)
        try:
            async with election.lead() as term:
                assert term.session_id == zk.session.id
                log.append(f"elected, {term.retries}")
        except SessionExpiredError:
            log.append("expired")

    async with trio.open_nursery() as nursery, LeaderElection(other, "/leader").lead():
        nursery.start_soon(wait)
        await trio.sleep(1)
        lab.server.expire(zk.session.id)
        await trio.sleep(1)
    assert log == (["elected, 1"] if on_session_loss == "requeue" else ["expired"])
    await nothing_left(lab, zk, other)


@pytest.mark.row("F9")
async def test_the_session_expires_while_resigning(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with lab.server.fault(op="delete", when="before", action="delay", seconds=30):
        async with LeaderElection(zk, "/leader").lead():
            pass
        assert trio.current_time() < 5
        lab.server.expire(zk.session.id)
    await zk.session.wait_connected()
    await nothing_left(lab, zk)


@pytest.mark.row("F15", "F16")
async def test_an_operator_deletes_those_who_wait(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(4)]
    log: list[int] = []
    async with trio.open_nursery() as nursery:
        for number, zk in enumerate(clients):
            nursery.start_soon(lead_for, LeaderElection(zk, "/leader"), 5, log, number)
            await trio.sleep(0.1)
        participants = await LeaderElection(zk, "/leader").contenders()
        await zk.delete(participants[2].path)
    assert log == [0, 1, 3, 2], "it stands at the end of the queue again; the one behind it keeps its place"
    await nothing_left(lab, *clients)


@pytest.mark.row("F17")
async def test_the_path_is_deleted(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    election = LeaderElection(zk, "/leader")
    await zk.create("/leader")
    with lab.server.fault(op="create", path="/leader/*", action="error", error=NoNodeError, times=3):
        async with election.lead() as first:
            pass
    await zk.delete("/leader")
    async with election.lead() as second:
        assert second.sequence == 0
        assert second.token > first.token
    assert second.number == 2


@pytest.mark.row("F18")
async def test_foreign_children_are_no_candidates(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    lab.server.load({f"/leader/{name}": b"" for name in ("0", "-x", "config", "junk-latch-1")})
    election = LeaderElection(zk, "/leader")
    assert await election.leader() is None
    async with election.lead() as term:
        assert [node.path for node in await election.contenders()] == [term.path]
    async with election.lead():
        pass
    assert (
        len([record for record in caplog.records if "is not the name of a contender" in record.message]) == 1
    )


@pytest.mark.row("F20")
@layouts
async def test_cancelled_at_every_step(autojump_clock: MockClock, lab: Lab, layout: ElectionLayout) -> None:
    """Every reply takes a second, and the caller has had enough after 0.4 s, 1.4 s, ..."""
    zk, other = await lab.client(), await lab.client()
    await zk.create("/leader")
    election = LeaderElection(zk, "/leader", layout=layout)
    cancelled = led = 0
    for steps in range(9):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lead_for, LeaderElection(other, "/leader"), 2.2, [], None)
                await trio.sleep(0.1)
                with trio.move_on_after(steps + 0.4) as scope:
                    async with election.lead():
                        led += 1
                cancelled += scope.cancelled_caught
        await trio.sleep(5)
        await nothing_left(lab, zk, other)
    assert cancelled >= 5
    assert led >= 2


@pytest.mark.row("F20")
async def test_run_cancelled_at_every_instant(autojump_clock: MockClock, lab: Lab) -> None:
    zk, other = await lab.client(), await lab.client()
    for tenths in range(1, 40, 3):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=0.2, times=None, required=False
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lead_for, LeaderElection(other, "/leader"), 0.5, [], None)
                with trio.move_on_after(tenths / 10):
                    await LeaderElection(zk, "/leader").run(lambda term: trio.sleep(0.3))
        await trio.sleep(5)
        await nothing_left(lab, zk, other)


@pytest.mark.row("F21")
@pytest.mark.parametrize("denied", [Perms.CREATE, Perms.DELETE, Perms.READ])
async def test_what_is_denied_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, denied: Perms, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/leader", acl=[ACL(Perms.ALL & ~denied, Id("world", "anyone"))])
    with caplog.at_level(logging.CRITICAL), pytest.raises(NoAuthError):
        await LeaderElection(zk, "/leader").run(lambda term: trio.sleep(1))
    await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert len(candidates(lab)) == (denied is Perms.DELETE)


@pytest.mark.row("F23")
async def test_a_leader_whose_data_keep_changing_is_waited_for(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    terms: list[Term] = []
    async with trio.open_nursery() as nursery:
        async with LeaderElection(zk, "/leader").lead() as term:
            nursery.start_soon(lead_for_ever, LeaderElection(other, "/leader"), terms)
            await trio.sleep(1)
            events, before = other.event_count, lab.requests(other)
            for _ in range(1000):
                await zk.set(term.path, b"again")
            await trio.sleep(1)
            lists = (lab.requests(other) - before)["get_children"]
            assert 3 < lists <= other.event_count - events
            assert terms == []
        await trio.sleep(1)
        assert len(terms) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.row("F24")
@layouts
async def test_numbers_run_out(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ElectionLayout
) -> None:
    lab.count_children("/leader", 2147483646)
    election = LeaderElection(zk, "/leader", layout=layout)
    async with election.lead():
        pass
    with pytest.raises(SequenceExhausted):
        async with election.lead():
            pass
    await nothing_left(lab, zk)

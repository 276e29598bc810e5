"""The session as users see it, with changes of the state that a test makes."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import AuthFailedError, ClosingError, SessionExpiredError, SessionState, StateChange
from pyzk.client.session import Session

from .scripted import PASSWORD, SESSION, Script

CONNECTING, CONNECTED, READ_ONLY, SUSPENDED, EXPIRED, CLOSED = SessionState


class States:
    """A session, and its state.

    :ivar session: what users have.
    """

    def __init__(self, state: SessionState = CONNECTING, *, renews: bool = False) -> None:
        self.script = Script()
        self.machine = self.script.machine
        self.machine.state = state
        self.session = Session(self.machine, renews=renews)

    def become(self, state: SessionState) -> StateChange:
        change = StateChange(state, self.machine.state, 1, 1, 1, 1, None, "", None)
        self.machine.state = state
        self.session.note(change)
        return change


def test_what_a_session_tells() -> None:
    script = Script()
    session = Session(script.machine, renews=False)
    assert (session.id, session.password, session.generation) == (0, bytes(16), 1)
    assert (session.state, session.negotiated_timeout, session.last_zxid) == (CONNECTING, 9, 0)
    script.connect(timeout=4)
    script.read()
    script.reply(script.requests()[0], zxid=7)
    assert (session.id, session.password, session.generation) == (SESSION, PASSWORD, 1)
    assert (session.state, session.negotiated_timeout, session.last_zxid) == (CONNECTED, 4, 7)
    assert session.lease_deadline() == script.now + 4
    assert repr(session) == f"<Session 0x{SESSION:x}, CONNECTED, generation 1, timeout 4 s>"


async def test_a_change_is_waited_for(autojump_clock: MockClock) -> None:
    states = States()
    changed = states.session.changed
    found: list[SessionState] = []

    async def wait() -> None:
        found.append(await states.session.wait_change())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not changed.is_set()
        states.become(CONNECTED)
    assert found == [CONNECTED]
    assert changed.is_set()
    assert not states.session.changed.is_set(), "the next one"


@pytest.mark.parametrize(
    ("state", "connected", "served"),
    [
        (CONNECTED, True, True),
        (READ_ONLY, False, True),
        (CONNECTING, False, False),
        (SUSPENDED, False, False),
    ],
)
async def test_what_counts_as_connected_and_as_served(
    autojump_clock: MockClock, state: SessionState, connected: bool, served: bool
) -> None:
    session = States(state).session
    for wait, ends in ((session.wait_connected, connected), (session.wait_served, served)):
        with trio.move_on_after(1) as scope:
            await wait()
        assert scope.cancelled_caught is not ends


async def test_who_waits_for_what_never_comes_is_told(autojump_clock: MockClock) -> None:
    with pytest.raises(ClosingError, match="the client was closed"):
        await States(CLOSED).session.wait_connected()
    with pytest.raises(SessionExpiredError):
        await States(EXPIRED).session.wait_served()
    refused = States(CLOSED)
    refused.machine.fatal = AuthFailedError(None, "mine")
    with pytest.raises(AuthFailedError, match="mine"):
        await refused.session.wait_connected()
    renewed = States(EXPIRED, renews=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewed.session.wait_connected)
        await wait_all_tasks_blocked()
        renewed.become(CONNECTING)
        await wait_all_tasks_blocked()
        renewed.become(CONNECTED)


async def test_who_is_served_already_is_at_a_checkpoint_too() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await States(CONNECTED).session.wait_connected()
    assert scope.cancelled_caught


async def test_an_expiry_is_that_of_the_present_session() -> None:
    states = States(CONNECTED, renews=True)
    first = states.session.expired
    states.become(SUSPENDED)
    assert states.session.expired is first
    assert not first.is_set()
    states.become(EXPIRED)
    assert first.is_set()
    assert states.session.expired is first
    states.become(CONNECTING)
    second = states.session.expired
    assert not second.is_set()
    assert first.is_set()
    states.become(CONNECTED)
    assert states.session.expired is second


async def test_a_reader_follows_the_changes_as_they_come(autojump_clock: MockClock) -> None:
    states = States()
    seen: list[SessionState] = []
    note = seen.append

    async def follow() -> None:
        async for change in states.session.changes():
            note(change.state)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        for state in (CONNECTED, SUSPENDED, CONNECTED):
            await wait_all_tasks_blocked()
            before = len(seen)
            states.become(state)
            await wait_all_tasks_blocked()
            assert seen[before:] == [state], "at once"
        states.become(SUSPENDED)
        states.become(EXPIRED)
        with trio.fail_after(1):
            await wait_all_tasks_blocked()
    assert seen[-2:] == [SUSPENDED, EXPIRED], "none is left out, and the last one ends it"


@pytest.mark.parametrize(("last", "renews"), [(CLOSED, False), (CLOSED, True), (EXPIRED, False)])
async def test_what_comes_behind_the_last_change_is_not_read(last: SessionState, renews: bool) -> None:
    states = States(CONNECTED, renews=renews)
    changes = states.session.changes()
    states.become(last)
    states.become(CONNECTED)
    assert [change.state async for change in changes] == [last]
    with pytest.raises(StopAsyncIteration):
        await anext(changes)
    states.machine.state = last
    assert [change async for change in states.session.changes()] == []


async def test_an_expiry_that_is_followed_by_a_session_does_not_end_it(autojump_clock: MockClock) -> None:
    states = States(EXPIRED, renews=True)
    changes = states.session.changes()
    states.become(CONNECTING)
    assert (await anext(changes)).state is CONNECTING
    with trio.move_on_after(1) as scope:
        await anext(changes)
    assert scope.cancelled_caught, "more may come"


async def test_an_end_wakes_who_waits(autojump_clock: MockClock) -> None:
    states = States(CONNECTED)
    changes = states.session.changes()
    async with trio.open_nursery() as nursery:

        async def follow() -> None:
            with pytest.raises(StopAsyncIteration):
                await anext(changes)

        nursery.start_soon(follow)
        await wait_all_tasks_blocked()
        changes.end()


async def test_who_waits_is_woken_to_look_again() -> None:
    states = States(CONNECTED)
    changed = states.session.changed
    states.session.wake()
    assert changed.is_set()
    assert states.session.changed is not changed


async def test_an_event_of_the_caller_is_set_inside_of_the_block_alone() -> None:
    states = States(CONNECTED)
    inside, behind = trio.Event(), trio.Event()
    with states.session.waking(inside):
        assert not inside.is_set()
        states.become(SUSPENDED)
        assert inside.is_set()
    with states.session.waking(behind):
        pass
    states.become(CONNECTED)
    assert not behind.is_set()

"""From connect to close, through reconnects and expiry: in virtual time."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    AuthFailedError,
    ClosingError,
    ConnectionLossError,
    GetData,
    SessionExpiredError,
    SessionState,
    ZooKeeper,
    connect,
)
from pyzk.client.hosts import HostCycle
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls

from .memory import SERVER, client, open_memory_server

# --- the block ------------------------------------------------------------------------------------------


async def test_leaving_the_block_closes_the_session_and_leaves_nothing(
    autojump_clock: MockClock, server: Controls
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    async with client(server) as zk:
        await zk.create("/mine", ephemeral=True)
        assert [session.id for session in server.sessions()] == [zk.session.id]
    assert server.sessions() == []
    async with client(server) as other:
        assert await other.exists("/mine") is None
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_exceptions_of_the_block_come_out_as_they_are(
    autojump_clock: MockClock, server: Controls
) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with client(server):
            raise KeyError("mine")
    with pytest.RaisesGroup(KeyError):
        async with client(server), trio.open_nursery():
            raise KeyError("grouped by the block's own nursery")
    assert server.sessions() == []


async def test_cancelling_the_block_closes_the_session_too(
    autojump_clock: MockClock, server: Controls
) -> None:
    with trio.move_on_after(1) as scope:
        async with client(server):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert server.sessions() == []


async def test_cancelling_while_connecting(autojump_clock: MockClock, server: Controls) -> None:
    for seconds in (0, 1e-9, 0.5):
        server.pause()
        with trio.move_on_after(seconds) as scope:
            async with client(server):
                raise AssertionError("not connected")
        assert scope.cancelled_caught
        server.resume()
    await trio.testing.wait_all_tasks_blocked()
    assert len(server.sessions()) <= 3, "at most those that nobody could be told to close"


async def test_tasks_of_the_client_end_with_it_and_their_errors_end_it(
    autojump_clock: MockClock, server: Controls
) -> None:
    events: list[str] = []

    async def forever() -> None:
        try:
            await trio.sleep_forever()
        finally:
            events.append("ended")

    async with client(server) as zk:
        zk.start_soon(forever)
        await trio.testing.wait_all_tasks_blocked()
    assert events == ["ended"]

    async def fail() -> None:
        raise KeyError("mine")

    with pytest.RaisesGroup(KeyError):
        async with client(server) as zk:
            zk.start_soon(forever)
            zk.start_soon(fail)
            await trio.sleep_forever()
    assert events == ["ended"] * 2
    assert server.sessions() == []


async def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="no server"):
        async with connect("/app"):
            pass
    with pytest.raises(ValueError, match="session_timeout"):
        async with connect(SERVER, session_timeout=0):
            pass


async def test_closing_answers_every_pending_call(autojump_clock: MockClock, server: Controls) -> None:
    outcomes = []

    async def use(zk: ZooKeeper) -> None:
        try:
            await zk.get("/")
        except Exception as error:
            outcomes.append(type(error))

    async with trio.open_nursery() as nursery, client(server) as zk:
        server.pause()
        for _ in range(10):
            nursery.start_soon(use, zk)
        nursery.start_soon(zk.session.wait_change)
        await trio.testing.wait_all_tasks_blocked()
    assert outcomes == [ClosingError] * 10
    with pytest.raises(ClosingError):
        await zk.get("/")
    with pytest.raises(ClosingError):
        await zk.session.wait_connected()


async def test_closing_takes_no_longer_than_its_grace(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, close_grace=2.5):
        server.pause()
        started = trio.current_time()
    assert trio.current_time() - started == pytest.approx(2.5)


async def test_an_outage_may_take_as_long_as_it_likes(autojump_clock: MockClock, server: Controls) -> None:
    """More rounds of attempts than a float has powers of 2."""
    away = False

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if away:
            raise ConnectionRefusedError(111, "Connection refused")
        return server.open_stream()

    async with connect(SERVER, connector=open_stream, on_expired="new_session") as zk:
        away = True
        server.disconnect_all()
        await trio.sleep(1500)
        away = False
        await zk.session.expired.wait()
        await zk.session.wait_connected()
        assert zk.session.generation == 2


async def test_closing_while_suspended_still_ends_the_session(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server) as zk:
        server.disconnect_all()
        await zk.session.wait_change()
        assert zk.session.state is SessionState.SUSPENDED
    assert server.sessions() == []


# --- connecting -----------------------------------------------------------------------------------------


async def test_nobody_there_is_an_error_in_bounded_time(autojump_clock: MockClock) -> None:
    async def refuse(host: str, port: int) -> trio.abc.Stream:
        raise ConnectionRefusedError(111, "Connection refused")

    started = trio.current_time()
    with pytest.raises(ConnectionLossError, match=r"server:2181: .*refused") as caught:
        async with connect(SERVER, connector=refuse, connect_timeout=5):
            pass
    assert trio.current_time() - started == pytest.approx(5)
    assert not caught.value.sent


async def test_the_first_connection_is_tried_for_until_it_is_there(
    autojump_clock: MockClock, server: Controls
) -> None:
    server.refuse_connections()

    async def open_later() -> None:
        await trio.sleep(8)
        server.accept_connections()

    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_later)
        async with client(server):
            assert 8 <= trio.current_time() - started <= 8 + HostCycle.LONGEST_PAUSE


async def test_every_server_has_its_turn(autojump_clock: MockClock, server: Controls) -> None:
    tried: list[str] = []

    async def connector(host: str, port: int) -> trio.abc.Stream:
        tried.append(host)
        if host != "c":
            raise OSError("down")
        return server.open_stream()

    async with connect("a,b,c,d", connector=connector, rng=random.Random(3)) as zk:
        first = len(tried)
        assert tried[-1] == "c"
        server.disconnect_all()
        await zk.get("/")
    assert set(tried[first:]) == {"a", "b", "c", "d"}, "the server just lost comes last"
    assert tried[-1] == "c"


async def test_a_server_that_takes_too_long_to_connect_does_not_hold_up_the_others(
    autojump_clock: MockClock, server: Controls
) -> None:
    async def connector(host: str, port: int) -> trio.abc.Stream:
        if host != "c":
            await trio.sleep_forever()
        return server.open_stream()

    started = trio.current_time()
    async with connect("a,b,c,d,e", connector=connector, session_timeout=10, rng=random.Random(3)):
        assert trio.current_time() - started <= 4 * 2 + 1


async def test_pauses_between_attempts_grow_to_a_second(autojump_clock: MockClock) -> None:
    attempts: list[float] = []

    async def connector(host: str, port: int) -> trio.abc.Stream:
        attempts.append(trio.current_time())
        raise OSError("down")

    with pytest.raises(ConnectionLossError, match="down"):
        async with connect("a", connector=connector, connect_timeout=60, rng=random.Random(1)):
            pass
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert max(pauses) <= HostCycle.LONGEST_PAUSE
    assert pauses[0] <= 2 * HostCycle.FIRST_PAUSE
    assert 80 < len(pauses) < 200, "about two attempts a second in the long run"


async def test_a_wrong_identity_at_the_start_is_final(autojump_clock: MockClock, server: Controls) -> None:
    with pytest.raises(AuthFailedError, match="nonsense"):
        async with client(server, auth=[("nonsense", "x")]):
            pass


async def test_identities_of_the_start_and_later_ones_survive_reconnects(
    autojump_clock: MockClock, server: Controls
) -> None:
    async def names(zk: ZooKeeper) -> set[str | None]:
        return {info.user for info in await zk.who_am_i() if info.authScheme == "digest"}

    async with client(server, auth=[("digest", "early:x")]) as zk:
        assert await names(zk) == {"early"}
        await zk.add_auth("digest", b"late:x")
        assert await names(zk) == {"early", "late"}
        with pytest.raises(AuthFailedError):
            await zk.add_auth("nonsense", "x")
        server.disconnect_all()
        assert await names(zk) == {"early", "late"}


# --- reconnecting ---------------------------------------------------------------------------------------


async def test_a_cut_connection_is_replaced_and_the_session_goes_on(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/mine", ephemeral=True)
    session_id = zk.session.id
    for _ in range(5):
        server.disconnect_all()
        assert await zk.session.wait_change() is SessionState.SUSPENDED
        assert await zk.session.wait_change() is SessionState.CONNECTED
        assert await zk.exists("/mine") is not None
    assert zk.session.id == session_id
    assert zk.session.generation == 1
    assert zk.metrics.connections == 6


async def test_an_idle_session_lives_on_pings(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await trio.sleep(1000)
    assert zk.session.state is SessionState.CONNECTED
    assert zk.metrics.connections == 1
    pings = len(server.history(kind="request", op="ping"))
    assert pings == pytest.approx(1000 / (10 / 3), abs=2)


async def test_a_hung_server_is_left_after_two_thirds_of_the_timeout(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.get("/")
    server.pause()
    started = trio.current_time()
    assert await zk.session.wait_change() is SessionState.SUSPENDED
    assert trio.current_time() - started == pytest.approx(10 * 2 / 3)


async def test_reads_outlive_reconnects_and_give_up_with_the_session_timeout(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    async def reopen() -> None:
        await trio.sleep(7)
        server.accept_connections()

    server.refuse_connections()
    server.disconnect_all()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reopen)
        await zk.get("/")

    server.refuse_connections()
    server.disconnect_all()
    started = trio.current_time()
    with pytest.raises(ConnectionLossError):
        await zk.get("/")
    assert trio.current_time() - started == pytest.approx(10, abs=0.01)
    server.accept_connections()


async def test_a_write_made_without_a_connection_waits_for_one(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    server.disconnect_all()
    await zk.session.wait_change()
    await zk.create("/late")
    assert zk.metrics.requests[OpCode.CREATE2] == 1


async def test_the_lease_is_kept_and_ends_before_the_session(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    """The server's own deadline never lies before the client's."""
    rng = random.Random(5)
    session = server.running.engine.sessions.get(zk.session.id)
    assert session is not None
    stop = zk.keep_lease(lambda: None)
    for _ in range(200):
        await trio.sleep(rng.uniform(0, 3))
        if rng.random() < 0.1:
            server.disconnect_all()
        if rng.random() < 0.5:
            with server.fault(op="get_data", when="after", action="delay", seconds=rng.uniform(0, 2)):
                await zk.get("/")
        assert zk.session.lease_deadline() <= session.deadline / 1000
        assert zk.session.lease_deadline() > trio.current_time(), "it is renewed in time"
    stop()
    await trio.sleep(20)
    assert zk.session.lease_deadline() < trio.current_time(), "nobody keeps it any more"


# --- expiry ---------------------------------------------------------------------------------------------


async def test_expiry_cancels_the_block_with_a_clear_exception(
    autojump_clock: MockClock, server: Controls
) -> None:
    reached = False
    with pytest.raises(SessionExpiredError):
        async with client(server) as zk:
            server.expire(zk.session.id)
            await trio.sleep_forever()
            reached = True
    assert not reached
    assert zk.session.state is SessionState.EXPIRED
    assert zk.session.expired.is_set()


async def test_an_exception_of_the_block_is_worth_more_than_expiry(
    autojump_clock: MockClock, server: Controls
) -> None:
    with pytest.raises(KeyError):
        async with client(server) as zk:
            server.expire(zk.session.id)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("while cleaning up")


async def test_calls_at_the_moment_of_expiry_say_so(autojump_clock: MockClock, server: Controls) -> None:
    with pytest.raises(SessionExpiredError, match="/x"):
        async with client(server) as zk:
            server.expire(zk.session.id)
            await zk.get("/x")


async def test_a_new_session_on_demand(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, on_expired="new_session") as zk:
        first, expired = zk.session.id, zk.session.expired
        await zk.create("/mine", ephemeral=True)
        server.refuse_connections()
        server.expire(first)
        await zk.session.wait_change()
        pending = zk.submit(GetData("/"))
        server.accept_connections()
        await expired.wait()
        with pytest.raises(SessionExpiredError):
            await pending.wait()
        await zk.session.wait_connected()
        assert zk.session.generation == 2
        assert zk.session.id != first
        assert not zk.session.expired.is_set()
        assert await zk.exists("/mine") is None


async def test_a_client_that_slept_through_its_timeout_learns_of_it(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, on_expired="new_session") as zk:
        server.refuse_connections()
        server.disconnect_all()
        await trio.sleep(60)
        assert zk.session.state is SessionState.SUSPENDED, "nobody has said that it expired"
        assert zk.session.lease_deadline() < trio.current_time()
        server.accept_connections()
        await zk.session.expired.wait()
        await zk.session.wait_connected()
        assert zk.session.generation == 2


async def test_an_emptied_server_ends_the_session_too(autojump_clock: MockClock) -> None:
    """It drops clients that have seen more than it has, without a word (wire.md trap 17)."""
    async with open_memory_server() as full, open_memory_server(initial_zxid=1) as empty:
        server = full

        async def reach(host: str, port: int) -> trio.abc.Stream:
            return server.open_stream()

        started = trio.current_time()
        with pytest.raises(SessionExpiredError):
            async with connect(SERVER, connector=reach) as zk:
                await zk.create("/a")
                server = empty
                full.disconnect_all()
                await trio.sleep_forever()
        assert trio.current_time() - started < 15


async def test_resuming_a_session(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        await zk.create("/mine", ephemeral=True)
        async with client(server, resume=(zk.session.id, zk.session.password)) as heir:
            assert heir.session.id == zk.session.id
            assert await heir.get_ephemerals() == ["/mine"]
            with pytest.raises(SessionExpiredError):
                async with client(server, resume=(zk.session.id, b"x" * 16)):
                    pass
            assert await heir.get_ephemerals() == ["/mine"]


async def test_hours_of_trouble_cost_no_real_time(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, session_timeout=100) as zk:
        end = trio.current_time() + 3600
        while trio.current_time() < end:
            await trio.sleep(60)
            server.disconnect_all()
            await zk.get("/")
        assert zk.session.generation == 1
        assert zk.metrics.connections == 61


# --- what is not said -----------------------------------------------------------------------------------


async def test_what_a_client_does_if_nothing_is_said(autojump_clock: MockClock, server: Controls) -> None:
    """The times, the bounds, and what an expiry means."""

    async def refuse(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise ConnectionRefusedError

    began = trio.current_time()
    with pytest.raises(ConnectionLossError, match=r"no session with a within 15\.0 s"):
        async with connect("a", connector=refuse):
            raise AssertionError
    assert trio.current_time() - began == pytest.approx(15, abs=0.01)
    async with client(server) as zk:
        assert zk.session.negotiated_timeout == 10
        data = zk._machine.data
        assert (data.request_limit, data.reply_limit) == (0xFFFFF, 64 * 2**20)
        assert (data.read_only, data.credentials, data.sasl) == (False, [], None)
        async with zk.watch("/") as events:
            assert events._buffer == 1024
        server.pause()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(1, abs=0.01), "the session could not be closed"
    server.resume()
    with pytest.raises(SessionExpiredError):
        async with client(server) as zk:
            server.expire(zk.session.id)
            await trio.sleep_forever()


async def test_a_client_that_was_never_connected_ends_at_once(autojump_clock: MockClock) -> None:
    """There is no session to close."""
    entered = trio.Event()

    async def hang(host: str, port: int) -> trio.abc.Stream:
        entered.set()
        await trio.sleep_forever()
        raise AssertionError

    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await entered.wait()
                scope.cancel()

            nursery.start_soon(cancel)
            async with connect("a", connector=hang, close_grace=100):
                raise AssertionError
    assert scope.cancelled_caught
    assert trio.current_time() == began


async def test_tasks_that_rely_on_the_session_are_woken_before_it_is_closed(
    autojump_clock: MockClock, server: Controls
) -> None:
    """They have to stop first."""
    woken: list[SessionState] = []

    async def follow() -> None:
        await zk.session.wait_change()
        woken.append(zk.session.state)

    async with client(server) as zk:
        zk.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        server.pause()
    assert woken == [SessionState.CONNECTED]


@pytest.mark.parametrize(("timeout", "session"), [(0, None), (math.inf, 1)])
async def test_the_shortest_and_the_longest_wait_for_a_session(
    autojump_clock: MockClock, server: Controls, timeout: float, session: int | None
) -> None:
    attempts = 0

    async def slow(host: str, port: int) -> trio.abc.Stream:
        nonlocal attempts
        attempts += 1
        await trio.sleep(0.01 if attempts > 60 else 0)
        if attempts < 100:
            raise ConnectionRefusedError
        return server.open_stream()

    began = trio.current_time()
    if session is None:
        with pytest.raises(ConnectionLossError, match="within 0 s"):
            async with connect("a", connector=slow, connect_timeout=timeout):
                raise AssertionError
        assert trio.current_time() == began
    else:
        async with connect("a", connector=slow, connect_timeout=timeout) as zk:
            assert zk.session.generation == session
        assert attempts == 100

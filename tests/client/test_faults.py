"""Every operation, lost before it is applied, lost after it, delayed, and with the session expired."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import (
    OPEN_ACL,
    AuthFailedError,
    ConnectionLossError,
    Create,
    GetChildren,
    GetData,
    SessionExpiredError,
    ZooKeeper,
)
from pyzk.protocol.constants import AUTH_XID
from pyzk.protocol.errors import ReconfigDisabledError
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls, Fault
from pyzk.server.testing.faults import When
from pyzk.server.testing.operations import name_of

from .memory import client
from .tampered import tampered


@attrs.frozen
class Case:
    """An operation.

    :ivar applied: for a write: whether it has been applied, as another client sees it.
    """

    opcode: OpCode
    call: Callable[[ZooKeeper], Awaitable[Any]]
    applied: Callable[[ZooKeeper], Awaitable[bool]] | None = None

    def fault(self, server: Controls, **what: Any) -> Fault:
        """Have the next such request go wrong."""
        return server.fault(op=name_of(self.opcode), **what)


def exists(path: str) -> Callable[[ZooKeeper], Awaitable[bool]]:
    async def applied(zk: ZooKeeper) -> bool:
        return await zk.exists(path) is not None

    return applied


async def deleted(zk: ZooKeeper) -> bool:
    return await zk.exists("/old") is None


async def changed(zk: ZooKeeper) -> bool:
    return (await zk.get("/n"))[0] == b"new"


async def new_acl(zk: ZooKeeper) -> bool:
    return (await zk.get_acl("/n"))[1].aversion == 1


async def watch(zk: ZooKeeper) -> None:
    async with zk.watch("/n"):
        pass


WRITES = {
    "create": Case(OpCode.CREATE2, lambda zk: zk.create("/new"), exists("/new")),
    "create container": Case(
        OpCode.CREATE_CONTAINER, lambda zk: zk.create("/new", container=True), exists("/new")
    ),
    "create ttl": Case(OpCode.CREATE_TTL, lambda zk: zk.create("/new", ttl=1000), exists("/new")),
    "ensure_path": Case(OpCode.CREATE2, lambda zk: zk.ensure_path("/new"), exists("/new")),
    "delete": Case(OpCode.DELETE, lambda zk: zk.delete("/old"), deleted),
    "set": Case(OpCode.SET_DATA, lambda zk: zk.set("/n", b"new"), changed),
    "set_acl": Case(OpCode.SET_ACL, lambda zk: zk.set_acl("/n", OPEN_ACL), new_acl),
    "multi": Case(OpCode.MULTI, lambda zk: zk.multi([Create("/new")]), exists("/new")),
}
READS = {
    "get": Case(OpCode.GET_DATA, lambda zk: zk.get("/n")),
    "get and watch": Case(OpCode.GET_DATA, lambda zk: zk.get_and_watch("/n")),
    "exists": Case(OpCode.EXISTS, lambda zk: zk.exists("/n")),
    "exists not": Case(OpCode.EXISTS, lambda zk: zk.exists_and_watch("/none")),
    "get_children": Case(OpCode.GET_CHILDREN, lambda zk: zk.get_children("/n")),
    "get_children and stat": Case(OpCode.GET_CHILDREN2, lambda zk: zk.get_children_and_stat("/n")),
    "get_acl": Case(OpCode.GET_ACL, lambda zk: zk.get_acl("/n")),
    "get_ephemerals": Case(OpCode.GET_EPHEMERALS, lambda zk: zk.get_ephemerals()),
    "get_all_children_number": Case(
        OpCode.GET_ALL_CHILDREN_NUMBER, lambda zk: zk.get_all_children_number("/")
    ),
    "multi_read": Case(OpCode.MULTI_READ, lambda zk: zk.multi_read([GetData("/n"), GetChildren("/")])),
    "get_config": Case(OpCode.GET_DATA, lambda zk: zk.get_config()),
    "sync": Case(OpCode.SYNC, lambda zk: zk.sync("/n")),
    "who_am_i": Case(OpCode.WHO_AM_I, lambda zk: zk.who_am_i()),
    "watch": Case(OpCode.ADD_WATCH, watch),
}
REQUESTS = WRITES | READS
EVERYTHING = REQUESTS | {"add_auth": Case(OpCode.AUTH, lambda zk: zk.add_auth("digest", "u:p"))}

each_write = pytest.mark.parametrize("case", WRITES.values(), ids=WRITES)
each_read = pytest.mark.parametrize("case", READS.values(), ids=READS)
each_request = pytest.mark.parametrize("case", REQUESTS.values(), ids=REQUESTS)
each = pytest.mark.parametrize("case", EVERYTHING.values(), ids=EVERYTHING)


async def prepare(zk: ZooKeeper) -> None:
    await zk.create("/n", b"old")
    await zk.create("/old")


@each_write
async def test_a_write_lost_on_its_way_may_have_been_applied_and_was_not(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case
) -> None:
    await prepare(zk)
    before = zk.metrics.requests[case.opcode]
    with case.fault(server, when="before"), pytest.raises(ConnectionLossError) as caught:
        await case.call(zk)
    assert caught.value.sent
    assert case.applied is not None
    assert not await case.applied(zk)
    await trio.sleep(30)
    assert zk.metrics.requests[case.opcode] == before + 1, "never repeated behind the caller's back"


@each_write
async def test_a_write_whose_reply_was_lost_has_been_applied_once(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case
) -> None:
    await prepare(zk)
    before = zk.metrics.requests[case.opcode]
    with case.fault(server, when="after"), pytest.raises(ConnectionLossError) as caught:
        await case.call(zk)
    assert caught.value.sent
    assert case.applied is not None
    assert await case.applied(zk)
    await trio.sleep(30)
    assert zk.metrics.requests[case.opcode] == before + 1


@each_write
async def test_a_write_behind_a_lost_one_is_not_applied_either(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case
) -> None:
    """A pipeline is cut in one place."""
    await prepare(zk)
    await zk.create("/behind", b"0")
    errors: list[ConnectionLossError] = []

    async def call(function: Callable[[ZooKeeper], Awaitable[Any]]) -> None:
        try:
            await function(zk)
        except ConnectionLossError as error:
            errors.append(error)

    server.pause()
    with case.fault(server, when="before"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, case.call)
            await wait_all_tasks_blocked()
            nursery.start_soon(call, lambda zk: zk.set("/behind", b"1"))
            await wait_all_tasks_blocked()
            server.resume()
    assert [error.sent for error in errors] == [True, True]
    assert case.applied is not None
    assert not await case.applied(zk)
    assert (await zk.get("/behind"))[0] == b"0"


@each_read
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_read_is_repeated_by_the_client(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case, when: When
) -> None:
    await prepare(zk)
    expected = comparable(await case.call(zk))
    with case.fault(server, when=when):
        assert comparable(await case.call(zk)) == expected
    assert zk.metrics.connections == 2


def comparable(result: Any) -> Any:
    """Without the watch, which is never like another."""
    return result[:-1] if isinstance(result, tuple) and hasattr(result[-1], "wait") else result


@pytest.mark.parametrize("lose", ["request", "reply"])
async def test_a_lost_authentication_is_repeated_by_the_client(
    autojump_clock: MockClock, server: Controls, lose: str
) -> None:
    lost = 0

    def tamper(payload: bytes) -> list[bytes]:
        nonlocal lost
        if lose == "reply" and payload.startswith(struct.pack(">i", AUTH_XID)) and not lost:
            lost += 1
            server.disconnect_all()
            return []
        return [payload]

    async with client(server, connector=tampered(server, tamper)) as zk:
        async with trio.open_nursery() as nursery:
            if lose == "request":
                server.pause()
            nursery.start_soon(zk.add_auth, "digest", "u:p")
            await wait_all_tasks_blocked()
            if lose == "request":
                server.disconnect_all()
                server.resume()
        assert zk.metrics.connections == 2
        assert zk.metrics.requests[OpCode.AUTH] == 2
        assert ("digest", "u") in [(info.authScheme, info.user) for info in await zk.who_am_i()]


@each_request
async def test_a_delay_only_delays(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case
) -> None:
    await prepare(zk)
    started = trio.current_time()
    with case.fault(server, when="after", action="delay", seconds=3):
        await case.call(zk)
    assert trio.current_time() - started == pytest.approx(3)
    assert zk.metrics.connections == 1
    if case.applied is not None:
        assert await case.applied(zk)


@each_request
async def test_a_delay_beyond_the_read_deadline_is_a_loss(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, case: Case
) -> None:
    await prepare(zk)
    started = trio.current_time()
    with case.fault(server, when="after", action="delay", seconds=60):
        if case.applied is None:
            await case.call(zk)
        else:
            with pytest.raises(ConnectionLossError, match="silent") as caught:
                await case.call(zk)
            assert caught.value.sent
    assert trio.current_time() - started == pytest.approx(10 * 2 / 3, abs=0.2)


@pytest.mark.parametrize("hang", [3, 60])
async def test_an_authentication_at_a_server_that_hangs(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, hang: float
) -> None:
    """Faults do not match it: the server has to hang for everybody."""

    async def go_on() -> None:
        with trio.move_on_after(hang):
            await zk.session.wait_change()
        server.resume()

    started = trio.current_time()
    server.pause()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        await zk.add_auth("digest", "u:p")
    assert trio.current_time() - started == pytest.approx(min(hang, 10 * 2 / 3), abs=0.2)
    assert zk.metrics.connections == (1 if hang == 3 else 2)


async def expire_on_the_way(server: Controls, zk: ZooKeeper) -> None:
    """End the session while a request is on its way to the server, which never sees it."""
    server.pause()
    await wait_all_tasks_blocked()
    server.expire(zk.session.id)
    server.resume()


@each
async def test_expiry_on_the_way(autojump_clock: MockClock, server: Controls, case: Case) -> None:
    """A write may have been applied; a read is told that its session is over."""
    async with client(server, on_expired="new_session") as zk, trio.open_nursery() as nursery:
        await prepare(zk)
        nursery.start_soon(expire_on_the_way, server, zk)
        with pytest.raises(SessionExpiredError if case.applied is None else ConnectionLossError) as caught:
            await case.call(zk)
        if isinstance(caught.value, ConnectionLossError):
            assert caught.value.sent
        await zk.session.wait_connected()
        assert zk.session.generation == 2


@each
async def test_expiry_cancels_the_block_whatever_it_does(
    autojump_clock: MockClock, server: Controls, case: Case
) -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises((SessionExpiredError, ConnectionLossError)):
            async with client(server) as zk:
                await prepare(zk)
                nursery.start_soon(expire_on_the_way, server, zk)
                await case.call(zk)
                raise AssertionError("the call should not have succeeded")


@each
async def test_after_expiry_every_call_says_so(
    autojump_clock: MockClock, server: Controls, case: Case
) -> None:
    async def use(zk: ZooKeeper) -> None:
        with pytest.raises(SessionExpiredError):
            await case.call(zk)

    with pytest.raises(SessionExpiredError):
        async with client(server) as zk:
            await prepare(zk)
            server.expire(zk.session.id)
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await use(zk)


async def test_errors_of_the_server_are_not_retried(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    with pytest.raises(ReconfigDisabledError):
        await zk.reconfig(leaving="1")
    with pytest.raises(AuthFailedError):
        await zk.add_auth("nonsense", b"")
    assert zk.metrics.requests[OpCode.RECONFIG] == 1
    assert zk.metrics.requests[OpCode.AUTH] == 1

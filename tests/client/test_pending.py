"""Requests and who waits for them: tasks, coroutines without a task, and direct connections."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
import trio

from pyzk.client import operations as o
from pyzk.client.direct_connection import Exchange
from pyzk.client.machine import SessionState
from pyzk.client.pending import Pending, Taskless, runs_in_task, sends_itself, thread, wait_settled
from pyzk.client.request import Request
from pyzk.client.watch import Watch, WatchStream
from pyzk.protocol.constants import PING_XID, WATCH_XID, EventType
from pyzk.protocol.errors import ConnectionLossError, MarshallingError, NoNodeError, NotReadOnlyError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ConnectResponse, ReplyHeader, WatcherEvent

from .scripted import Script


def pending(opcode: int = OpCode.GET_DATA) -> Pending[Any]:
    return Pending(opcode, b"", "/a", lambda reply: reply)


# --- requests ----------------------------------------------------------------------------------------------


def test_a_request_has_one_outcome() -> None:
    request = pending()
    with pytest.raises(RuntimeError, match="not settled"):
        request.result()
    told: list[str] = []
    request.on_settled(lambda request: told.append("one"))
    forgotten = lambda request: told.append("two")  # noqa: E731
    request.on_settled(forgotten)
    request.forget(forgotten)
    request.forget(forgotten)
    request.take_reply(0, b"reply")
    assert (request.settled, request.result(), told) == (True, b"reply", ["one"])
    request.on_settled(lambda request: told.append("late"))
    assert told == ["one", "late"]


def test_a_code_is_an_error_that_names_the_path() -> None:
    request = pending()
    request.take_reply(-101, b"")
    assert isinstance(request.error, NoNodeError)
    assert request.error.path == "/a"
    with pytest.raises(NoNodeError):
        request.result()
    own: Request[Any] = Request(1, refusal=lambda code: ValueError(code))
    own.take_reply(-7, b"")
    assert isinstance(own.error, ValueError)
    assert own.error.args == (-7,)


def test_a_reply_that_does_not_decode_ends_the_connection_too() -> None:
    request: Request[Any] = Request(4, b"", "/a", lambda reply: struct.unpack(">q", reply))
    with pytest.raises(struct.error):
        request.take_reply(0, b"")
    assert isinstance(request.error, MarshallingError)

    def refuse(reply: bytes) -> None:
        raise NoNodeError("/x")

    other: Request[Any] = Request(4, b"", "/a", refuse)
    other.take_reply(0, b"")
    assert isinstance(other.error, NoNodeError)


def test_a_listener_that_raises_does_not_keep_others_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    request = pending()
    told: list[str] = []

    def fail(request: Request[Any]) -> None:
        raise ValueError

    request.on_settled(fail)
    later = lambda request: told.append("forgotten")  # noqa: E731
    request.on_settled(lambda request: request.forget(later))
    request.on_settled(later)
    request.on_settled(lambda request: told.append("told"))
    request.succeed(5)
    assert (request.result(), told) == (5, ["told"])
    assert "must not raise" in caplog.text


def test_a_pending_operation_says_how_far_it_is() -> None:
    request = pending()
    assert repr(request) == "<Pending get_data /a, not sent>"
    request.sent = True
    assert repr(request) == "<Pending get_data /a, not answered>"
    request.succeed(None)
    assert repr(request) == "<Pending get_data /a, done>"
    failed = pending()
    failed.fail(NoNodeError("/a"))
    assert repr(failed).startswith("<Pending get_data /a, failed: ")


# --- tasks -------------------------------------------------------------------------------------------------


async def test_a_task_that_is_cancelled_tells_who_asks_and_is_not_woken() -> None:
    request, told = pending(), []
    with trio.CancelScope() as scope:
        scope.cancel()
        await wait_settled(request, told.append)
    assert told == [request]
    request.succeed(1)  # nobody is woken: that would crash trio
    await trio.lowlevel.checkpoint()
    with trio.CancelScope() as scope:
        scope.cancel()
        await pending().wait()
    assert scope.cancelled_caught
    with trio.CancelScope() as scope:
        scope.cancel()
        await wait_settled(request, None)
    assert scope.cancelled_caught, "a settled request is a checkpoint too"
    assert await request.wait() == 1


def test_only_a_task_runs_in_a_task() -> None:
    assert runs_in_task()
    assert not sends_itself()
    seen: list[bool] = []

    async def look() -> None:
        seen.append(runs_in_task())

    run = Run(look())
    assert (seen, run.outcomes) == ([False], [(None, None)])
    assert runs_in_task()


class Run:
    """A coroutine without a task.

    :ivar outcomes: the results and errors, of which there is one.
    """

    def __init__(self, coroutine: Any) -> None:
        self.outcomes: list[tuple[Any, BaseException | None]] = []
        self.taskless = Taskless(coroutine, lambda result, error: self.outcomes.append((result, error)))


def test_a_coroutine_without_a_task_goes_on_when_its_requests_are_settled() -> None:
    first, second = pending(), pending()

    async def both() -> list[Any]:
        return [await first.wait(), await second.wait()]

    run = Run(both())
    assert run.taskless.request is first
    first.succeed("one")
    assert (run.taskless.request, run.outcomes) == (second, [])
    second.succeed("two")
    assert (run.taskless.request, run.outcomes) == (None, [(["one", "two"], None)])
    assert not thread.taskless
    settled = Run(both())
    assert settled.outcomes == [(["one", "two"], None)], "what is settled needs no wait"


def test_an_error_of_a_coroutine_without_a_task() -> None:
    request = pending()
    run = Run(request.wait())
    error = NoNodeError("/a")
    request.fail(error)
    assert run.outcomes == [(None, error)]
    run.taskless.cancel(ValueError())
    run.taskless.close()
    assert len(run.outcomes) == 1


def test_a_coroutine_without_a_task_is_cancelled_in_place_of_its_wait() -> None:
    request, told = pending(), []
    run = Run(wait_settled(request, told.append))
    error = KeyboardInterrupt()
    run.taskless.cancel(error)
    assert (told, run.outcomes, run.taskless.request) == ([request], [(None, error)], None)
    request.succeed(1)
    assert len(run.outcomes) == 1
    other = pending()
    run = Run(other.wait())
    run.taskless.cancel(error)
    assert run.outcomes == [(None, error)]


def test_a_cancelled_coroutine_may_wait_again() -> None:
    first, second = pending(), pending()

    async def stubborn() -> Any:
        try:
            await first.wait()
        except ValueError:
            return await second.wait()

    run = Run(stubborn())
    run.taskless.cancel(ValueError())
    assert run.taskless.request is second
    first.succeed("nobody")
    assert run.outcomes == []
    second.succeed("two")
    assert run.outcomes == [("two", None)]


def test_a_coroutine_that_is_closed_calls_nothing() -> None:
    request, ended = pending(), []

    async def wait() -> None:
        try:
            await request.wait()
        finally:
            ended.append(True)

    run = Run(wait())
    run.taskless.close()
    assert (ended, run.taskless.request) == ([True], None)
    request.succeed(1)
    run.taskless.cancel(ValueError())
    assert run.outcomes == []


# --- direct connections -------------------------------------------------------------------------------------


def exchange(xid: int, opcode: int, outcome: object, *, at: float, zxid: int = 0, code: int = 0) -> Exchange:
    """One that is over, or is to be gone on with."""
    request: Request[Any] = Request(opcode, b"", "/a", lambda reply: reply[16:])
    made = Exchange(request, xid, lambda: None)
    made.outcomes = [len(made.frame), outcome] if outcome is not None else [len(made.frame)]
    made.sent_at, made.received_at = at, at + 0.5
    made.zxid, made.code = zxid, code
    return made


def ready() -> Script:
    script = Script()
    script.connect()
    assert script.machine.state is SessionState.CONNECTED
    return script


def test_a_connection_may_be_handed_over_while_nothing_is_on_its_way() -> None:
    script = Script()
    assert not script.machine.is_quiet
    script.open()
    assert not script.machine.is_quiet
    script.welcome()
    assert script.machine.is_quiet
    script.write()
    assert not script.machine.is_quiet, "it waits to be sent"
    [sent] = script.requests()
    assert not script.machine.is_quiet, "it was not answered"
    script.machine.receive_data(b"\0\0", script.now)
    assert not script.machine.is_quiet, "a frame has begun"
    script.machine.receive_data(b"\0\x10" + struct.pack(">iqi", sent.xid, 1, 0), script.now)
    assert script.machine.is_quiet
    script.machine.leave_server("another one")
    assert not script.machine.is_quiet
    other = ready()
    other.machine.close()
    assert not other.machine.is_quiet


def test_exchanges_that_are_over_count_as_those_of_the_loop() -> None:
    script = ready()
    data = script.machine.data
    before = data.metrics.requests[OpCode.GET_DATA]
    script.now += 4
    script.machine.exchanged(
        [
            exchange(5, OpCode.GET_DATA, b"", at=script.now - 3, zxid=70),
            exchange(6, OpCode.SET_DATA, b"", at=script.now - 2, zxid=71),
            exchange(7, OpCode.GET_DATA, b"", at=script.now - 1, zxid=-1),
        ],
        None,
        script.now,
    )
    assert (data.xid, data.last_zxid) == (7, 71)
    assert data.metrics.requests[OpCode.GET_DATA] - before == 2
    assert not script.machine.in_flight
    assert script.machine.is_quiet
    script.write()
    assert [sent.xid for sent in script.requests()] == [8]


def test_the_loop_goes_on_with_an_exchange() -> None:
    script = ready()
    reply = struct.pack(">iiqi", 16, 9, 72, 0)
    opened = exchange(9, OpCode.SET_DATA, reply[:7], at=script.now)
    script.machine.exchanged([], opened, script.now)
    assert (opened.request.xid, script.machine.data.xid) == (9, 9)
    assert script.machine.data.metrics.requests[OpCode.SET_DATA] == 1
    assert not opened.request.settled
    script.machine.receive_data(reply[7:], script.now)
    assert opened.request.settled
    assert opened.request.result() == b""
    assert script.machine.data.last_zxid == 72


def test_a_connection_that_was_lost_on_direct_ends() -> None:
    script = ready()
    opened = exchange(9, OpCode.SET_DATA, OSError(104, "Connection reset by peer"), at=script.now)
    script.machine.exchanged([], opened, script.now)
    assert script.machine.should_close
    script.lose()
    assert isinstance(opened.request.error, ConnectionLossError)
    assert "Connection reset by peer" in str(opened.request.error)


# --- defaults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [o.Exists, o.GetData, o.GetChildren, o.GetChildrenAndStat])
def test_a_read_arms_no_watch_unless_it_is_asked(read: Any) -> None:
    assert read("/a") == read("/a", False) != read("/a", True)
    assert read("/a")._request("").encode()[-1] == 0
    assert read("/a", True)._request("").encode()[-1] == 1
    assert read("/a").idempotent


class Registry:
    def __init__(self) -> None:
        self.left: list[tuple[str, object]] = []

    def leave(self, path: str, watch: object) -> None:
        self.left.append((path, watch))


def test_a_watch_that_is_cancelled_is_told_from_one_that_has_fired() -> None:
    registry: Any = Registry()
    watch: Any = Watch("/a", "/chroot", registry)
    assert (watch.cancelled, repr(watch)) == (False, "<Watch /a, not fired>")
    watch.cancel()
    assert (watch.cancelled, repr(watch)) == (True, "<Watch /a, over>")
    assert registry.left == [("/chroot/a", watch)]
    fired: Any = Watch("/b", "", registry)
    fired.deliver(o_event("/b"))
    fired.cancel()
    assert not fired.cancelled
    assert registry.left[1:] == [("/b", fired)]


def o_event(path: str) -> Any:
    from pyzk.client.registry import WatchEvent

    return WatchEvent(EventType.CHANGED, path, 5)


async def test_a_stream_keeps_so_many_events_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyzk.client import watch as module
    from pyzk.client.registry import Missed

    monkeypatch.setattr(module, "_LONGEST_BACKLOG", 10)
    registry: Any = Registry()
    stream: Any = WatchStream("/a", "", registry, 3)
    for path in ("/abcd", "/efgh"):  # 10 characters
        stream.deliver(o_event(path))
    assert [(await stream.__anext__()).path for _ in range(2)] == ["/abcd", "/efgh"]
    for path in ("/abcd", "/efgh", "/"):
        stream.deliver(o_event(path))
    assert isinstance(await stream.__anext__(), Missed)
    for _ in range(3):
        stream.deliver(o_event("/"))
    assert repr(stream) == "<WatchStream /a, 3 unread>"
    stream.deliver(o_event("/"))
    event = await stream.__anext__()
    assert isinstance(event, Missed)
    assert repr(stream) == "<WatchStream /a, 0 unread>"
    stream.leave()
    assert registry.left == [("/a", stream)]
    assert math.isfinite(stream._characters)


def test_writes_that_wait_fail_at_a_read_only_server_and_reads_go_on() -> None:
    script = Script(read_only=True)
    write, read, sync = script.write(), script.read(), script.submit(OpCode.SYNC)
    script.open()
    script.send(ConnectResponse(0, 9000, 0x77, bytes(16)).encode() + b"\1")
    assert script.machine.state is SessionState.CONNECTED_READ_ONLY
    assert isinstance(write.error, NotReadOnlyError)
    assert (read.settled, isinstance(sync.error, NotReadOnlyError)) == (False, True)
    assert [sent.op for sent in script.requests()] == [OpCode.GET_DATA]
    with pytest.raises(NotReadOnlyError):
        script.write()


def test_what_comes_together_is_handled_one_by_one() -> None:
    """An event, a reply, a pong and another reply in one piece."""
    script = ready()
    first, second = script.read(), script.read()
    one, two = script.requests()
    script.send(
        ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(EventType.CHANGED, 3, "/a").encode(),
        ReplyHeader(one.xid, 5, 0).encode() + b"first",
        ReplyHeader(PING_XID, 6, 0).encode(),
        ReplyHeader(two.xid, 7, 0).encode() + b"second",
    )
    assert (first.settled, second.settled) == (True, True)
    assert (first.result(), second.result()) == (b"first", b"second")
    assert script.machine.data.last_zxid == 7

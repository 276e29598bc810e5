"""The loop that clients share: who uses it, who hands over, who has forked."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyzk.bridge import loop as shared
from pyzk.bridge.direct.sources import ConnectionSources
from pyzk.bridge.loop import Loop, _Clock
from pyzk.bridge.workers import Call
from pyzk.client import ClosingError


class ConnectionSource:
    """Has a connection to hand over.

    :ivar told: what it was told.
    """

    def __init__(self, *, hands_over: bool = True, fails: bool = False) -> None:
        self.told: list[str] = []
        self._hands_over = hands_over
        self._fails = fails

    def hand_over(self) -> bool:
        self.told.append("hand over")
        return self._hands_over

    def take_back(self) -> None:
        self.told.append("take back")
        if self._fails:
            raise ValueError("no")

    def end_connection(self, reason: str) -> None:
        self.told.append(reason)


def sources(*offers: ConnectionSource) -> tuple[ConnectionSources, list[int]]:
    wakes: list[int] = []
    made = ConnectionSources(lambda: wakes.append(1))
    made.offers = dict.fromkeys(offers)
    return made, wakes


def test_connections_are_on_direct_while_the_loop_waits() -> None:
    one, other = ConnectionSource(), ConnectionSource()
    made, wakes = sources(one, other)
    made.before_io_wait(1.0)
    assert one.told == other.told == ["hand over"]
    made.after_io_wait(1.0)
    assert one.told == other.told == ["hand over", "take back"]
    assert (made.offers, wakes) == ({}, [])


def test_a_loop_that_goes_on_at_once_hands_over_nothing() -> None:
    source = ConnectionSource()
    made, wakes = sources(source)
    made.before_io_wait(0)
    made.after_io_wait(0)
    assert (source.told, wakes) == ([], [])
    assert source in made.offers


def test_a_connection_that_cannot_be_handed_over_now_wakes_the_loop() -> None:
    made, wakes = sources(ConnectionSource(hands_over=False))
    made.before_io_wait(1.0)
    assert wakes == [1]


def test_a_source_that_fails_ends_its_connection_and_harms_no_other() -> None:
    one, bad, other = ConnectionSource(), ConnectionSource(fails=True), ConnectionSource()
    made, _ = sources(one, bad, other)
    made.after_io_wait(1.0)
    assert one.told == other.told == ["take back"]
    assert bad.told == ["take back", "after a direct connection: ValueError('no')"]


def test_a_fork_is_told_whose_client_it_is() -> None:
    loop = Loop()
    assert loop.parent == os.getpid()
    loop.forked = True
    for use in (lambda: loop.post(print), lambda: loop.ask(None), lambda: loop.look(print)):  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match=rf"belongs to the process {os.getpid()}, and this is a fork"):
            use()
    loop.detach(object())
    loop._wakeup.close()


# --- who uses it ------------------------------------------------------------------------------------------


class User:
    """Stands for a client."""


@pytest.fixture
def loop() -> Iterator[Loop]:
    user = User()
    loop = Loop.attach(user)
    yield loop
    loop.detach(user)
    assert shared._shared == {}


def test_clients_share_a_loop_that_ends_with_the_last_one() -> None:
    first, second = User(), User()
    loop = Loop.attach(first)
    assert Loop.attach(second) is loop
    assert (loop.forked, loop.exiting) == (False, False)
    loop.detach(first)
    for _ in range(2):
        loop.detach(User())
        assert loop.look(lambda: 5) == 5, "it goes on"
    loop.detach(second)
    with pytest.raises(ClosingError):
        loop.look(lambda: 5)
    assert not loop._thread.is_alive()
    loop.detach(second)
    later = Loop.attach(first)
    assert later is not loop
    later.detach(first)


def test_its_thread_is_named_and_keeps_no_process_alive(loop: Loop) -> None:
    thread = loop.look(threading.current_thread)
    assert (thread.name, thread.daemon) == ("pyzk", True)
    assert thread is loop._thread
    assert not loop.is_current
    assert loop.look(lambda: loop.is_current)


def test_a_look_returns_or_raises_what_the_function_does(loop: Loop) -> None:
    assert loop.look(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        loop.look(divmod, 7, 0)
    assert loop.look(lambda: loop.look(divmod, 7, 2)) == (3, 1), "in its own thread it does not wait"


def test_a_user_leaves_whichever_loop_it_has_used() -> None:
    user = User()
    loop = Loop.attach(user)
    Loop.leave_all(User())
    assert loop._thread.is_alive() or loop.look(lambda: True)
    Loop.leave_all(user)
    assert shared._shared == {}
    assert not loop._thread.is_alive()
    Loop.leave_all(user)


def test_a_handler_that_closes_the_last_client_as_another_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Users(set[object]):
        def add(self, user: object) -> None:
            super().add(user)
            if user is second and comes.pop():  # the handler of a signal has just closed the first one
                super().discard(user)
                loop.detach(first)
                super().add(user)

    comes = [True]
    first, second = User(), User()
    loop = Loop.attach(first)
    loop._users = Users(loop._users)
    other = Loop.attach(second)
    assert other is not loop
    assert not loop._thread.is_alive()
    assert second not in loop._users
    other.detach(second)
    assert shared._shared == {}


def test_a_client_that_comes_while_the_loop_looks_whether_it_ends_keeps_it() -> None:
    class Users(set[object]):
        def __bool__(self) -> bool:
            if loop.is_current and not len(self):
                self.add(second)
                there.append(loop._ending)
            return bool(len(self))

    there: list[bool] = []
    first, second = User(), User()
    loop = Loop.attach(first)
    loop._users = Users(loop._users)
    loop.detach(first)
    assert there == [True], "a client that sees this tries again, and keeps the loop meanwhile"
    assert not loop._ending
    assert Loop.attach(second) is loop
    loop._users = set(loop._users)
    loop.detach(second)
    assert not loop._thread.is_alive()


def test_clients_that_come_at_once_share_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(dict[int, Loop]):
        def get(self, key: int) -> Any:  # type: ignore[override]
            found = super().get(key)
            barrier.wait(30)
            return found

    barrier = threading.Barrier(4, action=lambda: monkeypatch.setattr(shared, "_shared", plain))
    plain = shared._shared
    monkeypatch.setattr(shared, "_shared", both := Shared())
    users = [User() for _ in range(4)]
    loops: list[Loop] = []
    threads = [threading.Thread(target=lambda user=user: loops.append(Loop.attach(user))) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del both
    assert len(loops) == 4
    assert len(set(loops)) == 1
    for user in users:
        loops[0].detach(user)
    assert not loops[0]._thread.is_alive()


@pytest.mark.parametrize("begun", [False, True])
def test_a_loop_whose_start_was_interrupted_ends_with_its_client(
    monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    def start(function: Any, args: Any) -> None:
        if begun:
            start_new_thread(function, args)
        raise KeyboardInterrupt

    start_new_thread = shared._thread.start_new_thread
    user = User()
    with monkeypatch.context() as patch:
        patch.setattr(shared._thread, "start_new_thread", start)
        with pytest.raises(KeyboardInterrupt):
            Loop.attach(user)
    (loop,) = shared._shared.values()
    Loop.leave_all(user)
    assert not loop._thread.is_alive()
    assert shared._shared == {}


def test_the_exit_of_the_interpreter_ends_the_loop_as_it_is() -> None:
    user = User()
    loop = Loop.attach(user)
    assert loop.look(lambda: True)
    loop.stop(60)
    assert loop.exiting
    assert not loop._thread.is_alive()
    loop.stop(60)
    loop.detach(user)


def test_a_program_may_exit_before_the_loop_has_begun() -> None:
    loop = Loop()
    loop.stop(60)
    assert loop.exiting
    loop._wakeup.close()


def test_the_exit_is_for_loops_that_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[Any, float]] = []

    class Known:
        forked = False

        def stop(self, patience: float) -> None:
            stopped.append((self, patience))

    loop: Any = Known()
    monkeypatch.setattr(shared, "_loops", {loop})
    for _ in range(2):
        shared._at_exit()
        assert stopped == [(loop, shared._EXIT_PATIENCE)]
        shared._after_fork()
    assert loop.forked


def test_a_fork_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    monkeypatch.setattr(shared, "_loops", {loop})
    monkeypatch.setattr(shared, "_shared", {os.getpid(): loop})
    shared._after_fork()
    assert loop.forked
    assert shared._shared == {}


@pytest.mark.parametrize("name", ["multiprocessing", "billiard"])
@pytest.mark.parametrize("process", ["MainProcess", "Worker-1"])
def test_clients_are_closed_with_a_child(monkeypatch: pytest.MonkeyPatch, name: str, process: str) -> None:
    finalizers: list[Any] = []
    package = SimpleNamespace(current_process=lambda: SimpleNamespace(name=process))
    util = SimpleNamespace(Finalize=lambda *args, **options: finalizers.append((args, options)))
    for other in ("multiprocessing", "billiard"):
        monkeypatch.delitem(sys.modules, other, raising=False)
        monkeypatch.delitem(sys.modules, f"{other}.util", raising=False)
    monkeypatch.setattr(shared, "_told", {})
    shared._close_with_child()
    monkeypatch.setitem(sys.modules, name, package)  # type: ignore[arg-type]
    shared._close_with_child()
    assert finalizers == [], "it is not imported as a whole"
    monkeypatch.setitem(sys.modules, f"{name}.util", util)  # type: ignore[arg-type]
    for _ in range(2):
        shared._close_with_child()
    once = [((None, shared._at_exit), {"exitpriority": 0})]
    assert finalizers == (once if process != "MainProcess" else [])
    monkeypatch.setattr(os, "getpid", lambda: -1)  # another process, which was forked
    shared._close_with_child()
    assert finalizers == (once * 2 if process != "MainProcess" else [])


def test_clients_are_closed_with_a_worker_of_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []
    signal = SimpleNamespace(connect=lambda *args, **options: connected.append((args, options)))
    monkeypatch.setitem(sys.modules, "celery.signals", SimpleNamespace(worker_process_shutdown=signal))  # type: ignore[arg-type]
    shared._close_with_child()
    (((function,), options),) = connected
    assert options == {"weak": False}
    closed: list[int] = []
    monkeypatch.setattr(shared, "_at_exit", lambda: closed.append(1))
    function(pid=5, exitcode=0)
    assert closed == [1]


def test_its_clock_is_that_of_threads_and_event_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    clock.start_clock()
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    assert clock.current_time() == 5.0
    assert clock.deadline_to_sleep_time(7.5) == 2.5


def test_a_gevent_that_has_not_patched_threads_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkey = SimpleNamespace(is_module_patched=lambda name: asked.append(name))
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)  # type: ignore[arg-type]
    user = User()
    Loop.attach(user).detach(user)
    assert asked == ["threading"]


def test_a_call_may_be_made_by_its_caller_unless_the_loop_was_asked_for_another(loop: Loop) -> None:
    call = Call(object(), divmod, (7, 2), {})  # type: ignore[arg-type]
    assert loop.look(lambda: loop.allows(call))
    before, after = loop.look(lambda: (loop.post(lambda: None), loop.allows(call))), loop.look(lambda: 1)
    assert (before[1], after) == (False, 1)

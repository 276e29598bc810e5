"""What is particular to threads: loss, limits, notices, other threads, Ctrl-C, forks, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from pyzk.blocking import (
    ClosingError,
    Interrupted,
    LeaderElection,
    Lock,
    LockLost,
    LossReason,
    MultiLock,
    NoNodeError,
    PersistentNode,
    Queue,
    SessionExpiredError,
    SessionState,
    TreeCache,
    ZooKeeper,
    connect,
    timeout,
)
from pyzk.bridge import loop
from pyzk.client.registry import WatchRegistry
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until


@pytest.fixture
def zk(server: EmbeddedServer) -> Iterator[ZooKeeper]:
    with connect(server.hosts, on_expired="new_session") as zk:
        yield zk


# --- loss -------------------------------------------------------------------------------------------------


def test_the_next_call_raises_the_loss(zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught, Lock(zk, "/lock") as grant:
        zk.delete(grant.path)
        assert grant.lost.wait(5)
        for _ in range(2):  # and so does each later one
            with pytest.raises(LockLost):
                zk.exists("/")
        zk.exists("/")
    assert caught.value.reason is LossReason.NODE_DELETED
    assert zk.exists("/") is not None, "the thread goes on"


def test_a_call_that_waits_raises_the_loss(zk: ZooKeeper, server: EmbeddedServer) -> None:
    with pytest.raises(LockLost, match="deleted"), Lock(zk, "/lock") as grant, connect(server.hosts) as other:
        threading.Timer(0.05, other.delete, [grant.path]).start()
        Queue(zk, "/nothing-comes").get()


def test_leaving_the_block_raises_the_loss(zk: ZooKeeper, server: EmbeddedServer) -> None:
    reached = False
    with pytest.raises(LockLost) as caught, Lock(zk, "/lock") as grant:
        server.expire(zk.session.id)
        assert grant.lost.wait(5)
        reached = True
    assert reached
    assert caught.value.reason is LossReason.SESSION_EXPIRED


def test_an_error_of_the_body_comes_out_with_the_loss_as_a_note(zk: ZooKeeper) -> None:
    with pytest.raises(KeyError) as caught, Lock(zk, "/lock") as grant:
        zk.delete(grant.path)
        grant.lost.wait()
        raise KeyError("mine")
    assert any("lost" in note for note in caught.value.__notes__)


def test_a_lost_lock_stays_until_the_thread_has_left(server: EmbeddedServer) -> None:
    """Nobody else may have it while the thread still works: it cannot be stopped."""
    with connect(server.hosts) as zk:
        with pytest.raises(LockLost), Lock(zk, "/lock", suspended="cancel") as grant:
            server.disconnect(zk.session.id)
            assert grant.lost.wait(5)
            with pytest.raises(LockLost):
                zk.exists("/")
            with connect(server.hosts) as other:
                assert other.exists(grant.path) is not None
                with pytest.raises(TimeoutError), timeout(0.05), Lock(other, "/lock"):
                    raise AssertionError("two holders")
        with Lock(zk, "/lock"):
            pass


def test_check_looks_at_the_clock(zk: ZooKeeper) -> None:
    with Lock(zk, "/lock") as grant:
        grant.check()
        assert time.monotonic() < grant.deadline() <= time.monotonic() + zk.session.negotiated_timeout


def test_check_raises_in_any_thread(zk: ZooKeeper) -> None:
    errors: list[BaseException] = []

    def check() -> None:
        try:
            grant.check()
        except LockLost as error:
            errors.append(error)

    with pytest.raises(LockLost), Lock(zk, "/lock") as grant:
        zk.delete(grant.path)
        grant.lost.wait()
        run_in_thread(check)
    assert len(errors) == 1


def test_a_function_is_called_at_the_loss_and_may_use_the_client(zk: ZooKeeper) -> None:
    found: list[object] = []
    called = threading.Event()

    def stop() -> None:
        found.append(zk.exists("/"))
        called.set()

    with pytest.raises(LockLost), Lock(zk, "/lock") as grant:
        grant.on_lost(stop)
        zk.delete(grant.path)
        assert called.wait(5)
    assert found[0] is not None


def test_the_function_of_a_revocation_may_raise(zk: ZooKeeper) -> None:
    def refuse(grant: Any) -> None:
        assert grant.path == held.path
        raise KeyError("revoked")

    with pytest.raises(KeyError), Lock(zk, "/lock", on_revoke=refuse) as held:
        zk.set(held.path, b"__REVOKE__")
        held.lost.wait()


def test_the_loss_of_an_outer_block_reaches_an_inner_one(zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught, Lock(zk, "/outer") as outer, Lock(zk, "/inner") as inner:
        zk.delete(outer.path)
        outer.lost.wait()
        assert not inner.lost.is_set()
        zk.exists("/")
    assert caught.value.path == outer.path
    assert zk.get_children("/inner") == []


def test_the_loss_of_one_of_several_locks(zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught, MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]) as (a, b):
        zk.delete(b.path)
        b.lost.wait()
        a.check()
        zk.exists("/")
    assert caught.value.path == b.path


def test_what_ends_a_block_without_a_grant_is_raised_at_its_end(zk: ZooKeeper) -> None:
    """A cache of a znode that may not be read any more."""
    zk.create("/app")
    with pytest.raises(NoNodeError), PersistentNode(zk, "/app/x", conflict="raise") as node:
        node.ready()
        raise NoNodeError("/mine")
    zk.create("/held", ephemeral=False)
    with (
        pytest.raises(Exception, match="held") as caught,
        PersistentNode(zk, "/held", conflict="raise") as node,
    ):
        time.sleep(0.05)
        with pytest.raises(Interrupted):
            zk.exists("/")
        zk.exists("/")
    assert type(caught.value).__name__ == "NodeExistsError"


def test_an_expired_session_ends_the_block_of_the_client(server: EmbeddedServer) -> None:
    with pytest.raises(SessionExpiredError), connect(server.hosts) as zk:
        server.expire(zk.session.id)
        zk.session.expired.wait()
        zk.exists("/")


def test_a_deposed_leader_stands_again(zk: ZooKeeper) -> None:
    tokens: list[int] = []

    class Enough(Exception):
        pass

    def lead(term: Any) -> None:
        tokens.append(term.token)
        if len(tokens) == 3:
            raise Enough
        zk.delete(term.path)
        term.lost.wait()
        zk.exists("/")
        raise AssertionError("the call raises")

    with pytest.raises(Enough):
        LeaderElection(zk, "/leader").run(lead)
    assert sorted(set(tokens)) == tokens


# --- limits -----------------------------------------------------------------------------------------------


def test_a_limit(zk: ZooKeeper) -> None:
    with Lock(zk, "/lock"):
        with pytest.raises(TimeoutError), timeout(0.05):
            run_in_thread(lambda: None)
            Queue(zk, "/queue").get()
        assert zk.exists("/") is not None
    assert zk.get_children("/lock") == []


def test_a_limit_is_for_calls_and_is_moved(zk: ZooKeeper) -> None:
    with timeout(0.05) as limit:
        limit.reschedule(None)
        time.sleep(0.06)
        zk.exists("/")
    with pytest.raises(TimeoutError), timeout(0.01) as limit:
        time.sleep(0.02)
        with pytest.raises(Interrupted):
            zk.exists("/")
        zk.exists("/")


def test_a_limit_around_a_connect() -> None:
    with pytest.raises(TimeoutError), timeout(0.05), connect("127.0.0.1:1"):
        raise AssertionError("there is no server")


# --- threads ----------------------------------------------------------------------------------------------


def run_in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_thread_that_waits_hears_that_the_client_closes(server: EmbeddedServer) -> None:
    errors: list[BaseException] = []

    def wait() -> None:
        waiting.set()
        try:
            while True:
                session.wait_change()
        except ClosingError as error:
            errors.append(error)

    waiting = threading.Event()
    with connect(server.hosts) as zk:
        session = zk.session
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        time.sleep(0.02)
    thread.join(5)
    assert [type(error) for error in errors] == [ClosingError]


def test_many_threads_share_a_client(zk: ZooKeeper) -> None:
    zk.create("/n", b"")
    done: list[int] = []

    def work() -> None:
        for _ in range(20):
            zk.set("/n", b"x")
            zk.get("/n")
        done.append(1)

    threads = [threading.Thread(target=work) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 30
    assert zk.get("/n")[1].version == 600


def test_the_locks_of_a_thread_are_its_own(zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock", reentrant=True)
    with lock, lock:
        outcome: list[object] = []

        def other() -> None:
            try:
                with timeout(0.05), lock:
                    outcome.append("two holders")
            except TimeoutError:
                outcome.append("it waits")

        run_in_thread(other)
    assert outcome == ["it waits"]


def test_a_block_may_be_left_by_another_thread(server: EmbeddedServer) -> None:
    stack = ExitStack()
    run_in_thread(lambda: stack.enter_context(connect(server.hosts)))
    assert len(server.sessions()) == 1
    stack.close()
    assert server.sessions() == []


def test_a_block_that_is_left_takes_those_inside_of_it_along(zk: ZooKeeper) -> None:
    outer, inner = Lock(zk, "/outer"), Lock(zk, "/inner")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert zk.get_children("/inner") == []
    with pytest.raises(RuntimeError, match="already been left"):
        inner.__exit__(None, None, None)
    with inner, outer:
        pass


def test_a_block_is_left_once(zk: ZooKeeper) -> None:
    lock = Lock(zk, "/lock")
    with pytest.raises(RuntimeError, match="not entered"):
        lock.__exit__(None, None, None)


def test_the_client_does_not_wait_for_itself(zk: ZooKeeper) -> None:
    seen: list[BaseException] = []

    def selector(path: str) -> bool:
        try:
            zk.exists(path)
        except RuntimeError as error:
            seen.append(error)
        return True

    zk.create("/app/a", make_parents=True)
    with TreeCache(zk, "/app", selector=selector) as cache:
        cache.synced()
    assert "own thread" in str(seen[0])


def test_a_closed_client(server: EmbeddedServer) -> None:
    with connect(server.hosts) as zk:
        session = zk.session
        lock = Lock(zk, "/lock")
    assert session.state is SessionState.CLOSED
    for call in (lambda: zk.get("/"), lock.acquire, lambda: zk.submit(None)):  # type: ignore[arg-type]
        with pytest.raises(ClosingError):
            call()
    with connect(server.hosts), pytest.raises(ClosingError):
        zk.get("/")


def test_other_threads_hear_that_the_client_closes(server: EmbeddedServer) -> None:
    errors: list[BaseException] = []
    inside = threading.Event()

    def hold() -> None:
        try:
            with Lock(zk, "/lock") as grant:
                inside.set()
                grant.lost.wait()
        except LockLost as error:
            errors.append(error)

    with connect(server.hosts) as zk:
        thread = threading.Thread(target=hold)
        thread.start()
        assert inside.wait(5)
    thread.join(5)
    assert [type(error) for error in errors] == [LockLost]
    assert errors[0].reason is LossReason.CLIENT_CLOSED  # type: ignore[attr-defined]


# --- mistakes ---------------------------------------------------------------------------------------------


def test_a_client_of_another_package(zk: ZooKeeper) -> None:
    from pyzk import aio, recipes

    with pytest.raises(TypeError, match=r"pyzk\.aio"):
        aio.Lock(zk, "/lock")  # type: ignore[arg-type]
    import trio

    async def main() -> None:
        async with recipes.Lock(zk, "/lock"):  # type: ignore[arg-type]
            pass

    with pytest.raises(RuntimeError, match=r"pyzk\.recipes"):
        trio.run(main)


def test_gevent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Monkey:
        @staticmethod
        def is_module_patched(name: str) -> bool:
            return name == "threading"

    monkeypatch.setitem(sys.modules, "gevent.monkey", Monkey)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="gevent"):
        connect("127.0.0.1:1").__enter__()


# --- processes --------------------------------------------------------------------------------------------


def run_script(text: str, hosts: str, code: int = 0) -> str:
    """Run a program; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", text, hosts], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


CTRL_C = """
import signal, sys, threading, time
from pyzk.blocking import Lock, connect

with connect(sys.argv[1]) as zk, connect(sys.argv[1]) as other:
    with Lock(other, "/lock"):
        def interrupt():
            while len(other.get_children("/lock")) < 2:
                time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            with Lock(zk, "/lock"):
                print("two holders")
        except KeyboardInterrupt:
            zk.sync()
            print("interrupted", len(other.get_children("/lock")))
        print(zk.exists("/") is not None)
"""


def test_ctrl_c_ends_a_wait_and_leaves_nothing(server: EmbeddedServer) -> None:
    assert run_script(CTRL_C, server.hosts).split("\n")[:2] == ["interrupted 1", "True"]


FORK = """
import os, sys
from pyzk.blocking import Lock, connect

with connect(sys.argv[1]) as zk:
    with Lock(zk, "/lock") as grant:
        child = os.fork()
        if not child:
            for use in (lambda: zk.get("/"), grant.check, lambda: Lock(zk, "/x").acquire()):
                try:
                    use()
                except RuntimeError as error:
                    print("fork" in str(error), flush=True)
            with connect(sys.argv[1]) as own:
                print(own.exists("/") is not None, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        grant.verify()
        print("held")
"""


def test_a_fork_gets_a_clear_error_and_may_connect_anew(server: EmbeddedServer) -> None:
    assert run_script(FORK, server.hosts).split() == ["True", "True", "True", "True", "held"]


def test_a_fork_that_leaves_the_blocks_of_its_parent_takes_nothing_from_it(server: EmbeddedServer) -> None:
    text = """
import os, sys
from pyzk.blocking import Lock, connect

child = None
try:
    with connect(sys.argv[1]) as zk, Lock(zk, "/lock") as grant:
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            grant.verify()
            print("held")
except RuntimeError as error:
    assert child == 0
    print("fork" in str(error), flush=True)
    os._exit(0)
"""
    assert run_script(text, server.hosts).split() == ["True", "held"]


@pytest.mark.parametrize("package", ["multiprocessing", "billiard"])  # billiard: what Celery forks with
@pytest.mark.parametrize("ending", ["", "sys.exit(0)"])
def test_a_child_that_was_forked_closes_its_client(server: EmbeddedServer, package: str, ending: str) -> None:
    text = f"""
import {package}, sys
from pyzk.blocking import connect

def work():
    connect(sys.argv[1]).__enter__().create("/here", ephemeral=True)
    {ending}

child = {package}.get_context("fork").Process(target=work)
child.start()
child.join()
print(child.exitcode)
"""
    assert run_script(text, server.hosts) == "0\n"
    assert server.sessions() == [], "the session was closed, not left to expire"


def test_a_fork_may_exit_in_a_block_of_its_parent(server: EmbeddedServer) -> None:
    text = """
import os, sys
from pyzk.blocking import Lock, connect

with connect(sys.argv[1]) as zk, Lock(zk, "/lock") as grant:
    child = os.fork()
    if not child:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    grant.verify()
"""
    assert run_script(text, server.hosts) == "3\n"


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "sys.exit(0)",
        "import threading; threading.Thread(target=zk.session.wait_change, daemon=True).start()",
    ],
)
def test_an_open_client_is_closed_at_exit(server: EmbeddedServer, ending: str) -> None:
    text = f"""
import sys
from pyzk.blocking import connect

zk = connect(sys.argv[1]).__enter__()
zk.create("/here", ephemeral=True)
print("open")
{ending}
"""
    assert run_script(text, server.hosts) == "open\n"
    assert server.sessions() == [], "the session was closed, not left to expire"


def test_the_loop_goes_with_the_last_client(server: EmbeddedServer) -> None:
    with connect(server.hosts):
        first = loop._shared.copy()
        assert len(first) == 1
        with connect(server.hosts):
            assert loop._shared == first
        assert loop._shared == first
    assert loop._shared == {}


def test_the_exit_of_the_interpreter_leaves_all_blocks(server: EmbeddedServer) -> None:
    """It does not wait for the threads that are in them."""
    outer = connect(server.hosts)
    zk = outer.__enter__()
    inner = Lock(zk, "/lock")
    inner.__enter__()
    shared = loop._shared[os.getpid()]
    shared.stop(30)
    assert not shared._thread.is_alive()
    wait_until(lambda: not server.sessions())
    with pytest.raises(ClosingError):
        zk.exists("/")
    for block in (inner, outer):
        with suppress(ClosingError):
            block.__exit__(None, None, None)


def test_watches_are_counted_by_the_thread_that_changes_them(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, threads = WatchRegistry.__len__, []

    def noted(registry: WatchRegistry) -> int:
        threads.append(threading.current_thread().name)
        return count(registry)

    monkeypatch.setattr(WatchRegistry, "__len__", noted)
    with connect(server.hosts) as zk:
        _, _, watch = zk.get_and_watch("/")
        assert zk.watch_count == 1
        assert threads[-1] == "pyzk"
        watch.cancel()
    assert zk.watch_count == 0, "after the end of the loop"


def test_a_client_ends_with_the_block_in_which_its_thread_has_opened_it(
    zk: ZooKeeper, server: EmbeddedServer
) -> None:
    inner = connect(server.hosts)
    with Lock(zk, "/l"):
        other = inner.__enter__()
        assert other.exists("/l")
    with pytest.raises(ClosingError, match="the client was closed"):
        other.exists("/l")
    with pytest.raises(RuntimeError, match="leave the inner blocks first"):
        inner.__exit__(None, None, None)

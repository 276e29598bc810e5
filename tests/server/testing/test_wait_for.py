"""Waiting for what clients do, from trio, asyncio and threads; sessions that are named in words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

import pyzk.aio
import pyzk.blocking
import pyzk.client
from pyzk.recipes import Lock
from pyzk.server import open_server
from pyzk.server.testing import (
    EmbeddedEnsemble,
    EmbeddedServer,
    NotInTime,
    ServerStopped,
    UnknownSessionError,
)
from pyzk.server.testing.in_thread import InThread


class Later:
    """Does something in another thread, once the server waits for it."""

    def __init__(self, server: InThread[Any]) -> None:
        self.server: Any = server
        self.errors: list[BaseException] = []

    def __call__(self, act: Callable[[], object]) -> threading.Thread:
        def main() -> None:
            try:
                while not self.server.run(self.is_waited):
                    pass
                act()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=main)
        thread.start()
        return thread

    def is_waited(self) -> bool:
        running = self.server.running
        return any(part.gate.observers for part in running.each())


def test_a_thread_waits() -> None:
    with EmbeddedServer() as server, pyzk.blocking.connect(server.hosts) as zk:
        later = Later(server)
        for act, wanted in (
            (lambda: zk.create("/a", b"1", ephemeral=True), {"path": "/a"}),
            (lambda: zk.set("/a", b"2"), {"path": "/a", "data": "2"}),
            (lambda: zk.create("/b/c/d", make_parents=True), {"path": "/b/c", "children": ["d"]}),
            (lambda: zk.create("/b/c/e"), {"path": "/b/c", "children": 2}),
            (lambda: zk.exists("/nowhere"), {"op": "exists", "path": "/nowhere"}),
            (lambda: zk.delete("/a"), {"path": "/a", "gone": True}),
            (lambda: zk.create("/mine", ephemeral=True), {"path": "/mine", "session": zk}),
            (lambda: server.name_session("me", zk), {"session": "me"}),
        ):
            thread = later(act)
            server.wait_for(**wanted, timeout=60)  # type: ignore[arg-type]
            thread.join()
            server.wait_for(**wanted, timeout=0)  # type: ignore[arg-type]
        server.wait_for(op="any", session=zk, count=5, timeout=0)
        server.wait_idle(0.01)
        assert later.errors == []
        assert server.running.gate.observers == []


def test_waiting_in_vain_shows_the_timeline() -> None:
    with EmbeddedServer() as server, pyzk.blocking.connect(server.hosts) as zk:
        zk.create("/here", b"old")
        for wanted, words in (
            ({"path": "/x"}, "waited 0.01 s for /x to exist; it does not exist; / has the children"),
            (
                {"path": "/here", "data": b"new"},
                "waited 0.01 s for /here to have the data b'new'; it has the data b'old'",
            ),
            (
                {"path": "/here", "children": ["a"]},
                "to have the children a; it has the data b'old' and no",
            ),
            ({"path": "/here", "gone": True}, "for /here to be gone; it has the data b'old'"),
            ({"session": "me"}, "for a session me to live; 0 of 1 sessions match"),
            ({"op": "create", "path": "/h*", "count": 2}, "for 2 requests to come: create on /h*; 1 came"),
        ):
            with pytest.raises(NotInTime) as caught:
                server.wait_for(**wanted, timeout=0.01)  # type: ignore[arg-type]
            assert words in str(caught.value)
            assert "| create /here 'old' -> ok" in str(caught.value)
            assert isinstance(caught.value, AssertionError)
            # where it was called, and the one line that raises it
            assert len(caught.traceback) <= 4
        server.hold(op="get_data")
        pending = zk.submit(pyzk.client.GetData("/here"))
        while not server.held():
            pass
        with pytest.raises(NotInTime, match=r"idle for 0\.01 s; 1 messages wait; no request has come"):
            server.wait_idle(0.01, timeout=0.05)
        server.release()
        pending.wait()
        assert server.running.gate.observers == []


def test_waiting_for_what_cannot_be() -> None:
    with EmbeddedServer() as server:
        for wanted in (
            {},
            {"path": "/a", "data": "", "children": 1},
            {"op": "creat"},
            {"op": "create", "session": "nobody"},
            {"session": "me", "count": 0},
        ):
            with pytest.raises((ValueError, UnknownSessionError)):
                server.wait_for(**wanted)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="perhaps create"):
            server.wait_for(op="creat")
        with pytest.raises(ValueError, match="above 0"):
            server.wait_idle(0)
    with pytest.raises(ServerStopped):
        server.wait_for("/a")


def test_the_server_ends_meanwhile() -> None:
    server = EmbeddedServer().start()
    thread = Later(server)(server.stop)
    with pytest.raises(ServerStopped):
        server.wait_for("/a", timeout=60)
    thread.join()


async def test_a_trio_test_waits_in_no_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server() as server, pyzk.client.connect(server.hosts) as zk:

        async def write() -> None:
            await trio.sleep(300)
            await zk.create("/a")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await server.wait_for("/a", timeout=400)
        assert trio.current_time() < 400
        with pytest.raises(NotInTime, match="waited 60 s for /b to exist"):
            await server.wait_for("/b", timeout=60)
        await server.wait_idle(20)


def test_an_asyncio_test_waits_while_its_loop_runs() -> None:
    async def main() -> None:
        with EmbeddedServer() as server:
            async with pyzk.aio.connect(server.hosts) as zk:
                waiting = asyncio.ensure_future(server.wait_for("/a", timeout=60))
                await asyncio.sleep(0)
                await zk.create("/a")
                await waiting
                with pytest.raises(NotInTime, match="/b to exist"):
                    await server.wait_for("/b", timeout=0.01)
                await server.wait_idle(0.01)
                cut_short = asyncio.ensure_future(server.wait_for("/b", timeout=60))
                await asyncio.sleep(0)
                cut_short.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cut_short
                await server.wait_for("/a")
                while server.running.gate.observers:
                    await asyncio.sleep(0)

    asyncio.run(main())


async def test_a_trio_test_waits_for_a_server_in_a_thread() -> None:
    with EmbeddedServer() as server:
        async with pyzk.client.connect(server.hosts) as zk, trio.open_nursery() as nursery:
            nursery.start_soon(zk.create, "/a")
            await server.wait_for("/a", timeout=60)
            with trio.move_on_after(0.01) as scope:
                await server.wait_for("/b", timeout=60)
            assert scope.cancelled_caught
            with pytest.raises(NotInTime):
                await server.wait_for("/b", timeout=0.01)


def test_an_ensemble_waits_at_any_server() -> None:
    with EmbeddedEnsemble(3) as ensemble, pyzk.blocking.connect(ensemble[2].hosts) as zk:
        ensemble.lag(1)
        thread = Later(ensemble)(lambda: zk.create("/a", ephemeral=True))
        ensemble.wait_for("/a", timeout=60)
        thread.join()
        ensemble.wait_for(op="create", session=zk, timeout=60)
        ensemble[2].wait_for("/a", timeout=60)
        with pytest.raises(NotInTime, match="/a to exist"):
            ensemble[1].wait_for("/a", timeout=0.01)
        ensemble.catch_up()
        ensemble[1].wait_for("/a", timeout=60)
        ensemble.wait_idle(0.01, timeout=60)
        ensemble.expire("owner-of:/a")
        ensemble.wait_for("/a", gone=True, timeout=60)


async def test_sessions_are_named_by_what_they_hold() -> None:
    async with (
        open_server() as server,
        pyzk.client.connect(server.hosts) as one,
        pyzk.client.connect(server.hosts) as two,
    ):
        lock = Lock(two, "/locks/x")
        async with Lock(one, "/locks/x"), trio.open_nursery() as nursery:
            nursery.start_soon(lock.acquire)
            await server.wait_for("/locks/x", children=2)
            await one.create("/mine", ephemeral=True)
            for name in ("holder-of:/locks/x", "owner-of:/mine", "holder-of:/mine"):
                assert {entry.session for entry in server.history(session=name)} == {one.session.id}
            assert "exists" not in server.format_timeline(sessions=["owner-of:/mine"])
            with server.fault(op="exists", session="holder-of:/locks/x", required=False) as fault:
                await two.exists("/")
            assert fault.fired == 0
            server.disconnect("holder-of:/locks/x")
            server.pause("holder-of:/locks/x")
            server.resume("holder-of:/locks/x")
            nursery.cancel_scope.cancel()
        await server.wait_for("/locks/x", children=0)
        for name, words in (
            ("holder-of:/locks/x", "/locks/x is held by nobody"),
            ("holder-of:/nowhere", "/nowhere does not exist"),
            ("owner-of:/locks", "/locks is no ephemeral znode"),
            ("nobody", "there is no session nobody; live sessions: 0x"),
        ):
            with pytest.raises(UnknownSessionError, match=words):
                server.expire(name)

"""The history that the command records from its start, while that costs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest
import trio

from pyzk.client import ZooKeeper, connect
from pyzk.protocol.operations import OpCode
from pyzk.server.app.serve import make_server
from pyzk.server.config.settings import Settings
from pyzk.server.net.clock import Clock
from pyzk.server.net.server import Server
from pyzk.server.testing import Controls
from pyzk.server.testing.from_start import MOST_NOTES, FromStart
from pyzk.server.testing.history import Entry
from pyzk.server.testing.recent import ENTRIES, HOLE
from pyzk.server.testing.takeover import controls_of

QUIET = 11.0
"""Seconds of the server's clock after which recording begins again."""


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    """Run a server as the command does, but for its time, which stands still."""
    server = make_server(Settings(port=0), Clock(frozen=True))
    FromStart(server)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


def client_of(server: Server) -> AbstractAsyncContextManager[ZooKeeper]:
    return connect("{}:{}".format(*server.address), session_timeout=40)


def words(controls: Controls) -> list[str]:
    return [entry.text for entry in controls.history()]


async def test_it_begins_with_the_first_client() -> None:
    async with served() as server, client_of(server) as zk:
        await zk.create("/a", b"1")
        entries = controls_of(server).history()
        assert [entry.kind for entry in entries][:2] == ["connection", "session"]
        assert entries[0].text.startswith("opened from ")
        assert "session begins, timeout 40 s" in words(controls_of(server))
        assert "create /a '1'" in words(controls_of(server))
        assert entries[-1].session == zk.session.id
        assert {entry.connection for entry in entries} <= {0, 1}


async def test_nothing_is_kept_of_what_was_sent_by_who_has_gone_without_a_session() -> None:
    async with served() as server:
        stream = await trio.open_tcp_stream(*server.address)
        await stream.send_all((1000).to_bytes(4) + bytes(500))  # half a frame
        while not (connections := list(server.service.connections)) or not len(connections[0].input):
            await trio.lowlevel.checkpoint()
        await stream.aclose()
        while server.service.connections:
            await trio.lowlevel.checkpoint()
        assert len(connections[0].input) == 0


async def test_what_came_before_the_first_request_has_its_own_time() -> None:
    async with served() as server:
        server.clock.jump(1)
        async with client_of(server) as zk:
            server.clock.jump(2)
            await zk.exists("/a")
            opened, *_, reply = controls_of(server).history()
    assert (round(opened.time), round(reply.time)) == (1, 3)


async def test_the_first_client_is_known_however_often_words_were_asked_before() -> None:
    async with served() as server:
        for _ in range(MOST_NOTES):
            async with await trio.open_tcp_stream(*server.address) as stream:
                await stream.send_all(b"ruok")
                assert await stream.receive_some() == b"imok"
        async with client_of(server) as zk:
            await zk.exists("/a")
            assert "session begins, timeout 40 s" in words(controls_of(server))


async def test_a_reader_changes_nothing() -> None:
    """Who looks before there was a request finds the clients all the same."""
    async with served() as server, client_of(server):
        assert any(text.startswith("new session") for text in words(controls_of(server)))


async def test_pings_are_left_out_until_somebody_asks_for_all() -> None:
    async with served() as server, client_of(server) as zk:
        running = controls_of(server).running
        connection = next(iter(running.service.connections))
        ping = b"\xff\xff\xff\xfe" + OpCode.PING.to_bytes(4, "big")

        def pings() -> list[Entry]:
            running.gate.handle(connection, OpCode.PING, ping, running.clock.now())
            return controls_of(server).history(op="ping")

        assert pings() == []
        await zk.create("/a")
        running.begin_history()
        assert [entry.kind for entry in pings()] == ["request", "reply"]
        assert "create /a" in words(controls_of(server)), "what was recorded already is kept"


async def ask(zk: ZooKeeper, times: int) -> None:
    for _ in range(times):
        await zk.exists("/a")


async def test_where_much_comes_nothing_is_recorded_and_nothing_is_in_the_way() -> None:
    async with served() as server, client_of(server) as zk:
        await ask(zk, ENTRIES // 2)
        controls = controls_of(server)
        assert controls.running.told is None
        assert server.service.gate is None
        assert server.service.engine.on_txn is None


async def test_it_begins_again_when_little_comes_and_says_why_it_begins_there() -> None:
    async with served() as server, client_of(server) as zk:
        await ask(zk, ENTRIES // 2)
        controls = controls_of(server)
        for second in range(12):  # more comes, for a while
            await ask(zk, 300 if second == 5 else 1)
            controls.advance(1, keep_alive=True)
        assert controls.running.told is None, "it was not quiet for 10 s"
        controls.advance(QUIET, keep_alive=True)
        await zk.create("/b")
        assert words(controls)[0] == HOLE
        assert "create /b" in words(controls)
        assert "exists /a" not in words(controls)


async def test_as_much_as_is_recorded_in_time_goes_on() -> None:
    async with served() as server, client_of(server) as zk:
        controls = controls_of(server)
        for _ in range(8):
            await ask(zk, ENTRIES // 4)
            controls.advance(1, keep_alive=True)
        assert controls.running.told is not None
        assert HOLE not in words(controls)


async def test_the_advisor_reads_what_comes_after_a_hole() -> None:
    async with served() as server, client_of(server) as zk:
        controls = controls_of(server)
        await ask(zk, ENTRIES // 8)
        before = controls.advice()
        await ask(zk, ENTRIES // 2)
        controls.advance(QUIET, keep_alive=True)
        for _ in range(ENTRIES // 8):
            await zk.get_children("/")
        assert len(controls.advice()) > len(before) > 0


async def test_who_listens_goes_on_hearing() -> None:
    heard: list[Entry] = []
    async with served() as server, client_of(server) as zk:
        running = controls_of(server).running
        running.listen(heard.append)
        await ask(zk, ENTRIES)
        assert [entry.text for entry in heard].count("exists /a") == ENTRIES
        assert HOLE not in [entry.text for entry in heard]
        running.stop_listening(heard.append)
        assert running.told is not None
        assert next(running.told.entries()).text == HOLE


async def test_all_is_recorded_once_it_is_asked_for_however_much_comes() -> None:
    async with served() as server, client_of(server) as zk:
        await zk.exists("/a")
        controls_of(server).running.begin_history()
        await ask(zk, ENTRIES)
        assert words(controls_of(server)).count("exists /a") == ENTRIES + 1


PROGRAM = """
import sys
from functools import partial
import trio
from pyzk.server.app.serve import serve
from pyzk.server.config.settings import Settings
from pyzk.server.testing.from_start import MOST_NOTES, FromStart

async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, Settings(port=0), FromStart))
        nursery.cancel_scope.cancel()

trio.run(main)
print(*sorted(name for name in sys.modules if name.startswith("pyzk.server.testing")))
"""


def test_a_server_without_clients_loads_no_test_kit() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pyzk.server.testing", "pyzk.server.testing.from_start"]


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_history_that_begins_late_says_so(keeps: bool) -> None:
    server = make_server(Settings(port=0), Clock(frozen=True))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(server.run))
        controls = controls_of(server)
        if keeps:
            controls.running.begin_history()
        async with client_of(server) as zk:
            await zk.exists("/a")
            controls.running.begin_history()
            late = "the history begins here: what came before was not recorded"
            assert [text.partition(" (")[0] for text in words(controls)].count(late) == (not keeps)
        nursery.cancel_scope.cancel()

"""The history that a pretend ensemble records from its first connection, while that costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from pyzk.client import ZooKeeper, connect
from pyzk.server.app.recording import record_recent_of_all
from pyzk.server.config.members import made_up
from pyzk.server.config.settings import Settings
from pyzk.server.control import serve_http
from pyzk.server.ensemble.host import EnsembleHost
from pyzk.server.net.clock import Clock
from pyzk.server.testing import history
from pyzk.server.testing.controls.ensemble import EnsembleControls
from pyzk.server.testing.history import Entry
from pyzk.server.testing.recent import ENTRIES, HOLE
from pyzk.server.testing.takeover import controls_of

QUIET = 11.0
"""Seconds of the clock after which recording begins again."""


@asynccontextmanager
async def served() -> AsyncIterator[EnsembleHost]:
    """Run three servers as the command does, but for their time, which stands still."""
    host = EnsembleHost(Settings(port=0), Clock(frozen=True), made_up(3, 0), http=serve_http)
    record_recent_of_all(host)
    async with trio.open_nursery() as nursery:
        await nursery.start(host.run)
        yield host
        nursery.cancel_scope.cancel()


def client_of(host: EnsembleHost, number: int = 3) -> AbstractAsyncContextManager[ZooKeeper]:
    return connect(host.servers[number].hosts, session_timeout=40)


def controls(host: EnsembleHost) -> EnsembleControls:
    found = controls_of(host.servers[1]).ensemble
    assert found is not None
    return found


def words(host: EnsembleHost) -> list[str]:
    return [entry.text for entry in controls(host).history()]


async def ask(zk: ZooKeeper, times: int) -> None:
    for _ in range(times):
        await zk.exists("/a")


async def test_it_begins_with_the_first_client() -> None:
    async with served() as host, client_of(host, 1) as zk, client_of(host, 2) as other:
        await zk.create("/a", b"1")
        await other.exists("/b")
        entries = controls(host).history()
        assert entries[0].text.startswith("opened from ")
        assert [entry.server for entry in entries if entry.text == "create /a '1'"] == [1]
        assert [entry.server for entry in entries if entry.text == "exists /b"] == [2]
        assert [entry.text for entry in entries].count("session begins, timeout 40 s") == 2
        (own,) = [each.text for each in controls(host)[2].history(kind="request")]
        assert own == "exists /b", "each server has its own history, too"


async def test_time_counts_from_the_start_of_the_servers() -> None:
    async with served() as host:
        host.clock.jump(5)
        async with client_of(host) as zk:
            await zk.exists("/a")
            assert {round(entry.time) for entry in controls(host).history()} == {5}


async def test_all_is_recorded_once_it_is_asked_for_however_much_comes() -> None:
    async with served() as host, client_of(host) as zk:
        await zk.exists("/a")
        controls(host).running.begin_history()
        await ask(zk, ENTRIES)
        assert words(host).count("exists /a") == ENTRIES + 1
        assert words(host)[0].startswith("opened from "), "what was recorded already is kept"
        assert not any("was not recorded" in text for text in words(host))


async def test_where_much_comes_nothing_is_recorded_and_nothing_is_in_the_way() -> None:
    """The requests to all servers count together."""
    async with served() as host, client_of(host, 1) as zk, client_of(host, 2) as other:
        for client in (zk, other):
            await ask(client, ENTRIES // 4)
        running = controls(host).running
        assert running.told is None
        for part in running.each():
            assert (part.recorder, part.service.gate) == (None, None)
            assert part.engine.on_txn is None


async def test_it_begins_again_when_little_comes_and_says_why_it_begins_there() -> None:
    async with served() as host, client_of(host) as zk:
        await ask(zk, ENTRIES // 2)
        assert controls(host).running.told is None
        controls(host).clock.advance(QUIET, keep_alive=True)
        await zk.create("/b")
        assert words(host)[0] == HOLE
        assert words(host).count(HOLE) == 1
        assert next(each.text for each in controls(host)[3].history()) == HOLE
        assert "create /b" in words(host)
        assert "exists /a" not in words(host)


async def test_who_listens_goes_on_hearing() -> None:
    heard: list[Entry] = []
    async with served() as host, client_of(host) as zk:
        running = controls(host).running
        running.listen(heard.append)
        await ask(zk, ENTRIES)
        assert [entry.text for entry in heard].count("exists /a") == ENTRIES
        assert HOLE not in [entry.text for entry in heard]
        running.stop_listening(heard.append)
        assert running.told is not None
        assert next(running.told.entries()).text == HOLE
        await zk.create("/b")
        assert "create /b" in words(host), "it is recorded although nobody listens any more"


async def test_a_server_that_is_added_takes_part() -> None:
    async with served() as host, client_of(host):
        controls(host).start(4, observer=True)
        async with client_of(host, 4) as zk:
            await zk.exists("/new")
        assert [entry.server for entry in controls(host).history(path="/new", kind="request")] == [4]


async def test_all_histories_together_keep_as_many_bytes_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 4 * 2**20
    monkeypatch.setattr(history, "MOST_BYTES", most)
    async with served() as host, client_of(host, 1) as zk, client_of(host, 2) as other:
        for _ in range(300):
            for client in (zk, other):
                await client.exists("/" + 10_000 * "a")
        running = controls(host).running
        assert running.told is not None
        kept = [running.history, *(part.recorder for part in running.each())]
        assert sum(each.size for each in kept if each is not None) < most
        assert min(each.dropped for each in kept[:3] if each is not None) > 0


async def test_the_advisor_reads_what_comes_after_a_hole() -> None:
    async with served() as host, client_of(host) as zk:
        await ask(zk, ENTRIES // 8)
        assert {found.rule for found in controls(host).advice()} == {"polling"}
        before = controls(host).advice()
        await ask(zk, ENTRIES // 2)
        controls(host).clock.advance(QUIET, keep_alive=True)
        for _ in range(ENTRIES // 8):
            await zk.get_children("/")
        assert len(controls(host).advice()) > len(before)


async def test_page_timeline_and_advice_show_it_at_each_server() -> None:
    """What the page and ``pyzk`` ask for shows what came before they asked."""
    async with served() as host, client_of(host) as zk:
        await ask(zk, 30)

        def read(number: int, path: str, wanted: bytes = b"") -> str:
            """Read the answer, or the first line with the wanted words: the trace has no end."""
            with urllib.request.urlopen(f"http://{host.servers[number].hosts}/api/v1{path}") as answer:
                return str(
                    next(line for line in answer if wanted in line) if wanted else answer.read(), "utf-8"
                )

        trace = await trio.to_thread.run_sync(read, 3, "/trace?format=json&past=300", b'"exists"')
        assert "/a" in trace, "the page begins with the past"
        for number in host.servers:
            found = await trio.to_thread.run_sync(read, number, "/ensemble/advice?begin=false")
            assert [each["rule"] for each in json.loads(found)["findings"]] == ["polling"], number
            timeline = await trio.to_thread.run_sync(read, number, "/ensemble/timeline")
            assert timeline.count("[3] exists /a -> NoNodeError") == 30


PROGRAM = """
import sys
import trio
from functools import partial
from pyzk.server.app.recording import record_recent_of_all
from pyzk.server.app.serve import serve_ensemble
from pyzk.server.config.members import made_up
from pyzk.server.config.settings import Settings
from pyzk.server.ensemble.timing import Timing

async def main():
    async with trio.open_nursery() as nursery:
        serve = partial(serve_ensemble, Settings(port=0), made_up(3, 0), Timing(), record_recent_of_all)
        await nursery.start(serve)
        nursery.cancel_scope.cancel()

trio.run(main)
print(*sorted(name for name in sys.modules if name.startswith("pyzk.server.testing")))
"""


def test_an_ensemble_without_clients_loads_no_test_kit() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pyzk.server.testing", "pyzk.server.testing.from_start"]

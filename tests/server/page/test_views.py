"""Sessions, locks, the timeline, watches, faults and time: the page beside clients at work."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError

from pyzk.client import connect as connect_ours
from pyzk.recipes import Lock
from pyzk.server.testing import EmbeddedServer
from tests.support.browser import PATIENCE, Browser, Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def background(function: Callable[[], Any]) -> None:
    """Call a function that waits until its client is stopped."""

    def call() -> None:
        with suppress(KazooException, RuntimeError):
            function()

    threading.Thread(target=call, daemon=True).start()


# --- sessions --------------------------------------------------------------------------------------------


def test_sessions(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    clients = {name: connect(name) for name in ("alpha", "beta")}
    clients["alpha"].create("/mine", ephemeral=True)
    clients["beta"].exists("/nothing", watch=print)
    page = visit("#sessions")
    page.until("document.querySelectorAll('tbody tr').length === 2")
    infos = {info.id: info for info in server.sessions()}
    for name, client in clients.items():
        info = infos[client.client_id[0]]
        assert info.peer is not None
        row = f"find(e => e.innerText.includes({json.dumps(name)}))"
        cells = page.evaluate(
            f"[...[...document.querySelectorAll('tbody tr')].{row}.children].map(e => e.innerText.trim())"
        )
        assert cells[0] == name
        address, *program = cells[1].splitlines()
        assert address == f"{info.peer[0]}:{info.peer[1]}"
        assert [line for line in program if line.endswith(f"(pid {os.getpid()})")] or sys.platform != "linux"
        assert cells[2] == f"{info.timeout_ms / 1000:.0f} s"
        assert cells[6:] == [str(len(info.ephemerals)), str(len(info.watches))]
    clients["beta"].exists("/nothing too", watch=print)
    page.fill("[aria-label='Order']", "watches")
    page.until("document.querySelector('tbody tr').innerText.includes('beta')")
    page.fill("[aria-label='Order']", "ephemerals")
    page.until("document.querySelector('tbody tr').innerText.includes('alpha')")
    page.click("alpha", "tbody a")
    page.see("/mine", ".detail")
    assert f"0x{clients['alpha'].client_id[0]:x}" in page.text(".detail")
    page.click("beta", "tbody a")
    page.see("/nothing", ".detail")
    page.see("exists", ".detail")


def test_a_session_is_paused_cut_and_expired(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    states: list[str] = []
    client.add_listener(states.append)
    page = visit("#sessions?id=" + f"0x{client.client_id[0]:x}")
    page.click("Pause")
    page.see("paused", "tbody")
    asked = client.get_children_async("/")
    page.click("Resume")
    assert asked.get(timeout=10) == ["zookeeper"]
    page.click("Disconnect")
    until(lambda: KazooState.SUSPENDED in states)
    until(lambda: states[-1] == KazooState.CONNECTED)
    client.create("/mine", ephemeral=True)
    page.see("/mine", ".detail")
    page.click("Expire")
    page.click("Expire", "dialog button")
    page.see("This session is over", ".detail")
    until(lambda: KazooState.LOST in states)
    assert server.dump() == {}


# --- locks -----------------------------------------------------------------------------------------------


def card(path: str) -> str:
    return (
        "[...document.querySelectorAll('.card')].find(e => "
        f"e.querySelector('h2').textContent === {json.dumps(path)})"
    )


def names_in(page: Page, path: str, list_of: str) -> list[str]:
    page.until(card(path))
    script = f"[...{card(path)}.querySelectorAll('.{list_of} li')].map(e => e.querySelector('a').textContent)"
    return list(page.evaluate(script))


def test_locks_of_kazoo(connect: Connect, visit: Visit) -> None:
    clients = {name: connect(name) for name in ("one", "two", "three")}
    clients["one"].Lock("/locks/a").acquire()
    for number, name in enumerate(("two", "three"), 2):
        background(clients[name].Lock("/locks/a").acquire)
        until(lambda number=number: len(clients["one"].get_children("/locks/a")) == number)
    clients["one"].ReadLock("/locks/rw").acquire()
    clients["two"].ReadLock("/locks/rw").acquire()
    background(clients["three"].WriteLock("/locks/rw").acquire)
    clients["one"].Semaphore("/locks/sem", max_leases=2).acquire()
    clients["one"].LockingQueue("/queue").put_all([b"1", b"2"])
    page = visit("#locks")
    page.until(f"{card('/locks/rw')}?.querySelector('.waiters li')")
    assert names_in(page, "/locks/a", "holders") == ["one"]
    assert names_in(page, "/locks/a", "waiters") == ["two", "three"]
    assert sorted(names_in(page, "/locks/rw", "holders")) == ["one", "two"]
    assert names_in(page, "/locks/rw", "waiters") == ["three"]
    assert page.evaluate(f"{card('/locks/rw')}.innerText").splitlines()[1] == "read-write lock"
    assert "2 at a time" in page.evaluate(f"{card('/locks/sem')}.innerText")
    assert "2 items" in page.evaluate(f"{card('/queue')}.innerText")
    assert "for two" in page.evaluate(f"{card('/locks/a')}.innerText").replace("\n", " ")
    assert page.evaluate("document.querySelectorAll('.ring').length") == 0
    page.fill("[aria-label='At and below']", "/locks/sem")
    page.evaluate("document.querySelector('.locks form').requestSubmit()")
    page.until("document.querySelectorAll('.card').length === 1")


async def test_locks_of_ours(server: EmbeddedServer, browser: Browser) -> None:
    def look(holder: str) -> None:
        assert server.url is not None
        with browser.open(server.url + "#locks") as page:
            assert names_in(page, "/ours", "holders") == [holder]

    async with connect_ours(server.hosts) as zk:
        assert zk.session.id
        server.name_session("trio", zk.session.id)
        async with Lock(zk, "/ours"):
            await trio.to_thread.run_sync(look, "trio")


def test_a_cycle_of_waiting_is_drawn(connect: Connect, visit: Visit) -> None:
    clients = [connect(name) for name in ("one", "two", "three")]
    for client, path in zip(clients, ("/a", "/b", "/c"), strict=True):
        client.Lock(path).acquire()
    page = visit("#locks")
    for client, path in zip(clients, ("/b", "/c", "/a"), strict=True):
        background(client.Lock(path).acquire)
    page.until("document.querySelectorAll('.ring circle').length === 3")
    said = page.evaluate("document.querySelector('.ring svg').getAttribute('aria-label')")
    assert sorted(said.split("; ")) == [
        "one waits at /b for two",
        "three waits at /a for one",
        "two waits at /c for three",
    ]
    red = page.evaluate("getComputedStyle(document.querySelector('.ring .arrow')).stroke")
    assert red == "rgb(179, 38, 30)"
    assert page.evaluate("document.querySelectorAll('.card.cycle').length") == 3
    clients[0].stop()
    page.until("!document.querySelector('.ring')")


# --- the timeline ----------------------------------------------------------------------------------------


def lines(page: Page) -> list[str]:
    return page.texts(".event .what")


def test_the_timeline(connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    client.create("/before")
    page = visit("#timeline")
    page.see("create /before", ".events")
    client.create("/a", b"data")
    with pytest.raises(NoNodeError):
        client.get("/missing")
    page.see("/missing", ".events")
    page.until("document.querySelector('.event.failed')")
    found = lines(page)
    asked = [line for line in found if line.startswith("create /a ")]
    assert asked == ["create /a 'data' → ok"]
    assert "get_data /missing → NoNodeError" in found
    page.until("[...document.querySelectorAll('.event .who')].some(e => e.textContent === 'worker')")
    page.evaluate("document.querySelector('.event.failed').click()")
    page.see("NoNode", ".detail")
    shown = page.text(".detail")
    for part in ("get_data /missing", "worker", "xid", "Latency", "ms", "/missing"):
        assert part in shown, part
    page.fill("[name=outcome]", "failed")
    page.until("document.querySelectorAll('.event').length === 1")
    page.fill("[name=outcome]", "")
    page.fill("[name=path]", "/only/**")
    client.ensure_path("/only/this")
    client.create("/other")
    page.see("create /only/this", ".events")
    assert not any("/other" in line for line in lines(page))


def test_repeats_are_folded_and_unfolded(connect: Connect, visit: Visit) -> None:
    worker, other = connect("worker"), connect("other")
    page = visit("#timeline")
    for client in (worker, worker, worker, other):
        client.exists("/ready")
    worker.create("/ready")
    worker.exists("/ready")
    page.see("create /ready", ".events")
    page.fill("[name=path]", "/ready")
    page.see("×3", ".events")
    asked = (
        "[...document.querySelectorAll('.event')].filter(e => e.innerText.includes('exists /ready')).length"
    )
    page.until(f"{asked} === 3")
    page.evaluate("document.querySelector('.event').click()")
    page.see("exists /ready", ".detail")
    page.evaluate(
        "[...document.querySelectorAll('.check')].find(e => e.innerText === 'Fold repeats').click()"
    )
    page.until(f"{asked} === 5")


def test_it_is_exported_as_text(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#timeline")
    client.create("/a")
    client.create("/a/<b>")
    page.see("/a/<b>", ".events")
    page.evaluate(
        "URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text }); return '#' }"
    )
    page.click("Export")
    page.until("window.saved")
    exported = page.evaluate("window.saved").splitlines()
    [line] = [line for line in exported if "create /a/<b>" in line]
    assert f"0x{client.client_id[0]:x}" in line
    assert "-> ok" in line
    assert "zxid 0x" in line


def test_it_is_paused(connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#timeline")
    client.create("/first")
    page.see("/first", ".events")
    page.click("Pause")
    client.create("/second")
    page.see("new lines", "[role=status].dim")
    assert not any("/second" in line for line in lines(page))
    page.click("Go on")
    page.see("/second", ".events")


# --- watches, faults, time -------------------------------------------------------------------------------


def test_watches(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    one, two = connect("one"), connect("two")
    one.create("/a")
    one.get("/a", watch=print)
    two.get_children("/a", watch=print)
    two.exists("/nothing", watch=print)
    page = visit("#watches")
    page.until("document.querySelectorAll('tbody tr').length === 2")
    rows = page.evaluate("[...document.querySelectorAll('tbody tr')].map(e => e.innerText)")
    assert [row.split()[0] for row in rows] == ["/a", "/nothing"]
    assert sorted(rows[0].split()[2:]) == sorted(["one", "data", "two", "children"])
    assert "not there" in rows[1]
    assert "exists" in rows[1]
    page.fill("[aria-label='Only of the session']", "one")
    page.until("document.querySelectorAll('tbody tr').length === 1")
    one.set("/a", b"")
    page.see("Nobody watches anything here", "main")
    two.create("/queue")
    two.create("/queue/n-", sequence=True)
    two.exists("/queue/m-0000000000", watch=print)
    page.evaluate("document.querySelector('.watches .check input').click()")
    page.see("No such watch here", "main")
    page.fill("[aria-label='Only of the session']", "two")
    page.see("never fires: no sequential create makes m-0000000000 again", "tbody")
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 1


def test_who_held_a_lock_before(connect: Connect, visit: Visit) -> None:
    worker, other = connect("worker"), connect("other")
    lock = worker.Lock("/locks/a", "job 7")
    lock.acquire()
    lock.release()
    assert other.Lock("/locks/a", "job 8").acquire()
    page = visit("#locks")
    page.click("Held before")
    page.see("Held before", ".past h3")
    assert page.evaluate("document.querySelectorAll('.past li').length") == 1
    assert "worker" in page.text(".past")
    assert page.evaluate("document.querySelector('.past meter').getAttribute('aria-label')").startswith(
        "held for"
    )


def test_faults_are_armed_and_disarmed(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#faults")
    form = "section:has(h2) form:has([name=nth])"
    page.fill(f"{form} [name=op]", "create")
    page.fill(f"{form} [name=path]", "/spoiled/*")
    page.fill(f"{form} [name=action]", "error")
    page.fill(f"{form} [name=error]", "NoNode")
    page.fill(f"{form} [name=times]", "")
    page.click("Arm")
    page.see("create on /spoiled/*", ".armed")
    client.create("/spoiled")
    for _ in range(2):
        with pytest.raises(NoNodeError):
            client.create("/spoiled/a")
    page.see("fired 2 of 2", ".armed")
    page.see("over HTTP", ".armed")
    page.click("Disarm")
    page.until("!document.querySelector('.armed li')")
    client.create("/spoiled/a")
    with server.fault("delete", required=False):  # of the test itself, which ends it
        page.see("before delete: disconnect", ".armed")
        page.see("by the test", ".armed")
        assert "Disarm" not in page.text(".armed")
    page.until("document.querySelector('.armed.none')")
    chaos = "{ seed: 7, expire: 0.001, path: '/nowhere' }"
    page.evaluate(f"import('/page/api.js').then((api) => api.post('/chaos', {chaos}))")
    page.see("Chaos seed=7", ".armed")
    page.see("over HTTP", ".armed")
    assert "by the test" not in page.text(".armed")
    page.click("End")
    page.until("document.querySelector('.armed.none')")
    assert server.format_timeline().count("== chaos 7: expire=0.001 (over HTTP)") == 1


def test_an_endpoint_is_made_and_cut(server: EmbeddedServer, visit: Visit) -> None:
    page = visit("#faults")
    page.fill("section:has([aria-label=Endpoints]) [name=name]", "worker")
    page.click("Make")
    page.see("0 connections", "[aria-label=Endpoints]")
    hosts = server.endpoint("worker").hosts
    assert hosts in page.text("[aria-label=Endpoints]")
    client = KazooClient(hosts, timeout=30.0)
    client.start(timeout=15)
    page.see("1 connection", "[aria-label=Endpoints]")
    page.click("Cut")
    page.see("cut", "[aria-label=Endpoints] .badge")
    until(lambda: not client.connected)
    page.evaluate("location.hash = ''")
    page.see("1 endpoint cut off", ".alarms")
    page.see("1 cut off", "nav a[href='#faults'] .badge")
    page.evaluate("location.hash = 'sessions'")
    page.see("endpoint cut off", "tbody .tags")
    page.evaluate("location.hash = 'faults'")
    page.click("Resume", "[aria-label=Endpoints] button")
    page.until("!document.querySelector('[aria-label=Endpoints] .badge')")
    until(lambda: client.connected)
    page.fill("[aria-label=Endpoints] ~ .bar [name=seconds]", "0.25")
    page.click("Delay")
    page.see("slow by 0.25 s", "[aria-label=Endpoints]")
    client.stop()
    client.close()


def test_messages_are_held_and_released(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#faults")
    page.until("document.querySelector('.armed.none')")
    form = "form:has([name=kind])"
    page.fill(f"{form} [name=op]", "create")
    page.click("Hold")
    page.see("Hold 1: request of create", "main")
    page.see("over HTTP", "main")
    pending = [client.create_async(f"/{name}") for name in ("a", "b")]
    page.see("create /b", "main")
    assert server.dump() == {}
    page.click("Release")
    assert pending[0].get(timeout=10) == "/a"
    page.click("End all holds")
    assert pending[1].get(timeout=10) == "/b"
    page.until("!document.querySelector('.armed li')")


def test_time_is_advanced(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#faults")
    page.click("Freeze")
    page.see("time is frozen", "#status")
    before = server.clock.now()
    page.fill("[name=seconds][required]", "3600")
    page.click("Advance")
    page.see("36", "output")
    until(lambda: server.clock.now() == pytest.approx(before + 3600))
    assert len(server.sessions()) == 1
    over = client.client_id[0]
    page.evaluate("document.querySelector('.check input').click()")
    page.click("Advance")
    until(lambda: all(info.id != over for info in server.sessions()))
    page.click("Unfreeze")
    page.see("live", "#status")


def test_a_single_server_says_how_to_get_an_ensemble(visit: Visit) -> None:
    visit("#ensemble").see("pyzk-server --ensemble 3", "main")


# --- advice ----------------------------------------------------------------------------------------------


def test_advice(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("poller")
    client.create("/config")
    page = visit("#advice")
    page.see("Nothing to say", "main")
    for _ in range(25):
        client.exists("/ready")
    page.see("exists of /ready had the same answer 25 times in turn", "article")
    [finding] = server.advice()
    for part in ("polling", finding.explanation, finding.remedy, "poller", "/ready"):
        assert part in page.text("article")
    for _ in range(25):
        client.get("/config")
    page.see("get_data of /config", "article")
    assert page.evaluate("document.querySelectorAll('article').length") == 1, "one for each rule"
    page.click("timeline", "article a")
    page.see("exists /ready", ".events")
    assert page.evaluate("document.querySelector('[name=path]').value") == "/ready"


def test_advice_begins_when_it_is_asked_for(browser: Browser) -> None:
    with EmbeddedServer(record=None) as server:
        with browser.open(f"{server.url}#advice") as page:
            page.see("not recorded yet", "main")
            assert not server.running.records
            page.click("Look from now on")
            page.see("Nothing to say", "main")
        assert server.running.records

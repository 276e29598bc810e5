"""The first view, the numbers at the tabs, and the lines for a shell."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer
from tests.server.page.test_views import background, until
from tests.support.browser import Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]


def see_at_tab(page: Page, view: str, text: str) -> None:
    """Wait until the tab of a view has exactly this text."""
    found = f"document.querySelector('nav a[href=\"#{view}\"]').innerText"
    page.until(f"{found}.split(/\\s+/).join(' ') === {json.dumps(text)}")


def lines_of(page: Page) -> list[str]:
    """The lines for a shell of the view that is open."""
    return page.texts(".shell code")


def deadlock(one: KazooClient, two: KazooClient) -> None:
    one.Lock("/locks/a", "billing pid 4711").acquire()
    two.Lock("/locks/b", "report pid 4712").acquire()
    background(one.Lock("/locks/b").acquire)
    background(two.Lock("/locks/a").acquire)
    until(lambda: all(len(one.get_children(f"/locks/{name}")) == 2 for name in "ab"))


def test_the_first_view_says_that_all_is_well(server: EmbeddedServer, visit: Visit) -> None:
    page = visit("")
    page.see("all is well", ".alarms")
    assert page.evaluate("document.querySelector('nav [aria-current]').textContent") == "Overview"
    shown = page.text("main")
    for part in (
        server.hosts,
        f"ZooKeeper {server.running.service.settings.emulate}",
        "Up for",
        "none is armed",
        "Nobody waits",
    ):
        assert part in shown, part


def test_the_first_view_says_what_needs_attention(
    server: EmbeddedServer, connect: Connect, visit: Visit
) -> None:
    one, two = connect("one"), connect("two")
    deadlock(one, two)
    page = visit("")
    page.see("deadlock", ".alarms")
    page.until("document.querySelectorAll('.alarms a').length === 3")
    assert sorted(page.texts(".alarms .mono")) == ["one", "two"]
    page.see("Longest waits", "main")
    assert {"/locks/a", "/locks/b"} <= set(page.texts("main section li a"))
    with server.fault("delete", required=False):
        page.see("1 armed", ".alarms")
        see_at_tab(page, "faults", "Faults and time 1 armed")
    server.pause(one)
    page.see("1 paused", ".alarms")
    see_at_tab(page, "sessions", "Sessions 2 1 paused")
    server.resume(one)
    server.expire(two)
    page.until("!document.querySelector('.alarms .bad')")
    page.until("[...document.querySelectorAll('dd')].some(e => e.textContent.startsWith('1sessions, since'))")


def test_the_tab_of_locks_says_deadlock_in_every_view(connect: Connect, visit: Visit) -> None:
    page = visit("#watches")
    one, two = connect("one"), connect("two")
    deadlock(one, two)
    see_at_tab(page, "locks", "Locks 2 1 deadlock")
    assert page.evaluate("document.querySelector('nav .badge.bad').textContent") == "1 deadlock"
    one.stop()
    see_at_tab(page, "locks", "Locks 2")


# --- the lines for a shell -------------------------------------------------------------------------------


def test_each_view_gives_the_lines_that_do_the_same(server: EmbeddedServer, visit: Visit) -> None:
    server.load({"/it's": {"here": ""}})
    page = visit("")
    page.until("document.querySelector('.shell code')")
    assert lines_of(page)[0] == f"pyzk --hosts={server.hosts} health"
    for view in ("tree", "sessions", "locks", "timeline", "watches", "faults", "advice", "ensemble"):
        page.evaluate(f"location.hash = '{view}'")
        page.until(f"document.querySelector('.view.{view}')")
        found = lines_of(page)
        assert any(line.startswith("curl -s") for line in found), view
        assert all(f"127.0.0.1:{server.port}" in line for line in found), view
    page.evaluate("location.hash = '#tree'")
    page.click("it's", ".row .name")
    wanted = f"pyzk --hosts={server.hosts} get '/it'\\''s'"
    page.until(
        f"[...document.querySelectorAll('.shell code')].some(e => e.textContent === {json.dumps(wanted)})"
    )
    page.evaluate("location.hash = '#timeline'")
    page.fill("[name=path]", "/locks/**")
    wanted = f"pyzk --hosts={server.hosts} trace '--path=/locks/**'"
    page.until(
        f"[...document.querySelectorAll('.shell code')].some(e => e.textContent === {json.dumps(wanted)})"
    )
    assert page.evaluate("location.hash") == "#timeline?path=%2Flocks%2F**", "a link keeps the filter"


WORDS = (
    "/plain",
    "/with space",
    "/it's",
    "/$(touch ran)",
    "/`touch ran`",
    "/a\\nb",
    "/line\nend; touch ran",
    "/tab\tand '",
    "/turned\u202e'\\",
    "/wide \u65e5\u672c \U0001f600",
    "-x",
    "!",
    "",
)


def test_a_shell_reads_each_word_as_it_is(visit: Visit) -> None:
    page = visit()
    quoted = page.evaluate(
        f"import('/page/shell.js').then(shell => {json.dumps(WORDS)}.map(word => shell.quote(word)))"
    )
    script = "printf '%s\\0' " + " ".join(quoted)
    assert all(each.isprintable() for each in quoted), "what cannot be seen is written as its number"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert tuple(done.stdout.decode().split("\0")[:-1]) == WORDS


@pytest.mark.parametrize("view", ["locks", "sessions", "tree"])
def test_a_view_says_that_it_looks(view: str, server: EmbeddedServer, visit: Visit) -> None:
    page = visit("#ensemble")
    page.evaluate(
        "{ const real = fetch; window.fetch = (...given) => new Promise(go => { window.answer = go })"
        ".then(() => real(...given)) }"
    )
    page.evaluate(f"location.hash = '{view}'")
    page.until(f"/loading|looking/.test(document.querySelector('.view.{view} [role=status]')?.innerText)")

"""What the page does to those who hold a lock: expire, delete, ask back; and what it says of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient, KazooState

from pyzk.server.testing import EmbeddedServer
from tests.server.page.test_views import background, card, until
from tests.support.browser import Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]


@pytest.fixture
def two(connect: Connect) -> tuple[KazooClient, KazooClient]:
    """A holder of /locks/a, and one that waits for it."""
    holder, waiter = connect("holder"), connect("waiter")
    holder.Lock("/locks/a", "billing pid 4711").acquire()
    background(waiter.Lock("/locks/a", "report pid 4712").acquire)
    until(lambda: len(holder.get_children("/locks/a")) == 2)
    return holder, waiter


HELD = f"{card('/locks/a')}?.querySelector('.holders')"


def test_the_session_of_a_holder_is_expired(two: tuple[KazooClient, KazooClient], visit: Visit) -> None:
    states: list[str] = []
    two[0].add_listener(states.append)
    page = visit("#locks")
    page.click("Expire", within=HELD)
    page.see("Its 1 ephemeral is deleted".lower()[4:], "dialog")
    page.see(f"expire 0x{two[0].client_id[0]:x}", "dialog code")
    assert KazooState.LOST not in states, "the page asks first"
    page.click("Expire", "dialog button")
    until(lambda: KazooState.LOST in states)
    page.until(f"{HELD}?.innerText.includes('report pid 4712')")


def test_the_znode_of_a_holder_is_deleted(
    server: EmbeddedServer, two: tuple[KazooClient, KazooClient], visit: Visit
) -> None:
    page = visit("#locks")
    page.click("Delete", within=HELD)
    page.see("still believes", "dialog")
    page.click("Delete", "dialog button.danger")
    page.until(f"{HELD}?.innerText.includes('report pid 4712')")
    assert len(two[1].get_children("/locks/a")) == 1
    assert len(server.sessions()) == 2


def test_nothing_is_deleted_that_has_changed_meanwhile(
    two: tuple[KazooClient, KazooClient], visit: Visit
) -> None:
    page = visit("#locks")
    page.click("Delete", within=HELD)
    [mine] = [name for name in two[0].get_children("/locks/a") if name.endswith("0000000000")]
    two[0].set(f"/locks/a/{mine}", b"other")
    page.click("Delete", "dialog button.danger")
    page.see("changed the znode meanwhile", "dialog [role=alert]")
    assert len(two[0].get_children("/locks/a")) == 2


def test_a_lock_of_curator_is_asked_back(connect: Connect, visit: Visit) -> None:
    client = connect("holder")
    path = "/locks/c/_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000000"
    client.create(path, b"10.0.0.1", ephemeral=True, makepath=True)
    page = visit("#locks")
    page.click("Ask back")
    page.see("__REVOKE__", "dialog code")
    page.click("Ask", "dialog button")
    page.see("asked back", ".holders")
    assert client.get(path)[0] == b"__REVOKE__"
    assert "Ask back" not in page.texts(".holders button")


def test_a_lock_of_kazoo_cannot_be_asked_back(two: tuple[KazooClient, KazooClient], visit: Visit) -> None:
    page = visit("#locks")
    page.until(HELD)
    assert page.texts(".acts button") == ["Expire", "Delete"] * 2


@pytest.mark.parametrize("width", [390, 1280])
def test_the_data_of_a_holder_comes_first_and_whole(width: int, connect: Connect, visit: Visit) -> None:
    client = connect("holder")
    data = (
        "billing pid 4711 on a machine with a rather long name, behind two gateways, since the last release"
    )
    client.Lock("/locks/a", data).acquire()
    [name] = client.get_children("/locks/a")
    page = visit("#locks", width=width)
    page.until(HELD)
    shown = page.evaluate(f"{HELD}.innerText")
    parts = ["holds", data, "holder", f"0x{client.client_id[0]:x}", name]
    places = [shown.find(part) for part in parts]
    assert -1 not in places, shown
    assert places == sorted(places), "what a person knows first"


def test_the_tree_says_who_holds_a_lock(two: tuple[KazooClient, KazooClient], visit: Visit) -> None:
    page = visit("#tree?path=/locks/a")
    page.see("held by holder “billing pid 4711”; 1 waits: waiter “report pid 4712”", ".held")
    two[0].create("/plain/child", makepath=True)
    page.evaluate("location.hash = '#tree?path=/plain'")
    page.until("document.querySelector('h1.path').innerText === '/plain'")
    page.until("!document.querySelector('.held')")


def test_an_exists_that_finds_nothing_is_no_failure(connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    page = visit("#timeline")
    client.exists("/missing")
    page.see("exists /missing", ".events")
    page.until("document.querySelector('.event.absent')")
    assert page.texts(".event.failed") == []

"""The servers of a pretend ensemble on the page, and each server's own page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedEnsemble
from tests.support.browser import Browser, Page


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(3, observers=1) as ensemble:
        yield ensemble


@pytest.fixture
def client(ensemble: EmbeddedEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble[3].hosts, timeout=20)
    client.start()
    ensemble[3].name_session("worker", client)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def page(ensemble: EmbeddedEnsemble, browser: Browser) -> Iterator[Page]:
    """The page of server 1."""
    assert ensemble.url is not None
    with browser.open(f"{ensemble.url}#ensemble") as page:
        page.until("document.querySelectorAll('.card').length === 4")
        yield page


def card(number: int) -> str:
    return f"document.querySelectorAll('.card')[{number - 1}]"


def shows(page: Page, number: int, text: str) -> None:
    page.until(f"{card(number)}?.innerText.includes({text!r})")


def press(page: Page, number: int, word: str) -> None:
    page.click(word, within=card(number))


def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_it_shows_is_what_there_is(ensemble: EmbeddedEnsemble, client: KazooClient, page: Page) -> None:
    page.see("server 1: follower", "#host")
    for number in ensemble.numbers:
        shows(page, number, ensemble.role(number))
        shows(page, number, ensemble[number].hosts)
        shows(page, number, f"0x{ensemble.applied(number):x}")
    shows(page, 3, "1 connection")
    shows(page, 1, "this page")
    press(page, 2, "Lag")
    shows(page, 2, "lags")
    assert ensemble.troubles(2) == ["lags"]
    client.create("/new")
    shows(page, 2, "1 entry behind")
    press(page, 4, "Isolate")
    shows(page, 4, "to 1 cut silently")
    shows(page, 3, "to 4 cut silently")
    assert ensemble.troubles(4) == ["cut off"]
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=False)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    press(page, 4, "Heal")
    page.until(f"!{card(4)}.innerText.includes('cut')")

    # the page of server 2, by the link: it shows what that server knows
    page.evaluate(f"{card(2)}.querySelector('a').click()")
    page.until(f"location.port === '{ensemble[2].port}' && document.querySelectorAll('.card').length === 4")
    shows(page, 2, "this page")
    page.evaluate("location.hash = '#tree'")
    page.see("zookeeper", ".rows")
    assert "new" not in page.texts(".row .name")
    page.evaluate("location.hash = '#sessions'")
    page.see("at server 3", "tbody .tags")
    ensemble.catch_up(2)
    page.evaluate("location.hash = '#tree'")
    page.until("[...document.querySelectorAll('.row .name')].some(e => e.textContent === 'new')")


def test_servers_die_and_lead(ensemble: EmbeddedEnsemble, page: Page) -> None:
    press(page, 2, "Kill")
    shows(page, 2, "down")
    assert ensemble.role(2) == "down"
    press(page, 2, "Start")
    shows(page, 2, "follower")
    page.evaluate(f"[...{card(2)}.querySelectorAll('button')].find(e => e.innerText === 'Freeze').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13)
    shows(page, 2, "frozen")
    focused = "document.activeElement.innerText + ' ' + document.activeElement.closest('article')?.ariaLabel"
    assert page.evaluate(focused) == "Thaw Server 2", "the keyboard stays where it is"
    press(page, 2, "Thaw")
    page.until(f"!{card(2)}.innerText.includes('frozen')")
    page.click("Hold proposals")
    page.click("Release proposals")
    page.click("Hold acks")
    page.see("Release acks", "main")  # two requests at once may come in another order
    press(page, 2, "Elect")
    page.see("Server 2 leads 4 servers", "[role=status].dim")
    assert ensemble.leader() == 2
    page.see("Hold acks", "main")  # another leader holds nothing


def test_advice_is_about_the_clients_of_all_servers(
    ensemble: EmbeddedEnsemble, client: KazooClient, browser: Browser
) -> None:
    reader = KazooClient(ensemble[2].hosts, timeout=20)
    reader.start()
    ensemble[2].name_session("reader", reader)
    with browser.open(f"{ensemble.url}#advice") as page:
        page.see("Nothing to say about what clients have done so far, at all servers", "main")
        for kazoo in (client, reader):
            for _ in range(25):
                kazoo.exists("/ready")
        client.create("/x", b"0")
        reader.sync("/")
        ensemble.lag(2)
        client.set("/x", b"1")
        reader.get("/x")
        ensemble.catch_up(2)
        reader.set("/x", b"1")
        page.see("/x was overwritten 1 times", "[aria-label='read-without-sync']")
        page.see("3 findings, at all servers", "main")
        text = page.text("[aria-label=polling]")
        assert "worker" in text
        assert "reader" in text
    reader.stop()
    reader.close()


def test_the_server_of_the_page_dies(ensemble: EmbeddedEnsemble, page: Page) -> None:
    page.allowed.append("ERR_")
    press(page, 1, "Kill")
    page.see("refuses connections", "#status")  # its own, which is open, goes on
    shows(page, 1, "down")
    assert ensemble.role(1) == "down"
    ensemble.start(1)
    page.see("live", "#status")
    shows(page, 1, "follower")

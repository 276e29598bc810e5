"""The page for a screen reader and the keyboard: axe-core finds nothing in any view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer
from tests.server.page.test_overview import deadlock
from tests.server.page.test_page import VIEWS
from tests.support.browser import Browser, Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]

AXE = Path(__file__).parents[3] / "build/node/node_modules/axe-core/axe.min.js"
RUN = """axe.run(document).then(found => found.violations.map(
    each => `${each.id}: ${each.help}: ${each.nodes.map(node => node.html.slice(0, 200)).join(" ")}`))"""
WIDTHS = pytest.mark.parametrize("width", [1280, 390])


@pytest.fixture(autouse=True)
def _axe() -> None:
    if not AXE.exists():  # not from Debian, so even .ci/run may be without it
        pytest.skip("there is no build/node/node_modules/axe-core (npm install --prefix build/node axe-core)")


def check(page: Page) -> None:
    page.until("document.querySelector('.view') && !/loading|looking/.test(document.body.innerText)")
    page.evaluate("document.querySelector('.shell').open = true")
    page.evaluate(AXE.read_text() + "; 0")
    assert page.evaluate(RUN) == []
    page.dark(True)
    assert page.evaluate(RUN.replace("(document)", "(document, { runOnly: ['color-contrast'] })")) == []


@WIDTHS
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(
    view: str, width: int, server: EmbeddedServer, connect: Connect, visit: Visit
) -> None:
    one, two = connect("one"), connect("two")
    one.create("/data", b'{"a": 1}')
    one.exists("/nothing", watch=print)
    deadlock(one, two)
    server.endpoint("worker-1").cut()
    server.endpoint("worker-2").delay(0.5)
    server.pause(two)
    place = {"tree": "tree?path=/locks/a", "sessions": f"sessions?id=0x{one.client_id[0]:x}"}
    with server.fault("delete", required=False):
        page = visit(f"#{place.get(view, view)}", width=width)
        page.until(f"document.querySelector('.view.{view}')")
        page.see("1 cut off", "nav")
        check(page)


@WIDTHS
@pytest.mark.parametrize("view", ["overview", "sessions", "ensemble"])
def test_axe_finds_nothing_in_an_ensemble(view: str, width: int, browser: Browser) -> None:
    with EmbeddedEnsemble(3) as ensemble:
        client = KazooClient(ensemble[2].hosts)
        client.start()
        ensemble.lag(1)
        ensemble.isolate(3)
        with browser.open(f"{ensemble[1].url}#{view}", width=width) as page:
            page.until(f"document.querySelector('.view.{view}')")
            page.see("server 1", "#host")
            check(page)
        client.stop()
        client.close()

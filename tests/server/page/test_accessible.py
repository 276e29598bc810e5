"""The page for a screen reader and the keyboard: axe-core finds nothing in any view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.server.page.test_overview import deadlock
from tests.server.page.test_page import VIEWS
from tests.support.browser import Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]

AXE = Path(__file__).parents[3] / "build/node/node_modules/axe-core/axe.min.js"
RUN = """axe.run(document).then(found => found.violations.map(
    each => `${each.id}: ${each.help}: ${each.nodes.map(node => node.html.slice(0, 200)).join(" ")}`))"""


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(view: str, connect: Connect, visit: Visit) -> None:
    if not AXE.exists():  # not from Debian, so even .ci/run may be without it
        pytest.skip("there is no build/node/node_modules/axe-core (npm install --prefix build/node axe-core)")
    one, two = connect("one"), connect("two")
    one.create("/data", b'{"a": 1}')
    one.exists("/nothing", watch=print)
    deadlock(one, two)
    page = visit(f"#{view}{'?path=/locks/a' if view == 'tree' else ''}")
    page.until(f"document.querySelector('.view.{view}') && !/loading|looking/.test(document.body.innerText)")
    page.evaluate("document.querySelector('.shell').open = true")
    page.evaluate(AXE.read_text() + "; 0")
    assert page.evaluate(RUN) == []
    page.dark(True)
    assert page.evaluate(RUN.replace("(document)", "(document, { runOnly: ['color-contrast'] })")) == []

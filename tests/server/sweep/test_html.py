"""The page of a report, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyzk.server.sweep import SweepFailed, html, sweep

from ...support.browser import start_browser
from . import bugs


def test_a_browser_shows_both_runs(tmp_path: Path) -> None:
    with pytest.raises(SweepFailed) as caught:
        sweep(bugs.repeated_increment, faults=["reply-lost"], orders=None, budget=1e6)
    file = tmp_path / "found.html"
    file.write_text(caught.value.report.as_html())
    assert file.stat().st_size < 200_000
    with start_browser() as browser, browser.open(file.as_uri()) as page:
        page.see("Sweep of repeated_increment", "#title")
        shown = page.evaluate("document.documentElement.outerHTML")
    assert '<h1 id="title">Sweep of repeated_increment</h1>' in shown
    assert "<tr class=\"deciding\"><td>3</td><td>set_data /n '1' if version 0 !! APPLIED" in shown
    assert "step 8 of 8" in shown


def test_no_text_of_a_client_becomes_part_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>"
    finding = {"token": "o1-", "verdict": "wrong", "detail": evil, "deciding": 1, "steps": [["a", evil]]}
    text = html.page({"scenario": evil, "findings": [{**finding, "passing": None, "waiting": {}}]})
    assert evil not in text
    assert text.count("</script>") == 2

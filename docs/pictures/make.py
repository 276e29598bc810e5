"""Make the picture of a failing test's timeline: ``python docs/pictures/make.py``.

It runs ``examples/first/test_report.py`` and draws the timeline in its report. The test in ``tests/docs``
does the same and compares: the picture shows what pytest prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
TEST = HERE.parents[1] / "examples" / "first" / "test_report.py"
PICTURE = HERE / "failing-test.svg"
DECIDING = "SESSION EXPIRED"
LINE, LETTER = 18, 7.83


def report() -> str:
    """What pytest prints about the failing test."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=line", "--rootdir", folder]
        done = subprocess.run([*command, str(TEST)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def timeline(report: str) -> list[str]:
    """The lines of the timeline, from the table's head."""
    lines = report.partition("zk_server: timeline")[2].partition("zk_server: tree")[0].splitlines()
    (head,) = (number for number, line in enumerate(lines) if re.match(r" +seconds +zxid \|", line))
    return [line.rstrip() for line in lines[head:-1]]


def normal(lines: list[str]) -> list[str]:
    """Lines without the times and ports, which differ from run to run."""
    text = "\n".join(lines)
    text = re.sub(r"(?m)^ {5}(\d+\.\d{3}| {5})(?= )", "     TIME ", text)
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text).splitlines()


def draw(lines: list[str]) -> str:
    """The lines as an SVG, with the deciding one marked."""
    width, height = round(max(map(len, lines)) * LETTER) + 28, len(lines) * LINE + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>The timeline of a failing test</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#15181d"/>',
    ]
    for number, line in enumerate(lines):
        y = number * LINE + 26
        if DECIDING in line:
            parts.append(f'<rect x="4" y="{y - 14}" width="{width - 8}" height="{LINE}" fill="#7a2020"/>')
        colour = "#ffffff" if DECIDING in line else "#c9d1d9"
        parts.append(
            f'<text x="14" y="{y}" fill="{colour}" xml:space="preserve" font-size="13" textLength='
            f'"{len(line) * LETTER:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace">'
            f"{escape(line)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def shown(picture: str) -> list[str]:
    """The lines that a picture shows."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", picture)
    return [line.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'") for line in found]


if __name__ == "__main__":
    PICTURE.write_text(draw(timeline(report())), encoding="utf-8")

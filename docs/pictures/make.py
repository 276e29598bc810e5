"""Make the pictures of terminals: ``python docs/pictures/make.py``.

* ``failing-test.svg``: the timeline in pytest's report about ``examples/first/test_report.py``
* ``locks.svg``: ``pyzk locks``, with a deadlock
* ``trace.svg``: ``pyzk trace``, with a refused request and a lost reply

The test in ``tests/docs`` makes the lines again and compares them with the pictures.
"""

from __future__ import annotations

import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape, unescape
from pathlib import Path
from threading import Thread

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, ConnectionLoss

from pyzk.server.testing import EmbeddedServer

HERE = Path(__file__).parent
TEST = HERE.parents[1] / "examples" / "first" / "test_report.py"
LINE, LETTER = 18, 7.83
MARKED = ("SESSION EXPIRED", "deadlock:", "REPLY LOST")
"""The lines that decide: they have a red background."""


def timeline() -> list[str]:
    """The timeline that pytest prints about the failing test, from the table's head."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=line", "--rootdir", folder]
        done = subprocess.run([*command, str(TEST)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise RuntimeError(done.stdout + done.stderr)
    lines = done.stdout.partition("zk_server: timeline")[2].partition("zk_server: tree")[0].splitlines()
    (head,) = (number for number, line in enumerate(lines) if re.match(r" +seconds +zxid \|", line))
    return [line.rstrip() for line in lines[head:-1]]


@contextmanager
def client(server: EmbeddedServer, name: str) -> Iterator[KazooClient]:
    server.name_session(name)
    zk = KazooClient(server.hosts)
    zk.start()
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


def pyzk(server: EmbeddedServer, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pyzk", "--hosts", server.hosts, *arguments]


def locks() -> list[str]:
    """Two programs that hold a lock each, and wait for the lock of the other."""
    with EmbeddedServer() as server, client(server, "orders") as orders, client(server, "stock") as stock:
        orders.Lock("/locks/orders", "orders").acquire()
        stock.Lock("/locks/stock", "stock").acquire()
        for zk, path, name in ((orders, "/locks/stock", "orders"), (stock, "/locks/orders", "stock")):
            Thread(target=_wait, args=(zk.Lock(path, name),), daemon=True).start()
            server.wait_for(path, children=2)
        done = subprocess.run(pyzk(server, "locks", "/"), capture_output=True, text=True, check=True)
    return ["$ pyzk locks /", *(line.rstrip() for line in done.stdout.rstrip().splitlines())]


def _wait(lock: object) -> None:
    with suppress(Exception):  # the end of the client
        lock.acquire()  # type: ignore[attr-defined]


def trace() -> list[str]:
    """Some requests of one client, as ``pyzk trace`` follows them."""
    command = ("trace", "--path", "/re*", "--session", "report")
    with EmbeddedServer() as server, client(server, "report") as zk:
        process = subprocess.Popen(pyzk(server, *command), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.05)[0]:
            zk.exists("/ready")
        zk.create("/report", b"draft")
        zk.get("/report")
        with suppress(BadVersionError):
            zk.delete("/report", version=3)
        with server.fault(op="set_data", when="after"), suppress(ConnectionLoss):
            zk.set("/report", b"done")
        lines = []
        for line in process.stdout:
            lines += [line.rstrip()] if "/ready" not in line else []
            if "REPLY LOST" in line:
                break
        process.terminate()
        process.communicate()
    return [f"$ pyzk {' '.join(command)}", *lines]


PICTURES: dict[str, Callable[[], list[str]]] = {
    "failing-test.svg": timeline,
    "locks.svg": locks,
    "trace.svg": trace,
}


def normal(lines: list[str]) -> list[str]:
    """Lines without times, addresses, ids and processes, which differ from run to run."""
    text = "\n".join(lines)
    text = re.sub(r"(?m)^ {5}(\d+\.\d{3}| {5})(?= )", "     TIME ", text)
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{3}|\d+(\.\d+)? m?s\b", "TIME", text)
    text = re.sub(r"python[\w.]* .*?\(pid \d+\)|PROGRAM", "", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"0x[0-9a-f]+|…[0-9a-f]+(?=__lock__)", "ID", text)
    return re.sub(r"  +", "  ", text).splitlines()


def draw(lines: list[str]) -> str:
    """The lines as an SVG, with the deciding ones marked."""
    width, height = round(max(map(len, lines)) * LETTER) + 28, len(lines) * LINE + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(lines[0].strip())}</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#15181d"/>',
    ]
    for number, line in enumerate(lines):
        y = number * LINE + 26
        is_marked = any(mark in line for mark in MARKED)
        if is_marked:
            parts.append(f'<rect x="4" y="{y - 14}" width="{width - 8}" height="{LINE}" fill="#7a2020"/>')
        colour = "#ffffff" if is_marked else "#c9d1d9"
        parts.append(
            f'<text x="14" y="{y}" fill="{colour}" xml:space="preserve" font-size="13" textLength='
            f'"{len(line) * LETTER:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace">'
            f"{escape(line)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def shown(picture: str) -> list[str]:
    """The lines that a picture shows."""
    return [unescape(line) for line in re.findall(r"<text[^>]*>(.*?)</text>", picture)]


if __name__ == "__main__":
    for name, make in PICTURES.items():
        (HERE / name).write_text(draw(make()), encoding="utf-8")

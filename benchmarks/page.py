"""What an open page costs the server, and how fast the page is on a large tree.

    python -m benchmarks.page
    python -m benchmarks.page --views tree timeline --rounds 2
    python -m benchmarks.page --large

One client makes requests as fast as the server answers them, in turns: without a page, with the page open at
a view (in a real browser), without, with, and so on. Measured are the CPU time of the server for the same
number of requests and, by ``perf stat``, its instructions outside the kernel, which are nearly the same on a
busy machine. Compared are the medians of the turns.

``--large`` puts 1,000,000 znodes into a server, 300,000 of them below one, and measures how long the page
takes to its first paint with the tree, and to a page of children; and how long another client waits at most
for one request, while the page searches.
"""

from __future__ import annotations

import argparse
import http.client
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from itertools import cycle, islice

from pyzk.server.core.znode import Children, Znode
from pyzk.server.testing import EmbeddedServer
from tests.support.browser import Browser, Page, start_browser

from . import servers, tables, wire
from .wire import Client

VIEWS = ("overview", "tree", "sessions", "locks", "watches", "faults", "ensemble", "timeline", "advice")
_ZNODES = 1000
_BATCH = 32
"""Requests that are sent at once."""
_BATCHES = 16_000
"""Of one turn: some seconds, since pages ask at most twice in a second."""


def _turn(server: servers.Server, client: Client) -> tuple[float, float]:
    """Return the µs of CPU time, and the instructions, of each request of a turn; 0 without ``perf``."""
    requests = [wire.set_data(f"/load/{n}") if n % 4 == 0 else wire.get(f"/load/{n}") for n in range(_ZNODES)]
    batches = [requests[n : n + _BATCH] for n in range(0, _ZNODES - _BATCH, _BATCH)]
    command = ["perf", "stat", "-x", ",", "-e", "instructions:u", "-p", str(server.pid)]
    perf = subprocess.Popen(command, stderr=subprocess.PIPE, text=True) if shutil.which("perf") else None
    time.sleep(0.3)  # until it counts
    before = server.cpu()
    for batch in islice(cycle(batches), _BATCHES):
        client.ask(*batch)
    seconds, counted = server.cpu() - before, 0.0
    if perf is not None:
        perf.send_signal(signal.SIGINT)
        counted = float(perf.communicate()[1].split(",")[0])
    count = _BATCH * _BATCHES
    return 1e6 * seconds / count, counted / count


def _compare(server: servers.Server, browser: Browser, client: Client, view: str, rounds: int) -> list[str]:
    host, port = server.address
    turns: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(rounds):
        time.sleep(1)  # the page before is over
        turns[False].append(_turn(server, client))
        with browser.open(f"http://{host}:{port}/#{view}") as page:
            page.see("live", "#status")
            _turn(server, client)  # what the page does at its start is over
            turns[True].append(_turn(server, client))
    row = [view]
    for kind in range(2):
        without, opened = (
            statistics.median(turn[kind] for turn in turns[is_open]) for is_open in (False, True)
        )
        if without:
            row += [f"{without:,.1f}", f"{opened:,.1f}", f"{opened / without - 1:+.1%}"]
    return row


def costs(views: list[str], rounds: int) -> None:
    with servers.ours() as server, start_browser() as browser:
        client = Client(server.address)
        client.make("/load", *(f"/load/{n}" for n in range(_ZNODES)))
        _turn(server, client)  # warm
        rows = []
        for view in sorted(views, key=VIEWS.index):
            if view == "advice":  # which reads the history: both turns record it
                api = http.client.HTTPConnection(*server.address)
                api.request("GET", "/api/v1/advice")
                api.getresponse().read()
                api.close()
            rows.append(_compare(server, browser, client, view, rounds))
        client.drop()
    head = ["view", "µs of CPU a request", "with the page", "more", "instructions", "with the page", "more"]
    print(tables.text(head[: len(rows[0])], rows))


# --- a large tree ------------------------------------------------------------------------------------------


def fill(server: EmbeddedServer, znodes: int, children: int) -> None:
    """Put so many znodes into a server, in directories of 1,000; ``children`` of them below ``/big``."""

    def put() -> None:
        nodes = server.running.engine.tree.nodes
        for top in tops:
            parent = nodes[f"/{top}"]
            parent.children = Children(0)
            for n in range(children if top == "big" else 1000):
                name = f"n{n:06d}"
                parent.children[name] = Znode(b"", (), 1, 1)

    tops = ["big", *(f"d{n:04d}" for n in range((znodes - children) // 1000))]
    server.load(dict.fromkeys(tops, ""))
    server.run(put)


def first_paint(browser: Browser, url: str) -> float:
    """Seconds from the navigation until the page is painted and has the first 200 rows of the tree."""
    with browser.open(f"{url}#tree") as page:
        page.until("document.querySelectorAll('.row').length > 100")
        page.until(_PAINT)
        return float(page.evaluate(f"Math.max({_PAINT}, {_ROWS})")) / 1000


_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ROWS = "performance.getEntriesByType('resource').find(e => e.name.includes('/children')).responseEnd"


_PAGES = """(async () => {
  const times = [];
  let after = "";
  for (let n = 0; n < 10; n++) {
    const began = performance.now();
    const found = await (await fetch(`/api/v1/children?path=/big&limit=200&after=${after}`)).json();
    times.push(performance.now() - began);
    after = found.children.at(-1).name;
  }
  return times;
})()"""


def page_of_children(page: Page) -> float:
    """Seconds of a page of 200 among the children of ``/big``; the median of ten."""
    return statistics.median(page.evaluate(_PAGES)) / 1000


def longest_wait(server: EmbeddedServer, page: Page) -> tuple[float, float]:
    """Seconds that a client waits at most for a request while the page searches, and of the search."""
    assert server.port is not None
    waits: list[float] = []
    over = threading.Event()
    page.fill("[type=search]", "")  # what an earlier search has found is gone
    page.until("!document.querySelector('.hint').innerText")

    def ask() -> None:
        client = Client(("127.0.0.1", server.port))
        while not over.is_set():
            began = time.perf_counter()
            client.ask(wire.exists("/big"))
            waits.append(time.perf_counter() - began)
        client.drop()

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.perf_counter()
    page.fill("[type=search]", "no such name")
    page.see("0 found among", ".hint")
    took = time.perf_counter() - began
    over.set()
    asking.join()
    return max(waits), took


def large() -> None:
    with EmbeddedServer(record=None) as server, start_browser() as browser:
        fill(server, 1_000_000, 300_000)
        assert server.url is not None
        paints = sorted(first_paint(browser, server.url) for _ in range(5))
        with browser.open(server.url) as page:
            page.see("live", "#status")
            children = page_of_children(page)
            wait, search = longest_wait(server, page)
    print(f"first paint: {1000 * paints[2]:.0f} ms (median of 5, at best {1000 * paints[0]:.0f} ms)")
    print(f"a page of 200 of 300,000 children: {1000 * children:.0f} ms")
    print(f"a search of 1,000,000 names: {search:.1f} s; another client waits {1000 * wait:.1f} ms at most")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=list(VIEWS), help="(default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="of turns without and with (default: 3)")
    parser.add_argument("--large", action="store_true", help="measure the page on a large tree instead")
    options = parser.parse_args()
    print(tables.machine_line(servers.machine()), flush=True)
    if options.large:
        large()
    else:
        costs(options.views, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

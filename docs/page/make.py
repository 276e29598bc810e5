"""Make the pictures of docs/page.md anew: a server with clients, and each view of its page in a browser.

python docs/page/make.py                    # the pictures of docs/page.md
python docs/page/make.py --look DIR         # each view in whole, 1280 and 390 pixels wide, to look at
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from pyzk.blocking import ZooKeeper, connect  # noqa: E402
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer  # noqa: E402
from tests.support.browser import Browser, Page, start_browser  # noqa: E402

VIEWS = ("overview", "tree", "sessions", "locks", "timeline", "watches", "faults", "advice", "ensemble")
PLACES = {"tree": "tree?path=/app/config"}
"""Where a view is opened, if not at its beginning."""
SHOWN = {
    "sessions": ("billing", "tbody a"),
    "timeline": ("set_data /queue/job-1 'report 4711, done'", ".what button"),
}
"""What is clicked in a view."""
SIZE = (1120, 680)
"""Width and height in pixels of a picture of docs/page.md."""
NARROW = ("locks",)
"""The views of docs/page.md that also have a picture 390 pixels wide."""
LOOKS = ((1280, 800), (390, 780))
"""Width and height in pixels of a window, for ``--look``."""
TREE = {
    "/app/config": '{"debug": false, "workers": 12, "database": "postgres://db1"}',
    "/app/config/limits": '{"rate": 500}',
    "/app/workers": "",
    "/queue/job-1": "report 4711",
    "/queue/job-2": "report 4712",
    "/locks": "",
}


class Clients:
    """Named clients of a server, and what they do in the background."""

    def __init__(self, server: EmbeddedServer, stack: ExitStack) -> None:
        self._server, self._stack = server, stack
        self._threads: list[threading.Thread] = []

    def __call__(self, name: str) -> ZooKeeper:
        self._server.name_session(name)
        return self._stack.enter_context(connect(self._server.hosts, session_timeout=20))

    def wait_at(self, client: ZooKeeper, directory: str, holder: str, data: str) -> None:
        """Create the znode of a waiter, as the lock of Curator names it."""
        client.create(f"{directory}/_c_{holder}-lock-", data.encode(), ephemeral=True, sequential=True)


@contextmanager
def busy() -> Iterator[EmbeddedServer]:
    """Run a server with clients, locks, a deadlock, a fault and advice."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer())
        server.load(TREE)
        clients = Clients(server, stack)
        names = ("billing", "report", "mailer", "search", "cleaner")
        billing, report, mailer, search, cleaner = map(clients, names)
        for directory in ("invoices", "printer", "index"):
            billing.create(f"/locks/{directory}")
        queue = [
            (billing, "invoices", "billing pid 4711"),
            (report, "printer", "report pid 4712"),
            (report, "invoices", "report pid 4712"),
            (billing, "printer", "billing pid 4711"),
            (mailer, "printer", "mailer pid 4713"),
            (search, "index", "search pid 4714"),
            (cleaner, "index", "cleaner pid 4715"),
        ]
        for number, (client, directory, data) in enumerate(queue):
            clients.wait_at(client, f"/locks/{directory}", str(uuid.UUID(int=number)), data)
        for name, client in zip(names, (billing, report, mailer), strict=False):
            client.create(f"/app/workers/{name}", name.encode(), ephemeral=True)
        for _ in range(25):
            cleaner.exists("/app/ready")
        search.get("/app/config")
        stack.enter_context(watching(search))
        stack.enter_context(server.fault("create", path="/queue/**", when="after", required=False))
        server.endpoint("worker-1").cut()
        mailer.set("/queue/job-1", b"report 4711, done")
        yield server


@contextmanager
def watching(client: ZooKeeper) -> Iterator[None]:
    """Watch some znodes."""
    with client.get_and_watch("/app/config")[2], client.watch("/queue", recursive=True):
        yield


@contextmanager
def ensemble() -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(5) as servers:
        servers.lag(1)
        servers.kill(2)
        servers.isolate(4)
        yield servers


@contextmanager
def opened(browser: Browser, url: str, view: str, size: tuple[int, int], dark: bool) -> Iterator[Page]:
    """Open a view, and wait until it shows what it has."""
    with browser.open(f"{url}#{PLACES.get(view, view)}", dark=dark, width=size[0], height=size[1]) as page:
        page.see("live", "#status")
        page.until("!document.querySelector('main').innerText.includes('looking …')")
        if view in SHOWN:
            page.click(*SHOWN[view])
        time.sleep(1.5)  # the rates of a second
        yield page


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--look", type=Path, metavar="DIR")
    parser.add_argument("--views", nargs="*", default=VIEWS)
    arguments = parser.parse_args()
    folder = arguments.look or HERE
    folder.mkdir(exist_ok=True)
    with start_browser() as browser, busy() as server, ensemble() as several:
        for view in arguments.views:
            url = str(several[1].url if view == "ensemble" else server.url)
            for size in LOOKS if arguments.look else ():
                with opened(browser, url, view, size, dark=False) as page:
                    page.screenshot(folder / f"{view}-{size[0]}.png", whole=True)
            for colours in () if arguments.look else ("light", "dark"):
                with opened(browser, url, view, SIZE, dark=colours == "dark") as page:
                    page.screenshot(folder / f"{view}-{colours}.png")
            if view in NARROW and not arguments.look:
                with opened(browser, url, view, LOOKS[1], dark=False) as page:
                    page.screenshot(folder / f"{view}-narrow.png")


if __name__ == "__main__":
    main()

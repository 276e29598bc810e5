"""Make the pictures of docs/page.md anew: a server with clients, and each view of its page in a browser.

python docs/page/make.py                    # the pictures of the page
python docs/page/make.py --narrow DIR       # as on a telephone, 390 pixels wide, to look at
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
from tests.support.browser import Browser, start_browser  # noqa: E402

VIEWS = ("overview", "tree", "sessions", "locks", "timeline", "watches", "faults", "advice", "ensemble")
PLACES = {"tree": "tree?path=/app/config"}
"""Where a view is opened, if not at its beginning."""
SHOWN = {
    "sessions": ("billing", "tbody a"),
    "timeline": ("set_data /queue/job-1 'report 4711, done'", ".what button"),
}
"""What is clicked in a view."""
WIDE, NARROW = (1120, 680), (390, 780)
"""Width and height in pixels."""
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


def shoot(browser: Browser, url: str, view: str, folder: Path, size: tuple[int, int], dark: bool) -> None:
    with browser.open(f"{url}#{PLACES.get(view, view)}", dark=dark, width=size[0], height=size[1]) as page:
        page.see("live", "#status")
        page.until("!document.querySelector('main').innerText.includes('looking …')")
        if view in SHOWN:
            page.click(*SHOWN[view])
        time.sleep(1.5)  # the rates of a second
        page.screenshot(folder / f"{view}-{'dark' if dark else 'light'}.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--narrow", type=Path, metavar="DIR")
    parser.add_argument("--views", nargs="*", default=VIEWS)
    arguments = parser.parse_args()
    folder, size = (arguments.narrow, NARROW) if arguments.narrow else (HERE, WIDE)
    folder.mkdir(exist_ok=True)
    with start_browser() as browser, busy() as server, ensemble() as several:
        for view in arguments.views:
            url = several[1].url if view == "ensemble" else server.url
            for dark in (False,) if arguments.narrow else (False, True):
                shoot(browser, str(url), view, folder, size, dark)


if __name__ == "__main__":
    main()

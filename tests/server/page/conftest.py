"""A browser for all tests of the page, and a server with clients for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer
from tests.support.browser import Browser, Page, start_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with start_browser() as browser:
        yield browser


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(extended_types=True) as server:
        yield server


@pytest.fixture
def connect(server: EmbeddedServer) -> Iterator[Callable[[str], KazooClient]]:
    """Connects a kazoo client whose session has a name."""
    clients = []

    def connect(name: str) -> KazooClient:
        client = KazooClient(server.hosts, timeout=20)
        clients.append(client)
        client.start()
        server.name_session(name, client)
        return client

    yield connect
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def visit(browser: Browser, server: EmbeddedServer) -> Iterator[Callable[..., Page]]:
    """Opens the page at a view; it is closed after the test, which fails if the console told an error."""
    opened = []

    def visit(hash: str = "#tree", **options: object) -> Page:
        assert server.url is not None
        context = browser.open(server.url + hash, **options)  # type: ignore[arg-type]
        page = context.__enter__()
        opened.append(context)
        page.see("live", "#status")
        return page

    yield visit
    for context in opened:
        context.__exit__(None, None, None)

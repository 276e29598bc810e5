"""Factories of fixtures for clients of this project, with threads, trio and asyncio::

    from pyzk.server.testing import clients

    other_client = clients.zk_blocking()            # another session on the same zk_server
    other_aio = clients.zk_aio()
    quick_server = clients.zk_trio_server(tick_time=100)
    quick_client = clients.zk_trio_client("quick_server")
    aiozk_client = clients.zk_aiozk()
    theirs = clients.zk_aio(connect=my_app.connect)  # any async context manager

* A client is connected, its session has the name of the fixture in timelines, and it is closed afterwards.
* A server of :func:`zk_trio_server` runs in the test's own trio run. Therefore it uses the clock of the test.
* The fixture ``zk_aio`` works with anyio's plugin and with pytest-asyncio. Each plugin accepts only its own
  fixtures. Therefore ``zk_aio`` uses one of two fixtures; a factory makes only one of them.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from ..testing.factories import name_session

if TYPE_CHECKING:
    from ..testing.host import LocalServer

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]


def zk_blocking(server: str = "zk_server", **options: Any) -> Any:
    """Make a fixture that is a connected client of :mod:`pyzk.blocking`, for tests with threads.

    :param server: the name of the fixture that is the server.
    :param options: for :func:`pyzk.blocking.connect`.
    """

    @pytest.fixture
    def zk_blocking(request: pytest.FixtureRequest) -> Iterator[Any]:
        """A connected client of pyzk.blocking, at zk_server."""
        from ... import blocking

        found = request.getfixturevalue(server)
        with blocking.connect(found.hosts, **options) as client:
            name_session(found, request.fixturename, client)
            yield client

    return zk_blocking


def zk_trio_server(**settings: Any) -> Any:
    """Make a fixture that is a server in the test's own trio run: :func:`pyzk.server.open_server`.

    :param settings: for :func:`pyzk.server.open_server`.
    """

    @pytest.fixture
    async def zk_trio_server() -> AsyncIterator[LocalServer]:
        """A server in the test's own trio run; under autojump_clock its time is virtual."""
        from .embedded import open_server

        async with open_server(**settings) as found:
            yield found

    return zk_trio_server


def zk_trio_client(server: str = "zk_trio_server", **options: Any) -> Any:
    """Make a fixture that is a connected client of :mod:`pyzk.client`, without a socket.

    :param server: the name of the fixture that is the server.
    :param options: for :func:`pyzk.client.connect`.
    """

    async def zk_trio_client(**given: Any) -> AsyncIterator[Any]:
        """A connected client of pyzk.client, at zk_trio_server."""
        async with _connected_in_trio(given[server], given["request"].fixturename, options) as client:
            yield client

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [inspect.Parameter(name, kind) for name in ("request", server)]
    # pytest-trio gives a fixture those that are among its arguments, and no others
    zk_trio_client.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    return pytest.fixture(zk_trio_client)


@asynccontextmanager
async def _connected_in_trio(
    server: LocalServer, name: str | None, options: dict[str, Any]
) -> AsyncIterator[Any]:
    from ...client import connect

    async with connect(server.hosts, connector=server.connector, **options) as client:
        name_session(server, name, client)
        yield client


def zk_aio(
    server: str = "zk_server",
    *,
    plugin: Literal["anyio", "asyncio"] = "anyio",
    connect: Connect | None = None,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make a fixture that is a connected client for asyncio.

    :param server: the name of the fixture that is the server.
    :param plugin: the plugin that runs the tests: anyio's plugin or pytest-asyncio.
    :param connect: a function that replaces :func:`pyzk.aio.connect`, for other clients. It takes a connect
        string and the options, and returns an async context manager.
    :param name: the name of the session in timelines; by default the name of the fixture.
    :param options: the options for this function.
    """

    async def zk_aio(request: pytest.FixtureRequest, **given: Any) -> AsyncIterator[Any]:
        """A connected client of pyzk.aio, at zk_server."""
        from ... import aio

        found = given[server]
        async with (connect or aio.connect)(found.hosts, **options) as client:
            name_session(found, name or request.fixturename, client)
            yield client

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [inspect.Parameter(each, kind) for each in ("request", server)]
    zk_aio.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    if plugin == "anyio":
        return pytest.fixture(zk_aio)
    import pytest_asyncio

    return pytest_asyncio.fixture(zk_aio)


def zk_aiozk(
    server: str = "zk_server", *, plugin: Literal["anyio", "asyncio"] = "anyio", **options: Any
) -> Any:
    """Make a fixture that is a started ``aiozk.ZKClient``. A test that uses it is skipped without aiozk.

    :param server: the name of the fixture that is the server.
    :param plugin: the plugin that runs the tests: anyio's plugin or pytest-asyncio.
    :param options: for ``aiozk.ZKClient``.
    """
    return zk_aio(server, plugin=plugin, connect=_aiozk, **options)


@asynccontextmanager
async def _aiozk(hosts: str, **options: Any) -> AsyncIterator[Any]:
    aiozk = pytest.importorskip("aiozk", reason="aiozk is not installed")
    client = aiozk.ZKClient(hosts, **options)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def aio_client(request: pytest.FixtureRequest) -> Any:
    """A connected client of pyzk.aio, at zk_server, in tests of anyio's plugin and of pytest-asyncio."""
    is_anyio = "anyio_backend" in request.fixturenames
    return request.getfixturevalue("_zk_aio_of_anyio" if is_anyio else "_zk_aio_of_asyncio")


def for_asyncio() -> ModuleType:
    """Make a plugin of pytest with the fixtures that need pytest-asyncio."""
    module = ModuleType("zk_for_asyncio")  # of other objects pytest looks at the class only
    module._zk_aio_of_asyncio = zk_aio(plugin="asyncio", name="zk_aio")  # type: ignore[attr-defined]
    return module

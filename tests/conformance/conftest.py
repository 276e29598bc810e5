"""Fixtures: each test that asks for ``server`` runs once against ours and once against a real ZooKeeper."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..support.jvm import missing, scratch
from ..support.needs import need
from ..support.wire import ClosedError, WireClient
from . import ours, real_zookeeper
from .servers import CONFIG, SUPER_CREDENTIALS, Config, Server

collect_ignore = [] if os.environ.get("PYZK_JARS") else ["test_admin_server.py"]
KINDS = ("ours", "real")

Connect = Callable[..., WireClient]


@contextlib.contextmanager
def running(kind: str, config: Config) -> Iterator[Server]:
    """A server of its own."""
    if kind == "real":
        need(missing())
    start = ours.start if kind == "ours" else real_zookeeper.start
    with scratch() as directory:
        server = start(config, Path(directory))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="package")
def servers() -> Iterator[Callable[[str], Server]]:
    """Gives the server of a kind, which starts when it is wanted first. pytest ends what has parameters when
    the next parameter comes: each file would start both kinds anew."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda kind: stack.enter_context(running(kind, CONFIG)))


@pytest.fixture(scope="package", params=KINDS)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    return servers(request.param)


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Opens connections to the server; ends whatever sessions they still have, so that nothing is left."""
    with contextlib.ExitStack() as stack:

        def open_client(session: bool = True, /, **handshake: object) -> WireClient:
            client = WireClient((server.host, server.port))
            stack.callback(end, server, client)
            if session:
                client.connect(**handshake)  # type: ignore[arg-type]
            return client

        yield open_client


def end(server: Server, client: WireClient) -> None:
    """Close the session of a client, from a connection of its own if the client's is gone."""
    client.drop()
    if client.handshake is None or client.session_id == 0:
        return
    with WireClient((server.host, server.port)) as closer, contextlib.suppress(ClosedError):
        closer.connect(session_id=client.session_id, password=client.password)
        if closer.session_id:
            closer.close_session()


@pytest.fixture
def client(connect: Connect) -> WireClient:
    return connect()


_counter = itertools.count()


@pytest.fixture
def top(server: Server, connect: Connect) -> Iterator[str]:
    """The path of a fresh znode that no other test uses; it is gone, and all below it, after the test."""
    path = f"/test-{next(_counter)}"
    admin = connect()
    assert admin.auth("digest", SUPER_CREDENTIALS).err == 0
    assert admin.create(path).err == 0
    yield path
    delete_tree(admin, path)
    delete_tree(admin, f"/zookeeper/quota{path}")


def delete_tree(admin: WireClient, path: str) -> None:
    children = admin.children(path)
    if children.err == 0:
        for name in children.record.children:
            delete_tree(admin, f"{path}/{name}")
        admin.delete(path)

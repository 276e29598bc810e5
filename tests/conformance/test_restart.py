"""A restart of ours: the tree is gone, and clients that stayed up are told that their sessions are, too.

(The real server keeps both on disk. For an in-memory server see wire.md 19, trap 17.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState

from ..support.ports import kept_ports
from ..support.threads import WAIT
from ..support.wire import WireClient
from . import ours
from .kazoo_fixtures import SESSION_TIMEOUT, States
from .servers import CONFIG, Server


class Restartable:
    """Our server, which can go and come back at the same address."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self.server: Server = ours.start(CONFIG, directory, port)

    def restart(self) -> None:
        self.server.stop()
        self.server = ours.start(CONFIG, self._directory, self.server.port)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    with kept_ports(1) as (port,):
        restartable = Restartable(tmp_path, port)
        yield restartable
        restartable.server.stop()


def test_a_kazoo_client_comes_back_with_a_new_session(restartable: Restartable) -> None:
    kazoo = KazooClient(restartable.server.hosts, timeout=SESSION_TIMEOUT)
    kazoo.start(timeout=WAIT)
    try:
        session = kazoo.client_id
        for number in range(100):
            kazoo.create(f"/n{number}", ephemeral=True)
        states = States(kazoo)
        restartable.restart()
        states.wait_for(KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED)
        assert kazoo.client_id[0] != session[0]
        assert kazoo.exists("/n0") is None
        assert kazoo.create("/n0") == "/n0"
    finally:
        kazoo.stop()
        kazoo.close()


def test_zxids_never_fall_behind_those_of_an_earlier_process(restartable: Restartable) -> None:
    address = (restartable.server.host, restartable.server.port)
    with WireClient(address) as client:
        client.connect()
        for number in range(200):
            zxid = client.create(f"/n{number}").zxid
        session, password = client.session_id, client.password
    restartable.restart()
    with WireClient(address) as client:
        answer = client.connect(session_id=session, password=password, last_zxid=zxid)
        assert answer.session_id == answer.timeout == 0
    with WireClient(address) as client:
        assert client.connect(last_zxid=zxid).session_id != 0
        assert client.create("/n").zxid > zxid


def test_a_stop_closes_every_connection(restartable: Restartable) -> None:
    # semantics.md 15: without a message, and nobody's session expires before
    address = (restartable.server.host, restartable.server.port)
    with WireClient(address) as client, WireClient(address) as other:
        client.connect()
        other.connect()
        client.create("/e", flags=1)
        other.exists("/e", watch=True)
        restartable.server.stop()
        assert client.is_closed()
        assert other.is_closed()
        assert restartable.server.process.returncode == 0

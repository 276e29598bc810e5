"""The list of servers changes, on a real ensemble: the session goes on at another server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyzk.client import SetData, connect

from ..support import jvm
from ..support.needs import need
from ..support.real import Ensemble
from ..support.waiting import until
from .conftest import SESSION_TIMEOUT
from .pretended import Pretended


async def test_a_session_moves_with_the_list(ensemble_of_three: str) -> None:
    first, second, third = ensemble_of_three.split(",")
    async with connect(first, session_timeout=SESSION_TIMEOUT) as zk:
        session = zk.session.id
        path = await zk.create("/moves-", b"", ephemeral=True, sequential=True)
        for servers in (second, third, first):
            written = [zk.submit(SetData(path, servers.encode())) for _ in range(20)]
            await zk.update_hosts(servers)
            written.append(zk.submit(SetData(path, servers.encode())))
            versions = [(await each.wait()).version for each in written]
            assert versions == list(range(versions[0], versions[0] + 21)), "nothing is lost"
            await zk.session.wait_connected()
            assert zk.server is not None
            assert str(zk.server).partition(" ")[0] == servers
            assert (zk.session.id, zk.session.generation) == (session, 1)
            data, stat = await zk.get(path)
            assert data == servers.encode()
            assert stat.ephemeralOwner == session
        assert zk.metrics.connections == 4


@pytest.mark.parametrize("follow", [False, True])
async def test_a_configuration_without_addresses_for_clients_changes_nothing(
    ensemble_of_three: str, follow: bool
) -> None:
    """As of servers whose clientPort stands apart."""
    async with connect(ensemble_of_three, session_timeout=SESSION_TIMEOUT, follow_config=follow) as zk:
        data, _ = await zk.get_config()
        assert data is not None
        assert b"server.1=" in data
        await zk.sync()
        assert zk.metrics.connections == 1


@pytest.fixture(params=["pretended", "real"])
def with_addresses(request: pytest.FixtureRequest) -> Iterator[Ensemble | Pretended]:
    """Three servers whose configuration names their addresses for clients."""
    if request.param == "pretended":
        with Pretended(reconfig_enabled=True, skip_acl=True) as pretended:
            yield pretended
        return
    need(jvm.missing())
    with Ensemble(3, reconfig=True, settings={"skipACL": "yes"}) as ensemble:
        yield ensemble


async def test_a_client_outlives_the_only_server_that_it_was_told_of(
    with_addresses: Ensemble | Pretended,
) -> None:
    """The configuration has named the others."""
    first = with_addresses.hosts.partition(",")[0]
    async with connect(first, session_timeout=SESSION_TIMEOUT, follow_config=True) as zk:
        path = await zk.create("/follows-", b"", ephemeral=True, sequential=True)
        await until(lambda: len(zk._runner.hosts) == 3)
        assert zk.server is not None
        present = next(node for node in with_addresses.nodes if node.port == zk.server.port)
        present.kill()
        _, stat = await zk.get(path)  # repeated, at a server that the configuration has named
        assert stat.ephemeralOwner == zk.session.id
        assert zk.server.port != present.port
        assert zk.session.generation == 1

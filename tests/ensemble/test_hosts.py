"""The list of servers changes, on a real ensemble: the session goes on at another server."""

from __future__ import annotations

import pytest

from pyzk.client import SetData, connect

from .conftest import SESSION_TIMEOUT


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

"""Testing in trio: the server runs in the test itself, on the clock of the test.

pip install . pytest pytest-trio    # in a clone of pyzk-server
pytest examples/test_with_trio.py
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyzk.client import ZooKeeper, connect
from pyzk.recipes import Lock
from pyzk.server import open_server
from pyzk.server.testing import LocalServer, clients

other_client = clients.zk_trio_client()


@pytest.mark.trio
async def test_the_next_one_gets_the_lock(
    autojump_clock: trio.testing.MockClock,
    zk_trio_server: LocalServer,
    zk_trio_client: ZooKeeper,
    other_client: ZooKeeper,
) -> None:
    """The fixtures connect clients. Under ``autojump_clock`` their time and the server's are virtual."""
    async with trio.open_nursery() as nursery:
        await Lock(zk_trio_client, "/locks/printer").acquire()
        waiting = Lock(other_client, "/locks/printer")
        nursery.start_soon(waiting.acquire)
        await zk_trio_server.wait_for("/locks/printer", children=2)

        zk_trio_server.expire(zk_trio_client)

    [holder] = await waiting.contenders()
    assert holder.stat.ephemeralOwner == other_client.session.id


@pytest.mark.trio
async def test_an_hour_takes_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """Without fixtures. ``connector`` connects without a socket, which would need real time."""
    async with (
        open_server() as server,
        connect(server.hosts, connector=server.connector, on_expired="new_session") as zk,
    ):
        await zk.create("/job", ephemeral=True)
        server.pause(zk)  # the client is cut off and does not notice

        await trio.sleep(3600)

        assert server.dump() == {}
        server.resume()
        await zk.session.wait_connected()
        assert zk.session.generation == 2
        print(server.format_timeline())

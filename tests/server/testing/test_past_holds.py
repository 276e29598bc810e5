"""Who held a lock before."""

from __future__ import annotations

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import CreateResponse, DeleteRequest
from pyzk.server import open_server
from pyzk.server.testing import LocalServer
from pyzk.server.testing.past_holds import Hold, past_holds

from ...support.wire import StreamClient


async def contend(client: StreamClient, name: str) -> str:
    """Create the znode of a contender; returns its path."""
    reply = await client.create(f"/l/_c_{name}-lock-", flags=CreateMode.EPHEMERAL_SEQUENTIAL)
    return CreateResponse.decode(reply.body).path


def holds(server: LocalServer, names: set[str]) -> list[Hold]:
    assert server.running.told is not None
    return list(past_holds(server.running.told.entries(), "/l", names))


def present(server: LocalServer) -> set[str]:
    return {path.removeprefix("/l/") for path in server.dump() if path != "/l"}


async def test_each_hold_has_its_session_and_its_time() -> None:
    async with open_server(clock="frozen") as server:
        first, second, third = [await StreamClient(server.open_stream()).connect() for _ in range(3)]
        await first.create("/l")
        paths = [await contend(client, str(n)) for n, client in enumerate((first, second, third))]
        await first.create("/l/other")  # no contender
        server.clock.advance(2, keep_alive=True)
        await third.request(OpCode.DELETE, DeleteRequest(paths[2], -1))  # gives up waiting: no hold
        server.clock.advance(1, keep_alive=True)
        await first.request(OpCode.DELETE, DeleteRequest(paths[0], -1))
        server.clock.advance(4, keep_alive=True)
        assert [(hold.session, hold.begun, hold.ended) for hold in holds(server, present(server))] == [
            (first.session_id, 0, 3)
        ]
        server.expire(second.session_id)
        last = holds(server, present(server))[-1]
        assert last == Hold(paths[1].removeprefix("/l/"), second.session_id, 3, 7)


async def test_who_was_there_before_the_history_is_known_by_the_end() -> None:
    async with open_server(clock="frozen", record=None) as server:
        client, other = [await StreamClient(server.open_stream()).connect() for _ in range(2)]
        await client.create("/l")
        early = await contend(client, "1")
        server.running.begin_history()
        await contend(other, "2")
        assert holds(server, present(server)) == [], "the first one holds it still"
        server.clock.advance(5, keep_alive=True)
        await client.request(OpCode.DELETE, DeleteRequest(early, -1))
        assert holds(server, present(server)) == [Hold(early.removeprefix("/l/"), 0, 0, 5)]

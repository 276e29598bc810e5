"""What becomes of the queue when Apache Curator, or one of ours beside it, meets with a fault."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.errors import LockLost, LossReason
from pyzk.recipes.locks.lock import Lock
from pyzk.server.testing import EmbeddedServer

from ....support.interop import Holder
from ....support.waiting import waits_for, when_there_are
from .process import CuratorProcess


def owners(server: EmbeddedServer, path: str) -> list[int]:
    """The sessions in the queue, first come first."""
    nodes = server.dump(path, form="nodes")
    return [node.owner for child, node in sorted(nodes.items(), key=lambda item: item[0][-10:]) if node.owner]


async def test_curators_session_expires_while_it_holds(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        holder = Holder(zk, Lock(zk, "/lock"))
        nursery.start_soon(holder.run)
        await holder.waits()
        server.expire(client.session)
        await holder.granted.wait()
        await client.remote.wait_event("LOST")
        await client.remote.wait_event("RECONNECTED")
        # Curator believes to hold it still (recipe-rules.md B.3.1); another object of it knows better.
        assert await mutex("held") is True
        assert await (await client.make("mutex", "/lock"))("try", 0) is False
        await holder.release()


async def test_curators_session_expires_while_it_waits(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    """It begins anew, at the end of the queue."""
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as other,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        first, second = Holder(zk, Lock(zk, "/lock")), Holder(other, Lock(other, "/lock"))
        nursery.start_soon(first.run)
        await first.granted.wait()
        mutex = await client.make("mutex", "/lock")
        granted = mutex.start("acquire")
        await when_there_are(2, zk, "/lock")
        assert first.grant is not None
        # It knows that it watches: if its session ended before, it would ask again, and wait for our release.
        await waits_for(server, client.session, first.grant.path)
        assert await client.remote("exists", "/lock")
        nursery.start_soon(second.run)
        await second.waits()
        assert owners(server, "/lock") == [zk.session.id, client.session, other.session.id]

        server.expire(client.session)
        await client.remote.wait_event("RECONNECTED")
        await when_there_are(3, zk, "/lock")
        renewed = await client.remote("session")
        assert owners(server, "/lock") == [zk.session.id, other.session.id, renewed]
        await first.release()
        await second.granted.wait()
        assert not granted.done
        await second.release()
        await granted.wait()


async def test_our_session_expires_while_curator_waits(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    async with curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        with pytest.raises(LockLost) as lost:
            async with connect(server.hosts, on_expired="new_session") as zk, Lock(zk, "/lock") as grant:
                granted = mutex.start("acquire")
                await waits_for(server, client.session, grant.path)
                server.expire(grant.session_id)
                await trio.sleep_forever()
        assert lost.value.reason is LossReason.SESSION_EXPIRED
        await granted.wait()


async def test_disconnected_while_waiting(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Both keep their places."""
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as other,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        first, last = Holder(zk, Lock(zk, "/lock")), Holder(other, Lock(other, "/lock"))
        nursery.start_soon(first.run)
        await first.granted.wait()
        mutex = await client.make("mutex", "/lock")
        granted = mutex.start("acquire")
        await when_there_are(2, zk, "/lock")
        nursery.start_soon(last.run)
        await last.waits()
        queue = owners(server, "/lock")

        server.disconnect_all()
        await client.remote.wait_event("RECONNECTED")
        await first.release()
        await granted.wait()
        assert owners(server, "/lock") == queue[1:]
        assert await client.remote("session") == client.session
        await mutex("release")
        await last.granted.wait()
        await last.release()


async def test_curators_create_whose_reply_is_lost(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """It finds what it has created, and we see one contender."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        await mutex("release")
        with server.fault(op="create", path="/lock/*", when="after", action="disconnect") as fault:
            await mutex("acquire")
        assert fault.fired == 1
        (theirs,) = await Lock(zk, "/lock").contenders()
        assert theirs.sequence == 1
        assert theirs.stat.ephemeralOwner == client.session


async def test_curators_release_whose_reply_is_lost(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        with server.fault(op="delete", path="/lock/*", when="before", action="disconnect"):
            released = mutex.start("release")
            async with Lock(zk, "/lock"):
                pass
        await released.wait()
        assert owners(server, "/lock") == []


async def test_our_create_whose_reply_is_lost(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Of the bridge, the pair; Curator waits for it and for no other."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await zk.create("/lock")
        with server.fault(op="multi", session=zk.session.id, when="after", action="disconnect"):
            async with Lock(zk, "/lock", layout="both") as grant:
                assert owners(server, "/lock") == [zk.session.id] * 2
                assert await mutex("try", 0) is False
                await grant.verify()
        assert await mutex("try", 0) is True


async def test_our_release_whose_reply_is_lost(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        for when in ("before", "after"):
            async with Lock(zk, "/lock") as grant:
                granted = mutex.start("acquire")
                await waits_for(server, client.session, grant.path)
                fault = server.fault(op="delete", session=zk.session.id, when=when, action="disconnect")
                fault.__enter__()
            await granted.wait()
            fault.__exit__(None, None, None)
            await mutex("release")


async def test_a_waiter_of_ours_that_gives_up(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Curator, behind it, comes to wait for the one before; nothing of ours stays."""
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as other,
        curator.client(server.hosts) as client,
        Lock(zk, "/lock") as grant,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Lock(other, "/lock").acquire)
            await when_there_are(2, zk, "/lock")
            granted = (await client.make("mutex", "/lock")).start("acquire")
            await when_there_are(3, zk, "/lock")
            nursery.cancel_scope.cancel()
        await waits_for(server, client.session, grant.path)
        assert owners(server, "/lock") == [zk.session.id, client.session]
        assert other.watch_count == 0
        await grant.release()
        await granted.wait()


async def test_the_operator_deletes_a_holders_znode(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Ours is told; Curator is not."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        with pytest.raises(LockLost) as lost:
            async with Lock(zk, "/lock") as grant:
                granted = mutex.start("acquire")
                await waits_for(server, client.session, grant.path)
                await zk.delete(grant.path)
                await trio.sleep_forever()
        assert lost.value.reason is LossReason.NODE_DELETED
        await granted.wait()
        (theirs,) = await mutex("participants")
        await zk.delete(theirs)
        async with Lock(zk, "/lock"):
            assert await mutex("held") is True

"""Our parties and time leases and kazoo's at one path (recipe-rules.md B.10, D.11)."""

from __future__ import annotations

from datetime import timedelta

import pytest
import trio
from kazoo.recipe.lease import MultiNonBlockingLease, NonBlockingLease
from kazoo.recipe.party import Party as KazooParty
from kazoo.recipe.party import ShallowParty

from pyzk.client import connect
from pyzk.recipes.locks.time_lease import MultiTimeLease, TimeLease
from pyzk.recipes.membership.party import Party, PartyLayout
from pyzk.server.testing import EmbeddedServer

from ....support.interop import kazoo_client
from ....support.waiting import until

MINUTE = timedelta(minutes=1)

PARTIES: list[tuple[PartyLayout, type]] = [("kazoo", KazooParty), ("kazoo-shallow", ShallowParty)]


@pytest.mark.parametrize(("layout", "kind"), PARTIES)
async def test_a_party_of_both(server: EmbeddedServer, layout: PartyLayout, kind: type) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        theirs = kind(kazoo, "/party", "their-id")
        ours = Party(zk, "/party", "our-id", layout=layout)
        changes = ours.changes()

        async def seen_by_kazoo() -> list[str]:
            return sorted(await trio.to_thread.run_sync(list, theirs))

        async with ours:
            assert {member.id for member in (await anext(changes)).joined} == {"our-id"}
            await trio.to_thread.run_sync(theirs.join)
            assert {member.id for member in (await anext(changes)).joined} == {"their-id"}
            assert sorted(member.id for member in await ours.members()) == ["our-id", "their-id"]
            assert await seen_by_kazoo() == ["our-id", "their-id"]
            assert await trio.to_thread.run_sync(len, theirs) == 2
        assert await seen_by_kazoo() == ["their-id"]
        assert {member.id for member in (await anext(changes)).left} == {"our-id"}
        await trio.to_thread.run_sync(theirs.leave)
        assert {member.id for member in (await anext(changes)).left} == {"their-id"}


async def test_what_a_member_of_each_writes(server: EmbeddedServer) -> None:
    for layout, kind in PARTIES:
        async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
            await trio.to_thread.run_sync(kind(kazoo, "/theirs", "id").join)
            async with Party(zk, "/ours", "id", layout=layout):
                (their_name,), (our_name,) = await zk.get_children("/theirs"), await zk.get_children("/ours")
                assert their_name[32:] == our_name[32:]
                assert len(their_name) == len(our_name)
                their_data, _ = await zk.get(f"/theirs/{their_name}")
                our_data, _ = await zk.get(f"/ours/{our_name}")
                assert their_data == our_data


async def test_our_session_expires_and_kazoo_sees_us_again(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts, on_expired="new_session") as zk,
        kazoo_client(server.hosts) as kazoo,
        Party(zk, "/party", "ours"),
    ):
        theirs = KazooParty(kazoo, "/party")
        server.expire(zk.session.id)

        async def there() -> bool:
            return await trio.to_thread.run_sync(list, theirs) == ["ours"]

        await until(lambda: zk.session.generation == 2)
        await until(there)


async def test_kazoo_has_the_lease(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        ours = TimeLease(zk, "/lease", 60, "ours")
        assert await trio.to_thread.run_sync(NonBlockingLease, kazoo, "/lease", MINUTE, "theirs")
        assert not await ours.obtain()
        tenancy = await ours.last_holder()
        assert tenancy is not None
        assert tenancy.name == "theirs"
        assert await TimeLease(zk, "/lease", 60, "theirs").obtain(), "the same holder, by whatever library"
        expired = timedelta(seconds=-1)
        assert await trio.to_thread.run_sync(NonBlockingLease, kazoo, "/lease", expired, "theirs")
        assert await ours.obtain()


async def test_we_have_the_lease(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:

        async def they_obtain() -> bool:
            return bool(await trio.to_thread.run_sync(NonBlockingLease, kazoo, "/lease", MINUTE, "theirs"))

        assert await TimeLease(zk, "/lease", 60, "ours").obtain()
        assert not await they_obtain()
        assert await TimeLease(zk, "/lease", -1, "ours").obtain()
        assert await they_obtain()
        assert not await TimeLease(zk, "/lease", 60, "ours").obtain()


async def test_we_and_kazoo_wait_for_each_others_lock(server: EmbeddedServer) -> None:
    """Kazoo deletes and creates the znode: who writes in between would have the lease too."""
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        lock = kazoo.Lock("/lease", "theirs")
        await trio.to_thread.run_sync(lock.acquire)
        obtained = []

        async def obtain() -> None:
            obtained.append(await TimeLease(zk, "/lease", 60, "ours").obtain())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(obtain)
            await until(lambda: zk.watch_count == 2)
            assert obtained == []
            assert await zk.exists("/lease/lease_holder") is None
            await trio.to_thread.run_sync(lock.release)
        assert obtained == [True]


async def test_several_leases(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:

        async def they_obtain(holder: str) -> bool:
            return bool(
                await trio.to_thread.run_sync(MultiNonBlockingLease, kazoo, 2, "/leases", MINUTE, holder)
            )

        assert await they_obtain("a")
        ours = await MultiTimeLease(zk, "/leases", 2, 60, "b").obtain()
        assert ours is not None
        assert ours.path == "/leases/1"
        assert not await they_obtain("c")
        assert await MultiTimeLease(zk, "/leases", 2, 60, "c").obtain() is None

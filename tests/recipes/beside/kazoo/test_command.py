"""What ``pyzk locks`` says of kazoo's recipes."""

from __future__ import annotations

import datetime
from functools import partial

import trio
from kazoo.recipe.lease import NonBlockingLease

from pyzk.server.testing import EmbeddedServer

from ....support.command import brief, locks_of
from ....support.interop import kazoo_client
from ....support.waiting import until


async def seen(hosts: str, path: str) -> str:
    """What is said of one directory."""
    return brief((await locks_of(hosts, path))[path])


async def when_seen(hosts: str, path: str, expected: str) -> None:
    """Wait until that is said of a directory."""

    async def is_seen() -> bool:
        found = await locks_of(hosts)
        return path in found and brief(found[path]) == expected

    await until(is_seen)


async def in_threads(*functions: object) -> None:
    for function in functions:
        await trio.to_thread.run_sync(function)  # type: ignore[arg-type]


async def test_locks(hosts: str) -> None:
    async with kazoo_client(hosts) as client, trio.open_nursery() as nursery:
        first, second = client.Lock("/lock", "one"), client.Lock("/lock", "two")
        await in_threads(first.acquire)
        nursery.start_soon(trio.to_thread.run_sync, second.acquire)
        await when_seen(hosts, "/lock", "lock kazoo one >two")
        (one, two) = (await locks_of(hosts))["/lock"]["contenders"]
        assert two["waits_for"] == one["nodes"][0]
        assert one["session"] == f"0x{client.client_id[0]:x}"
        await in_threads(first.release)
        await when_seen(hosts, "/lock", "lock kazoo two")


async def test_readers_and_writers(hosts: str) -> None:
    async with kazoo_client(hosts) as client, trio.open_nursery() as nursery:
        readers = [client.ReadLock("/rw", name) for name in ("r1", "r2")]
        writer = client.WriteLock("/rw", "w")
        await in_threads(*(reader.acquire for reader in readers))
        nursery.start_soon(trio.to_thread.run_sync, writer.acquire)
        await when_seen(hosts, "/rw", "read-write lock kazoo r1 r2 >w")
        await in_threads(*(reader.release for reader in readers))


async def test_an_election(hosts: str) -> None:
    async with kazoo_client(hosts) as client, trio.open_nursery() as nursery:
        go = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def lead() -> None:
            trio.from_thread.run(go.wait, trio_token=token)

        nursery.start_soon(trio.to_thread.run_sync, client.Election("/election", "leader").run, lead)
        await when_seen(hosts, "/election", "lock kazoo leader")
        go.set()


async def test_semaphores(hosts: str) -> None:
    async with kazoo_client(hosts) as client, trio.open_nursery() as nursery:
        first, second, third = (client.Semaphore("/pool", name, max_leases=2) for name in ("a", "b", "c"))
        await in_threads(first.acquire, second.acquire)
        nursery.start_soon(trio.to_thread.run_sync, third.acquire)
        await when_seen(hosts, "/pool", "semaphore kazoo a b >b'c'")
        found = await locks_of(hosts)
        assert found["/pool"]["limit"] == 2
        assert "/pool-__lock__" not in found
        await in_threads(first.release)


async def test_double_barriers(hosts: str) -> None:
    async with kazoo_client(hosts) as client, trio.open_nursery() as nursery:
        one, two = (client.DoubleBarrier("/barrier", 2, name) for name in ("one", "two"))
        nursery.start_soon(trio.to_thread.run_sync, one.enter)
        await when_seen(hosts, "/barrier", "double barrier kazoo >one")
        await in_threads(two.enter)
        await when_seen(hosts, "/barrier", "double barrier kazoo one two")


async def test_parties_and_queues(hosts: str) -> None:
    async with kazoo_client(hosts) as client:
        party, shallow = client.Party("/party", "one"), client.ShallowParty("/shallow", "two")
        queue, locking = client.Queue("/queue"), client.LockingQueue("/locking")
        await in_threads(party.join, shallow.join)
        await in_threads(*(partial(target.put, b"x") for target in (queue, queue, locking)))
        await in_threads(locking.get)
        assert await seen(hosts, "/party") == "group kazoo one"
        assert await seen(hosts, "/shallow") == "group kazoo two"
        assert await seen(hosts, "/queue") == "queue kazoo 2 items"
        found = (await locks_of(hosts))["/locking"]
        assert (found["items"], len(found["contenders"])) == (1, 1)


async def test_a_lease_by_the_clock(server: EmbeddedServer) -> None:
    async with kazoo_client(server.hosts) as client:

        def take() -> NonBlockingLease:
            return client.NonBlockingLease("/lease", datetime.timedelta(minutes=1), identifier="worker")

        assert await trio.to_thread.run_sync(take)
        found = (await locks_of(server.hosts))["/lease"]
        assert found["shape"] == "lease"
        assert found["remarks"][0].startswith("worker holds it until ")

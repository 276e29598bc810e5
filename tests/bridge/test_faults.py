"""The faults of the lock family (recipe-rules.md D.13), in each package."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pyzk.recipes import LossReason
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import PATIENCE
from .drivers import Driver
from .holds import HOLDS, block, one

holds = pytest.mark.parametrize("kind", HOLDS)


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("when", ["before", "after"])
@holds
def test_the_request_or_the_reply_of_a_create_is_lost(
    server: EmbeddedServer, driver: Driver, kind: str, when: Any
) -> None:
    async def body(api: Any) -> None:
        async with api.connect(server.hosts) as zk:
            await zk.ensure_path("/held")
            with server.fault(op=("create", "multi"), path="/held/**", when=when):
                async with block(api, zk, kind) as held:
                    await one(held, kind).verify()
            await zk.sync()
            assert await zk.get_ephemerals() == []

    driver.run(body)


@pytest.mark.row("F10")
@holds
def test_a_connection_that_is_lost_for_a_moment_costs_the_holder_nothing(
    server: EmbeddedServer, driver: Driver, kind: str
) -> None:
    async def body(api: Any) -> None:
        async with api.connect(server.hosts) as zk, block(api, zk, kind) as held:
            server.disconnect(zk.session.id)
            await one(held, kind).verify()
            one(held, kind).check()

    driver.run(body)


@pytest.mark.row("F8")
@holds
def test_the_session_of_a_holder_expires(server: EmbeddedServer, driver: Driver, kind: str) -> None:
    async def body(api: Any) -> None:
        async with api.connect(server.hosts, on_expired="new_session") as zk:
            with pytest.raises(api.LockLost) as caught:
                async with block(api, zk, kind) as held:
                    server.expire(zk.session.id)
                    await api.until_lost(one(held, kind))
            assert caught.value.reason is LossReason.SESSION_EXPIRED
            async with block(api, zk, kind):  # in the next session
                assert zk.session.generation == 2

    driver.run(body)


@pytest.mark.row("F7")
@pytest.mark.parametrize("kind", ["Lock", "LeaderElection", "RWLock"])
def test_the_session_of_one_that_waits_expires(server: EmbeddedServer, driver: Driver, kind: str) -> None:
    async def body(api: Any) -> None:
        async with (
            api.connect(server.hosts) as other,
            api.connect(server.hosts, on_expired="new_session") as zk,
        ):

            async def hold() -> None:
                async with block(api, other, kind):
                    while len(await other.get_children("/held")) != 2:
                        await api.sleep(0.001)
                    server.expire(zk.session.id)
                    while zk.session.generation == 1 or len(await other.get_children("/held")) < 2:
                        await api.sleep(0.001)

            async def wait() -> None:
                while not await other.exists("/held") or not await other.get_children("/held"):
                    await api.sleep(0.001)
                async with block(api, zk, kind) as held:
                    assert held.retries == 1
                    assert held.generation == 2

            await api.both(hold, wait)

    driver.run(body)


@pytest.mark.row("F15")
@holds
def test_an_operator_deletes_the_znode(server: EmbeddedServer, driver: Driver, kind: str) -> None:
    async def body(api: Any) -> None:
        async with api.connect(server.hosts) as zk:
            with pytest.raises(api.LockLost) as caught:
                async with block(api, zk, kind) as held:
                    await zk.delete(one(held, kind).path)
                    await api.until_lost(one(held, kind))
            assert caught.value.reason is LossReason.NODE_DELETED

    driver.run(body)


@pytest.mark.row("F14")
@pytest.mark.parametrize("kind", ["Lock", "Semaphore", "LeaderElection"])
def test_the_leader_is_silent_until_the_lease_is_over(
    server: EmbeddedServer, driver: Driver, kind: str
) -> None:
    async def body(api: Any) -> None:
        async with api.connect(server.hosts, session_timeout=0.6, on_expired="new_session") as zk:
            with pytest.raises(api.LockLost) as caught:
                async with block(api, zk, kind) as held:
                    server.refuse_connections()
                    server.disconnect(zk.session.id)
                    await api.until_lost(held)
            server.accept_connections()
            assert caught.value.reason is LossReason.LEASE_EXPIRED
            granted = False
            async with api.timeout(PATIENCE):
                while not granted:
                    with suppress(api.LockLost):  # so short a lease ends when a busy machine stands still
                        async with block(api, zk, kind):
                            granted = True

    driver.run(body)

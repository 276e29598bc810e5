"""Read-only servers of ensembles without a quorum, a pretended and a real one (ensemble.md section 7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from pyzk.client import Missed, NotReadOnlyError, SessionState, WatchEvent, ZooKeeper, connect

from ..support import jvm
from ..support.needs import need
from ..support.real import Ensemble
from ..support.waiting import PATIENCE
from .pretended import Pretended

SESSION_TIMEOUT = 30.0
"""Seconds: the ephemeral znode shall outlive the time without a quorum."""


@pytest.fixture(params=["pretended", "real"])
def read_only_ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble | Pretended]:
    if request.param == "pretended":
        settings = {"read_only_mode": True, "local_sessions": True, "local_sessions_upgrading": True}
        with Pretended(**settings) as pretended:
            yield pretended
        return
    need(jvm.missing())
    with Ensemble(3, read_only=True) as ensemble:
        yield ensemble


async def until(zk: ZooKeeper, state: SessionState) -> None:
    with trio.fail_after(PATIENCE):
        while zk.session.state is not state:
            await zk.session.wait_change()


async def test_a_session_outlives_the_loss_of_the_quorum(read_only_ensemble: Ensemble | Pretended) -> None:
    ensemble = read_only_ensemble
    leader = ensemble.leader()
    survivor = next(node for node in ensemble.nodes if node.number != leader.number)
    others = [node for node in ensemble.nodes if node.number != survivor.number]
    async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT, read_only=True) as zk:
        assert zk.session.state is SessionState.CONNECTED
        await zk.create("/mine", b"data", ephemeral=True)  # makes the session one of the whole ensemble
        await zk.sync()
        session = zk.session.id
        for node in others:
            node.kill()
        await until(zk, SessionState.CONNECTED_READ_ONLY)
        assert zk.server is not None
        assert zk.server.port == survivor.port
        assert (await zk.get("/mine"))[0] == b"data"
        for write in (lambda: zk.set("/mine", b""), lambda: zk.create("/x"), lambda: zk.sync()):
            with pytest.raises(NotReadOnlyError):
                await write()
        _, _, watch = await zk.get_and_watch("/mine")
        async with zk.watch("/mine") as events:
            for node in others:
                node.start()
            await until(zk, SessionState.CONNECTED)
            assert (zk.session.id, zk.session.generation) == (session, 1)
            await zk.set("/mine", b"new")
            with trio.fail_after(PATIENCE):
                assert isinstance(await watch.wait(), WatchEvent)
                assert isinstance(await anext(events), Missed)
    assert zk.session.state is SessionState.CLOSED


async def test_a_client_begins_without_a_quorum(read_only_ensemble: Ensemble | Pretended) -> None:
    ensemble = read_only_ensemble
    async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as zk:
        await zk.create("/before", b"data")
    others = ensemble.nodes[1:]
    for node in others:
        node.kill()
    async with connect(ensemble.hosts, connect_timeout=PATIENCE, read_only=True) as zk:
        assert zk.session.state is SessionState.CONNECTED_READ_ONLY
        assert zk.session.id == 0
        assert await zk.exists("/") is not None
        with pytest.raises(NotReadOnlyError):
            await zk.create("/after")
        others[0].start()
        await until(zk, SessionState.CONNECTED)
        await zk.create("/after")
        assert (await zk.get("/before"))[0] == b"data"

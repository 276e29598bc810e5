"""A ghost: the client begins a new session, while the server keeps the old one."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.server.testing import UnknownSessionError

from ...support.lab import SESSION_TIMEOUT, open_lab


async def test_its_ephemerals_stay_until_its_timeout(autojump_clock: MockClock) -> None:
    async with open_lab() as lab:
        zk = await lab.client()
        await zk.create("/mine", ephemeral=True)
        ghost = zk.session.id
        lab.server.ghost(ghost)
        await trio.sleep(SESSION_TIMEOUT / 10)
        assert zk.session.id != ghost
        assert lab.server.dump(form="nodes")["/mine"].owner == ghost
        await zk.create("/other", ephemeral=True)
        await trio.sleep(2 * SESSION_TIMEOUT)
        assert "/mine" not in lab.server.dump()
        assert "/other" in lab.server.dump(), "the new session is an ordinary one"
        with pytest.raises(UnknownSessionError):
            lab.server.ghost(ghost)


async def test_swapped_the_client_that_asks_for_it_gets_another(autojump_clock: MockClock) -> None:
    """As ClickHouse Keeper answers: a client of ours takes that for the end of its session."""
    async with open_lab() as lab:
        zk = await lab.client(on_expired="new_session")
        await zk.create("/mine", ephemeral=True)
        old = zk.session.id
        lab.server.ghost(old, swap=True)
        await trio.sleep(SESSION_TIMEOUT / 10)
        assert zk.session.id not in {0, old}
        assert lab.server.dump(form="nodes")["/mine"].owner == old
        await trio.sleep(2 * SESSION_TIMEOUT)
        assert "/mine" not in lab.server.dump()

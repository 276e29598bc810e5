"""Our own clients name a session, wherever a session is named: those of trio, threads and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import pyzk.aio
import pyzk.blocking
import pyzk.client
from pyzk.server.testing import EmbeddedEnsemble, UnknownSessionError, open_ensemble
from pyzk.server.testing.sessions import session_id_of


def verbs(ensemble: Any, client: Any) -> list[Callable[[], object]]:
    """Each control that takes a session; the last ends it."""
    return [
        lambda: ensemble.move(client, 2),
        lambda: ensemble.disconnect(client),
        lambda: ensemble[2].disconnect(client),
        lambda: (ensemble[2].pause(client), ensemble[2].resume(client)),
        lambda: ensemble[2].name_session("worker", client),
        lambda: ensemble[2].fault("exists", session=client),
        lambda: (ensemble[2].hold("reply", session=client), ensemble[2].stop_holding()),
        lambda: ensemble.format_timeline(sessions=[client]),
        lambda: ensemble.history(session=client),
        lambda: ensemble[2].expire(client.session),
    ]


async def use(ensemble: Any, client: Any, exists: Callable[[], Awaitable[Any]]) -> None:
    session = client.session.id
    assert session_id_of(client) == session_id_of(client.session) == session != 0
    *acts, end = verbs(ensemble, client)
    for act in acts:
        act()
        assert await exists() is not None
    entries = ensemble.history(session=client)
    assert entries
    assert {entry.session for entry in entries} == {session}
    end()
    assert session not in {info.id for info in ensemble.sessions()}


async def test_of_trio() -> None:
    async with (
        open_ensemble(3) as ensemble,
        pyzk.client.connect(ensemble.hosts) as client,
    ):
        await use(ensemble, client, lambda: client.exists("/"))


def test_of_threads() -> None:
    with EmbeddedEnsemble(3) as ensemble, pyzk.blocking.connect(ensemble.hosts) as client:

        async def exists() -> Any:
            return client.exists("/")

        asyncio.run(use(ensemble, client, exists))


def test_of_asyncio() -> None:
    async def main(ensemble: EmbeddedEnsemble) -> None:
        async with pyzk.aio.connect(ensemble.hosts) as client:
            await use(ensemble, client, lambda: client.exists("/"))

    with EmbeddedEnsemble(3) as ensemble:
        asyncio.run(main(ensemble))


async def test_a_client_without_a_session() -> None:
    class Client:
        class session:
            id = 0
            generation = 0

    with pytest.raises(UnknownSessionError, match="has no session"):
        session_id_of(Client())

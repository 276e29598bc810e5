"""kazoo clients for tests: unmodified, through its public API, each test under a chroot of its own."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from ..support.threads import WAIT
from .servers import SUPER_CREDENTIALS, Server

MakeKazoo = Callable[..., KazooClient]
SESSION_TIMEOUT = 30.0
"""Seconds: no session ends by itself because a busy machine leaves a client waiting."""


@pytest.fixture
def make_kazoo(server: Server) -> Iterator[MakeKazoo]:
    """Starts kazoo clients that see the same fresh chroot; ``root=True`` gives one without a chroot."""
    top = f"/kazoo-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as stack:

        def make(*, root: bool = False, **options: Any) -> KazooClient:
            hosts = server.hosts + ("" if root else top)
            client = KazooClient(hosts, timeout=SESSION_TIMEOUT, **options)
            stack.callback(client.close)
            stack.callback(client.stop)
            client.start(timeout=WAIT)
            return client

        admin = make(root=True)
        admin.create(top)
        stack.callback(clean, admin, top)
        yield make


def clean(admin: KazooClient, top: str) -> None:
    """By now every other client is gone, and with it what kept its znodes busy."""
    admin.add_auth("digest", SUPER_CREDENTIALS)
    admin.delete(top, recursive=True)


@pytest.fixture
def kazoo(make_kazoo: MakeKazoo) -> KazooClient:
    return make_kazoo()


class Events:
    """A watch callback that remembers."""

    def __init__(self) -> None:
        self._events: list[WatchedEvent] = []
        self._change = threading.Condition()

    def __call__(self, event: WatchedEvent) -> None:
        with self._change:
            self._events.append(event)
            self._change.notify_all()

    def wait(self, count: int = 1) -> list[tuple[str, str]]:
        with self._change:
            assert self._change.wait_for(lambda: len(self._events) >= count, WAIT)
            return [(event.type, event.path) for event in self._events]


class States:
    """A state listener that remembers."""

    def __init__(self, client: KazooClient) -> None:
        self._seen: list[str] = []
        self._change = threading.Condition()
        client.add_listener(self)

    def __call__(self, state: str) -> None:
        with self._change:
            self._seen.append(state)
            self._change.notify_all()

    def wait_for(self, *states: str) -> None:
        with self._change:
            assert self._change.wait_for(lambda: tuple(self._seen) == states, WAIT), self._seen

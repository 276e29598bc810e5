"""A server, somebody else at it, and ``pyzk-lock``."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer

from ...support.lab import lab, zk
from .process import COMMAND, Process, Start

__all__ = ["lab", "zk"]


@pytest.fixture(autouse=True)
def signals_are_heeded() -> Iterator[None]:
    """Whoever runs the tests may ignore signals; what we start must not."""
    heeded = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    ignored = [number for number in heeded if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000) as server:
        yield server


@pytest.fixture
def other(server: EmbeddedServer) -> Iterator[KazooClient]:
    """Somebody else."""
    client = KazooClient(server.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def start(server: EmbeddedServer) -> Iterator[Start]:
    """Starts ``pyzk-lock`` with these arguments."""
    processes: list[Process] = []

    def start(*arguments: str, by: tuple[str, ...] = (), **environment: str) -> Process:
        environment = os.environ | {"PYZK_HOSTS": server.hosts} | environment
        processes.append(Process([*by, *COMMAND, *arguments], environment))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()

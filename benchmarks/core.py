"""The server without its sockets: where bytes in and bytes out are all that is measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyzk.server.config.settings import Settings
from pyzk.server.net.connection import Connection
from pyzk.server.net.service import Service

from . import wire


class Core:
    """A server whose clock moves only when told to.

    :ivar now: in seconds.
    """

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.service = Service(
            Settings(max_client_connections=0, **settings), now=self.now, epoch=1_700_000_000.0
        )

    def connect(self, timeout: int = 40_000) -> Connection:
        """A connection with a session; ``timeout`` in ms."""
        connection = self.service.accept(("127.0.0.1", 40_000), self.now, lambda: None)
        assert connection is not None
        self.ask(connection, wire.hello(timeout))
        return connection

    def ask(self, connection: Connection, data: bytes) -> bytes:
        """Send requests; gives back the replies, as a transport would take them."""
        outputs = [connection.exchange(data, self.now), connection.data_to_send()]
        while connection.has_work:
            connection.proceed(self.now)
            outputs.append(connection.data_to_send())
        return b"".join(outputs)

    def ask_all(self, connection: Connection, requests: Iterable[bytes]) -> None:
        """One after the other, each to its end."""
        for item in requests:
            if not connection.exchange(item, self.now):
                connection.data_to_send()


def seconds_of(action: Callable[[], object]) -> float:
    """How long something takes that can be done only once."""
    gc.collect()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def best_seconds(action: Callable[[], object], repeat: int = 5) -> float:
    """How long something takes at best: whatever else the machine does can only add to it."""
    return min(seconds_of(action) for _ in range(repeat))

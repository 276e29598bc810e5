"""Several servers in memory, in virtual time, and our own clients at them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper, connect
from pyzk.server.testing import LocalEnsemble, open_ensemble

T = TypeVar("T")


@attrs.define(eq=False)
class Line(trio.abc.Stream):
    """A connection with a delay. A client that is cut off gets nothing through, and is not told.

    :ivar delay: seconds that each piece takes, in each direction.
    """

    _stream: trio.abc.Stream
    delay: Callable[[], float]
    is_cut: bool = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._pass()
        await self._stream.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        await self._pass()
        return data

    async def _pass(self) -> None:
        delay = self.delay()
        if delay:
            await trio.sleep(delay)
        if self.is_cut:
            await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.define(eq=False)
class Place:
    """
    :ivar ensemble: its servers; their names are ``1:1``, ``2:2`` ...
    """

    ensemble: LocalEnsemble
    _lines: dict[str, list[Line]] = attrs.Factory(dict)  # by the names of clients
    _servers: dict[str, int] = attrs.Factory(dict)  # likewise, where each has connected last
    _cut: set[str] = attrs.Factory(set)

    @asynccontextmanager
    async def client(
        self,
        name: str,
        servers: Iterable[int],
        *,
        delay: Callable[[], float] = lambda: 0.0,
        rng: random.Random | None = None,
        **options: Any,
    ) -> AsyncIterator[ZooKeeper]:
        async def connector(host: str, port: int) -> trio.abc.Stream:
            await trio.sleep(delay())
            if name in self._cut:
                await trio.sleep_forever()
            if self.ensemble.role(int(host)) == "down":
                raise ConnectionRefusedError
            line = Line(self.ensemble[int(host)].open_stream(), delay)
            self._lines.setdefault(name, []).append(line)
            self._servers[name] = int(host)
            return line

        hosts = ",".join(f"{number}:{number}" for number in servers)
        defaults: dict[str, Any] = {"rng": rng or random.Random(name), "connect_timeout": 120}
        async with connect(hosts, connector=connector, **(defaults | options)) as zk:
            yield zk

    def server_of(self, name: str) -> int | None:
        """The server to which a client has connected last."""
        return self._servers.get(name)

    def cut_off(self, name: str) -> None:
        """Let nothing of a client pass any more, in either direction."""
        self._cut.add(name)
        for line in self._lines.get(name, ()):
            line.is_cut = True

    def let_through(self, name: str) -> None:
        """Let new connections of a client pass. Those that were cut stay so."""
        self._cut.discard(name)


@asynccontextmanager
async def open_place(participants: int = 3, **settings: Any) -> AsyncIterator[Place]:
    async with open_ensemble(participants, record=False, extended_types=True, **settings) as ensemble:
        yield Place(ensemble)


def in_virtual_time(main: Callable[[], Any]) -> Any:
    """Run an async function: whoever waits for time alone does not wait."""
    return trio.run(main, clock=MockClock(autojump_threshold=0))

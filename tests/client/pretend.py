"""Servers of one pretended ensemble, by name: full, read-only, without a leader, or down.

All of them show one server in memory. A relay in front of it plays on the wire what ensemble.md
section 7 says of read-only servers, which that server never is.
"""

from __future__ import annotations

import enum
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio
from trio.testing import memory_stream_pair

from pyzk.client.lease import PROOFS
from pyzk.protocol.errors import NotReadOnlyError
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.records import ConnectRequest, ConnectResponse, ReplyHeader
from pyzk.server.testing import Controls


class Mode(enum.Enum):
    """What a server is. The value is its answer to ``isro``."""

    FULL = "rw"
    READ_ONLY = "ro"
    READ_ONLY_AND_BEHIND = "ro  "  # the sessions of the ensemble began after it was cut off
    READ_ONLY_WITHOUT_SESSIONS = "ro "  # real servers by default: localSessionsEnabled is off
    LEADERLESS = "null"
    DOWN = ""


_READ_ONLY = (Mode.READ_ONLY, Mode.READ_ONLY_AND_BEHIND)


class Ensemble:
    """
    :ivar modes: what each server is; FULL if it is not named.
    :ivar asked: how often each was asked ``isro``; ``asked_at``: when any was, in seconds.
    """

    def __init__(self, server: Controls, nursery: trio.Nursery) -> None:
        self.server = server
        self.modes: dict[str, Mode] = {}
        self.asked: Counter[str] = Counter()
        self.asked_at: list[float] = []
        self._nursery = nursery
        self._relays: list[tuple[str, trio.CancelScope]] = []

    def mode(self, name: str) -> Mode:
        return self.modes.get(name, Mode.FULL)

    async def become(self, **modes: Mode) -> None:
        """Change what servers are. Those that change close all their connections."""
        changed = {name for name, mode in modes.items() if mode is not self.mode(name)}
        self.modes |= modes
        for name, scope in self._relays:
            if name in changed:
                scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

    async def connector(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if self.mode(host) is Mode.DOWN:
            raise ConnectionRefusedError(f"{host} is down")
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(self._relay, host, theirs)
        return ours

    async def _relay(self, name: str, client: trio.abc.Stream) -> None:
        """Serve one connection, until either side closes it, or the server becomes another one."""
        with trio.CancelScope() as scope:
            self._relays.append((name, scope))

            async def run(relay: Callable[..., Awaitable[None]], *streams: trio.abc.Stream) -> None:
                with suppress(trio.BrokenResourceError):
                    await relay(name, *streams)
                scope.cancel()

            async with client, self.server.open_stream() as server, trio.open_nursery() as nursery:
                nursery.start_soon(run, self._upwards, client, server)
                nursery.start_soon(run, self._downwards, server, client)
        self._relays.remove((name, scope))

    async def _upwards(self, name: str, client: trio.abc.Stream, server: trio.abc.Stream) -> None:
        buffer, mode, greeted = FrameBuffer(2**24), self.mode(name), False
        while data := bytes(await client.receive_some()):
            if data == b"isro":
                self.asked[name] += 1
                self.asked_at.append(trio.current_time())
                await client.send_all(mode.value.strip().encode())
                return
            buffer.feed(data)
            for payload in buffer.take(1000):
                if not greeted and mode is not Mode.FULL:
                    known = ConnectRequest.decode(payload).sessionId != 0
                    if known and mode is Mode.READ_ONLY_AND_BEHIND:
                        await client.send_all(frame(ConnectResponse(0, 0, 0, bytes(16)).encode() + b"\1"))
                        return
                    if mode is Mode.LEADERLESS or known or not payload[-1]:
                        return
                    if mode is Mode.READ_ONLY_WITHOUT_SESSIONS:
                        await client.send_all(_refusal(0))
                        continue
                xid, op = struct.unpack_from(">ii", payload)
                if greeted and mode in _READ_ONLY and op in PROOFS:
                    await client.send_all(_refusal(xid))
                else:
                    await server.send_all(frame(payload))
                greeted = True

    async def _downwards(self, name: str, server: trio.abc.Stream, client: trio.abc.Stream) -> None:
        buffer, greeted = FrameBuffer(2**24), False
        while data := await server.receive_some():
            buffer.feed(bytes(data))
            for payload in buffer.take(1000):
                if not greeted and self.mode(name) in _READ_ONLY:
                    await client.send_all(frame(payload[:-1] + b"\1"))
                else:
                    await client.send_all(frame(payload))
                greeted = True


def _refusal(xid: int) -> bytes:
    return frame(ReplyHeader(xid, 0, NotReadOnlyError.code).encode())


@asynccontextmanager
async def open_ensemble(server: Controls) -> AsyncIterator[Ensemble]:
    async with trio.open_nursery() as nursery:
        yield Ensemble(server, nursery)
        nursery.cancel_scope.cancel()

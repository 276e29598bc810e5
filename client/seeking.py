"""Looking for a server that serves writes, while a read-only one serves us (ensemble.md sections 7 and 13.1).

The rules, which are those of the Java client:

* One of the other servers is asked at a time, in turn, by the four-letter word ``isro`` on a connection of
  its own.
* The first is asked after 0.1 s. Each further pause is twice as long, up to 60 s.
* The first one that answers ``rw`` is it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from .hosts import Host

FULL, READ_ONLY = b"rw", b"ro"
"""The answers of servers that serve writes, and of those that do not."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 60.0
"""Seconds."""
_PATIENCE = 1.0
"""Seconds for a server to accept a connection and to answer, as in the Java client."""
_LONGEST_ANSWER = 100
"""Bytes. A server that does not allow the word says so in 60."""


@attrs.frozen
class Seeker:
    """Asks servers what they are.

    :ivar open: opens a connection to a server.
    """

    open: Callable[[Host], Awaitable[trio.abc.Stream]]

    async def mode(self, host: Host) -> bytes:
        """Ask a server: :data:`FULL` or :data:`READ_ONLY`; anything else is neither."""
        answer = b""
        with trio.move_on_after(_PATIENCE):
            try:
                async with await self.open(host) as stream:
                    await stream.send_all(b"isro")
                    while len(answer) < _LONGEST_ANSWER and (data := await stream.receive_some()):
                        answer += bytes(data)
            except (OSError, UnicodeError, trio.BrokenResourceError):
                pass
        return answer

    async def full_server(self, others: Callable[[], list[Host]]) -> Host:
        """Wait for a server that serves writes.

        :param others: returns the servers to ask.
        """
        pause, turn = _FIRST_PAUSE, 0
        while True:
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if hosts := others():
                host = hosts[turn % len(hosts)]
                turn += 1
                if await self.mode(host) == FULL:
                    return host

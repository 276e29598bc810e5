"""Calls that an event loop of asyncio makes itself. The event loop sends the request, and reads the reply
when the reply comes.

The rules:

* The event loop watches the connection as long as the event loop has the connection. If bytes come while
  there is no call, the client's loop gets its connection back at once, because only the client's loop can
  handle these bytes.
* There is one call at a time. A second call asks the client's loop, which takes the connection back for both
  calls.
* asyncio watches a duplicate of the file descriptor, because asyncio may notice late that the loop has taken
  the connection back. By then the number of the client's own descriptor may belong to another file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from ...client.direct_connection import DirectConnection, Exchange, TakenError
from ..loop import Loop
from .calls import DirectCall, DirectCaller


class Asked(Protocol):
    """The answer for which a task waits.

    :ivar here: whether the event loop itself finds the answer now, and calls :meth:`wake` with it.
    :ivar answered: whether there is an answer.
    """

    here: bool
    answered: bool

    def wake(self) -> None:
        """Wake the task."""


class Reading(DirectCaller):
    """An event loop.

    :param post: makes the event loop call a function.
    """

    def __init__(self, loop: Loop, post: Callable[[Callable[[], object]], object]) -> None:
        super().__init__(loop)
        self._post = post

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
        if direct.reader is not None:
            self._post(direct.reader.close)

    def begin(self, call: DirectCall, asked: Asked) -> None:
        """Do a call in this event loop, or ask the loop of trio. It raises the errors of
        :meth:`.Loop.ask`."""
        direct = self.direct_for(call)
        if direct is not None:
            reader = direct.reader or self._watch(direct)
            if reader is not None and reader.is_free and reader.begin(call, asked):
                return
        self.loop.ask(call)

    def _watch(self, direct: DirectConnection) -> _ReplyReader | None:
        """Watch a connection. Returns None if that is not possible."""
        try:
            direct.reader = reader = _ReplyReader(self, direct)
        except (OSError, NotImplementedError):
            # No file descriptor is left; or the loop has just taken the connection, which has
            # ended; or this is the event loop of Windows.
            return None
        return reader


class _ReplyReader:
    """Waits for bytes over a direct connection."""

    _fileno = -1

    def __init__(self, direct_caller: Reading, direct: DirectConnection) -> None:
        self._direct_caller = direct_caller
        self._direct = direct
        self._under_way: tuple[Exchange, DirectCall, Asked] | None = None
        self._event_loop = asyncio.get_running_loop()
        self._fileno = os.dup(direct.fileno)
        self._event_loop.add_reader(self._fileno, self._read)

    @property
    def is_free(self) -> bool:
        """True if no call is under way."""
        return self._under_way is None and self._fileno >= 0

    def close(self) -> None:
        """Note that the loop has taken the connection back."""
        if self._fileno >= 0:
            self._event_loop.remove_reader(self._fileno)
            self._close()

    def _close(self) -> None:
        if self._fileno >= 0:
            os.close(self._fileno)
            self._fileno = -1

    __del__ = _close  # the event loop was closed first

    def begin(self, call: DirectCall, asked: Asked) -> bool:
        """Begin a call. Returns False if the loop must do the call."""
        self._direct_caller.start(call)
        return asked.answered or self._send(call, asked)

    def _send(self, call: DirectCall, asked: Asked) -> bool:
        try:
            exchange = self._direct_caller.send(call, self._direct)
        except TakenError:
            self.close()
            return False
        assert exchange is not None
        self._under_way = exchange, call, asked
        if not exchange.is_sent:
            self._give_back()
        return True

    def _give_back(self) -> None:
        self._under_way = None
        self.close()
        self._direct_caller.give_back()

    def _read(self) -> None:
        reply = None
        if self._under_way is not None:
            exchange, call, asked = self._under_way
            reply = self._direct.receive(exchange)
        if reply is None:
            self._give_back()
            return
        self._under_way = None
        asked.here = True  # nobody else has this exchange
        try:
            self._direct_caller.settle(call, exchange, reply)
        finally:
            asked.here = False
        if asked.answered:
            asked.wake()
        elif not self._send(call, asked):
            try:
                self._direct_caller.loop.ask(call)
            except Exception as error:  # the client was closed meanwhile
                call.reply(None, error)

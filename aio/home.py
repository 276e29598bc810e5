"""The connection between the client's loop and an event loop of asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakKeyDictionary, ref

from ..bridge.direct.tasks import Reading
from ..bridge.loop import Loop
from ..bridge.wakeups import Bell, Mailbox
from ..client import ClosingError


class Home(Mailbox):
    """Functions that an event loop calls for its tasks.

    :param loop: is the key of this object.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(self._wake_loop)
        self._loop = ref(loop)
        self._bell: Bell | None = None
        self._clients = 0
        self._direct: Reading | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Home:
        """Return the one of a loop."""
        home = _homes.get(loop)
        if home is None:
            home = _homes[loop] = Home(loop)
        return home

    def direct(self, client: Loop) -> Reading:
        """Return what makes calls in this event loop (:mod:`pyzk.bridge.direct`)."""
        if self._direct is None or self._direct.loop is not client:
            self._direct = Reading(client, self.post)
        return self._direct

    def attach(self) -> None:
        """Note that a client was opened in this loop: from now on a bell is worth the file descriptors that
        it uses."""
        self._clients += 1
        loop = self._loop()
        if self._bell is None and loop is not None:
            bell = Bell()
            try:
                loop.add_reader(bell.fileno(), self._answer_bell)
            except NotImplementedError:  # Windows' own event loop: call_soon_threadsafe will do
                bell.close()
            else:
                self._bell = bell

    def detach(self) -> None:
        """Note that a client was closed."""
        self._clients -= 1
        loop, bell = self._loop(), self._bell
        if not self._clients:
            self._direct = None
        if not self._clients and bell is not None and loop is not None:
            self._bell = None
            loop.remove_reader(bell.fileno())
            bell.close()
            loop.call_soon(self.open)  # it may have been rung

    def _answer_bell(self) -> None:
        if self._bell is not None:
            self._bell.answer()
            self.open()

    def _wake_loop(self) -> None:
        bell = self._bell
        if bell is not None:
            try:
                bell.ring()
            except ClosingError:
                pass  # just now
            else:
                return
        loop = self._loop()
        if loop is not None:
            with suppress(RuntimeError):  # it was closed: nobody waits any more
                loop.call_soon_threadsafe(self.open)


_homes: WeakKeyDictionary[asyncio.AbstractEventLoop, Home] = WeakKeyDictionary()

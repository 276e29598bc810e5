"""The connection between the client's loop and an event loop of asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakKeyDictionary, ref

from ..bridge.direct.tasks import Reading
from ..bridge.loop import Loop
from ..bridge.wakeups import CallQueue, Wakeup
from ..client import ClosingError


class EventLoopState(CallQueue):
    """Functions that an event loop calls for its tasks.

    :param loop: is the key of this object.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(self._wake_loop)
        self._loop = ref(loop)
        self._wakeup: Wakeup | None = None
        self._clients = 0
        self._direct: Reading | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> EventLoopState:
        """Return the state of an event loop."""
        state = _states.get(loop)
        if state is None:
            state = _states[loop] = EventLoopState(loop)
        return state

    def direct(self, client: Loop) -> Reading:
        """Return the object that makes calls in this event loop (:mod:`pyzk.bridge.direct`)."""
        if self._direct is None or self._direct.loop is not client:
            self._direct = Reading(client, self.post)
        return self._direct

    def attach(self) -> None:
        """Note that a client was opened in this loop. From now on the loop has a wake-up, which uses file
        descriptors."""
        self._clients += 1
        loop = self._loop()
        if self._wakeup is None and loop is not None:
            wakeup = Wakeup()
            try:
                loop.add_reader(wakeup.fileno(), self._answer_wakeup)
            except NotImplementedError:  # Windows' own event loop: call_soon_threadsafe will do
                wakeup.close()
            else:
                self._wakeup = wakeup

    def detach(self) -> None:
        """Note that a client was closed."""
        self._clients -= 1
        loop, wakeup = self._loop(), self._wakeup
        if not self._clients:
            self._direct = None
        if not self._clients and wakeup is not None and loop is not None:
            self._wakeup = None
            loop.remove_reader(wakeup.fileno())
            wakeup.close()
            loop.call_soon(self.open)  # it may have been rung

    def _answer_wakeup(self) -> None:
        if self._wakeup is not None:
            self._wakeup.answer()
            self.open()

    def _wake_loop(self) -> None:
        wakeup = self._wakeup
        if wakeup is not None:
            try:
                wakeup.ring()
            except ClosingError:
                pass  # just now
            else:
                return
        loop = self._loop()
        if loop is not None:
            with suppress(RuntimeError):  # it was closed: nobody waits any more
                loop.call_soon_threadsafe(self.open)


_states: WeakKeyDictionary[asyncio.AbstractEventLoop, EventLoopState] = WeakKeyDictionary()

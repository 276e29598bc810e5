"""Lack of memory: the reserve, and the work that goes on when the system gives no more (``ulimit -v``).

A process without memory can do nothing properly, and a :class:`MemoryError` inside trio ends it. So:

* The process holds a reserve of address space, which takes no memory until it is needed.
* After 10,000 further objects, at each tick and after each :class:`MemoryError` it looks whether the system
  would give as much again. If not, memory is short: one line of the log says so, and the reserve is given up
  for the use of what goes on: reads, deletes, the end of sessions and connections.
* While memory is short, a request that would make the server grow ends its own connection
  (:mod:`.operations.growth`), and a new connection is refused unless 50 % of the reserve is free. Clients
  that do not read are disconnected, those that hold most output first.
* Once there is room again for the reserve and as much beside it, all goes on as before.

A request costs no more by all this unless memory is short.
"""

from __future__ import annotations

import gc
import mmap
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..logger import logger

_RESERVE: Final = 4 * 2**20
"""Bytes: room for a few large replies, and for hundreds of new connections at 5 kB each."""
_ENOUGH: Final = _RESERVE * 5 // 2
"""Free bytes that end the shortage: the reserve, as much beside it, and some more, lest memory be short again
at once."""
_PRIVATE: Final[dict[str, int]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
"""How memory is mapped; on Windows it cannot be said."""
_PIECE: Final = 64 * 1024
"""Bytes: small enough to come from malloc's heap, whose freed parts the system does not get back."""


class Reserve:
    """The reserve of the process, and whether it had to be given up.

    :ivar is_held: whether memory is watched: by the command, not by a server inside of another program.
    :ivar short: whether memory is short; False where memory is not watched.
    """

    def __init__(self) -> None:
        self.short = False
        self._begins: list[Callable[[], object]] = []
        self._block: mmap.mmap | None = None
        self.is_held = False
        self._told = False  # what the log says
        self._full_at: int | None = None  # objects that were allocated when there was no room
        self._objects_before = self._resident_before = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Set the reserve aside, and keep an eye on memory inside the block."""
        self.is_held = True
        self._objects_before, self._resident_before = sys.getallocatedblocks(), _resident()
        self._block = _map(_RESERVE)
        gc.callbacks.append(self._collecting)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collecting)
            self._block = None
            self.is_held = self.short = False

    def when_short(self, callback: Callable[[], object]) -> None:
        """Have something called each time memory becomes short."""
        self._begins.append(callback)

    def look(self) -> bool:
        """Find out whether memory is short, and say so in the log if that has changed."""
        if self.is_held:
            self._find_out()
            self._tell()
        return self.short

    def ran_out(self) -> None:
        """Look at once, after a :class:`MemoryError`."""
        if not self.short:
            self.look()
        self._tell()

    def is_still_short(self) -> bool:
        """Return whether memory is short; look again if the system has some to give. Memory that was freed in
        small pieces is found at the next tick, because to look for it takes ms."""
        return self.look() if _map(_ENOUGH) is not None else self.short

    def has_room(self) -> bool:
        """Return whether there is room for a new connection."""
        if not self.short:
            return True
        self._tell()
        return self._room(_RESERVE // 2)

    def _tell(self) -> None:
        if self.short == self._told:
            return
        self._told = self.short
        if self.short:
            logger.error(
                "memory is short: requests that need more are refused, and their connections closed; "
                "delete znodes, close sessions, or restart with a higher limit (ulimit -v)"
            )
        else:
            logger.warning("memory is no longer short: all requests are served again")

    def _collecting(self, phase: str, _: object) -> None:
        if phase == "start":
            self._find_out()

    def _find_out(self) -> None:
        if self.short:
            self.short = not self._room(_ENOUGH)
        elif _map(_RESERVE) is not None:
            self._full_at = None
        elif not self._room(_RESERVE):
            self.short = True
            for callback in self._begins:
                callback()
        if self.short:
            self._block = None
        elif self._block is None and _map(2 * _RESERVE) is not None:
            self._block = _map(_RESERVE)

    def _room(self, size: int) -> bool:
        """Return whether the system, or memory that was freed, has ``size`` bytes."""
        return _map(size) is not None or _take(size) or self._was_freed(size)

    def _was_freed(self, size: int) -> bool:
        """Return whether ``size`` bytes were freed since there was no room. Memory between other objects does
        not go back to the system, but new objects fit there; so objects are counted, each with the average
        size of all since the start."""
        objects = sys.getallocatedblocks()
        if self._full_at is None or objects > self._full_at:
            self._full_at = objects
        average = (_resident() - self._resident_before) / max(1, self._full_at - self._objects_before)
        return (self._full_at - objects) * average > size


def _resident() -> int:
    """Bytes of memory that the process has; 0 where the system does not say so in Linux's way."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _map(size: int) -> mmap.mmap | None:
    try:
        return mmap.mmap(-1, size, **_PRIVATE)
    except (OSError, MemoryError):
        return None


def _take(size: int) -> bool:
    """Return whether malloc has ``size`` bytes in pieces, because large objects were freed."""
    try:
        pieces = [bytes(_PIECE) for _ in range(size // _PIECE)]
    except MemoryError:
        return False
    pieces.reverse()  # the last one is freed last, so that the end of the heap can go back to the system
    return True


reserve: Final = Reserve()
"""That of this process."""

"""The log: an entry for each transaction, in the order of their zxids (files.md section 3).

* Each zxid has an entry, also of a write that failed: a client that has seen it must not be refused after a
  restart. Zxids that nobody has entered get an entry without an effect.
* Entries wait until :meth:`Journal.write`, which is called before any output leaves: one write for all of
  them. Then the kernel has them: they outlive this process, and not a power cut.
* A failed write ends the server: what was not written must not be answered. So does a lack of memory in the
  midst of a transaction, which may be in the tree and not here.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from typing import Final
from zlib import adler32

from ...protocol.files.digest import LIST, LISTED, VERSION, signed
from ...protocol.files.txnlog import FILE_HEADER
from ..core.failures import OutOfMemory
from ..core.transactions import NO_REQUEST
from ..core.txn import Refused
from .directory import DataDirectory
from .entries import of_other

_END: Final = b"B"
NEXT: Final = _END + bytes(4)
"""The end of an entry, and what is behind it: the upper half of the next checksum, which is always zero."""
FRAME: Final = struct.Struct(">5sIi").pack
"""Packs :data:`NEXT`, the lower half of the checksum of an entry, and its length."""
_DIGEST: Final = struct.Struct(">iq").pack
_ZXID: Final = struct.Struct(">12xq").unpack_from
_SYSTEM_ERROR: Final = -1


class JournalFailed(BaseException):
    """The log cannot be written. Like a :class:`SystemExit` it passes all who go on after an error of one
    client: nothing may be answered any more."""


class Journal:
    """
    :param last: the zxid of the last transaction that files hold already.
    :ivar waiting: what is to be written: in turns the :data:`FRAME` of an entry, and the entry.
    :ivar last: the zxid of the last entry that is written.
    :ivar digests: zxids and the digests of the tree after them, as ``hash`` lists them; the oldest first.
    :ivar count: the entries since the last snapshot was begun.
    :ivar size: their bytes.
    :ivar is_broken: a write has failed, or an entry is missing: nothing is written any more.
    """

    def __init__(self, directory: DataDirectory, last: int) -> None:
        self._directory = directory
        self._fd: int | None = None
        self.waiting: list[bytes] = []
        self.last = last
        self.digests: deque[tuple[int, int]] = deque(maxlen=LIST)
        self.count = 0
        self.size = 0
        self.is_broken = False

    def add(self, entry: bytes) -> None:
        """Let an entry wait."""
        self.waiting += (FRAME(NEXT, adler32(entry), len(entry)), entry)

    def add_digested(self, entry: bytes, zxid: int, digest: int) -> None:
        """Let an entry wait, with the digest of the tree after it."""
        self.add(entry + _DIGEST(VERSION, signed(digest)))
        if zxid % LISTED == 0:
            self.digests.append((zxid, digest))

    def write(self, zxid: int, time: int) -> None:
        """Write the entries that wait.

        :param zxid: the last zxid that was used. It has an entry then, and so has each before it.
        :param time: of those that nobody has entered, in ms since the epoch.
        :raises JournalFailed: that is impossible, or it has failed before.
        :raises OutOfMemory: that is impossible for lack of memory.
        """
        count = zxid - self.last
        if not count:
            return
        if self.is_broken:
            raise JournalFailed(f"the log in {self._directory} is not written any more")
        try:
            self._write(zxid, time, count)
        except OSError as error:
            self.is_broken = True
            raise JournalFailed(
                f"cannot write the log in {self._directory}: {error.strerror}; nothing more is answered, "
                "as it would be lost. Make room, and start again"
            ) from None
        except MemoryError as error:
            self.is_broken = True
            raise OutOfMemory from error
        self.count += count
        self.last = zxid

    def _write(self, zxid: int, time: int, count: int) -> None:
        waiting = self.waiting
        if len(waiting) != 2 * count:
            self._fill(zxid, time)
        pieces = [*waiting, _END]
        pieces[0] = pieces[0][len(_END) :]  # no entry before the first
        data = b"".join(pieces)
        waiting.clear()
        if self._fd is None:
            self._fd = self._directory.create_log(self.last + 1)
            data = FILE_HEADER + data
        size = len(data)
        written = os.write(self._fd, data)
        while written < size:
            written += os.write(self._fd, data[written:])
        self.size += size

    def _fill(self, zxid: int, time: int) -> None:
        """Enter the zxids up to this one that nobody has entered."""
        entries = {_ZXID(entry)[0]: entry for entry in self.waiting[1::2]}
        self.waiting.clear()
        for at in range(self.last + 1, zxid + 1):
            self.add(entries.get(at) or of_other(0, NO_REQUEST, at, time, Refused(_SYSTEM_ERROR)))

    def close(self) -> None:
        """Close the file; the next entries begin a new one."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self.count = self.size = 0

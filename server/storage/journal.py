"""The log: an entry for each transaction, in the order of their zxids (files.md section 3).

* Each zxid has an entry, also the zxid of a failed write. Otherwise, after a restart, the server would refuse
  a client that has seen this zxid. A zxid without an entry gets an entry without an effect.
* Entries wait until :meth:`Journal.write` writes all of them together. This method is called before output is
  sent. Then the kernel has the entries: they survive the end of this process, but not a power cut.
* If writing fails, the server ends, because it must not answer a transaction that is not in the log. The
  server also ends if memory runs out in the middle of a transaction, because the transaction may be in the
  tree but not in the log.
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
"""The end of an entry, and the upper half of the checksum of the next entry, which is always zero."""
FRAME: Final = struct.Struct(">5sIi").pack
"""Packs :data:`NEXT`, the lower half of the checksum of an entry, and the length of the entry."""
_DIGEST: Final = struct.Struct(">iq").pack
_ZXID: Final = struct.Struct(">12xq").unpack_from
_SYSTEM_ERROR: Final = -1


class JournalFailed(BaseException):
    """The log cannot be written. No handler for the errors of one client catches this exception, because the
    server must answer nothing more."""


class Journal:
    """
    :param last: the zxid of the last transaction in the files.
    :ivar waiting: the waiting output, in pairs: the :data:`FRAME` of an entry, and the entry.
    :ivar last: the zxid of the last written entry.
    :ivar digests: pairs of a zxid and the digest of the tree after this zxid, for the command ``hash``; the
        oldest pair first.
    :ivar count: the number of entries since the last snapshot was begun.
    :ivar size: the number of bytes of these entries.
    :ivar is_broken: whether a write has failed or an entry is missing. Then no more entries are written.
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
        """Queue an entry for the next :meth:`write`."""
        self.waiting += (FRAME(NEXT, adler32(entry), len(entry)), entry)

    def add_digested(self, entry: bytes, zxid: int, digest: int) -> None:
        """Queue an entry, with the digest that the tree has after the transaction."""
        self.add(entry + _DIGEST(VERSION, signed(digest)))
        if zxid % LISTED == 0:
            self.digests.append((zxid, digest))

    def write(self, zxid: int, time: int) -> None:
        """Write the waiting entries.

        :param zxid: the last used zxid. Afterwards each zxid up to this zxid has an entry.
        :param time: the time for entries without an effect, in ms since the epoch.
        :raises JournalFailed: the log cannot be written, or writing has failed before.
        :raises OutOfMemory: memory ran out.
        """
        count = zxid - self.last
        if not count:
            return
        if self.is_broken:
            raise JournalFailed(f"the log in {self._directory} is no longer written")
        try:
            self._write(zxid, time, count)
        except OSError as error:
            self.is_broken = True
            raise JournalFailed(
                f"cannot write the log in {self._directory}: {error.strerror}; the server sends no more "
                "answers, because new data would be lost. Free some space, and start the server again"
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
        """Add an entry for each zxid up to this zxid that has no entry."""
        entries = {_ZXID(entry)[0]: entry for entry in self.waiting[1::2]}
        self.waiting.clear()
        for at in range(self.last + 1, zxid + 1):
            self.add(entries.get(at) or of_other(0, NO_REQUEST, at, time, Refused(_SYSTEM_ERROR)))

    def close(self) -> None:
        """Close the file. The next entries begin a new file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self.count = self.size = 0

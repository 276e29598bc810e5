"""The files of one data directory, and who may write them.

Files are found by their names (files.md section 1). A server that writes holds a lock on the folder: a second
one is refused. Only the owner may read what is written, as digests stand in access control lists.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Final

from ...protocol.files.names import FOLDER, Listing, log_name, snapshot_name

_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_UNFINISHED: Final = ".pyzk-unfinished."
"""How the names of files begin that are being written: no server takes them for a snapshot."""
_ASIDE: Final = "set-aside"
_NUMBERS: Final = count()


class StorageError(ValueError):
    """The data cannot be used: one line that says why and what to do."""


class DataDirectory:
    """
    :param path: the data directory, or its folder ``version-2``.
    :ivar folder: where the files are.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = Path(path)
        self.folder = given if given.name == FOLDER else given / FOLDER
        self._lock: int | None = None

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> None:
        """Make the folder if it is missing, and lock it.

        :raises StorageError: that is impossible, or another server has it.
        """
        try:
            self.folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            for name in os.listdir(self.folder):
                if name.startswith(_UNFINISHED):  # ours: its writer was killed
                    os.unlink(self.folder / name)
        except OSError as error:
            self.close()
            reason = error.strerror
            if error.errno in (errno.EAGAIN, errno.EACCES) and isinstance(error, BlockingIOError):
                reason = "another pyzk-server uses it; stop that one, or name another directory"
            raise StorageError(f"cannot use {self.folder}: {reason}") from None

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # --- reading -----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """:raises StorageError: the folder cannot be read."""
        try:
            return os.listdir(self.folder)
        except OSError as error:
            raise StorageError(f"cannot read {self.folder}: {error.strerror}") from None

    def listing(self) -> Listing:
        return Listing.of(self.names())

    def read(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return open(self.folder / name, "rb")

    def size(self, kind: str) -> int:
        """Return the bytes of all snapshots, or of all logs: what they take on the disk."""
        listing = self.listing()
        names = listing.snapshots if kind == "snapshot" else listing.logs
        return sum(self._stat(name.text).st_size for name in names)

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(self.folder / name)

    def last_snapshot(self) -> tuple[int, float]:
        """Return zxid and time (seconds since the epoch) of the snapshot that was written last; (0, -1) if
        there is none."""
        found = self.listing().snapshots
        times = [(self._stat(name.text).st_mtime, name.zxid) for name in found]
        time, zxid = max(times, default=(-1.0, 0))
        return zxid, time

    # --- writing -----------------------------------------------------------------------------------------

    def create_log(self, zxid: int) -> int:
        """Make a new log; returns its file descriptor.

        A log of that name holds no transaction, or its zxid would not be the next one: it is set aside.
        """
        path = self.folder / log_name(zxid)
        if path.exists():
            self.set_aside([path.name])
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _MODE)

    @contextmanager
    def unfinished(self) -> Iterator[tuple[Path, IO[bytes]]]:
        """Make a file that has no name yet by which a server would find it. It is deleted at the end, unless
        :meth:`finish` has given it one."""
        path = self.folder / f"{_UNFINISHED}{os.getpid()}.{next(_NUMBERS)}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            with open(fd, "w+b") as file:
                yield path, file
        finally:
            path.unlink(missing_ok=True)

    def finish(self, path: Path, zxid: int) -> None:
        """Give an unfinished file the name of a snapshot; an older one of that name gives way, which holds
        the same."""
        os.replace(path, self.folder / snapshot_name(zxid))

    def set_aside(self, names: list[str]) -> Path:
        """Move files into a folder of their own, where no server looks for them; returns it."""
        number = 1
        while (target := self.folder / f"{_ASIDE}-{number}").exists():
            number += 1
        target.mkdir(_FOLDER_MODE)
        for name in names:
            os.rename(self.folder / name, target / name)
        return target

    def purge(self, keep: int) -> list[str]:
        """Delete all snapshots but the newest ones, and the logs that these do not need; returns their names.

        :param keep: how many snapshots stay.
        """
        listing = self.listing()
        kept = listing.snapshots[-keep:]
        if not kept:
            return []
        needed = {log.text for log in listing.logs_from(kept[0].zxid)}
        old = [name.text for name in listing.snapshots[:-keep]]
        old += [log.text for log in listing.logs if log.text not in needed]
        for name in old:
            os.unlink(self.folder / name)
        return old

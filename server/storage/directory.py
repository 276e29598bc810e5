"""The files of one data directory, and the lock for writing.

Files are found by their names (files.md section 1). A server that writes holds a lock on the folder. A second
server is refused. Only the owner may read the files, because ACLs contain digests.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Final

from ...protocol.files.names import FOLDER, Listing, log_name, snapshot_name
from ...protocol.files.places import open_regular

_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_UNFINISHED: Final = ".pyzk-unfinished."
"""The prefix of unfinished files. No server reads such a file as a snapshot."""
_ASIDE: Final = "set-aside"
_NUMBERS: Final = count()


class StorageError(ValueError):
    """The data cannot be used. The message is one line that says why, and what to do."""


class DataDirectory:
    """
    :param path: the data directory, or its folder ``version-2``.
    :param logs: another directory for the logs; also a data directory or its folder ``version-2``.
    :ivar folder: the folder with the snapshots.
    :ivar log_folder: the folder with the logs.
    """

    def __init__(self, path: str | os.PathLike[str], logs: str | os.PathLike[str] | None = None) -> None:
        self.folder = _folder(path)
        self.log_folder = self.folder if logs is None else _folder(logs)
        self._folders = list(dict.fromkeys((self.folder, self.log_folder)))
        self._locks: list[int] = []

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> None:
        """Lock the folders. Folders that are missing are made.

        :raises StorageError: a folder cannot be made or locked, another server uses a folder, or a file is in
            the wrong folder.
        """
        for folder in self._folders:
            try:
                self._open(folder)
            except OSError as error:
                self.close()
                reason = error.strerror
                if isinstance(error, BlockingIOError):  # of the lock
                    reason = "another pyzk-server uses it; stop that server, or name another directory"
                raise StorageError(f"cannot use {folder}: {reason}") from None
        if len(self._folders) > 1:
            self._check_places()

    def _check_places(self) -> None:
        """Refuse to start if a log or a snapshot is in the wrong folder. The real server does not start
        either."""
        logs = Listing.of(os.listdir(self.folder)).logs
        snapshots = Listing.of(os.listdir(self.log_folder)).snapshots
        if logs or snapshots:
            self.close()
            name, place = (logs[0], self.log_folder) if logs else (snapshots[0], self.folder)
            raise StorageError(f"{name.text} must be in {place}: logs have their own directory; move it")

    def _open(self, folder: Path) -> None:
        try:
            import fcntl
        except ImportError:
            raise StorageError(
                f"{sys.platform} cannot keep data in files: it lacks locks of directories (fcntl); "
                "start without --data, and load a tree with --load"
            ) from None
        folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        self._locks.append(lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        for name in os.listdir(folder):
            if name.startswith(_UNFINISHED):  # ours: its writer was killed
                os.unlink(folder / name)

    def close(self) -> None:
        """Unlock the folders."""
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()

    # --- reading -----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """:raises StorageError: the folder cannot be read."""
        try:
            return [name for folder in self._folders for name in os.listdir(folder)]
        except OSError as error:
            raise StorageError(f"cannot read {error.filename}: {error.strerror}") from None

    def listing(self) -> Listing:
        return Listing.of(self.names())

    def read(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return open_regular(self._path(name))

    def _path(self, name: str) -> Path:
        return (self.log_folder if Listing.of([name]).logs else self.folder) / name

    def size(self, kind: str) -> int:
        """Return the total size in bytes of all snapshots, or of all logs."""
        listing = self.listing()
        names = listing.snapshots if kind == "snapshot" else listing.logs
        return sum(self._stat(name.text).st_size for name in names)

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(self._path(name))

    def last_snapshot(self) -> tuple[int, float]:
        """Return the zxid of the last written snapshot, and its time in seconds since the epoch. If there is
        no snapshot, return (0, -1)."""
        found = self.listing().snapshots
        times = [(self._stat(name.text).st_mtime, name.zxid) for name in found]
        time, zxid = max(times, default=(-1.0, 0))
        return zxid, time

    # --- writing -----------------------------------------------------------------------------------------

    def create_log(self, zxid: int) -> int:
        """Make a new log, and return its file descriptor.

        If a log with this name exists, it has no transaction, because its name is the next zxid. This log is
        set aside.
        """
        path = self.log_folder / log_name(zxid)
        if path.exists():
            self.set_aside([path.name])
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _MODE)

    @contextmanager
    def unfinished(self) -> Iterator[tuple[Path, IO[bytes]]]:
        """Make an unfinished file with a name that no server reads. The file is deleted at the end of the
        block, unless :meth:`finish` has renamed it."""
        path = self.folder / f"{_UNFINISHED}{os.getpid()}.{next(_NUMBERS)}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            with open(fd, "w+b") as file:
                yield path, file
        finally:
            path.unlink(missing_ok=True)

    def finish(self, path: Path, zxid: int, compression: str = "") -> None:
        """Give an unfinished file the name of a snapshot. The file replaces an older file with this name,
        which has the same data.

        :param compression: its compression; see :data:`~pyzk.protocol.files.streams.COMPRESSIONS`.
        """
        os.replace(path, self.folder / snapshot_name(zxid, compression))

    def set_aside(self, names: list[str]) -> str:
        """Move files into a new folder beside them, in which no server reads them. Returns the name of the
        folder."""
        number = 1
        while any((folder / f"{_ASIDE}-{number}").exists() for folder in self._folders):
            number += 1
        aside = f"{_ASIDE}-{number}"
        for path in map(self._path, names):
            target = path.parent / aside
            target.mkdir(_FOLDER_MODE, exist_ok=True)
            os.rename(path, target / path.name)
        return aside

    def purge(self, keep: int) -> list[str]:
        """Delete all snapshots except the newest snapshots, and the logs that the newest snapshots do not
        need. Returns the names of the deleted files.

        :param keep: the number of snapshots to keep.
        """
        listing = self.listing()
        kept = listing.snapshots[-keep:]
        if not kept:
            return []
        needed = {log.text for log in listing.logs_from(kept[0].zxid)}
        old = [name.text for name in listing.snapshots[:-keep]]
        old += [log.text for log in listing.logs if log.text not in needed]
        for name in old:
            os.unlink(self._path(name))
        return old


def _folder(path: str | os.PathLike[str]) -> Path:
    return Path(path) if Path(path).name == FOLDER else Path(path) / FOLDER

"""The data of one server, which is read at the start and then kept in files.

* :meth:`Storage.load` reads the files. :meth:`Storage.make_engine` makes an engine with the tree, the
  sessions and the zxid of the files. Each session begins with its whole timeout. Ephemerals of sessions that
  are over are dropped.
* From then on each transaction is in a log before any output is sent (:mod:`.journal`).
* When enough transactions are in the log, a snapshot is written in steps. The keys of autopurge decide when
  old files are deleted.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...protocol.files.image import is_session
from ...protocol.files.restoring import Damaged, Restored, Restorer
from ...protocol.files.snapshot import Bounds
from ...protocol.text import session_text
from ..config.settings import Settings
from ..core.engine import Engine
from ..core.failures import OutOfMemory
from ..core.sessions import computed_password
from ..core.tree import DataTree
from ..logger import logger
from .building import build, collector_paused
from .directory import DataDirectory, StorageError
from .journal import Journal, JournalFailed
from .log_writer import DigestedLogWriter, DigestedTree, LogWriter
from .snapshots import Ahead, snapshot_steps

_PROGRESS = 2.0
"""The time in seconds between two lines of the log about the progress."""


class Storage:
    """
    :param path: the data directory.
    :param repair: whether to continue with all data before a damage.
    :ivar load_time: the time to read the files, in ms.
    :ivar entries_loaded: the number of log transactions that were loaded.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings, *, repair: bool = False) -> None:
        self.directory = DataDirectory(path, settings.data_log_dir)
        self._settings = settings
        self._repair = repair
        self.load_time = self.entries_loaded = 0
        self._restored: Restored | None = None
        self._log: LogWriter | None = None  # of the engine that is served
        self._ahead: Ahead | None = None  # of a tree that is about to be served
        self._replaced = 0  # how often the whole tree became another one
        self._due = self._draw_due()  # entries after which the next snapshot is due
        self._next_purge = time.monotonic() + settings.purge_interval
        self._told = time.monotonic()

    def _draw_due(self) -> int:
        # as the real server: so that the members of an ensemble do not write theirs at the same time
        half = max(1, self._settings.snap_count // 2)
        return half + random.randrange(half)

    # --- the start ---------------------------------------------------------------------------------------

    def load(self) -> None:
        """Lock the directory and read the data.

        :raises StorageError: the directory cannot be locked or read, or the files are damaged.
        """
        self.directory.open()
        restorer = Restorer(
            self.directory.names(),
            self.directory.read,
            tell=lambda line: logger.warning("%s: %s", self.directory, line),
            repair=self._repair,
            progress=self._progress,
            bounds=Bounds.of(self._settings.max_buffer),
        )
        began = time.monotonic()
        try:
            with collector_paused():
                self._restored = restored = restorer.restore()
        except Damaged as damage:
            self.close()
            raise StorageError(
                f"{self.directory}: {damage}. Nothing was changed; with --data-repair the server starts "
                "with the data before the damage, and moves the files after the damage aside"
            ) from None
        except OSError as error:
            self.close()
            raise StorageError(f"{self.directory}: cannot read {error.filename}: {error.strerror}") from None
        image = restored.image
        self.load_time, self.entries_loaded = int(1000 * (time.monotonic() - began)), restored.entries
        if restored.snapshot is not None:
            logger.info(
                "%s: %d znodes and %d sessions at zxid 0x%x, from %s and %d transactions of logs, in %.1f s",
                self.directory,
                len(image.nodes),
                len(image.sessions),
                image.zxid,
                restored.snapshot,
                restored.entries,
                time.monotonic() - began,
            )

    def make_engine(
        self,
        settings: Settings,
        kind: type[Engine],
        *,
        now: int,
        **arguments: Any,
    ) -> Engine:
        """Make an engine. The first engine has the data that :meth:`load` has read, and later engines are
        empty.

        :param kind: the type of the engine; ``arguments`` are its other arguments.
        """
        digested = settings.tree_digest
        tree = DigestedTree() if digested else DataTree()
        # As the real server: files hold no passwords, and their sessions continue at either server
        engine = kind(settings, now=now, tree=tree, password_of=computed_password, **arguments)
        restored, self._restored = self._restored, None
        if restored is not None:
            self._fill(engine, restored, now)
        if self._log is not None:
            engine.zxid = self._log.engine.zxid
            self._log.write()
            self._log.journal.close()
        journal = Journal(self.directory, engine.zxid)
        if restored is not None and digested:
            journal.digests.extend(restored.digests)
        writer = DigestedLogWriter if digested else LogWriter
        self._log = writer(engine, journal, self._tree_replaced, self._changed_much)
        engine.keep_log(self._log)
        self._replaced += 1
        if restored is None or restored.snapshot is None or restored.aside or self._repair:
            self.write_snapshot()
        return engine

    def _fill(self, engine: Engine, restored: Restored, now: int) -> None:
        image = restored.image
        if restored.aside:
            place = self.directory.set_aside(restored.aside)
            logger.warning("%s: moved to %s: %s", self.directory, place, ", ".join(restored.aside))
        if restored.snapshot is None and not restored.entries:
            return
        engine.zxid = image.zxid
        for session, timeout in list(image.sessions.items()):
            if session > 0:
                engine.sessions.restore(session, timeout, now)
            else:  # of a server of an ensemble whose number is above 127
                del image.sessions[session]
                logger.warning(
                    "session %s is not taken over: its client gets a new session", session_text(session)
                )
        if gone := image.drop_orphans():
            logger.info(
                "%s: %d ephemerals are dropped, such as %s: their sessions are over",
                self.directory,
                len(gone),
                gone[0],
            )
        assert all(is_session(owner) for owner in image.sessions)
        root, lost = build(image, lambda count: self._progress("znodes in the tree", count))
        if lost:
            text = "%s: %d znodes are left out, such as %s: their parents are missing"
            logger.warning(text, self.directory, len(lost), lost[0])
        engine.tree.adopt(root)

    def _progress(self, what: str, count: int) -> None:
        now = time.monotonic()
        if now - self._told > _PROGRESS:
            self._told = now
            logger.info("%s: %d %s so far", self.directory, count, what)

    def touch_sessions(self, now: int) -> None:
        """Let the whole timeout of each session begin at ``now``, in monotonic ms. Making a large tree takes
        seconds, and meanwhile no client can give a sign of life."""
        assert self._log is not None
        sessions = self._log.engine.sessions
        for session in sessions:
            sessions.touch(session, now)

    # --- snapshots ---------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the log has enough entries since the last snapshot to write another snapshot."""
        assert self._log is not None
        journal = self._log.journal
        return journal.count >= self._due or journal.size >= 1024 * self._settings.snap_size_limit

    def snapshot_steps(self) -> Iterator[int]:
        """Write a snapshot; yields the number of written znodes between two steps.

        If the whole tree is replaced meanwhile, the snapshot is given up, because no log has the replacement.

        :raises OSError: a file cannot be written.
        """
        log = self._log
        assert log is not None
        engine = log.engine
        log.write()
        log.journal.close()
        self._due = self._draw_due()
        replaced = self._replaced
        began = time.monotonic()
        try:
            ahead = self._ahead if self._ahead is not None and self._ahead.is_of(engine.tree) else None
            for count in snapshot_steps(engine, self.directory, self._settings.snapshot_compression, ahead):
                self._progress("znodes written", count)
                yield count
                if replaced != self._replaced:
                    return
        except OSError:
            engine.stats.snapshots.failed += 1
            raise
        engine.stats.snapshot_time.add(int(1000 * (time.monotonic() - began)))

    @contextmanager
    def ahead(self, tree: DataTree) -> Iterator[Iterator[int]]:
        """Encode the znodes of a tree that will replace the served tree. The block gets an iterator of the
        steps, and must exhaust it before it replaces the tree. Then the replacement itself is short.

        :raises OSError: a file cannot be written.
        """
        assert self._log is not None
        with self.directory.unfinished() as (_, body):
            self._ahead = Ahead(self._log.engine, tree, body)
            try:
                yield self._ahead.steps()
            finally:
                self._ahead = None

    def _changed_much(self, zxid: int, time: int) -> None:
        """Write a snapshot instead of an entry that no real server could read."""
        assert self._log is not None
        journal = self._log.journal
        journal.write(zxid - 1, time)
        journal.last = zxid
        self.write_snapshot()

    def _tree_replaced(self) -> None:
        self._replaced += 1
        self.write_snapshot()

    def write_snapshot(self) -> None:
        """Write a snapshot in one step, however long it takes.

        :raises StorageError: that is impossible.
        """
        try:
            for _ in self.snapshot_steps():
                pass
        except OSError as error:
            raise StorageError(f"cannot write a snapshot in {self.directory}: {error.strerror}") from None

    def purge(self) -> None:
        """Delete old files, if autopurge is switched on and its interval is over.

        :raises OSError: a file cannot be deleted.
        """
        interval, now = self._settings.purge_interval, time.monotonic()
        if interval > 0 and now >= self._next_purge:
            self._next_purge = now + interval
            if old := self.directory.purge(self._settings.snap_retain_count):
                logger.info("%s: %d old files are deleted", self.directory, len(old))

    def write_journal(self) -> None:
        """Write all transactions so far to the kernel.

        :raises JournalFailed: that is impossible, and nothing may be answered.
        """
        assert self._log is not None
        self._log.write()

    @property
    def digests(self) -> list[tuple[int, int]]:
        """The zxids and the digests of the tree that ``hash`` lists; empty if the server computes no
        digests."""
        return [] if self._log is None else list(self._log.journal.digests)

    def close(self) -> None:
        """Write the waiting entries, and unlock the directory."""
        if self._log is not None:
            with suppress(JournalFailed, OutOfMemory):  # nobody was answered
                self._log.write()
            self._log.journal.close()
            self._log = None
        self.directory.close()

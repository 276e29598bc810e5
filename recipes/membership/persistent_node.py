"""Znodes that are created again when they are gone (recipe-rules.md B.10, D.11).

The rules:

* One task makes all requests for the znode. So no request can overtake an earlier request (recipe-rules.md
  trap E-05).
* The znode belongs to this object if its czxid is the czxid that the create returned. A znode that another
  client has created at the path is a conflict, even with the same data.
* An ephemeral znode of an earlier session of this client is never adopted, because the server will soon
  delete it. This object deletes the znode and creates it again (recipe-rules.md trap E-45).
* New data is written to the existing znode, and to each znode that is created later.
* The znode is deleted at the end of the block. Without a connection the client deletes it later in the
  background.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import trio

from ...client import (
    ACL,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    Stat,
    ZooKeeper,
    paths,
)
from ...protocol.paths import validate_path
from ...protocol.text import session_text
from ..base.background import BackgroundWork
from ..base.bound import Bound, first_of
from ..base.choices import check_choice
from ..base.creating import Parents, ZnodeOptions, create_ephemeral, create_identified
from ..base.running import Running, alongside, steady
from ..base.waiting import waiting_for

Conflict = Literal["wait", "takeover", "raise"]
"""The reaction to a znode of another owner at the path. ``"wait"``: wait until the znode is gone.
``"takeover"``: delete it. ``"raise"``: raise :class:`NodeExistsError`."""


class KeptNode(Running):
    """The base of recipes that keep a znode: it creates the znode, watches it, and creates it again when it
    is gone."""

    _pulse = math.inf
    """The time in seconds between two calls of :meth:`_beat`. Infinity means that there are no calls."""

    def __init__(
        self, zk: ZooKeeper, path: str, data: bytes, parents: Parents, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__()
        validate_path(path)
        self.path = path
        self.zk = zk
        self._options = ZnodeOptions(parents, acl)
        self._data = data
        self._revision = 1  # the revision of the data: each set_data adds 1
        self._written = 0  # the last revision that was written to the znode
        self._wanted = trio.Event()
        self._present = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def ready(self) -> None:
        """Wait until the znode exists.

        :raises RuntimeError: the block has ended or has not begun.
        """
        await self._until(lambda: self._present)

    async def set_data(self, data: bytes) -> None:
        """Change the data of the znode and of each znode that is created later, and wait until the data is
        written. A cancellation ends the wait, but the change continues. Outside the block nothing is written.

        :raises RuntimeError: the block ended before the data was written.
        """
        self._data = data
        self._revision += 1
        revision = self._revision
        self._wanted.set()
        if self._block is not None:
            await self._until(lambda: self._present and self._written >= revision)

    # --- for subclasses ----------------------------------------------------------------------------------

    async def _make(self, bound: Bound, data: bytes) -> Stat | None:
        """Create the znode, or adopt an existing znode. Returns None if the call must be repeated."""
        raise NotImplementedError

    async def _beat(self, bound: Bound) -> None:
        """Prolong the life of the znode. This is called every ``_pulse`` seconds while the znode exists."""

    async def _remove(self) -> Exception | None:
        """Remove the znode at the end of the block. Returns the error that made this impossible, or None."""
        return None

    # --- at work -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        try:
            async with alongside(self.zk, self._work):
                yield
        except BaseException:
            await self._remove()
            raise
        finally:
            self._present = False
        error = await self._remove()
        if error is not None:
            raise error

    async def _work(self) -> None:
        while True:
            try:
                await self._keep(Bound(self.zk))
            except SessionExpiredError:
                self._present = False
                await self.zk.session.wait_connected()

    async def _keep(self, bound: Bound) -> None:
        made: Stat | None = None
        while True:
            while made is None:
                self._present = False
                revision = self._revision
                made = await self._make(bound, self._data)
                if made is not None:
                    self._written = revision
            stat, watch = await bound.repeat(lambda: self.zk.exists_and_watch(self.path))
            with watch:
                if stat is None or stat.czxid != made.czxid:
                    made = None
                    continue
                self._present = True
                self._notify()
                while watch.event is None:
                    await self._write(bound)
                    with trio.move_on_after(self._pulse) as pause:
                        await first_of(watch.wait, self._wanted.wait)
                    if pause.cancelled_caught:
                        await self._beat(bound)

    async def _write(self, bound: Bound) -> None:
        """Write the data if it has changed."""
        self._wanted = trio.Event()
        if self._written == self._revision:
            return
        revision, data = self._revision, self._data
        # If the znode is gone, its watch has fired already.
        with suppress(NoNodeError):
            await bound.repeat(lambda: self.zk.set(self.path, data))
            self._written = revision
            self._notify()


class PersistentNode(KeptNode):
    """Keeps a znode until the end of the block. The znode is created again after a deletion, and in the next
    session.

        async with PersistentNode(zk, "/services/api/10.0.0.1", data=b"port=80") as node:
            await node.ready()

    The block begins at once, even without a connection. At its end the block deletes the znode, and waits at
    most ``cleanup_grace`` seconds for the deletion. Without a connection the znode is deleted later. The
    layout and the behaviour are the same as in Curator's PersistentNode.

    If an ephemeral znode of another owner is at the path, ``conflict`` decides what happens. A znode of an
    earlier session of this object is deleted. A persistent znode has no owner. So an existing persistent
    znode is adopted, and its data is replaced.

    If an error like :class:`NoAuthError` makes it impossible to keep the znode, the block is cancelled and
    raises this error.

    :param data: the data of the znode.
    :param mode: the kind of the znode: EPHEMERAL, PERSISTENT, or EPHEMERAL_SEQUENTIAL. A sequential znode
        keeps its number when it is created again. Its name is ``_c_<uuid>-<name><number>``, as in Curator's
        mode with protection.
    :param conflict: the reaction to a znode of another owner: see :data:`Conflict`. Two owners with
        ``"takeover"`` replace each other's znode without end.
    :param parents: the kind of missing parents: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :param cleanup_grace: the time in seconds that the end of the block can wait for the server.
    :raises ValueError: an option has a wrong value.

    :ivar path: the path of the znode. After the creation of a sequential znode it includes the number.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        mode: CreateMode = CreateMode.EPHEMERAL,
        conflict: Conflict = "wait",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        if mode not in (CreateMode.EPHEMERAL, CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL):
            raise ValueError(
                f"mode is EPHEMERAL, PERSISTENT or EPHEMERAL_SEQUENTIAL, not {mode.name}; for TTL use TtlNode"
            )
        check_choice("conflict", conflict, Conflict)
        super().__init__(zk, path, data, parents, acl)
        self._persistent = mode is CreateMode.PERSISTENT
        self._unnumbered = mode is CreateMode.EPHEMERAL_SEQUENTIAL
        self._conflict = conflict
        self._cleanup_grace = cleanup_grace
        self._claimed = False  # the znode at the path may be ours
        self._sessions: set[int] = set()  # the ids of our sessions that have created the znode

    async def _make(self, bound: Bound, data: bytes) -> Stat | None:
        self._claimed = True
        try:
            stat = await self._create(bound, data)
        except NodeExistsError:
            self._claimed = False
            stat = await self._resolve(bound, data)
        if stat is not None:
            self._sessions.add(stat.ephemeralOwner)
            self._claimed = True
        return stat

    async def _create(self, bound: Bound, data: bytes) -> Stat | None:
        zk, path = self.zk, self.path
        if self._unnumbered:
            parent, name = paths.split(path)
            prefix = f"_c_{uuid.uuid4()}-{name}"
            created = await create_identified(bound, parent, [prefix], data, self._options)
            self.path, self._unnumbered = created.paths[0], False
            return created.stat
        if not self._persistent:
            return await create_ephemeral(bound, path, data, self._options)
        try:
            acl = self._options.acl
            _, stat = await bound.repeat(lambda: zk.create_with_stat(path, data, acl=acl))
        except NoNodeError:
            await self._options.create_parent(bound, paths.parent(path))
            return None
        return stat

    async def _resolve(self, bound: Bound, data: bytes) -> Stat | None:
        """Resolve a conflict with an existing znode. Returns the Stat of the znode if the znode was
        adopted."""
        zk, path = self.zk, self.path
        while True:
            stat, watch = await bound.repeat(lambda: zk.exists_and_watch(path))
            with watch:
                if stat is None:
                    return None
                owner = stat.ephemeralOwner
                with suppress(NoNodeError):
                    if self._persistent and not owner:
                        return await bound.repeat(lambda: zk.set(path, data))
                    if self._conflict == "takeover" or owner in self._sessions - {zk.session.id}:
                        await bound.repeat(lambda: zk.delete(path))
                        return None
                if self._conflict == "raise":
                    raise NodeExistsError(path)
                with waiting_for(zk, path, f"which belongs to session {session_text(owner)}"):
                    await watch.wait()

    async def _remove(self) -> Exception | None:
        zk = self.zk
        if not self._claimed or zk.session.state is SessionState.CLOSED:
            return None
        self._claimed = False
        # The cleanup stops at the end of the session, but a persistent znode exists longer.
        job = BackgroundWork(zk, self._delete) if self._persistent else zk.cleanup.delete_own(self.path)
        if zk.session.state is SessionState.CONNECTED:
            with trio.move_on_after(self._cleanup_grace, shield=True):
                await job.done.wait()
        return job.error

    async def _delete(self) -> None:
        with suppress(NoNodeError):
            await steady(self.zk, lambda: self.zk.delete(self.path))

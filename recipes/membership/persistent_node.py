"""Znodes that are kept in being (recipe-rules.md B.10, D.11)."""

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
    Job,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    Stat,
    ZooKeeper,
    ZooKeeperError,
)
from ...protocol.paths import split, validate_path
from ..base.bound import Bound, first_of
from ..base.creating import Parents, ParentsMode, create_ephemeral, create_identified
from ..base.running import Running, alongside, steady
from ..base.words import check_word

Conflict = Literal["wait", "takeover", "raise"]
"""What to do about a znode that belongs to somebody else: wait until it is gone; delete it; raise
:class:`NodeExistsError`."""


class KeptNode(Running):
    """The base: creates a znode, watches it, and creates it again when it is gone.

    One task does all of it, so that nothing that was begun earlier can overtake what was begun later
    (trap E-05).
    """

    _pulse = math.inf
    """Seconds from one :meth:`_beat` to the next."""

    def __init__(
        self, zk: ZooKeeper, path: str, data: bytes, parents: ParentsMode, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__()
        validate_path(path)
        self.path = path
        self._zk = zk
        self._acl = acl
        self._parents = Parents.of(parents, acl)
        self._data = data
        self._revision = 1  # of the data; and the last one that the znode has had
        self._written = 0
        self._wanted = trio.Event()
        self._present = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def ready(self) -> None:
        """Wait until the znode is there."""
        await self._until(lambda: self._present)

    async def set_data(self, data: bytes) -> None:
        """Change the data, also of every znode that has to be created in future, and wait until the znode has
        it. Cancelling stops the waiting only. Outside of the block nothing is written."""
        self._data = data
        self._revision += 1
        revision = self._revision
        self._wanted.set()
        if self._block is not None:
            await self._until(lambda: self._present and self._written >= revision)

    # --- for those that are built on it ------------------------------------------------------------------

    async def _make(self, bound: Bound, data: bytes) -> Stat | None:
        """Create it, or make what is there our own. Returns None if it has to be tried again."""
        raise NotImplementedError

    async def _beat(self, bound: Bound) -> None:
        """Called now and then while it is there."""

    async def _remove(self) -> ZooKeeperError | None:
        """The block is left. Returns what is wrong with that."""
        return None

    # --- at work -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        try:
            async with alongside(self._zk, self._work):
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
                await self._keep(Bound(self._zk))
            except SessionExpiredError:
                self._present = False
                await self._zk.session.wait_connected()

    async def _keep(self, bound: Bound) -> None:
        made: Stat | None = None
        while True:
            while made is None:
                self._present = False
                revision = self._revision
                made = await self._make(bound, self._data)
                if made is not None:
                    self._written = revision
            stat, watch = await bound.repeat(lambda: self._zk.exists(self.path, watch=True))
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
        """Bring the data up to date."""
        self._wanted = trio.Event()
        if self._written == self._revision:
            return
        revision, data = self._revision, self._data
        # Without the znode the watch has fired.
        with suppress(NoNodeError):
            await bound.repeat(lambda: self._zk.set(self.path, data))
            self._written = revision
            self._notify()


class PersistentNode(KeptNode):
    """Keeps a znode in being for as long as the block lasts: it is created again when somebody deletes it,
    and in the next session when the session has expired.

        async with PersistentNode(zk, "/services/api/10.0.0.1", b"port=80") as node:
            await node.ready()

    The block begins at once, connected or not. Leaving it deletes the znode: waits ``cleanup_grace`` for
    that at most, and has it done later if there is no connection. Layout and behaviour are those of Curator's
    recipe of the same name.

    An ephemeral znode of another owner is never taken for ours, nor one of an earlier session of ours, which
    would soon vanish: the latter is deleted, the former dealt with as ``conflict`` says. A persistent znode
    has no owner: one that is there already is taken over and its data replaced.

    What makes it impossible, such as :class:`NoAuthError`, cancels the block, which raises it.

    :param data: what the znode holds.
    :param mode: EPHEMERAL, PERSISTENT, or EPHEMERAL_SEQUENTIAL. A sequential one gets its number once and
        keeps it: its name is ``_c_<uuid>-<name><number>``, as Curator's with protection.
    :param conflict: ``"wait"`` until the other znode is gone, ``"takeover"``: delete it, ``"raise"``
        :class:`NodeExistsError`. Two that take over from each other never come to rest.
    :param parents: how missing parents are created; the server removes a container some time after its last
        child.
    :param acl: of what is created; everything for everyone if None.
    :param cleanup_grace: seconds that leaving the block may wait for the server.

    :ivar path: of the znode; with the number once there is one.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.EPHEMERAL,
        *,
        conflict: Conflict = "wait",
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        if mode not in (CreateMode.EPHEMERAL, CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL):
            raise ValueError(f"a node of mode {mode.name} cannot be kept")
        check_word("conflict", conflict, Conflict)
        super().__init__(zk, path, data, parents, acl)
        self._persistent = mode is CreateMode.PERSISTENT
        self._unnumbered = mode is CreateMode.EPHEMERAL_SEQUENTIAL
        self._conflict = conflict
        self._cleanup_grace = cleanup_grace
        self._claimed = False  # what is at the path may be ours
        self._sessions: set[int] = set()  # those of ours that have created it

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
        zk, path = self._zk, self.path
        if self._unnumbered:
            parent, name = split(path)
            prefix = f"_c_{uuid.uuid4()}-{name}"
            created = await create_identified(
                bound, parent, [prefix], data, parents=self._parents, acl=self._acl
            )
            self.path, self._unnumbered = created.paths[0], False
            return created.stat
        if not self._persistent:
            return await create_ephemeral(bound, path, data, parents=self._parents, acl=self._acl)
        try:
            _, stat = await bound.repeat(lambda: zk.create(path, data, acl=self._acl, include_stat=True))
        except NoNodeError:
            await self._parents.create(bound, split(path)[0])
            return None
        return stat

    async def _resolve(self, bound: Bound, data: bytes) -> Stat | None:
        """There is a znode already."""
        zk, path = self._zk, self.path
        while True:
            stat, watch = await bound.repeat(lambda: zk.exists(path, watch=True))
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
                await watch.wait()

    async def _remove(self) -> ZooKeeperError | None:
        zk = self._zk
        if not self._claimed or zk.session.state is SessionState.CLOSED:
            return None
        self._claimed = False
        if self._persistent:
            job = Job()
            zk.start_soon(self._delete, job)
        else:
            job = zk.janitor.delete_own(self.path)
        if zk.session.state is SessionState.CONNECTED:
            with trio.move_on_after(self._cleanup_grace, shield=True):
                await job.done.wait()
        return job.error

    async def _delete(self, job: Job) -> None:
        """Unlike the janitor, do not stop at the end of the session: the znode does not."""
        try:
            with suppress(NoNodeError):
                await steady(self._zk, lambda: self._zk.delete(self.path))
        except ZooKeeperError as error:
            job.error = error
        finally:
            job.done.set()

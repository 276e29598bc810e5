"""The read/write lock: many readers or one writer (recipe-rules.md B.4, D.4).

The rules:

* Contenders get the lock in the order in which they came. A reader waits for the nearest writer before it. A
  writer waits for every contender before it. So no contender can starve.
* A writer can read. A reader cannot become a writer, because two readers that tried this would wait for each
  other.
* A writer that becomes a reader keeps its place: one transaction deletes the writer's znode and creates a
  reader's znode with the same number. The reader also keeps the token, because its own czxid would be larger
  than the czxid of a writer that already waits (trap E-53).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Unpack

import attrs

from ...client import (
    ACL,
    OPEN_ACL,
    UNANSWERED,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeper,
    paths,
)
from ...protocol.layouts import ContenderKind, parse
from ..base.choices import check_options
from ..errors import Deadlock, LockLost, LossReason
from .dual_layout import parts
from .grant import Grant
from .lock import Lock
from .options import RWLockOptions
from .role import LockKind

_READER = {
    ContenderKind.CURATOR_WRITE: ContenderKind.CURATOR_READ,
    ContenderKind.KAZOO_LOCK: ContenderKind.KAZOO_READ,
}


@attrs.define(eq=False, repr=False)
class WriteGrant(Grant):
    """The grant of a writer.

    :ivar data: the data of the writer's znodes.
    :ivar acl: the ACL of the writer's znodes.
    """

    data: bytes = b""
    acl: Sequence[ACL] = OPEN_ACL

    @asynccontextmanager
    async def downgrade(self) -> AsyncIterator[Grant]:
        """Become a reader. Then other readers can get the lock too. No writer gets the lock in between.

            async with rw.write() as grant:
                ...
                async with grant.downgrade():
                    ...     # reading; after this block the lock is free

        The reader keeps the writer's number and token.

        :raises Deadlock: this is not the outermost block of a writer, or the writer has already become a
            reader.
        :raises LockLost: the lock was lost.
        """
        if self._depth != 1 or self.shared:
            raise Deadlock("only the outermost block of a writer can be downgraded, and only once")
        await self._become_reader()
        try:
            with self.scope():
                yield self
        finally:
            await self.end()

    async def _become_reader(self) -> None:
        ownership, writers = self.ownership, self.paths
        readers = tuple(map(_reader_path, writers))
        watched = await ownership.unguard() is not None
        for part in parts(ownership):
            part.guard()  # without a watch, because the exchange deletes the znode
        # Even if the exchange fails, the release deletes the znodes of the writer and of the reader.
        self.paths = readers + writers
        with ownership.scope():
            try:
                await self._exchange(writers, readers)
                self.paths, self.shared = readers, True
                for part, path in zip(parts(ownership), readers, strict=True):
                    part.path = path
                if watched:
                    await self._watch_readers()
            except NoNodeError:
                ownership.lose(LockLost(LossReason.NODE_DELETED, ownership.path))
            except SessionExpiredError:
                ownership.lose(LockLost(LossReason.SESSION_EXPIRED, ownership.path))

    async def _watch_readers(self) -> None:
        zk, ownership = self.zk, self.ownership

        found = [await self._bound.repeat(partial(zk.get_and_watch, path)) for path in self.paths]
        await ownership.unguard()
        for part, (data, _, own_watch) in zip(parts(ownership), found, strict=True):
            part.guard(own_watch, self.data_changed)
            self.data_changed(data)

    async def _exchange(self, writers: tuple[str, ...], readers: tuple[str, ...]) -> None:
        """Replace the writer's znodes by the reader's znodes in one transaction."""
        creates = [Create(path, self.data, acl=self.acl, ephemeral=True) for path in readers]
        while True:
            self._bound.check()
            try:
                await self.zk.multi([*creates, *map(Delete, writers)])
                return
            except NodeExistsError:
                return  # the first attempt succeeded: no other client uses these names
            except UNANSWERED:
                await self._bound.reconnected()


def _reader_path(path: str) -> str:
    parent, name = paths.split(path)
    writer = parse(name)
    assert writer is not None
    head, _, digits = name.rpartition(writer.kind.value)
    return paths.join(parent, f"{head}{_READER[writer.kind].value}{digits}")


class _Reader(Lock):
    """The reading side of the lock."""

    def __init__(self, zk: ZooKeeper, path: str, **options: Unpack[RWLockOptions]) -> None:
        super().__init__(zk, path, purpose=LockKind.READ, **options)

    def _enter_again(self, held: Grant) -> None:
        if not held.shared:
            held.enter_again()  # a writer can read, as in Curator: it keeps the write lock
            return
        super()._enter_again(held)


class WriteLock(Lock):
    """The writing side of the lock."""

    def __init__(self, reader: _Reader, **options: Unpack[RWLockOptions]) -> None:
        contest = reader._contest
        grant_type = partial(WriteGrant, data=contest.data, acl=contest.holding.acl)
        super().__init__(reader.zk, reader.path, purpose=LockKind.WRITE, grant_type=grant_type, **options)
        self._held = reader._held  # each side must know which tasks hold the other side

    async def __aenter__(self) -> WriteGrant:
        grant = await super().__aenter__()
        assert isinstance(grant, WriteGrant)
        return grant

    def _enter_again(self, held: Grant) -> None:
        if held.shared:
            raise Deadlock(f"this task reads {self.path}: a reader cannot become a writer; release it first")
        super()._enter_again(held)


class RWLock:
    """A read/write lock on a path. One writer or any number of readers hold the lock. Contenders get the lock
    in the order in which they came.

        rw = RWLock(zk, "/config-lock")
        async with rw.read() as grant: ...
        async with rw.write() as grant:
            async with grant.downgrade(): ...

    The znodes are the same as in Curator's InterProcessReadWriteLock, in kazoo's ReadLock and WriteLock, or
    in both (``layout``). A plain lock of any library is treated as a writer. In kazoo, use its WriteLock, and
    never its plain Lock, which does not see readers (trap E-51). A writer of Curator 5.4 that becomes a
    reader goes to the end of the queue. So a waiting writer, also of this package, gets the lock while
    Curator's reader still reads.

    :param options: the options of :class:`.Lock`, except ``local_queue`` and ``max_handoffs``.
    """

    def __init__(self, zk: ZooKeeper, path: str, **options: Unpack[RWLockOptions]) -> None:
        check_options("a read/write lock", options, RWLockOptions)
        self.zk = zk
        self.path = path
        self._reader = _Reader(zk, path, **options)
        self._writer = WriteLock(self._reader, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def read(self) -> Lock:
        """Return the reading side: a lock that several readers can hold at the same time."""
        return self._reader

    def write(self) -> WriteLock:
        """Return the writing side, whose grants are :class:`WriteGrant`."""
        return self._writer

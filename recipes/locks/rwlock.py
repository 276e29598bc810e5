"""Many readers or one writer (recipe-rules.md D.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs

from ...client import (
    OPEN_ACL,
    UNANSWERED,
    Create,
    CreateMode,
    Delete,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    Stat,
    Watch,
    ZooKeeper,
)
from ...protocol.paths import join, split
from ..errors import Deadlock, LockLost, LossReason
from .bridge import parts
from .grant import Grant
from .lock import Lock
from .names import Kind, Purpose, parse

_READER = {
    Kind.CURATOR_WRITE: Kind.CURATOR_READ,
    Kind.KAZOO_LOCK: Kind.KAZOO_READ,
}


@attrs.define(eq=False, repr=False)
class WriteGrant(Grant):
    """What a writer has won."""

    @asynccontextmanager
    async def downgrade(self) -> AsyncIterator[Grant]:
        """Go on as a reader: other readers are let in, and no writer comes in between.

            async with rw.write() as grant:
                ...
                async with grant.downgrade():
                    ...     # reading; behind this block nothing is held any more

        The reader takes the writer's place in the queue, its digits and its token (its own czxid would be
        larger than that of a writer who waits already: trap E-53).
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
        hold, writers = self.hold, self.paths
        readers = tuple(map(_reader_path, writers))
        watched = await hold.unguard() is not None
        for part in parts(hold):
            part.guard()  # without a watch: the exchange deletes the znode
        # Whatever comes of this, all of it is deleted in the end.
        self.paths = readers + writers
        with hold.scope():
            try:
                await self._exchange(writers, readers)
                self.paths, self.shared = readers, True
                for part, path in zip(parts(hold), readers, strict=True):
                    part.path = path
                if watched:
                    await self._watch_readers()
            except NoNodeError:
                hold.lose(LockLost(LossReason.NODE_DELETED, hold.path))
            except SessionExpiredError:
                hold.lose(LockLost(LossReason.SESSION_EXPIRED, hold.path))

    async def _watch_readers(self) -> None:
        zk, hold = self.zk, self.hold

        async def read(path: str) -> tuple[bytes | None, Stat, Watch]:
            return await zk.get(path, watch=True)

        found = [await self._bound.repeat(partial(read, path)) for path in self.paths]
        await hold.unguard()
        for part, (data, _, node) in zip(parts(hold), found, strict=True):
            part.guard(node, self.data_changed)
            self.data_changed(data)

    async def _exchange(self, writers: tuple[str, ...], readers: tuple[str, ...]) -> None:
        """Replace the writer's znodes by the reader's, in one transaction."""
        zk, terms = self.zk, self._terms
        acl = OPEN_ACL if terms.acl is None else terms.acl
        creates = [Create(path, terms.data, acl, CreateMode.EPHEMERAL) for path in readers]
        while True:
            self._bound.check()
            try:
                await zk.multi([*creates, *map(Delete, writers)])
                return
            except NodeExistsError:
                return  # the reply of the first attempt was lost: no other has these names
            except UNANSWERED:
                await self._bound.reconnected()


def _reader_path(path: str) -> str:
    parent, name = split(path)
    place = parse(name)
    assert place is not None
    head, _, digits = name.rpartition(place.kind.value)
    return join(parent, f"{head}{_READER[place.kind].value}{digits}")


class _Reader(Lock):
    """The reading side."""

    _purpose = Purpose.READ

    def _enter_again(self, held: Grant) -> None:
        if not held.shared:
            # A writer may read; Curator has it so too. The write lock is held all the while.
            held.enter_again()
            return
        super()._enter_again(held)


class _Writer(Lock):
    """The writing side."""

    _purpose = Purpose.WRITE
    _grant_type = WriteGrant

    async def __aenter__(self) -> WriteGrant:
        grant = await super().__aenter__()
        assert isinstance(grant, WriteGrant)
        return grant

    def share_holders(self, reader: _Reader) -> None:
        """A task that holds one side must be known to the other."""
        self._held = reader._held

    def _enter_again(self, held: Grant) -> None:
        if held.shared:
            raise Deadlock(
                f"this task reads {self.path}: a reader cannot become a writer, it must let go first"
            )
        super()._enter_again(held)


class RWLock:
    """A read/write lock on a path: first come, first served, readers side by side.

        rw = RWLock(zk, "/config-lock")
        async with rw.read() as grant: ...
        async with rw.write() as grant:
            async with grant.downgrade(): ...

    A reader waits for the nearest writer before it, a writer for whoever is before it, so nobody starves. The
    znodes are those of Curator's InterProcessReadWriteLock, of kazoo's ReadLock and WriteLock, or of both
    (``naming``); a plain lock of any library counts as a writer. Beside kazoo use its WriteLock, never its
    plain Lock: that one does not see readers (trap E-51). With Curator 5.4 a writer of its own that
    becomes a reader goes to the end of the queue, so that a writer who waits, ours too, gets in beside it.

    :param options: those of :class:`.Lock`, but ``local_queue`` and ``max_handoffs``.
    """

    def __init__(self, zk: ZooKeeper, path: str, **options: Any) -> None:
        if options.keys() & {"local_queue", "max_handoffs"}:
            raise TypeError("a read/write lock has no local queue")
        self.path = path
        self._reader = _Reader(zk, path, **options)
        self._writer = _Writer(zk, path, **options)
        self._writer.share_holders(self._reader)

    def read(self) -> Lock:
        """The reading side: a lock like any other, which several hold at a time."""
        return self._reader

    def write(self) -> _Writer:
        """The writing side, whose grants are :class:`WriteGrant`."""
        return self._writer

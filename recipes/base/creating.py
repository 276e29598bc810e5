"""Creating znodes so that exactly one comes of it, whatever happens to the connection or to the caller.

A create whose reply was lost may have been applied (recipe-rules.md 0.10, D.2 step 3). Here that is always
found out before anything is repeated; and a caller that is cancelled leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import attrs
import trio

from ...client import (
    ACL,
    OPEN_ACL,
    UNANSWERED,
    Check,
    ConnectionLossError,
    Create,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    Pending,
    Stat,
    paths,
)
from .bound import Bound
from .words import one_of

Parents = Literal["container", "persistent"]
"""What a missing parent is created as: a container, which the server deletes some time after the last child
has gone, or a persistent znode."""

T = TypeVar("T")


def _open_by_default(acl: Sequence[ACL] | None) -> Sequence[ACL]:
    return OPEN_ACL if acl is None else acl


@attrs.frozen
class CreateOptions:
    """How a recipe creates its znodes.

    :ivar parents: what a missing parent is created as.
    :ivar acl: the ACL of every znode, the parents included; :data:`OPEN_ACL` if None is given.
    :raises ValueError: ``parents`` is not one of :data:`Parents`.
    """

    parents: Parents = attrs.field(default="container", validator=one_of(Parents))
    acl: Sequence[ACL] = attrs.field(default=None, converter=_open_by_default)

    async def create_parent(self, bound: Bound, path: str) -> None:
        """Create a znode that is to be a parent, and every znode that is missing above it."""
        container = self.parents == "container"
        await bound.repeat(lambda: bound.zk.ensure_path(path, container=container, acl=self.acl))


DEFAULTS = CreateOptions()


async def create_ephemeral(
    bound: Bound, path: str, data: bytes = b"", options: CreateOptions = DEFAULTS
) -> Stat:
    """Create an ephemeral znode of a fixed name. After a lost reply, a znode that turns out to belong to this
    session is the one that was asked for.

    Raises :class:`NodeExistsError` if it belongs to somebody else.
    """
    zk = bound.zk
    operation = Create(path, data, acl=options.acl, ephemeral=True)
    ambiguous = False

    def undo(created: Created | None = None) -> None:
        zk.janitor.delete_own(path)  # others use the name too

    try:
        while True:
            try:
                _, stat = await _submit(bound, operation, undo)
                return stat
            except UNANSWERED as error:
                ambiguous = ambiguous or _may_have_happened(error)
                await bound.reconnected()
            except NoNodeError:
                await options.create_parent(bound, paths.parent(path))
            except NodeExistsError:
                if not ambiguous:
                    raise
                # The server that we are connected to now may be behind the one that has answered.
                await bound.repeat(lambda: zk.sync(path))
                if (own := await _owned(bound, path)) is not None:
                    return own
                if await bound.repeat(lambda: zk.exists(path)) is not None:
                    raise
    except trio.Cancelled:
        if ambiguous and not bound.over:
            undo()
        raise


@attrs.frozen
class Created:
    """Sequential znodes of this session.

    :ivar stat: of the first; None where the server did not say.
    """

    paths: tuple[str, ...]
    stat: Stat | None


async def create_identified(
    bound: Bound,
    parent: str,
    prefixes: Sequence[str],
    data: bytes = b"",
    options: CreateOptions = DEFAULTS,
    *,
    sequential: bool = True,
    fence: Check | None = None,
) -> Created:
    """Create ephemeral znodes, sequential ones by default, by names that begin as no other does; several in
    one transaction.

    :param prefixes: the names without the number; each holds an id used for this call alone.
    :param fence: checked in the same transaction. Where it fails, nothing is created, and its error raised.
    """
    zk = bound.zk
    creates = [
        Create(paths.join(parent, prefix), data, acl=options.acl, ephemeral=True, sequential=sequential)
        for prefix in prefixes
    ]
    operation: Operation[Any]
    if fence is not None:
        operation = Multi([fence, *creates])
    else:
        operation = creates[0] if len(creates) == 1 else Multi(creates)
    ambiguous = False

    def undo(created: Created | None = None) -> None:
        if created is not None:
            zk.janitor.delete(*created.paths)
            return
        for prefix in prefixes:
            zk.janitor.delete_prefixed(parent, prefix)

    try:
        while True:
            try:
                return _created(await _submit(bound, operation, undo))
            except UNANSWERED as error:
                ambiguous = _may_have_happened(error)
                await bound.reconnected()
                if ambiguous:
                    found = await _find(bound, parent, prefixes)
                    if found is not None:
                        return found
                    ambiguous = False
            except NoNodeError as error:
                if fence is not None and error.index == 0:
                    raise
                await options.create_parent(bound, parent)
    except trio.Cancelled:
        if ambiguous and not bound.over:
            undo()
        raise


async def _submit(bound: Bound, operation: Operation[T], undo: Callable[[Created | None], object]) -> T:
    """Submit a create and wait for it.

    :param undo: called if the wait is cancelled and something was created; with None where the reply is lost,
        and it may have been.
    """
    bound.check()
    zk = bound.zk
    pending = zk.submit(operation)

    def settled(pending: Pending[T]) -> None:
        if pending.error is None:
            undo(_created(pending.result()))
        elif _may_have_happened(pending.error):
            undo(None)

    try:
        return await pending.wait()
    except trio.Cancelled:
        zk.withdraw(pending)
        pending.on_settled(settled)
        raise


def _created(result: Any) -> Created:
    """What a Create, or a Multi of creates behind a check, returns."""
    if isinstance(result, tuple):
        path, stat = result
        return Created((path,), stat)
    return Created(tuple(path for path in result if path is not None), None)  # a check has no result


def _may_have_happened(error: Exception) -> bool:
    if isinstance(error, ConnectionLossError):
        return error.sent
    return isinstance(error, UNANSWERED)


async def _find(bound: Bound, parent: str, prefixes: Sequence[str]) -> Created | None:
    """What has come of a create whose reply was lost. Of several of one prefix the first is kept."""
    zk = bound.zk
    # The server that we are connected to now may be behind the one that has lost the reply.
    await bound.repeat(lambda: zk.sync(parent))
    try:
        names = sorted(await bound.repeat(lambda: zk.get_children(parent)))
    except NoNodeError:
        return None
    found: list[tuple[str, Stat]] = []
    for prefix in prefixes:
        own = [
            (path, stat)
            for name in names
            if name.startswith(prefix)
            and (stat := await _owned(bound, path := paths.join(parent, name))) is not None
        ]
        found += own[:1]
        for path, _ in own[1:]:
            zk.janitor.delete(path)
    if len(found) == len(prefixes):
        return Created(tuple(path for path, _ in found), found[0][1])
    for path, _ in found:  # somebody has deleted part of a transaction
        zk.janitor.delete(path)
    return None


async def _owned(bound: Bound, path: str) -> Stat | None:
    """The Stat of a znode if it is this session's: one of a session before may still be seen (trap E-04)."""
    stat = await bound.repeat(lambda: bound.zk.exists(path))
    return stat if stat is not None and stat.ephemeralOwner == bound.zk.session.id else None

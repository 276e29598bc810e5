"""Creating ephemeral znodes exactly once, even if the connection is lost or the caller is cancelled
(recipe-rules.md 0.10, D.2 step 3).

The rules:

* The server may have carried out a create whose reply was lost. So after a lost reply we look for the znode
  before we create it again.
* The call can recognise the znode that it has created. Either the name of the znode has an id that only this
  call uses, or the name is fixed and the owner of the znode is our session.
* If the caller is cancelled, the client's cleanup deletes the znodes that were or may have been created.
* If the parent is missing, the parent is created, and then the create is repeated.
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
    Create,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    Pending,
    Stat,
    maybe_applied,
    paths,
)
from ...client.repeating import pass_writes
from .bound import Bound
from .choices import one_of

Parents = Literal["container", "persistent"]
"""The kind of a missing parent: a container or a persistent znode. The server deletes a container some time
after the last child of the container was deleted."""

T = TypeVar("T")


def _open_by_default(acl: Sequence[ACL] | None) -> Sequence[ACL]:
    return OPEN_ACL if acl is None else acl


@attrs.frozen
class ZnodeOptions:
    """The options with which a recipe creates its znodes.

    :ivar parents: the kind of a missing parent.
    :ivar acl: the ACL of every znode, the parents included; :data:`OPEN_ACL` if None is given.
    :raises ValueError: ``parents`` is not one of :data:`Parents`.
    """

    parents: Parents = attrs.field(default="container", validator=one_of(Parents))
    acl: Sequence[ACL] = attrs.field(default=None, converter=_open_by_default)

    async def create_parent(self, bound: Bound, path: str) -> None:
        """Create a parent znode, and every missing znode above it."""
        container = self.parents == "container"
        await bound.repeat(lambda: bound.zk.ensure_path(path, container=container, acl=self.acl))


DEFAULTS = ZnodeOptions()


async def create_ephemeral(
    bound: Bound, path: str, data: bytes = b"", options: ZnodeOptions = DEFAULTS
) -> Stat:
    """Create an ephemeral znode with a fixed name. If a reply was lost and a znode with this name belongs to
    this session, this call has created the znode.

    :raises NodeExistsError: the znode exists, and belongs to another session.
    :raises SessionExpiredError: the session has ended.
    :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`.
    """
    zk = bound.zk
    operation = Create(path, data, acl=options.acl, ephemeral=True)
    ambiguous = False

    def undo(created: Created | None = None) -> None:
        zk.cleanup.delete_own(path)  # other clients use the name too

    try:
        while True:
            try:
                _, stat = await _submit(bound, operation, undo)
                return stat
            except UNANSWERED as error:
                ambiguous = ambiguous or maybe_applied(error)
                await bound.reconnected()
            except NoNodeError:
                await options.create_parent(bound, paths.parent(path))
            except NodeExistsError:
                if not ambiguous:
                    raise
                # The present server may be behind the server that has answered.
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
    """Znodes that :func:`create_identified` has created.

    :ivar stat: the Stat of the first znode; None if a transaction has created the znodes, because the reply
        to a transaction has no Stat.
    """

    paths: tuple[str, ...]
    stat: Stat | None


async def create_identified(
    bound: Bound,
    parent: str,
    prefixes: Sequence[str],
    data: bytes = b"",
    options: ZnodeOptions = DEFAULTS,
    *,
    sequential: bool = True,
    fence: Check | None = None,
) -> Created:
    """Create ephemeral znodes whose names begin with an id. Several znodes are created in one transaction.

    :param prefixes: the names without the number that the server adds. Each name has an id that only this
        call uses.
    :param sequential: whether the server adds a number to the names.
    :param fence: an operation that is checked in the same transaction. If it fails, nothing is created.
    :raises SessionExpiredError: the session has ended.
    :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`, or
        ``fence`` has failed.
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
            zk.cleanup.delete(*created.paths)
            return
        for prefix in prefixes:
            zk.cleanup.delete_prefixed(parent, prefix)

    try:
        while True:
            try:
                return _created(await _submit(bound, operation, undo))
            except UNANSWERED as error:
                ambiguous = maybe_applied(error)
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

    :param undo: a function that is called if the wait is cancelled. The argument of ``undo`` is the created
        znodes, or None if the reply was lost and znodes may have been created.
    """
    bound.check()
    zk = bound.zk
    pending = zk.submit(operation)

    def settled(pending: Pending[T]) -> None:
        if pending.error is None:
            undo(_created(pending.result()))
        elif maybe_applied(pending.error):
            undo(None)

    try:
        return await pending.wait()
    except trio.Cancelled:
        zk.withdraw(pending)
        pending.on_settled(settled)
        raise


def _created(result: Any) -> Created:
    """Convert the result of a Create, or of a Multi of creates after a check."""
    if isinstance(result, tuple):
        path, stat = result
        return Created((path,), stat)
    return Created(tuple(path for path in result if path is not None), None)  # a check has no result


async def _find(bound: Bound, parent: str, prefixes: Sequence[str]) -> Created | None:
    """Look for the znodes of a create whose reply was lost. Returns None if any of them is missing. If a
    prefix has several znodes, the first one is kept, and the others are deleted."""
    zk = bound.zk
    await bound.repeat(lambda: pass_writes(zk))  # the server may still carry out the create
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
            zk.cleanup.delete(path)
    if len(found) == len(prefixes):
        return Created(tuple(path for path, _ in found), found[0][1])
    for path, _ in found:  # an operator has deleted the other znodes
        zk.cleanup.delete(path)
    return None


async def _owned(bound: Bound, path: str) -> Stat | None:
    """Return the Stat of a znode if the znode belongs to this session, else None. A znode of an earlier
    session of this client may still exist (trap E-04)."""
    stat = await bound.repeat(lambda: bound.zk.exists(path))
    return stat if stat is not None and stat.ephemeralOwner == bound.zk.session.id else None

"""Acquiring several locks together without deadlocks (recipe-rules.md D.6)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise

from .acquiring import Acquirable, Grants, end_after
from .grant import Grant
from .lock import Lock
from .semaphore import Semaphore
from .single_node import SingleNodeLock

AnyLock = Lock | Semaphore | SingleNodeLock

_KINDS = (Lock, Semaphore, SingleNodeLock)


def _sort_key(member: AnyLock) -> tuple[str, int]:
    """Return the sort key of a lock: every :class:`MultiLock` acquires its members in the order of this
    key."""
    return member.path, next(n for n, kind in enumerate(_KINDS) if isinstance(member, kind))


class MultiLock(Acquirable[Grants]):
    """Several locks that a block holds together.

        transfer = MultiLock([Lock(zk, "/accounts/7"), Lock(zk, "/accounts/3")])
        async with transfer as (seven, three):
            ...

    A member can be a :class:`.Lock`, one of the two sides of an :class:`.RWLock`, a :class:`.Semaphore` or a
    :class:`.SingleNodeLock`. The members are acquired one after the other, always in the order of their
    paths. So two objects of this class never wait for each other (trap E-58). The members are released in the
    reverse order. The loss of a member cancels the body, and also the wait for the next member. Each grant
    has its own token. The grants are in the order in which the members were given. A deadlock is still
    possible between clients with different chroots, because their paths differ. A deadlock is also possible
    with code that acquires the same locks one by one in another order.

    :param locks: the members. Two members of the same class must have different paths. For several leases of
        one semaphore use :meth:`.Semaphore.acquire_many`.
    :raises ValueError: two members of the same class have the same path.
    """

    def __init__(self, locks: Iterable[AnyLock]) -> None:
        super().__init__()
        self.locks: tuple[AnyLock, ...] = tuple(locks)
        self._ordered = sorted(self.locks, key=_sort_key)
        for member, following in pairwise(self._ordered):
            if _sort_key(member) == _sort_key(following):
                raise ValueError(
                    f"two of the locks are at {member.path}, and one would wait for the other: leave one out"
                )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(member.path for member in self._ordered)}>"

    async def acquire(self, *, wait: bool = True) -> Grants:
        """Acquire all members or none. If one member cannot be acquired, the acquired members are released.

        :raises LockLost: a member was lost during the wait for the others.
        :raises Exception: the error of a member's ``acquire``.
        """
        acquired: dict[AnyLock, Grant] = {}
        try:
            with ExitStack() as scopes:
                for member in self._ordered:
                    grant = acquired[member] = await member.acquire(wait=wait)
                    scopes.enter_context(grant.scope())
        except BaseException as error:
            await end_after(error, Grants(acquired.values()))
            raise
        return Grants((acquired[member] for member in self.locks), acquired.values())

"""Several locks at once, without deadlocks between those who want several (recipe-rules.md D.6)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise

from .acquiring import Acquirable, Grants, end_after
from .grant import Grant
from .lock import Lock
from .semaphore import Semaphore
from .single_node import SingleNodeLock

Member = Lock | Semaphore | SingleNodeLock

_KINDS = (Lock, Semaphore, SingleNodeLock)


def _place(member: Member) -> tuple[str, int]:
    """Where a member stands in the order that all users of several locks follow."""
    return member.path, next(n for n, kind in enumerate(_KINDS) if isinstance(member, kind))


class MultiLock(Acquirable[Grants]):
    """Several locks, all of which a block holds.

        transfer = MultiLock([Lock(zk, "/accounts/7"), Lock(zk, "/accounts/3")])
        async with transfer as (seven, three):
            ...

    The members may be :class:`.Lock`, either side of an :class:`.RWLock`, :class:`.Semaphore` and
    :class:`.SingleNodeLock`. They are acquired one after the other in the order of their paths, whatever
    order they were given in, so that no two of these can wait for each other (trap E-58); they are released
    in reverse. The loss of any of them cancels the body, and also the wait for the next one. Each grant has
    a token of its own; the grants come in the order in which the members were given.

    The order is one of paths: a deadlock is still possible between clients with different chroots, and with
    code that takes the same locks one by one in another order.

    :param locks: their paths differ, but for members of different classes. (For several leases of one
        semaphore there is :meth:`.Semaphore.acquire_many`.)

    ``acquire`` and ``try_acquire`` raise what those of the members raise, and :class:`LockLost` if a member
    was lost while the others were waited for. What had been acquired is given up then.
    """

    def __init__(self, locks: Iterable[Member]) -> None:
        super().__init__()
        self.locks = tuple(locks)
        self._ordered = sorted(self.locks, key=_place)
        places = [_place(member) for member in self._ordered]
        for place, following in pairwise(places):
            if place == following:
                raise ValueError(f"two of the locks are at {place[0]}: one would wait for the other")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(member.path for member in self._ordered)}>"

    async def acquire(self, *, wait: bool = True) -> Grants:
        acquired: dict[Member, Grant] = {}
        try:
            with ExitStack() as scopes:
                for member in self._ordered:
                    grant = acquired[member] = await member.acquire(wait=wait)
                    scopes.enter_context(grant.scope())
        except BaseException as error:
            await end_after(error, Grants(acquired.values()))
            raise
        return Grants((acquired[member] for member in self.locks), acquired.values())

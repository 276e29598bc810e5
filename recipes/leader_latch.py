"""A candidate that runs in the background (recipe-rules.md B.6, D.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Unpack

import trio

from ..client import ZooKeeper
from .base.running import Running, alongside
from .election import ElectionLayout, LeaderElection, Term
from .errors import LockLost, LossReason
from .locks.options import ElectionOptions


class LeaderLatch(Running):
    """A candidate that runs in the background until the end of the block.

        async with LeaderLatch(zk, "/leader", id="10.0.0.1:80") as latch:
            while True:
                async with latch.term() as term:   # waits to be elected
                    ...                            # cancelled when deposed

    After its election it leads until it is deposed. Then it is a candidate again, at the end of the queue. At
    the end of the block it resigns. A :meth:`term` block that still runs is then cancelled before another
    candidate can be elected. If an error like :class:`NoAuthError` makes it impossible to be a candidate, the
    block is cancelled and raises that error.

    :param id, layout, options: see :class:`.LeaderElection`. With ``"curator-latch"`` the candidates of
        Curator's LeaderLatch see this candidate.

    :ivar election: the election; use it to list the candidates and to follow the leaders.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        id: str = "",
        layout: ElectionLayout = "curator-latch",
        **options: Unpack[ElectionOptions],
    ) -> None:
        super().__init__()
        self.zk = zk
        self.path = path
        self.election = LeaderElection(zk, path, id=id, layout=layout, **options)
        self._term: Term | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with alongside(self.zk, partial(self.election.run, self._lead)):
            yield

    async def _lead(self, term: Term) -> None:
        self._term = term
        self._notify()
        try:
            await trio.sleep_forever()
        finally:
            self._term = None
            term.ownership.inspect()
            term.ownership.lose(LockLost(LossReason.RELEASED, term.path))  # no effect if it was lost before

    @property
    def is_leader(self) -> bool:
        """True if this candidate leads now, by the clock. Code that relies on the leadership must run in a
        :meth:`term` block."""
        if self._term is None:
            return False
        self._term.ownership.inspect()
        return not self._term.lost.is_set()

    async def wait_leader(self) -> Term:
        """Wait until this candidate leads, and return the term. The event ``lost`` of the term is set when
        the term ends.

        :raises RuntimeError: the latch's block has ended or has not begun.
        """
        await self._until(lambda: self.is_leader)
        assert self._term is not None
        return self._term

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Term]:
        """Wait until this candidate leads, and run the block while it leads. The candidate does not resign at
        the end of this block. Any number of tasks can be in such blocks at the same time.

        :raises LockLost: the leader was deposed, or the latch's block has ended (``LossReason.RELEASED``).
        :raises RuntimeError: the latch's block has ended or has not begun.
        """
        term = await self.wait_leader()
        with term.scope():
            yield term

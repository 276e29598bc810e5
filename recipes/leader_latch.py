"""Being a candidate in the background (recipe-rules.md B.6, D.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from ..client import ZooKeeper
from .base.running import Running, alongside
from .election import Layout, LeaderElection, Term
from .errors import LockLost, LossReason


class LeaderLatch(Running):
    """A candidate for as long as the block lasts, which goes on with its own work meanwhile.

        async with LeaderLatch(zk, "/leader", id=b"10.0.0.1:80") as latch:
            while True:
                async with latch.term() as term:   # waits to be elected
                    ...                            # cancelled when deposed

    Once elected it leads until it is deposed, and is then a candidate again, at the end of the queue. Leaving
    the block resigns: what still runs in :meth:`term` is cancelled before another can be elected. What makes
    it impossible to be a candidate, such as :class:`NoAuthError`, cancels the block, which raises it.

    :param id: what the candidate's znode holds.
    :param layout: see :class:`.LeaderElection`, which knows the options too. ``"curator-latch"`` stands among
        the candidates of Curator's recipe of the same name.

    :ivar election: to ask who else is a candidate and who leads.
    """

    def __init__(
        self, zk: ZooKeeper, path: str, *, id: bytes = b"", layout: Layout = "curator-latch", **options: Any
    ) -> None:
        super().__init__()
        self.election = LeaderElection(zk, path, id=id, layout=layout, **options)
        self._term: Term | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.election.path}>"

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with alongside(self.election.zk, partial(self.election.run, self._lead)):
            yield

    async def _lead(self, term: Term) -> None:
        self._term = term
        self._notify()
        try:
            await trio.sleep_forever()
        finally:
            self._term = None
            term.hold.inspect()
            term.hold.lose(LockLost(LossReason.RELEASED, term.path))  # if nothing else has ended it

    @property
    def is_leader(self) -> bool:
        """Whether it leads at this moment, by the clock. Code that relies on it belongs into :meth:`term`."""
        if self._term is None:
            return False
        self._term.hold.inspect()
        return not self._term.lost.is_set()

    async def wait_leader(self) -> Term:
        """Wait until it leads. The term's ``lost`` is set when that is over.

        Raises RuntimeError outside of the block.
        """
        await self._until(lambda: self.is_leader)
        assert self._term is not None
        return self._term

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Term]:
        """Wait until it leads; the block relies on that, and leaving it resigns nothing. Any number of tasks
        may do so at a time.

        Raises :class:`LockLost` when it was deposed, and with ``LossReason.RELEASED`` when the latch's own
        block was left.
        """
        term = await self.wait_leader()
        with term.scope():
            yield term

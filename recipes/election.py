"""Electing a leader (recipe-rules.md B.6, D.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, NoReturn

import attrs

from ..client import NoNodeError, SessionExpiredError, Watch, ZooKeeper
from ..protocol.paths import join
from .base.following import Latest
from .base.words import check_word
from .errors import LockLost, LockRevoked
from .locks.grant import Grant
from .locks.lock import Contender, Lock
from .locks.names import DEFAULT_KINDS, Kind, Naming, Place, Purpose, queue

Layout = Literal["curator-latch", "curator-selector", "kazoo"]
"""Whose candidates we stand among: those of Curator's LeaderLatch (``_c_<uuid>-latch-<number>``), of its
LeaderSelector (``_c_<uuid>-lock-<number>``), or of kazoo's Election (``<32 hex digits>__lock__<number>``)."""

CANDIDATES = DEFAULT_KINDS | {Kind.CURATOR_LATCH}
"""Whom ours queue behind, whatever their own layout."""


@attrs.define(eq=False)
class Term(Grant):
    """Leadership, for as long as it lasts.

    :ivar number: how many terms this election object has won, with this one.
    """

    number: int = 0


class _Candidacy(Lock):
    _grant_type = Term


class _LatchCandidacy(_Candidacy):
    _purpose = Purpose.LATCH


_LAYOUTS: dict[Layout, tuple[type[_Candidacy], Naming]] = {
    "curator-latch": (_LatchCandidacy, "curator"),
    "curator-selector": (_Candidacy, "curator"),
    "kazoo": (_Candidacy, "kazoo"),
}


class LeaderElection:
    """One leader at a time among any number of candidates, first come, first served.

        election = LeaderElection(zk, "/leader", id=b"10.0.0.1:80")
        async with election.lead() as term:
            await zk.multi([term.fence(), SetData("/state", b"...")])

    Whoever leads is deposed when its session ends or may have ended, or when somebody deletes its znode: the
    block is cancelled, before the server can elect another, and raises :class:`LockLost`.
    ``term.token`` grows from leader to leader.

    Interoperates with Curator and kazoo as ``layout`` says. All candidates on a path should have one layout:
    ours wait for those of every layout, but Curator and kazoo see their own only (recipe-rules.md B.2.3).

    :param id: what the candidate's znode holds; for others to see who leads.
    :param options: of :class:`.Lock`: ``parents``, ``suspended``, ``margin``, ``on_session_loss``,
        ``on_revoke``, ``acl``, ``strategy``, ``cleanup_grace``.
    """

    def __init__(
        self, zk: ZooKeeper, path: str, *, id: bytes = b"", layout: Layout = "curator-latch", **options: Any
    ) -> None:
        if excess := options.keys() & {"reentrant", "local_queue", "max_handoffs", "monitor", "recognise"}:
            raise TypeError(f"an election has no option {', '.join(sorted(excess))}")
        check_word("layout", layout, Layout)
        kind, naming = _LAYOUTS[layout]
        self.path = path
        self._candidacy = kind(zk, path, data=id, naming=naming, recognise=CANDIDATES, **options)
        self._terms = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def zk(self) -> ZooKeeper:
        return self._candidacy.zk

    # --- standing for it ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def lead(self) -> AsyncIterator[Term]:
        """Wait to be elected; the block leads, and leaving it resigns. Any number of tasks may stand as
        candidates at a time.

        Raises what :meth:`.Lock.acquire` raises; :class:`LockLost` if it was deposed.
        """
        async with self._candidacy as term:
            assert isinstance(term, Term)
            self._terms += 1
            term.number = self._terms
            yield term

    async def run(self, lead: Callable[[Term], Awaitable[object]]) -> NoReturn:
        """Stand again and again, for ever, and call ``lead(term)`` each time it is elected. Returning from it
        resigns; being deposed cancels it. Then it is a candidate again, at the end of the queue.

        Raises what ``lead`` raises, but not what comes of being deposed.
        """
        while True:
            term = None
            try:
                async with self.lead() as term:
                    await lead(term)
            except (LockLost, LockRevoked, SessionExpiredError):
                if term is None or not term.lost.is_set():
                    raise

    # --- looking on --------------------------------------------------------------------------------------

    async def participants(self) -> list[Contender]:
        """The candidates in order. The first leads, or is about to. Creates no znode."""
        return await self._candidacy.contenders()

    async def leader(self) -> Contender | None:
        """The first of the candidates. Creates no znode, and costs the same whatever their number."""
        return await anext(self.observe())

    def observe(self) -> Latest[Contender | None]:
        """Follow who leads, without being a candidate.

            async for leader in election.observe():
                print(leader and leader.data)

        The present leader at once, then each later one, and one whose data have changed; None while there is
        no candidate. Who is slow gets the latest only. Goes on after the connection or the session was lost.
        """
        return Latest(self.zk, self._first)

    async def _first(self) -> tuple[Contender | None, object, Watch]:
        """The first candidate, what tells it from others, and a watch: on its znode, or for one to come."""
        zk, path = self.zk, self.path
        while True:
            try:
                place = _first_of(await zk.get_children(path))
                if place is not None:
                    child = join(path, place.name)
                    data, stat, watch = await zk.get(child, watch=True)
                    first = Contender(child, place.name, place.kind, place.sequence, data or b"", stat)
                    return first, stat.mzxid, watch
                names, watch = await zk.get_children(path, watch=True)
                if _first_of(names) is None:
                    return None, None, watch
            except NoNodeError:
                missing, watch = await zk.exists(path, watch=True)
                if missing is None:
                    return None, None, watch
            watch.cancel()


def _first_of(names: list[str]) -> Place | None:
    return next((place for place in queue(names)[0] if place.kind in CANDIDATES), None)

"""The election of a leader (recipe-rules.md B.6, D.7).

The rules:

* The candidates are the contenders of a lock at the path. The holder of the lock is the leader.
* Candidates of this package wait for the candidates of every layout. Candidates of Curator and kazoo see only
  candidates of their own layout (recipe-rules.md B.2.3). So all candidates at a path should use the same
  layout.
* A leader is deposed when its session ends or may have ended, or when its znode is deleted.
* Observers read the list of candidates and the first candidate. They create no znode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, NoReturn, Unpack

import attrs

from ..client import NoNodeError, SessionExpiredError, Watch, ZooKeeper, paths
from ..protocol.layouts import ContenderKind, ContenderName, in_order
from .base.choices import check_choice, check_options
from .base.following import Latest
from .errors import LockLost
from .locks.grant import Grant
from .locks.lock import Contender, Lock
from .locks.options import ElectionOptions
from .locks.role import DEFAULT_KINDS, LockKind, LockLayout

ElectionLayout = Literal["curator-latch", "curator-selector", "kazoo"]
"""The recipe of another library whose candidates see pyzk's candidates. ``"curator-latch"`` is Curator's
LeaderLatch (names ``_c_<uuid>-latch-<number>``), ``"curator-selector"`` is Curator's LeaderSelector
(``_c_<uuid>-lock-<number>``), and ``"kazoo"`` is kazoo's Election (``<32 hex digits>__lock__<number>``)."""

CANDIDATES = DEFAULT_KINDS | {ContenderKind.CURATOR_LATCH}
"""The kinds of candidates that pyzk's candidates wait for, in each layout."""

_LAYOUTS: dict[ElectionLayout, tuple[LockKind, LockLayout]] = {
    "curator-latch": (LockKind.LATCH, "curator"),
    "curator-selector": (LockKind.LOCK, "curator"),
    "kazoo": (LockKind.LOCK, "kazoo"),
}


@attrs.define(eq=False)
class Term(Grant):
    """A term of a leader.

    :ivar number: the number of terms that this election object has won, including this term. Each object
        counts separately, so the first term of each process has the number 1. ``token`` grows from leader to
        leader.
    """

    number: int = 0


class LeaderElection:
    """An election of one leader among any number of candidates. The candidates lead in the order in which
    they came.

        election = LeaderElection(zk, "/leader", id="10.0.0.1:80")
        async with election.lead() as term:
            await zk.multi([term.fence(), SetData("/state", b"...")])

    When the leader is deposed, the block is cancelled before the server can elect another leader, and raises
    :class:`LockLost`. ``term.token`` grows from leader to leader.

    :param id: the name that other clients see. The name is the data of the candidate's znode, in UTF-8.
    :param layout: the library whose candidates see this candidate: see :data:`ElectionLayout`.
    :param options: :class:`.ElectionOptions`: ``parents``, ``acl``, ``suspended``, ``margin``,
        ``on_session_loss``, ``cleanup_grace``, ``on_revoke``, ``strategy``; see :class:`.Lock`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that it does not accept.
    :raises TypeError: the value of an option has a wrong type, or an option is unknown.
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
        check_options("an election", options, ElectionOptions)
        check_choice("layout", layout, ElectionLayout)
        if not isinstance(id, str):
            raise TypeError(f"id must be a str, not {id!r:.100}")
        purpose, lock_layout = _LAYOUTS[layout]
        self.zk = zk
        self.path = path
        self._lock = Lock(
            zk,
            path,
            data=id.encode(),
            layout=lock_layout,
            recognise=CANDIDATES,
            purpose=purpose,
            grant_type=Term,
            **options,
        )
        self._terms_won = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- standing for it ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def lead(self) -> AsyncIterator[Term]:
        """Wait until this candidate is elected. The candidate leads until the end of the block, and then
        resigns. Any number of tasks can be candidates at the same time. The method also raises the errors of
        :meth:`.Lock.acquire`.

        :raises LockLost: the leader was deposed.
        :raises LockRevoked: another client has asked for the leadership, and ``on_revoke`` is ``"cancel"``.
        """
        async with self._lock as term:
            assert isinstance(term, Term)
            self._terms_won += 1
            term.number = self._terms_won
            yield term

    async def run(self, lead: Callable[[Term], Awaitable[object]]) -> NoReturn:
        """Be a candidate again and again without end. Call ``lead(term)`` each time this candidate is
        elected.

        When ``lead(term)`` returns, the candidate resigns. When the leader is deposed, ``lead(term)`` is
        cancelled. In both cases the candidate goes to the end of the queue. The method raises the errors of
        :meth:`lead` and of ``lead(term)``, but it raises no error when the leader is deposed."""
        while True:
            term = None
            try:
                async with self.lead() as term:
                    await lead(term)
            except (LockLost, SessionExpiredError):
                if term is None or not term.lost.is_set():
                    raise

    # --- looking on --------------------------------------------------------------------------------------

    async def contenders(self) -> list[Contender]:
        """List the candidates in order. The first candidate is the leader, or will be the leader soon."""
        return await self._lock.contenders()

    async def leader(self) -> Contender | None:
        """Return the first candidate; None if there is no candidate. This costs one list of the children and
        one read."""
        return await anext(self.observe())

    def observe(self) -> Latest[Contender | None]:
        """Follow the leaders, without being a candidate.

            async for leader in election.observe():
                print(leader and leader.data)

        Yields the present leader at once, and then each later leader. A leader is yielded again after its
        data has changed. Yields None while there is no candidate. A slow reader skips to the latest leader.
        The loop survives the loss of the connection and of the session.
        """
        return Latest(self.zk, self._first)

    async def _first(self) -> tuple[Contender | None, object, Watch]:
        """Return the first candidate, a mark that identifies this candidate, and a watch. The watch is on the
        znode of the candidate. Without a candidate the watch fires when a candidate comes."""
        zk, path = self.zk, self.path
        while True:
            try:
                first = _first_of(await zk.get_children(path))
                if first is not None:
                    child = paths.join(path, first.name)
                    data, stat, watch = await zk.get_and_watch(child)
                    leader = Contender(child, first.name, first.kind, first.sequence, data or b"", stat)
                    return leader, stat.mzxid, watch
                names, watch = await zk.get_children_and_watch(path)
                if _first_of(names) is None:
                    return None, None, watch
            except NoNodeError:
                missing, watch = await zk.exists_and_watch(path)
                if missing is None:
                    return None, None, watch
            watch.cancel()


def _first_of(names: list[str]) -> ContenderName | None:
    return next((candidate for candidate in in_order(names)[0] if candidate.kind in CANDIDATES), None)

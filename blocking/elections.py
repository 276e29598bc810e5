"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NoReturn, Unpack

from ..recipes import Contender
from ..recipes.election import ElectionLayout
from ..recipes.election import LeaderElection as TrioLeaderElection
from ..recipes.election import Term as TrioTerm
from ..recipes.leader_latch import LeaderLatch as TrioLeaderLatch
from .base import Latest, Running
from .client import ZooKeeper
from .grants import Grant
from .locks import ElectionOptions
from .wrapper import ThreadWrapper


class Term(Grant, of=TrioTerm):
    """A term of a leader.

    :ivar number: how many terms this election object has won, with this one. Each object counts separately,
        so the first term of each process has the number 1. ``token`` grows from leader to leader.
    """

    _trio: TrioTerm

    @property
    def number(self) -> int:
        return self._trio.number


class LeaderElection(ThreadWrapper, of=TrioLeaderElection):
    """One leader at a time among any number of candidates, first come, first served.

        election = LeaderElection(zk, "/leader", id="10.0.0.1:80")
        with election.lead() as term:
            zk.multi([term.fence(), SetData("/state", b"...")])

    When the leader is deposed, the block is cancelled before the server can elect another leader, and raises
    :class:`LockLost`. ``term.token`` grows from leader to leader.

    :param id: the name that other clients see. It is the data of the candidate's znode, in UTF-8.
    :param layout: the library whose candidates see this candidate: see :data:`ElectionLayout`.
    :param options: :class:`.ElectionOptions`: ``parents``, ``acl``, ``suspended``, ``margin``,
        ``on_session_loss``, ``cleanup_grace``, ``on_revoke``, ``strategy``; see :class:`.Lock`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not one of its values.
    :raises TypeError: an option has a value of another type, or there is no such option.
    """

    _trio: TrioLeaderElection

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        id: str = "",
        layout: ElectionLayout = "curator-latch",
        **options: Unpack[ElectionOptions],
    ) -> None:
        self._make(zk, path, id=id, layout=layout, **options)

    def lead(self) -> AbstractContextManager[Term]:
        """Wait until this candidate is elected. Inside the block it leads, and at the end of the block it
        resigns. Any number of threads may be candidates at a time. It raises the errors of
        :meth:`.Lock.acquire`.

        :raises LockLost: the leader was deposed.
        :raises LockRevoked: with ``on_revoke="cancel"``.
        """
        return self._block(self._trio.lead())

    def run(self, lead: Callable[[Term], object]) -> NoReturn:
        """Be a candidate again and again, without end, and call ``lead(term)`` after each election.

        When ``lead(term)`` returns, the candidate resigns. When the leader is deposed, ``lead(term)`` is
        cancelled. Then it is a candidate again, at the end of the queue. It raises the errors of :meth:`lead`
        and of ``lead(term)``, but no error when the leader was deposed."""
        self._call_back(self._trio.run, lead)
        raise AssertionError("it ends by an error only")

    def contenders(self) -> list[Contender]:
        """List the candidates in order. The first one leads, or will lead soon."""
        return self._call(self._trio.contenders)

    def leader(self) -> Contender | None:
        """Return the first candidate; None if there is none. The cost does not depend on the number of
        candidates."""
        return self._call(self._trio.leader)

    def observe(self) -> Latest[Contender | None]:
        """Follow who leads, without being a candidate.

            for leader in election.observe():
                print(leader and leader.data)

        Yields the present leader at once, then each later leader, and again a leader whose data has changed.
        Yields None while there is no candidate. A slow reader skips to the latest leader. The loop survives
        the loss of the connection and of the session.
        """
        return self._wrap(self._trio.observe())


class LeaderLatch(Running, of=TrioLeaderLatch):
    """A candidate in the background, until the end of the block.

        with LeaderLatch(zk, "/leader", id="10.0.0.1:80") as latch:
            while True:
                with latch.term() as term:   # waits to be elected
                    ...                            # cancelled when deposed

    When it is elected, it leads until it is deposed. Then it is a candidate again, at the end of the queue.
    At the end of the block it resigns: a :meth:`term` block that still runs is cancelled before another
    candidate can be elected. If an error such as :class:`NoAuthError` makes it impossible to be a candidate,
    the block is cancelled and raises that error.

    :param id, layout, options: see :class:`.LeaderElection`. With ``"curator-latch"`` the candidates of
        Curator's LeaderLatch see this candidate.

    :ivar election: the election, to list the candidates and to follow who leads.
    """

    _trio: TrioLeaderLatch

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def election(self) -> LeaderElection:
        return self._wrap(self._trio.election)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        id: str = "",
        layout: ElectionLayout = "curator-latch",
        **options: Unpack[ElectionOptions],
    ) -> None:
        self._make(zk, path, id=id, layout=layout, **options)

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads now, by the clock. Run code that relies on leading in a :meth:`term`
        block."""
        return self._look(lambda: self._trio.is_leader)

    def wait_leader(self) -> Term:
        """Wait until it leads, and return the term. The event ``lost`` of the term is set when it no longer
        leads.

        :raises RuntimeError: the latch's block was left, or not entered yet.
        """
        return self._call(self._trio.wait_leader)

    def term(self) -> AbstractContextManager[Term]:
        """Wait until it leads, and run the block while it leads. At the end of this block it does not resign.
        Any number of threads may be in such a block at a time.

        :raises LockLost: the leader was deposed, or (``LossReason.RELEASED``) the latch's block was left.
        :raises RuntimeError: the latch's block was left, or not entered yet.
        """
        return self._block(self._trio.term())

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

    :ivar number: the number of terms that this election object has won, including this term. Each object
        counts separately, so the first term of each process has the number 1. ``token`` grows from leader to
        leader.
    """

    _trio: TrioTerm

    @property
    def number(self) -> int:
        return self._trio.number


class LeaderElection(ThreadWrapper, of=TrioLeaderElection):
    """An election of one leader among any number of candidates. The candidates lead in the order in which
    they came.

        election = LeaderElection(zk, "/leader", id="10.0.0.1:80")
        with election.lead() as term:
            zk.multi([term.fence(), SetData("/state", b"...")])

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
        """Wait until this candidate is elected. The candidate leads until the end of the block, and then
        resigns. Any number of threads can be candidates at the same time. The method also raises the errors of
        :meth:`.Lock.acquire`.

        :raises LockLost: the leader was deposed.
        :raises LockRevoked: another client has asked for the leadership, and ``on_revoke`` is ``"cancel"``.
        """
        return self._block(self._trio.lead())

    def run(self, lead: Callable[[Term], object]) -> NoReturn:
        """Be a candidate again and again without end. Call ``lead(term)`` each time this candidate is
        elected.

        When ``lead(term)`` returns, the candidate resigns. When the leader is deposed, ``lead(term)`` is
        cancelled. In both cases the candidate goes to the end of the queue. The method raises the errors of
        :meth:`lead` and of ``lead(term)``, but it raises no error when the leader is deposed."""
        self._call_back(self._trio.run, lead)
        raise AssertionError("it ends by an error only")

    def contenders(self) -> list[Contender]:
        """List the candidates in order. The first candidate is the leader, or will be the leader soon."""
        return self._call(self._trio.contenders)

    def leader(self) -> Contender | None:
        """Return the first candidate; None if there is no candidate. This costs one list of the children and
        one read."""
        return self._call(self._trio.leader)

    def observe(self) -> Latest[Contender | None]:
        """Follow the leaders, without being a candidate.

            for leader in election.observe():
                print(leader and leader.data)

        Yields the present leader at once, and then each later leader. A leader is yielded again after its
        data has changed. Yields None while there is no candidate. A slow reader skips to the latest leader.
        The loop survives the loss of the connection and of the session.
        """
        return self._wrap(self._trio.observe())


class LeaderLatch(Running, of=TrioLeaderLatch):
    """A candidate that runs in the background until the end of the block.

        with LeaderLatch(zk, "/leader", id="10.0.0.1:80") as latch:
            while True:
                with latch.term() as term:   # waits to be elected
                    ...                            # cancelled when deposed

    After its election it leads until it is deposed. Then it is a candidate again, at the end of the queue. At
    the end of the block it resigns. A :meth:`term` block that still runs is then cancelled before another
    candidate can be elected. If an error like :class:`NoAuthError` makes it impossible to be a candidate, the
    block is cancelled and raises that error.

    :param id, layout, options: see :class:`.LeaderElection`. With ``"curator-latch"`` the candidates of
        Curator's LeaderLatch see this candidate.

    :ivar election: the election; use it to list the candidates and to follow the leaders.
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
        """True if this candidate leads now, by the clock. Code that relies on the leadership must run in a
        :meth:`term` block."""
        return self._look(lambda: self._trio.is_leader)

    def wait_leader(self) -> Term:
        """Wait until this candidate leads, and return the term. The event ``lost`` of the term is set when
        the term ends.

        :raises RuntimeError: the latch's block has ended or has not begun.
        """
        return self._call(self._trio.wait_leader)

    def term(self) -> AbstractContextManager[Term]:
        """Wait until this candidate leads, and run the block while it leads. The candidate does not resign at
        the end of this block. Any number of threads can be in such blocks at the same time.

        :raises LockLost: the leader was deposed, or the latch's block has ended (``LossReason.RELEASED``).
        :raises RuntimeError: the latch's block has ended or has not begun.
        """
        return self._block(self._trio.term())

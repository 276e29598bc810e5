"""The engine of locks, read/write locks, semaphores and elections (recipe-rules.md D.2).

A contender creates a sequential ephemeral znode. A contender has won when it needs to wait for no contender
before it. The rules:

* A contender decides only by lists of children. Any event makes it list the children again.
* If its own znode is missing in a list, an operator has deleted the znode. Then the contender begins anew.
* A contender whose session ends begins anew in the next session, or raises an error. The option
  ``on_session_loss`` decides.
* An attempt keeps at most one znode. After a lost reply the contender looks for the znode that it may have
  created, before it creates another znode. If a second znode appears later, the first znode is kept.
* At its end every attempt deletes its znode and cancels its watches.

One attempt has these steps. To "begin anew" means to leave, and to enter as a new attempt::

    enter    create the own znode                        the numbers have run out: SequenceExhausted
      |
    win      list the children  <----------------------- the watch fires, or the strategy's period is over
      |        |-- own znode missing: begin anew                               ^
      |        |-- a contender before us: watch it, wait ----------------------'
      |
    granted  read the own znode and watch it; check that the session's lease is long enough
               |-- own znode missing: begin anew
               '-- build the Grant
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable

import attrs
import trio
from attrs.validators import instance_of

from ...client import GetChildren, NoNodeError, SessionExpiredError, Stat, Watch, ZooKeeper, paths
from ...protocol.layouts import ContenderName, in_order, number_after
from ...protocol.layouts.waiting import LAST_SEQUENCE
from ..base.bound import Bound, first_of
from ..base.creating import create_identified
from ..base.ownership import Ownership
from ..base.waiting import announced, note
from ..base.warning import WarnOnce
from ..errors import SequenceExhausted, WouldBlock
from .blockers import Blockers
from .dual_layout import DualOwnership, parts
from .grant import Grant, OnRevoke, delete
from .options import Holding
from .role import Role
from .strategy import Strategy

logger = logging.getLogger(__name__)

_MANY = 10_000
"""The number of contenders above which a warning is logged: the list of the contenders gets close to 1 MiB,
the largest size of a reply (trap E-42)."""


class _Displaced(Exception):
    """The own znode was deleted during the session."""


@attrs.define(eq=False, kw_only=True)
class Contest:
    """The path of the parent of the contenders, and the options of :class:`.lock.Lock`."""

    zk: ZooKeeper
    path: str
    role: Role
    data: bytes
    holding: Holding
    strategy: Strategy = attrs.field(validator=instance_of(Strategy))
    monitor: bool
    on_revoke: OnRevoke
    grant_type: Callable[..., Grant]
    warn: WarnOnce = attrs.field(factory=lambda: WarnOnce(logger), init=False)


async def contend(contest: Contest, *, wait: bool = True) -> Grant:
    """Contend until the lock is granted.

    :raises WouldBlock: another contender is before this one, and ``wait`` is False.
    :raises SequenceExhausted: the sequence numbers have run out.
    :raises ClosingError: the client was closed.
    :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
    :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
    """
    began = trio.current_time()
    retries = 0
    while True:
        attempt = _Attempt(contest)
        try:
            await attempt.enter()
            await attempt.win(wait=wait)
            return await attempt.granted(retries, trio.current_time() - began)
        except (_Displaced, SessionExpiredError) as error:
            await attempt.leave()
            if isinstance(error, SessionExpiredError) and contest.holding.on_session_loss == "raise":
                raise
            retries += 1
            await contest.zk.session.wait_connected()
        except trio.Cancelled as cut:
            attempt.blockers.ask()
            await attempt.leave()
            note(cut, contest.path, began, attempt.blockers.text())
            raise
        except BaseException:
            await attempt.leave()
            raise


class _Attempt:
    """One attempt of one contender. Each attempt has its own id."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.bound = Bound(contest.zk)
        self._prefixes = contest.role.prefixes(str(uuid.uuid4()))
        self._paths: tuple[str, ...] = ()
        self._sequence = -1
        self._stat: Stat | None = None
        self._data: dict[str, bytes | None] = {}  # the data of the own znodes, by path
        self._own_watches: dict[str, Watch] = {}  # the watches on the own znodes, by path
        self._watch: Watch | None = None  # the watch on the contender before, or on the parent
        self.blockers = Blockers(contest.zk, contest.path, shared=contest.role.purpose.shared)

    async def enter(self) -> None:
        """Create the own znode at the end of the queue.

        :raises SequenceExhausted: the sequence numbers have run out.
        """
        contest = self.contest
        created = await create_identified(
            self.bound, contest.path, self._prefixes, contest.data, contest.holding
        )
        self._paths, self._stat = created.paths, created.stat
        numbers = map(number_after, self._prefixes, map(paths.name, self._paths))
        sequences = [-1 if number is None else number for number in numbers]
        if min(sequences) < 0 or max(sequences) >= LAST_SEQUENCE:
            raise SequenceExhausted(contest.path)
        self._sequence = min(sequences)

    async def win(self, *, wait: bool) -> None:
        """Wait until no contender is before this one.

        :raises WouldBlock: a contender is before this one, and ``wait`` is False.
        """
        blocker = self._blocker(await self._look(monitor=wait))
        if blocker is None:
            return
        if not wait:
            raise WouldBlock(self.contest.path)
        with announced(self.contest.zk, self.contest.path, self.blockers.text):
            while blocker is not None:
                if await self._watch_over(blocker):
                    await self._until_a_change()
                blocker = self._blocker(await self._look(monitor=True))

    async def _until_a_change(self) -> None:
        """Wait until a watch fires, or the strategy's period is over."""
        # After a reconnect no new list is needed. The client sets the watches again with the last zxid that
        # it has seen, and the server then reports the changes since this zxid.
        waits: list[Callable[[], Awaitable[object]]] = [self.bound.ended]
        waits += [watch.wait for watch in self._own_watches.values()]
        if self._watch is not None:
            waits.append(self._watch.wait)
        with trio.move_on_after(self.contest.strategy.period):
            await first_of(*waits)
        self._own_watches = {p: watch for p, watch in self._own_watches.items() if watch.event is None}
        self.bound.check()

    async def _look(self, *, monitor: bool) -> list[str]:
        """List the children. The first call also watches the own znode in the same round trip. With
        ``layout="both"`` there are two own znodes, and this takes two round trips."""
        zk, path = self.contest.zk, self.contest.path

        async def look() -> list[str]:
            if self.contest.strategy.watches == "parent":
                if self._watch is not None:
                    self._watch.cancel()
                names, self._watch = await zk.get_children_and_watch(path)
                await self._watch_own(monitor)
                return names
            listing = zk.submit(GetChildren(path))
            await self._watch_own(monitor)
            return await listing.wait()

        try:
            return await self.bound.repeat(look)
        except NoNodeError:
            raise _Displaced from None

    async def _watch_own(self, monitor: bool) -> None:
        if not (monitor and self.contest.monitor):
            return
        for path in self._paths:
            if path not in self._own_watches:
                read = await self.contest.zk.get_and_watch(path)
                self._data[path], self._stat, self._own_watches[path] = read

    def _blocker(self, names: list[str]) -> ContenderName | None:
        """Return the nearest earlier contender for which this contender must wait."""
        contest = self.contest
        contenders, unknown = in_order(names)
        self._warn_about(contenders, unknown)
        own = {paths.name(path) for path in self._paths}
        if not own.issubset(names):
            raise _Displaced
        before = []
        for contender in contenders:
            if contender.name in own:
                continue
            if contender.name.startswith(tuple(self._prefixes)):
                # The server has carried out an earlier create of ours that got no reply (trap E-03).
                contest.zk.cleanup.delete_own(paths.join(contest.path, contender.name))
            elif contender.sequence == self._sequence and contender.kind in contest.role.recognise:
                raise SequenceExhausted(contest.path)
            elif contender.sequence < self._sequence and contest.role.waits_for(contender):
                before.append(contender)
        self.blockers.before = before
        return before[-1] if before else None

    def _warn_about(self, contenders: list[ContenderName], unknown: list[str]) -> None:
        contest, role = self.contest, self.contest.role
        count = len(contenders) + len(unknown)
        if unknown:
            text = "Ignoring %s below %s: it is not the name of a contender. Delete it, or use another path."
            contest.warn("unknown", text, unknown[0], contest.path)
        if count > _MANY:
            text = "%d contenders at %s make its lists large and slow. Use several paths."
            contest.warn("many", text, count, contest.path)
        unseen_by = role.unseen_by(contenders)
        if unseen_by is not None:
            text = 'The contender %s at %s does not see ours, which have names for %s. Use layout="both".'
            contest.warn("unseen", text, unseen_by, contest.path, role.layout)

    async def _watch_over(self, blocker: ContenderName) -> bool:
        """Watch the blocker if the strategy watches predecessors. Returns False if the blocker is gone
        already."""
        if self.contest.strategy.watches != "predecessor":
            return True
        path = paths.join(self.contest.path, blocker.name)
        if self._watch is not None:
            if self._watch.path == path and self._watch.event is None:
                return True
            self._watch.cancel()
            self._watch = self.blockers.nearest = None
        zk = self.contest.zk
        try:
            # get and not exists: on a missing znode, exists would leave a watch that may never fire
            # (recipe-rules.md 0.8).
            data, stat, self._watch = await self.bound.repeat(lambda: zk.get_and_watch(path))
        except NoNodeError:
            return False
        self.blockers.nearest = path, data, stat
        return True

    async def granted(self, retries: int, waited: float) -> Grant:
        """Begin to hold the lock.

        :param waited: the time in seconds since the first attempt.
        """
        contest = self.contest
        await self.bound.confirm()  # after a long wait the lease may be short
        try:
            await self.bound.repeat(lambda: self._watch_own(True))
            if self._stat is None:
                self._stat = await self.bound.repeat(lambda: contest.zk.exists(self._paths[0]))
        except NoNodeError:
            raise _Displaced from None
        if self._stat is None or self._stat.ephemeralOwner != contest.zk.session.id:
            raise _Displaced
        watches = [self._watch] if self._watch is not None else []
        ownership = self._ownership(watches)
        grant = contest.grant_type(
            token=self._stat.czxid,
            paths=self._paths,
            sequence=self._sequence,
            retries=retries,
            waited=waited,
            shared=contest.role.purpose.shared,
            ownership=ownership,
            bound=self.bound,
            grace=contest.holding.cleanup_grace,
            on_revoke=contest.on_revoke,
            watches=watches,
        )
        for part in parts(ownership):
            part.guard(self._own_watches.get(part.path), grant.data_changed)
        for data in self._data.values():
            grant.data_changed(data)
        return grant

    def _ownership(self, watches: list[Watch]) -> Ownership:
        holding = self.contest.holding
        if len(self._paths) == 1:
            return holding.ownership(self.bound, self._paths[0])
        return DualOwnership(
            self.bound, self._paths, watches, suspended=holding.suspended, margin=holding.margin
        )

    async def leave(self) -> None:
        """Delete the own znode and cancel the watches."""
        if self._watch is not None:
            self._watch.cancel()
        try:
            if self._paths:
                await delete(self.bound, self._paths, self.contest.holding.cleanup_grace)
        finally:
            for watch in self._own_watches.values():
                watch.cancel()

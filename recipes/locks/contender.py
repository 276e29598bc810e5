"""The engine below locks, read/write locks, semaphores and elections (recipe-rules.md D.2).

A contender creates a sequential ephemeral znode, and has won when none that it conflicts with stands before
it. The rules:

* It decides on lists only. An event, of whatever kind, makes it look again.
* A list without its own znode never wins: an operator has deleted it, and the contender begins anew.
* What it has begun in one session it does not finish in another: it begins anew, or fails, as its user wants.
* At most one znode of an attempt stays. After a lost reply it looks for what it may have created before it
  creates again, and should more than one turn up later, the first is kept.
* However it ends, it takes its znode and its watches along.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import attrs
import trio
from attrs.validators import deep_iterable, instance_of

from ...client import ACL, GetChildren, NoNodeError, SessionExpiredError, Stat, Watch, ZooKeeper
from ...protocol.paths import join, split, validate_path
from ..base.bound import Bound, first_of
from ..base.creating import Parents, ParentsMode, create_identified
from ..base.hold import Hold, Suspended
from ..base.words import check_word, one_of
from ..errors import SequenceExhausted, WouldBlock
from .acquiring import Acquirable
from .bridge import BridgeHold, parts
from .grant import Grant, OnRevoke, OnRevokeWord, delete
from .names import DEFAULT_KINDS, OURS, Kind, Naming, Place, Purpose, parse, queue
from .strategy import PREDECESSOR, Strategy

logger = logging.getLogger(__name__)

LAST_SEQUENCE = 2**31 - 1
"""The server goes no further: one who gets this number may not be the only one (recipe-rules.md 0.4)."""

_MANY = 10_000
"""From here on a list comes near to what a reply may hold (trap E-42)."""


class _Displaced(Exception):
    """The own znode is gone although the session lives."""


OnSessionLoss = Literal["requeue", "raise"]


@attrs.frozen(kw_only=True)
class Terms:
    """Where and how contenders contend; see :class:`.lock.Lock` for the meaning of each."""

    zk: ZooKeeper
    path: str
    purpose: Purpose = Purpose.LOCK
    naming: Naming = attrs.field(default="curator", validator=one_of(Naming))
    data: bytes = b""
    parents: ParentsMode = attrs.field(default="container", validator=one_of(ParentsMode))
    acl: Sequence[ACL] | None = None
    suspended: Suspended = attrs.field(default="deadline", validator=one_of(Suspended))
    margin: float | None = None
    on_session_loss: OnSessionLoss = attrs.field(default="requeue", validator=one_of(OnSessionLoss))
    monitor: bool = True
    on_revoke: OnRevoke = attrs.field(default="ignore")
    recognise: frozenset[Kind] = attrs.field(
        default=DEFAULT_KINDS, validator=deep_iterable(instance_of(Kind))
    )
    strategy: Strategy = attrs.field(default=PREDECESSOR, validator=instance_of(Strategy))
    cleanup_grace: float = 1.0
    grant_type: type[Grant] = Grant
    warned: set[str] = attrs.field(factory=set, init=False, eq=False)
    """What was said in the log already."""

    @on_revoke.validator
    def _check_on_revoke(self, attribute: Any, on_revoke: object) -> None:
        if not callable(on_revoke):
            check_word(attribute.name, on_revoke, OnRevokeWord)

    @property
    def parents_mode(self) -> Parents:
        return Parents.of(self.parents, self.acl)

    def blocks(self, place: Place) -> bool:
        """Whether we wait for a contender that stands before us."""
        return place.kind in self.recognise and not (self.purpose.shared and place.kind.shared)

    def warn(self, key: str, message: str, *args: object) -> None:
        if key not in self.warned:
            self.warned.add(key)
            logger.warning(message, *args)


class Contested(Acquirable[Grant]):
    """The base of what is contended for at a path.

    :ivar path: where.
    """

    def __init__(self, terms: Terms) -> None:
        super().__init__()
        validate_path(terms.path)
        self.path = terms.path
        self._terms = terms

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def zk(self) -> ZooKeeper:
        return self._terms.zk


async def contend(terms: Terms, *, wait: bool = True) -> Grant:
    """Contend until it is granted.

    :param wait: raise :class:`WouldBlock` instead of waiting.

    Raises :class:`SequenceExhausted`, :class:`ClosingError`; :class:`SessionExpiredError` with
    ``on_session_loss="raise"``; what the server refuses, such as :class:`NoAuthError`.
    """
    began = trio.current_time()
    requeues = 0
    while True:
        contender = _Contender(terms)
        try:
            await contender.enter()
            await contender.win(wait=wait)
            return await contender.granted(requeues, trio.current_time() - began)
        except (_Displaced, SessionExpiredError) as error:
            await contender.leave()
            if isinstance(error, SessionExpiredError) and terms.on_session_loss == "raise":
                raise
            requeues += 1
            await terms.zk.session.wait_connected()
        except BaseException:
            await contender.leave()
            raise


class _Contender:
    """One attempt, with an id of its own."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.bound = Bound(terms.zk)
        self._attempt = str(uuid.uuid4())
        self._prefixes = terms.purpose.prefixes(terms.naming, self._attempt)
        self._paths: tuple[str, ...] = ()
        self._sequence = -1
        self._stat: Stat | None = None
        self._data: dict[str, bytes | None] = {}  # of the own znodes, by path
        self._nodes: dict[str, Watch] = {}  # on the own znodes, by path
        self._watch: Watch | None = None  # on what it waits for

    async def enter(self) -> None:
        """Take a place at the end of the queue."""
        terms = self.terms
        created = await create_identified(
            self.bound, terms.path, self._prefixes, terms.data, parents=terms.parents_mode, acl=terms.acl
        )
        self._paths, self._stat = created.paths, created.stat
        places = [parse(split(path)[1]) for path in self._paths]
        sequences = [place.sequence if place else -1 for place in places]
        if min(sequences) < 0 or max(sequences) >= LAST_SEQUENCE:
            raise SequenceExhausted(terms.path)
        self._sequence = min(sequences)

    async def win(self, *, wait: bool) -> None:
        """Wait until nobody stands before."""
        while True:
            blocker = self._blocker(await self._look(monitor=wait))
            if blocker is None:
                return
            if not wait:
                raise WouldBlock(self.terms.path)
            if not await self._arm(blocker):
                continue
            # A reconnect is no reason to look: the client arms the watches again, relative to the last zxid
            # that it has seen, and the server then reports what has changed meanwhile.
            waits: list[Callable[[], Awaitable[object]]] = [self.bound.ended]
            waits += [watch.wait for watch in self._nodes.values()]
            if self._watch is not None:
                waits.append(self._watch.wait)
            with trio.move_on_after(self.terms.strategy.period):
                await first_of(*waits)
            self._nodes = {path: watch for path, watch in self._nodes.items() if watch.event is None}
            self.bound.check()

    async def _look(self, *, monitor: bool) -> list[str]:
        """List the queue; at the first time also arm the watch on the own znode, in the same round trip (on
        both halves of a bridge: in two)."""
        zk, path = self.terms.zk, self.terms.path

        async def look() -> list[str]:
            if self.terms.strategy.watches == "parent":
                if self._watch is not None:
                    self._watch.cancel()
                names, self._watch = await zk.get_children(path, watch=True)
                await self._monitor_own(monitor)
                return names
            listing = zk.submit(GetChildren(path))
            await self._monitor_own(monitor)
            return await listing.wait()

        try:
            return await self.bound.repeat(look)
        except NoNodeError:
            raise _Displaced from None

    async def _monitor_own(self, monitor: bool) -> None:
        if not (monitor and self.terms.monitor):
            return
        for path in self._paths:
            if path not in self._nodes:
                read = await self.terms.zk.get(path, watch=True)
                self._data[path], self._stat, self._nodes[path] = read

    def _blocker(self, names: list[str]) -> Place | None:
        """The nearest of those for whom we have to wait."""
        terms = self.terms
        places, unknown = queue(names)
        self._remark(names, places, unknown)
        own = {split(path)[1] for path in self._paths}
        if not own.issubset(names):
            raise _Displaced
        before = []
        for place in places:
            if place.name in own:
                continue
            if place.name.startswith(tuple(self._prefixes)):
                # An attempt of ours that was thought to be lost has come after all (trap E-03).
                terms.zk.janitor.delete_own(join(terms.path, place.name))
            elif place.sequence == self._sequence and place.kind in terms.recognise:
                raise SequenceExhausted(terms.path)
            elif place.sequence < self._sequence and terms.blocks(place):
                before.append(place)
        return before[-1] if before else None

    def _remark(self, names: list[str], places: list[Place], unknown: list[str]) -> None:
        terms = self.terms
        if unknown:
            terms.warn("unknown", "Ignoring %s below %s: no contender's name", unknown[0], terms.path)
        if len(names) > _MANY:
            terms.warn("many", "%d contenders at %s: lists get slow and large", len(names), terms.path)
        other = {"curator": Kind.KAZOO_LOCK, "kazoo": Kind.CURATOR_LOCK}.get(terms.naming)
        blind = [p.name for p in places if p.kind is other and not p.name.startswith(OURS)]
        bridged = any(place.name.startswith(OURS) for place in places)
        if blind and not (bridged and terms.naming == "kazoo"):  # Curator's name may be half of a bridge
            terms.warn(
                "blind",
                'The contender %s at %s does not see ours, named for %s: use naming="both"',
                blind[0],
                terms.path,
                terms.naming,
            )

    async def _arm(self, blocker: Place) -> bool:
        """Have the blocker watched, if the strategy wants that. Returns False if it is gone already."""
        if self.terms.strategy.watches != "predecessor":
            return True
        path = join(self.terms.path, blocker.name)
        if self._watch is not None:
            if self._watch.path == path and self._watch.event is None:
                return True
            self._watch.cancel()
            self._watch = None
        zk = self.terms.zk
        try:
            # Not exists: on a missing znode that leaves a watch which may never fire (recipe-rules.md 0.8).
            _, _, self._watch = await self.bound.repeat(lambda: zk.get(path, watch=True))
        except NoNodeError:
            return False
        return True

    async def granted(self, requeues: int, waited: float) -> Grant:
        terms = self.terms
        await self.bound.confirm()  # we may have waited for long, and only read
        try:
            await self.bound.repeat(lambda: self._monitor_own(True))
            if self._stat is None:
                self._stat = await self.bound.repeat(lambda: terms.zk.exists(self._paths[0]))
        except NoNodeError:
            raise _Displaced from None
        if self._stat is None or self._stat.ephemeralOwner != terms.zk.session.id:
            raise _Displaced
        watches = [self._watch] if self._watch is not None else []
        hold = self._hold(watches)
        grant = terms.grant_type(
            token=self._stat.czxid,
            paths=self._paths,
            sequence=self._sequence,
            requeues=requeues,
            waited=waited,
            shared=terms.purpose.shared,
            hold=hold,
            bound=self.bound,
            terms=terms,
            watches=watches,
        )
        for part in parts(hold):
            part.guard(self._nodes.get(part.path), grant.data_changed)
        for data in self._data.values():
            grant.data_changed(data)
        return grant

    def _hold(self, watches: list[Watch]) -> Hold:
        terms, paths = self.terms, self._paths
        if len(paths) == 1:
            return Hold(self.bound, paths[0], suspended=terms.suspended, margin=terms.margin)
        return BridgeHold(self.bound, paths, watches, suspended=terms.suspended, margin=terms.margin)

    async def leave(self) -> None:
        """Give up the place."""
        if self._watch is not None:
            self._watch.cancel()
        try:
            if self._paths:
                await delete(self.bound, self._paths, self.terms.cleanup_grace)
        finally:
            for watch in self._nodes.values():
                watch.cancel()

"""What the server knows of a run: the zxids between which each znode existed (recipe-rules.md D.14)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import attrs

from pyzk.recipes import Grant
from pyzk.server.core.txn import AnyEffect, CloseSession, Create, Delete, Multi, Txn

from .lab import Lab
from .simulated import SimulatedGrant


class Oracle:
    """Records every transaction.

    :ivar created: the zxid at which each znode was created.
    :ivar deleted: the zxid at which each znode was deleted.
    """

    def __init__(self, lab: Lab) -> None:
        self.created: dict[str, int] = {}
        self.deleted: dict[str, int] = {}
        self._lab = lab
        self.attach()

    def attach(self) -> None:
        """Listen; again after each restart."""
        engine = self._lab.server.running.engine
        inner = engine.on_txn

        def on_txn(txn: Txn) -> None:
            if inner is not None:
                inner(txn)
            self._note(txn.zxid, txn.effect)

        engine.on_txn = on_txn

    def _note(self, zxid: int, effect: AnyEffect) -> None:
        match effect:
            case Create():
                self.created[effect.path] = zxid
            case Delete():
                self.deleted[effect.path] = zxid
            case CloseSession():
                for path in effect.paths:
                    self.deleted[path] = zxid
            case Multi():
                for part in effect.effects:
                    self._note(zxid, part)

    def in_order(self, paths: Iterable[str]) -> list[str]:
        """Sort paths by creation. Names have random parts, so their order differs from run to run."""
        return sorted(paths, key=lambda path: (self.created.get(path, 0), path))

    @property
    def now(self) -> int:
        """The last zxid."""
        return self._lab.server.running.engine.zxid


@attrs.define(eq=False)
class Interval:
    """A grant and how long it lasted at the server: from the state that justified it to the end of the first
    of its znodes."""

    who: str
    token: int
    shared: bool
    begin: int
    paths: tuple[str, ...]

    def end(self, oracle: Oracle) -> float:
        return min(oracle.deleted.get(path, math.inf) for path in self.paths)


@attrs.define
class Grants:
    """All grants of a run, in the order in which they were given."""

    oracle: Oracle
    intervals: list[Interval] = attrs.Factory(list)

    def add(self, who: str, grant: Grant | SimulatedGrant, seen: int) -> Interval:
        """
        :param seen: the last zxid that its client had seen when it decided.
        """
        interval = Interval(who, grant.token, grant.shared, seen, grant.paths)
        self.intervals.append(interval)
        return interval

    def check(self) -> None:
        """I-1: conflicting grants never overlap. I-2, I-8: they come in the order of their tokens."""
        for first, second in combinations(self.intervals, 2):
            if first.shared and second.shared:
                continue
            first, second = sorted((first, second), key=lambda interval: interval.begin)
            assert first.end(self.oracle) <= second.begin, ("two holders", first, second)
            assert first.token < second.token, ("out of order", first, second)

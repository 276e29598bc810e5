"""The rules of the log, and of what the servers apply of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from pyzk.protocol.paths import join
from pyzk.server.core.txn import (
    AnyEffect,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Multi,
    Replace,
    SetData,
    Txn,
)
from pyzk.server.core.znode import Znode, is_session

from .facts import Applied, Began, Committed, Copied

_DIGITS = 10
"""Of the number of a sequential znode."""


class State(NamedTuple):
    """A znode as clients see it. ``owner`` is a session, or a mark, or 0."""

    data: bytes | None
    czxid: int
    mzxid: int
    owner: int


Watched: TypeAlias = tuple[Literal["data", "child"], str]
"""What a one-shot watch waits for: a change of a znode, or of its children; and the path."""


class LogRules:
    """
    :ivar txns: the log.
    :ivar by_zxid: its entries.
    :ivar opened: the sessions that it has opened: all but local ones.
    :ivar over: the sessions that it has ended, and the zxids at which.
    :ivar applied: how many entries each server has applied.
    :ivar sequential: the paths that were asked for with a number behind them.
    """

    def __init__(self) -> None:
        self.txns: list[Txn] = []
        self.by_zxid: dict[int, Txn] = {}
        self.opened: set[int] = set()
        self.over: dict[int, int] = {}
        self.applied: defaultdict[int, int] = defaultdict(int)
        self.sequential: set[str] = set()
        self._epoch = 0
        self._states: dict[str, list[tuple[int, State | None]]] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # all that ever were, by the parent
        self._changes: defaultdict[Watched, list[int]] = defaultdict(list)  # zxids
        self._owned: defaultdict[int, set[str]] = defaultdict(set)
        # The last number of a sequential znode, by the parent and its czxid
        self._numbers: dict[tuple[str, int], int] = {}

    def takers(self) -> dict[type, Callable[[Any], None]]:
        return {Committed: self.committed, Applied: self.was_applied, Copied: self.copied, Began: self.began}

    # --- the log -----------------------------------------------------------------------------------------

    def began(self, fact: Began) -> None:
        assert fact.epoch > self._epoch, f"rule 13: epoch {fact.epoch} has two leaders, or comes too late"
        self._epoch = fact.epoch

    def committed(self, fact: Committed) -> None:
        txn = fact.txn
        zxid, epoch = txn.zxid, txn.zxid >> 32
        if self.txns:
            last = self.txns[-1].zxid
            assert zxid > last, "rule 3: zxids rise"
            if epoch == last >> 32:
                assert zxid == last + 1, "rule 3: the counter rises by 1"
            else:
                assert zxid & 0xFFFFFFFF == 1, "rule 3: the counter starts at 1"
        assert epoch == self._epoch, f"rule 13: a write of epoch {epoch} is committed in epoch {self._epoch}"
        assert txn.session not in self.over, "rule 8, rule 12: the log goes on with a session that is over"
        self.txns.append(txn)
        self.by_zxid[zxid] = txn
        if isinstance(txn.effect, CreateSession):
            self.opened.add(txn.session)
        elif isinstance(txn.effect, CloseSession):
            self.over[txn.session] = zxid
            owned = self._owned.pop(txn.session, set())
            assert owned == set(txn.effect.paths), "rule 14: ephemerals stay behind, or go that are none"
        self._enter(txn.effect, zxid)

    def _enter(self, effect: AnyEffect, zxid: int) -> None:
        match effect:
            case Create():
                assert self.at(effect.path) is None, f"rule 15: {effect.path} is created twice"
                self._check_number(effect)
                self._names[effect.parent].add(effect.name)
                self._set(effect.path, zxid, State(effect.data, zxid, zxid, effect.owner))
            case SetData():
                if (before := self.at(effect.path)) is not None:
                    self._set(effect.path, zxid, before._replace(data=effect.data, mzxid=zxid))
                else:  # the root, which no transaction has made
                    self._changes["data", effect.path].append(zxid)
            case Delete():
                self._set(effect.path, zxid, None)
            case CloseSession():
                for path in effect.paths:
                    self._set(path, zxid, None)
            case Multi():
                for each in effect.effects:
                    self._enter(each, zxid)
            case Replace():
                self._replace(effect, zxid)

    def _check_number(self, create: Create) -> None:
        digits = create.path[-_DIGITS:]
        if create.path[:-_DIGITS] in self.sequential and digits.isdigit():
            parent = self.at(create.parent)
            key = create.parent, parent.czxid if parent else 0
            number = int(digits)
            assert number > self._numbers.get(key, -1), "rule 15: sequence numbers rise"
            self._numbers[key] = number

    # --- the state that it makes -------------------------------------------------------------------------

    def at(self, path: str, zxid: int = 2**63 - 1) -> State | None:
        """The state of a znode right behind a zxid, by default the last one."""
        states = self._states.get(path, [])
        place = bisect_right(states, zxid, key=lambda entry: entry[0])
        return states[place - 1][1] if place else None

    def children_at(self, path: str, zxid: int) -> set[str]:
        parent = path.removesuffix("/")
        return {name for name in self._names[parent] if self.at(join(path, name), zxid) is not None}

    def first_change(self, watched: Watched, zxid: int) -> int:
        """The zxid of the first change of a znode behind ``zxid``; 0 if there is none."""
        changes = self._changes[watched]
        place = bisect_right(changes, zxid)
        return changes[place] if place < len(changes) else 0

    def _set(self, path: str, zxid: int, state: State | None) -> None:
        before = self.at(path)
        self._changes["data", path].append(zxid)
        if before is None or state is None:
            self._changes["child", path.rpartition("/")[0] or "/"].append(zxid)
        if state is None:
            self._changes["child", path].append(zxid)
        if before is not None and is_session(before.owner):
            self._owned[before.owner].discard(path)
        if state is not None and is_session(state.owner):
            self._owned[state.owner].add(path)
        self._states.setdefault(path, []).append((zxid, state))

    def _replace(self, effect: Replace, zxid: int) -> None:
        states = dict(_states_below("", effect.root, effect.gone))
        for path in [*self._states.keys() - states.keys()]:
            self._set(path, zxid, None)
        for path, state in states.items():
            parent, _, name = path.rpartition("/")
            self._names[parent].add(name)
            self._set(path, zxid, state)
        self._numbers.clear()

    # --- what servers apply ------------------------------------------------------------------------------

    def was_applied(self, fact: Applied) -> None:
        server, txn, left = fact
        place = self.applied[server]
        known = self.by_zxid.get(txn.zxid)
        assert known is not None, f"rule 2: server {server} has applied what is not committed"
        assert known is txn, f"rule 1: server {server} has another log"
        expected = self.txns[place] if place < len(self.txns) else None
        assert expected is txn, f"rule 2: server {server} has left something out, or applied something twice"
        self.applied[server] = place + 1
        assert not left, f"rule 14: server {server} has still {left} of a session that is over"

    def copied(self, fact: Copied) -> None:
        place = bisect_right(self.txns, fact.zxid, key=lambda txn: txn.zxid)
        assert place >= self.applied[fact.server], f"rule 2: server {fact.server} falls back"
        self.applied[fact.server] = place

    def has_applied(self, server: int, zxid: int) -> bool:
        place = self.applied[server]
        return place > 0 and self.txns[place - 1].zxid >= zxid


def _states_below(path: str, node: Znode, gone: frozenset[int]) -> Iterator[tuple[str, State]]:
    for name, child in (node.children or {}).items():
        if child.owner not in gone:
            yield f"{path}/{name}", State(child.data, child.czxid, child.mzxid, child.owner)
            yield from _states_below(f"{path}/{name}", child, gone)

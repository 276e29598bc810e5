"""Quotas: limits and usage, which znodes of the reserved subtree hold as text (semantics.md section 9).

The rules:

* A quota on the path P is two znodes. Clients write ``/zookeeper/quota<P>/zookeeper_limits``. Beside it is
  ``zookeeper_stats``, whose text the server keeps up to date.
* A change counts only for the deepest quota at its path or above its path. The change never counts for a
  higher quota.
* A single write is checked against the usage before the write. A hard limit refuses the write if the settings
  enforce quotas. A soft limit is only logged, once for each quota.
* Each write of a multi is checked against the usage before the multi. The multi is counted as a whole when it
  is committed.
* The counted usage depends only on the tree and the effects. So a tree that replays the effects has the same
  texts.

The costs:

* The text of a limits znode or stats znode is parsed when it is written, not when its numbers are needed.
* For each change the quota is found by a walk along the names of the path. The walk ends where no deeper
  quota exists. The number of quotas does not matter.
* The subtree of P is counted once, when the stats of P are created. This takes 0.1 us for each znode. Later
  each change below P is added to this count, as long as P has limits or stats. One pass counts all subtrees
  that one multi needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs

from ...protocol.errors import QuotaExceededError
from ..logger import logger
from .znode import Znode

ROOT = "/zookeeper/quota"
_LIMITS = "zookeeper_limits"
STATS = "zookeeper_stats"

_ITEM = re.compile("(?P<key>[^=]+)=(?P<value>(-?[0-9]{1,18})?)=?")
_KEYS = ("count", "bytes", "countHardLimit", "byteHardLimit")
_Numbers: TypeAlias = dict[str, int]


def _parse(data: bytes | None) -> _Numbers | None:
    """Return the numbers of a quota text by key, with -1 for missing keys. The result is an empty dict for
    an empty text, and None for any other text that is not a quota."""
    items = [item for item in re.split("[,;]", (data or b"").decode("utf-8", "replace")) if item]
    numbers = dict.fromkeys(_KEYS, -1) if items else {}
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None:
            return None
        if match["key"] in numbers:
            numbers[match["key"]] = int(match["value"] or -1)
    return numbers


@attrs.define
class _Count:
    """A number of znodes, and the bytes of their data.

    :ivar whole: whether the two numbers are totals; otherwise they are the differences to unknown totals.
    """

    znodes: int = 0
    size: int = 0
    whole: bool = False

    def add(self, znodes: int, size: int) -> None:
        self.znodes += znodes
        self.size += size


@attrs.define(eq=False, repr=False)
class _Quota:
    """A path that has a quota, or that leads to a quota.

    :ivar above: the node of the parent; None at the root.
    :ivar below: the nodes of the children, by name.
    :ivar limits: the content of the limits znode; None if there is no limits znode, ``_UNREADABLE`` if its
        text is not a quota text.
    :ivar stats: the stats znode.
    :ivar usage: the content of the stats znode; None if its text is not a quota text.
    :ivar total: the real size of the subtree. The usage differs from the real size if a client has written
        the stats znode, or if changes were counted for deeper quotas.
    :ivar stale: whether the server must write the text of the stats znode again.
    :ivar warned: whether the log has a line about this quota.
    """

    name: str = ""
    above: _Quota | None = None
    below: dict[str, _Quota] = attrs.field(factory=dict)
    limits: _Numbers | None = None
    stats: Znode | None = None
    usage: _Count | None = None
    total: _Count = attrs.field(factory=_Count)
    stale: bool = False
    warned: bool = False

    @property
    def path(self) -> str:
        names: list[str] = []
        quota: _Quota | None = self
        while quota is not None:
            names.append(quota.name)
            quota = quota.above
        return "/".join(reversed(names))


_UNREADABLE: _Numbers = {}


class Quotas:
    """The quotas of a tree.

    :ivar prefixes: the paths that have limits. If there are none, no write needs a check.
    :ivar used: whether the tree must report each change outside the reserved subtree to this object.
    :param find: returns the znode at a path, or None.
    :param write: writes the text of a stats znode; the tree counts its bytes.
    """

    def __init__(self, find: Callable[[str], Znode | None], write: Callable[[Znode, bytes], None]) -> None:
        self._find = find
        self._write_usage = write
        self._root = _Quota()
        self._changes: list[tuple[str, Znode, bytes | None, int, int]] = []
        self._held = False
        self.prefixes: dict[str, _Quota] = {}
        self.used = False

    def move(self, find: Callable[[str], Znode | None], write: Callable[[Znode, bytes], None]) -> None:
        """Attach these quotas to another tree, which has taken over the znodes of the first tree."""
        self._find, self._write_usage = find, write

    # --- what the tree reports ---------------------------------------------------------------------------

    def changed(self, path: str, node: Znode, znodes: int, size: int) -> None:
        """Note a change.

        :param znodes: 1 for a znode that was created, -1 for one that was deleted, 0 for other data.
        :param size: the growth of the data in bytes.
        """
        self.used = True
        self._changes.append((path, node, node.data, znodes, size))
        if not self._held:
            self._book()

    def hold(self) -> None:
        """Count no change until :meth:`release` or :meth:`drop`. This is called before a multi, because a
        multi is checked against the usage before the multi. Also, the changes of a multi may be undone."""
        self._held = True

    def release(self) -> None:
        """Count the changes since :meth:`hold`."""
        self._held = False
        if self.used:
            self._book()

    def drop(self) -> None:
        """Forget the changes since :meth:`hold`, because they were undone."""
        self._changes.clear()
        self.release()

    # --- enforcement -------------------------------------------------------------------------------------

    def check(self, path: str, znodes: int, size: int, enforce: bool) -> None:
        """Check whether ``znodes`` more znodes and ``size`` more bytes at ``path`` break a limit.

        :raises QuotaExceededError: a hard limit is broken, and ``enforce`` is set; other limits are only
            logged.
        """
        quota = self._charged(self._on_the_way(path))
        if quota is None or quota.limits is None:
            return
        if quota.limits is _UNREADABLE:
            self._warn_once(
                quota, "the limits of the quota of {} cannot be read and count as unset; set them again"
            )
            return
        if quota.stats is None:
            return
        limits, usage = quota.limits, quota.usage or quota.total
        for what, hard, used, difference in (
            ("count", "countHardLimit", usage.znodes, znodes),
            ("bytes", "byteHardLimit", usage.size, size),
        ):
            if difference == 0:
                continue
            wanted = used + difference
            hard_limit = limits.get(hard, -1)
            limit = hard_limit if hard_limit > -1 else limits.get(what, -1)
            if not -1 < limit < wanted:
                continue
            if hard_limit > -1 and enforce:
                raise QuotaExceededError(
                    path, f"the quota of {quota.path} allows {limit} {what}, not {wanted}"
                )
            self._warn_once(quota, f"the quota of {{}} is exceeded: {wanted} {what}, {limit} allowed")

    def limits(self, prefix: str) -> _Numbers | None:
        """Return the numbers in the limits znode of one of ``prefixes``, by key. -1, or a missing key, means
        that there is no limit."""
        return self.prefixes[prefix].limits

    def usage(self, prefix: str) -> _Numbers | None:
        """Return the usage of one of ``prefixes``, by key; None if the stats znode is missing."""
        quota = self.prefixes[prefix]
        usage = quota.usage or quota.total
        return {"count": usage.znodes, "bytes": usage.size} if quota.stats is not None else None

    def _warn_once(self, quota: _Quota, message: str) -> None:
        if not quota.warned:
            quota.warned = True
            logger.warning("%s", message.format(quota.path))

    # --- bookkeeping -------------------------------------------------------------------------------------

    def _on_the_way(self, path: str) -> list[_Quota]:
        """Return the quotas at the ancestors of a path and at the path itself, the highest first."""
        found: list[_Quota] = []
        below, start = self._root.below, 1
        while below and start:
            end = path.find("/", start)
            quota = below.get(path[start:end] if end > 0 else path[start:])
            if quota is None:
                break
            found.append(quota)
            below, start = quota.below, end + 1
        return found

    def _charged(self, way: list[_Quota]) -> _Quota | None:
        """Return the deepest quota that has limits."""
        for quota in reversed(way):
            if quota.limits is not None:
                return quota
        return None

    def _book(self) -> None:
        """Apply all noted changes, then update the counts and the texts."""
        changes, self._changes = self._changes, []
        touched: dict[_Quota, None] = {}
        for path, node, data, znodes, size in changes:
            if path.startswith(ROOT):
                own = self._quota_written(path, node, data, znodes)
                if own is not None:
                    touched[own] = None
            way = self._on_the_way(path)
            for quota in way:
                quota.total.add(znodes, size)
            charged = self._charged(way)
            if charged is not None and charged.stats is not None:
                if charged.usage is None:
                    charged.usage = attrs.evolve(charged.total)
                else:
                    charged.usage.add(znodes, size)
                charged.stale = True
                touched[charged] = None
        live = [quota for quota in touched if quota.stats is not None]
        self._count([quota for quota in live if not quota.total.whole])
        for quota in live:
            self._write(quota)
        for quota in touched:
            self._prune(quota)
        self.used = bool(self._root.below)

    def _quota_written(self, path: str, node: Znode, data: bytes | None, znodes: int) -> _Quota | None:
        """Note a change of a limits znode or stats znode.

        :returns: the quota of the znode; None if the znode belongs to no quota.
        """
        above, _, leaf = path[len(ROOT) :].rpartition("/")
        if leaf not in (_LIMITS, STATS) or not above.startswith("/"):
            return None
        quota = self._root
        for name in above[1:].split("/"):
            if name not in quota.below:
                quota.below[name] = _Quota(name, quota)
            quota = quota.below[name]
        if leaf == STATS:
            quota.stats = node if znodes >= 0 else None
            if znodes == 1:  # the server writes a new stats znode, whatever data the client has sent
                quota.usage = attrs.evolve(quota.total)
                quota.stale = True
            elif znodes == 0:
                numbers = _parse(data)
                quota.usage = _Count(numbers["count"], numbers["bytes"], True) if numbers else None
                quota.stale = False
        elif znodes < 0:
            quota.limits = None
            quota.warned = False
            del self.prefixes[above]
        else:
            numbers = _parse(data)
            quota.limits = _UNREADABLE if numbers is None else numbers
            self.prefixes[above] = quota
        return quota

    def _count(self, quotas: Iterable[_Quota]) -> None:
        """Count the subtrees of some quotas. Each znode is read only once, also if one quota is below
        another."""
        counted: dict[Znode, tuple[int, int]] = {}
        for path, quota in sorted(((quota.path, quota) for quota in quotas), key=lambda item: -len(item[0])):
            top = self._find(path)
            waiting = [] if top is None else [top]
            count = size = 0
            while waiting:
                node = waiting.pop()
                if node in counted:
                    inner_count, inner_size = counted[node]
                    count += inner_count
                    size += inner_size
                    continue
                count += 1
                size += len(node.data or b"")
                if node.children:
                    waiting.extend(node.children.values())
            if top is not None:
                counted[top] = count, size
            before = count - quota.total.znodes, size - quota.total.size
            for known in (quota.total, quota.usage):
                if known is not None and not known.whole:
                    known.add(*before)
                    known.whole = True

    def _write(self, quota: _Quota) -> None:
        """Write the text of the stats znode, if the text is stale."""
        node, usage = quota.stats, quota.usage
        if node is None or usage is None or not quota.stale:
            return
        quota.stale = False
        data = b"count=%d,bytes=%d" % (usage.znodes, usage.size)
        grown = len(data) - len(node.data or b"")
        self._write_usage(node, data)
        if grown:
            for around in self._on_the_way(f"{ROOT}{quota.path}/{STATS}"):
                around.total.add(0, grown)

    def _prune(self, quota: _Quota) -> None:
        """Forget a quota that has no limits and no stats, and each node above it that leads to no other
        quota."""
        above = quota.above
        while above is not None and not quota.below and quota.limits is None and quota.stats is None:
            above.below.pop(quota.name, None)
            quota, above = above, above.above

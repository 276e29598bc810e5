"""Quotas: limits and usage kept as text in znodes of the reserved subtree (semantics.md section 9).

A quota on P lives in ``/zookeeper/quota<P>/zookeeper_limits``, written by clients, and beside it in
``zookeeper_stats``, kept by the server. Only the deepest quota on the way to a path is charged, never the
outer ones.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from ..protocol.errors import QuotaExceededError
from .znode import Znode

logger = logging.getLogger("pyzk.server.quota")

ROOT = "/zookeeper/quota"
_LIMITS = "/zookeeper_limits"
_STATS = "/zookeeper_stats"


_ITEM = re.compile("(?P<key>[^=]+)=(?P<value>(-?[0-9]{1,18})?)=?")
_Numbers = dict[str, int] | None


def _parse(data: bytes | None) -> _Numbers:
    """The numbers of a quota text; None if it is none."""
    numbers: dict[str, int] = {}
    text = (data or b"").decode("utf-8", "replace")
    for item in filter(None, re.split("[,;]", text)):
        match = _ITEM.fullmatch(item)
        if match is None:
            return None
        numbers[match["key"]] = int(match["value"] or -1)
    return numbers


def _quota_of(path: str, leaf: str) -> str | None:
    """P, if ``path`` is that leaf of the quota on P."""
    if path.startswith(ROOT + "/") and path.endswith(leaf):
        return path[len(ROOT) : -len(leaf)] or None
    return None


class Quotas:
    """The quotas in force over a tree's znodes.

    :ivar prefixes: the paths that have one; while there is none, writes can skip it all.
    :param grown: told by how many bytes the bookkeeping has made a znode larger.
    """

    def __init__(self, nodes: Mapping[str, Znode], grown: Callable[[int], None]) -> None:
        self._nodes = nodes
        self._grown = grown
        self.prefixes: set[str] = set()
        self._warned: set[str] = set()
        self._frozen: dict[str, tuple[_Numbers, _Numbers]] | None = None

    # --- what the tree reports ---------------------------------------------------------------------------

    def created(self, path: str, node: Znode) -> None:
        if path.startswith(ROOT):
            if prefix := _quota_of(path, _LIMITS):
                self.prefixes.add(prefix)
            elif prefix := _quota_of(path, _STATS):
                self._recount(prefix)
        self._charge(path, 1, len(node.data or b""))

    def deleted(self, path: str, node: Znode) -> None:
        if path.startswith(ROOT) and (prefix := _quota_of(path, _LIMITS)):
            self.prefixes.discard(prefix)
            self._warned.discard(prefix)
        self._charge(path, -1, -len(node.data or b""))

    def resized(self, path: str, difference: int) -> None:
        self._charge(path, 0, difference)

    # --- enforcement -------------------------------------------------------------------------------------

    def check(self, path: str, count: int, size: int, enforce: bool) -> None:
        """Would adding ``count`` znodes and ``size`` bytes at ``path`` break a limit?

        A hard limit raises :class:`QuotaExceededError` if ``enforce``; a soft one is only logged.
        """
        prefix = self._deepest(path)
        if prefix is None:
            return
        if self._frozen is not None:
            limits, usage = self._frozen.get(prefix, (None, None))
        else:
            limits, usage = self.limits(prefix), self.usage(prefix)
        if limits is None or usage is None:
            return
        for what, hard, difference in (("count", "countHardLimit", count), ("bytes", "byteHardLimit", size)):
            if difference == 0:
                continue
            wanted = usage.get(what, -1) + difference
            hard_limit = limits.get(hard, -1)
            limit = hard_limit if hard_limit > -1 else limits.get(what, -1)
            if not -1 < limit < wanted:
                continue
            if hard_limit > -1 and enforce:
                raise QuotaExceededError(path, f"the quota of {prefix} allows {limit} {what}, not {wanted}")
            self._warn_once(prefix, f"the quota of {prefix} is exceeded: {wanted} {what}, {limit} allowed")

    def freeze(self) -> None:
        """Until :meth:`thaw`, check against limits and usage as they are now.

        A multi is measured against what was before it.
        """
        self._frozen = {prefix: (self.limits(prefix), self.usage(prefix)) for prefix in self.prefixes}

    def thaw(self) -> None:
        self._frozen = None

    def limits(self, prefix: str) -> dict[str, int] | None:
        """The numbers in the quota's limits znode; None where it is missing."""
        node = self._nodes.get(ROOT + prefix + _LIMITS)
        if node is None:
            return None
        limits = _parse(node.data)
        if limits is None:
            self._warn_once(
                prefix, f"the limits of the quota of {prefix} cannot be read; they count as unset"
            )
            return {}
        return limits

    def _warn_once(self, prefix: str, message: str) -> None:
        if prefix not in self._warned:
            self._warned.add(prefix)
            logger.warning("%s", message)

    def usage(self, prefix: str) -> dict[str, int] | None:
        """The numbers in the quota's stats znode; None where it is missing."""
        node = self._nodes.get(ROOT + prefix + _STATS)
        if node is None:
            return None
        return _parse(node.data) or self._counted(prefix)

    # --- bookkeeping -------------------------------------------------------------------------------------

    def _deepest(self, path: str) -> str | None:
        while path:
            if path in self.prefixes:
                return path
            path = path[: path.rfind("/")]
        return None

    def _charge(self, path: str, count: int, size: int) -> None:
        prefix = self._deepest(path) if self.prefixes else None
        node = self._nodes.get(ROOT + prefix + _STATS) if prefix else None
        if prefix and node:
            usage = _parse(node.data)
            if usage:
                self._write(prefix, usage.get("count", -1) + count, usage.get("bytes", -1) + size)
            else:
                self._recount(prefix)

    def _recount(self, prefix: str) -> None:
        usage = self._counted(prefix)
        self._write(prefix, usage["count"], usage["bytes"])

    def _counted(self, prefix: str) -> dict[str, int]:
        below = prefix + "/"
        counted = [n for p, n in self._nodes.items() if p == prefix or p.startswith(below)]
        return {"count": len(counted), "bytes": sum(len(n.data or b"") for n in counted)}

    def _write(self, prefix: str, count: int, size: int) -> None:
        node = self._nodes[ROOT + prefix + _STATS]
        data = b"count=%d,bytes=%d" % (count, size)
        self._grown(len(data) - len(node.data or b""))
        node.data = data
        node.packed = None

"""The releases of Apache ZooKeeper that can be emulated, and their differences.

The rules:

* A line such as ``3.8`` means the release of this line in :data:`LINES`. A full number such as ``3.8.0``
  names a release too, from 3.5.5 up to the last known release (:data:`LAST`).
* Each row of :data:`CHANGES` is one change of behaviour. A row has the old behaviour, and for each line that
  was maintained then the first release with the new behaviour. All lines after the named lines have the new
  behaviour. All other lines have the old behaviour.
* For every row a server has the behaviour of its release. The server reads the rows at its start only, so the
  default release is not slower (:mod:`..net.emulation`).
* Faults that endanger clients or data are never emulated: see docs/differences.md.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

Version: TypeAlias = tuple[int, int, int]

LINES: Final = {
    "3.5": (3, 5, 10),
    "3.6": (3, 6, 4),
    "3.7": (3, 7, 2),
    "3.8": (3, 8, 4),
    "3.9": (3, 9, 5),
    "3.10": (3, 10, 0),
}
"""The release of each line."""
LAST: Final = {(3, 5): 10, (3, 6): 4, (3, 7): 2, (3, 8): 6, (3, 9): 5, (3, 10): 0}
"""The last known release of each line. 3.10.0 is the development head."""
_FIRST: Final = (3, 5, 5)
"""The first release that can be emulated. Earlier releases were alphas and betas, with other access rules."""
DEFAULT: Final = "3.9"


@attrs.frozen
class Change:
    """A change of behaviour between releases.

    :ivar spec: the section of the specification.
    :ivar old: the behaviour of the older releases.
    :ivar since: the first release of each maintained line that has the new behaviour.
    """

    spec: str
    old: str
    since: tuple[Version, ...]

    def is_new(self, version: Version) -> bool:
        """Return whether a release has the new behaviour."""
        for first in self.since:
            if version[:2] == first[:2]:
                return version >= first
        return version > max(self.since)


CHANGES: Final = {
    "batched-reads": Change(
        "wire.md section 8",
        "the ops 22 and 103 to 106 are unknown: the server answers -6 and closes",
        ((3, 6, 0),),
    ),
    "who-am-i": Change(
        "wire.md section 8", "the op 107 is unknown: the server answers -6 and closes", ((3, 7, 0),)
    ),
    "quota-limits": Change("semantics.md section 9.3", "quotas are never enforced", ((3, 7, 0),)),
    "flags-in-multi": Change(
        "wire.md section 10",
        "an unknown create flag fails with -8 at its operation, not with -5 for the whole multi; a TTL "
        "flag without its TTL fails with -5 for the whole multi only if no earlier operation fails",
        ((3, 7, 2), (3, 8, 3)),
    ),
    "create2-in-multi": Change(
        "wire.md section 10",
        "in a multi op 15, and op 19 with the flags 0 to 3, become a plain create with a result of type 1",
        ((3, 7, 2), (3, 8, 3)),
    ),
    "exists-read-check": Change(
        "semantics.md section 5", "exists needs no permission", ((3, 8, 4), (3, 9, 2))
    ),
    "notification-read-check": Change(
        "semantics.md section 10.4",
        "a client that may not read a znode gets its events",
        ((3, 8, 4), (3, 9, 2)),
    ),
    "top-level-check": Change(
        "wire.md section 8",
        "a check outside a multi takes a zxid and gets no answer",
        ((3, 8, 5), (3, 9, 3)),
    ),
    "notification-zxid": Change(
        "wire.md section 11", "the header of each watch event has the zxid -1", ((3, 9, 0),)
    ),
    "watcher-types": Change(
        "semantics.md section 10.6", "ops 17 and 18 answer -5 to the types 4 and 5", ((3, 9, 0),)
    ),
    "watcher-types-ignore-modes": Change(
        "semantics.md section 10.6",
        "the types Children, Data and Any see persistent and recursive watches too, in both registries",
        ((3, 9, 0),),
    ),
    "check-watches-of-anybody": Change(
        "semantics.md section 10.6",
        "checkWatches sees the watches of any connection, fails (-5) on a path without a slash, and on any "
        "relative path while there is a recursive watch",
        ((3, 9, 0),),
    ),
    "one-mode-per-path": Change(
        "semantics.md section 17",
        "a connection has one mode at a path: the last registered mode",
        ((3, 9, 0),),
    ),
    "undecodable-write": Change(
        "wire.md section 6", "a write whose body cannot be decoded takes a zxid", ((3, 9, 0),)
    ),
    "null-path-in-multi": Change(
        "semantics.md section 11, rule 10",
        "the reply is -5 with a terminator, and the last processed zxid does not change",
        ((3, 9, 0),),
    ),
    "null-acl-in-multi": Change(
        "semantics.md section 11, rule 10",
        "the multi fails with -114 at this operation, not with -5 as a whole",
        ((3, 9, 0),),
    ),
    "snapshots-over-http": Change(
        "operator-surface.md section 2.4", "the admin server has no snapshot and no restore", ((3, 9, 0),)
    ),
    "ipv6-acl": Change("semantics.md section 8.4", "an IPv6 id in an ACL is invalid (-114)", ((3, 9, 4),)),
    "no-reverse-dns": Change(
        "operator-surface.md section 4.2",
        "ssl.clientHostnameVerification asks the resolver for the name of a client",
        ((3, 9, 5),),
    ),
    "container-never-used": Change(
        "semantics.md section 7", "an empty container that never had a child is not deleted", ((3, 10, 0),)
    ),
    "fips-sasl": Change(
        "sasl.md section 9",
        "a login with DIGEST-MD5 succeeds although fips-mode is on, which is the default",
        ((3, 10, 0),),
    ),
    "operation-counters": Change(
        "operator-surface.md section 3.4", "there are no counters op_count_* and ttl_node_*", ((3, 10, 0),)
    ),
    "prometheus-names": Change(
        "operator-surface.md section 3.1",
        "Prometheus: counters have no suffix _total, and summaries have the quantile 0.9 instead of 0.95",
        ((3, 10, 0),),
    ),
    "memory-of-jvm": Change(
        "operator-surface.md section 1.3", "envi has os.memory.*, not jvm.memory.*", ((3, 10, 0),)
    ),
}
"""The changes by name, in the order of the releases."""

ALWAYS_SENDS_FLAG: Final = ((3, 9, 0), (3, 9, 2))
"""The first and the last release that answer with a read-only byte if the handshake has none (wire.md section
4.3)."""


class ReleaseError(ValueError):
    """The text does not name a release that can be emulated."""


@attrs.frozen
class Release:
    """
    :ivar version: its number.
    """

    version: Version

    def __str__(self) -> str:
        return ".".join(map(str, self.version))

    def has(self, name: str) -> bool:
        """Return whether this release has the new behaviour of a row of :data:`CHANGES`."""
        return CHANGES[name].is_new(self.version)

    @property
    def is_default(self) -> bool:
        return self.version == LINES[DEFAULT]


@lru_cache
def release(text: str) -> Release:
    """Return the release that a line or a number names.

    :raises ReleaseError: it cannot be emulated.
    """
    if text in LINES:
        return Release(LINES[text])
    if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}", text):
        major, minor, patch = map(int, text.split("."))
        if (major, minor, patch) >= _FIRST and patch <= LAST.get((major, minor), -1):
            return Release((major, minor, patch))
    known = f"{', '.join(LINES)}, or a release from {'.'.join(map(str, _FIRST))} on by its number"
    raise ReleaseError(f"{text!r} is not a release that can be emulated; there are {known}")

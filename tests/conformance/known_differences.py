"""Where older releases of the real server differ from what ours follows: each by name, each once.

The tests ask ``differs(name, server)`` and expect the old behaviour where the answer is yes. Nothing else is
ever expected to differ. (Inputs where ours differs on purpose are in ``test_deliberate_differences.py``.)
"""

from __future__ import annotations

import attrs

from .servers import Server


@attrs.frozen
class Difference:
    """A change of behaviour between releases.

    :ivar spec: where the specification tells of it.
    :ivar old: what the older releases do.
    :ivar since: the first release of each maintained line that has the new behaviour.
    """

    spec: str
    old: str
    since: tuple[tuple[int, int, int], ...]

    def is_old(self, version: tuple[int, ...]) -> bool:
        for first in self.since:
            if version[:2] == first[:2]:
                return version < first
        return version < max(self.since)


DIFFERENCES = {
    "notification-zxid": Difference(
        "wire.md 18: notification header zxid", "-1 instead of the transaction's zxid", ((3, 9, 0),)
    ),
    "notification-read-check": Difference(
        "wire.md 18: READ check when delivering notifications",
        "notifications are not filtered by ACL (Debian's 3.8.0 has the fix: CVE-2024-23944)",
        ((3, 8, 0), (3, 9, 2)),
    ),
    "exists-read-check": Difference(
        "wire.md 18: exists requires READ", "exists never fails with NoAuth", ((3, 8, 4), (3, 9, 2))
    ),
    "watcher-types": Difference(
        "wire.md 18: watcher types 4 and 5", "ops 17 and 18 answer -5 to the types 4 and 5", ((3, 9, 0),)
    ),
    "watcher-types-ignore-modes": Difference(
        "semantics.md 10.6: before 3.9",
        "the types Children, Data and Any see persistent and recursive watches too, in both registries",
        ((3, 9, 0),),
    ),
    "check-watches-of-anybody": Difference(
        "semantics.md 10.6: exact path, this connection only",
        "checkWatches sees the watches of any connection, and fails (-5) on a path without a slash",
        ((3, 9, 0),),
    ),
    "one-mode-per-path": Difference(
        "semantics.md 17: several modes on one path by one connection",
        "a connection has a single mode at a path, the last one registered",
        ((3, 9, 0),),
    ),
    "top-level-check": Difference(
        "wire.md 18: check (13) outside multi", "accepted, but its reply is lost", ((3, 8, 5), (3, 9, 3))
    ),
    "bad-flag-in-multi": Difference(
        "wire.md 18: bad create flag inside multi",
        "-8 for the one operation instead of -5 for the whole multi",
        ((3, 7, 2), (3, 8, 3)),
    ),
    "create2-in-multi": Difference(
        "wire.md 10: table of result types, quirks of the decoder",
        "in a multi op 15, and op 19 with the flags 0 to 3, become a plain create with a result of type 1",
        ((3, 7, 2), (3, 8, 3)),
    ),
    "undecodable-write": Difference(
        "wire.md 18: create with undecodable body",
        "consumes a zxid, and so do delete, setData and setACL",
        ((3, 9, 0),),
    ),
    "null-path-in-multi": Difference(
        "semantics.md 11, rule 10: an internal exception turns the whole multi into a bare -5",
        "a null path gives -5 with a terminator behind it, and last processed does not move",
        ((3, 9, 0),),
    ),
    "ipv6-acl": Difference("wire.md 18: IPv6 ACL ids", "invalid (-114)", ((3, 9, 4),)),
}


def differs(name: str, server: Server) -> bool:
    """Whether the server still behaves in the old way, which ours never does; an unknown name fails."""
    return DIFFERENCES[name].is_old(server.version) and server.kind == "real"

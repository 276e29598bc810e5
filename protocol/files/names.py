"""The names of files in a data directory (files.md section 1): a name has the kind and a zxid in hex.

A name may continue after the zxid, as in ``snapshot.5.gz`` and ``snapshot.5.bak``. The first bytes of a
file say how it is compressed; the name does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

FOLDER = "version-2"
"""The folder of a data directory in which the files are."""

_NAME = re.compile(r"(snapshot|log)\.([0-9a-f]{1,16})(?:\.|$)", re.IGNORECASE)


class Name(NamedTuple):
    """The name of a snapshot or a log.

    :ivar zxid: for a snapshot, the last zxid that was applied when the writing began. For a log, the zxid of
        the first transaction in the log.
    """

    zxid: int
    text: str


class Listing(NamedTuple):
    """The snapshots and logs of a data directory, the oldest first."""

    snapshots: list[Name]
    logs: list[Name]

    @classmethod
    def of(cls, names: Iterable[str]) -> Listing:
        """Return the names of snapshots and logs that are among ``names``."""
        found = cls([], [])
        for text in names:
            if match := _NAME.match(text):
                kind = found.snapshots if match[1].lower() == "snapshot" else found.logs
                kind.append(Name(int(match[2], 16), text))
        found.snapshots.sort()
        found.logs.sort()
        return found

    def logs_from(self, zxid: int) -> list[Name]:
        """Return the logs that may hold transactions after ``zxid``: the last log that begins at ``zxid`` or
        before, and all later logs (files.md section 4, step 3).

        The last log that begins at ``zxid`` or before is needed too. A snapshot gets its name while some
        transactions of the older log may not be applied yet (files.md section 4.1).
        """
        first = max((log.zxid for log in self.logs if log.zxid <= zxid), default=0)
        return [log for log in self.logs if log.zxid >= first]


def snapshot_name(zxid: int, compression: str = "") -> str:
    """Return the name of a snapshot.

    :param compression: one of :data:`.streams.COMPRESSIONS`.
    """
    return f"snapshot.{zxid:x}.{compression}" if compression else f"snapshot.{zxid:x}"


def log_name(zxid: int) -> str:
    return f"log.{zxid:x}"

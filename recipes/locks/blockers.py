"""The contenders before a waiting contender, and the text about the holder of the lock.

The rules:

* To know the holder, a contender whose wait is cancelled reads the first znodes of the queue. These reads are
  in the same round trip as the deletion of its own znode. A contender that waits directly for the holder has
  already read the holder's znode.
* The text does not make a wait longer. Unknown facts are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...client import GetData, Pending, SessionState, Stat, ZooKeeper, ZooKeeperError, paths
from ...protocol.layouts import ContenderName
from ...protocol.text import session_text

_READ = 5
"""The largest number of znodes that are read from the beginning of the queue."""

_LONGEST = 60
"""The number of characters after which a holder's data is cut off in the text."""

Read = tuple[str, bytes | None, Stat]
"""A path, and the data and Stat that were read there."""


class Blockers:
    """The contenders before a contender at a path.

    :param shared: whether the contender is a reader, which waits for writers.
    :ivar before: the names of these contenders in order, from the last list.
    :ivar nearest: the nearest znode before the contender, as the last read returned it. The contender watches
        it.
    """

    def __init__(self, zk: ZooKeeper, path: str, *, shared: bool) -> None:
        self._zk = zk
        self._path = path
        self._holds = "behind" if shared else "held by"
        self._reads: list[tuple[str, Pending[tuple[bytes | None, Stat]]]] = []
        self.before: Sequence[ContenderName] = ()
        self.nearest: Read | None = None

    def ask(self) -> None:
        """Send reads of the first znodes, without waiting for the answers."""
        if self._knows_first() or self._zk.session.state is not SessionState.CONNECTED:
            return
        with suppress(ZooKeeperError):  # the client is being closed
            for contender in self.before[:_READ]:
                path = paths.join(self._path, contender.name)
                self._reads.append((path, self._zk.submit(GetData(path))))

    def _knows_first(self) -> bool:
        first = [paths.join(self._path, contender.name) for contender in self.before[:1]]
        return not first or (self.nearest is not None and self.nearest[0] == first[0])

    def text(self) -> str:
        """Return a text about the holder, with the facts that are known now."""
        if not self.before:
            connected = self._zk.session.state is SessionState.CONNECTED
            return "" if connected else "without a connection to a server"
        found = [(path, *read.result()) for path, read in self._reads if read.settled and not read.error]
        if found:
            return f"{self._holds} {_described(found[0])}"
        if self.nearest is None:
            return f"behind {len(self.before)} others"
        return f"{self._holds if self._knows_first() else 'behind'} {_described(self.nearest)}"


def _described(read: Read) -> str:
    path, data, stat = read
    text = (data or b"").decode(errors="backslashreplace")
    facts = f"session {session_text(stat.ephemeralOwner)}, znode {paths.name(path)}"
    return f"{text[:_LONGEST]!r} ({facts})" if text else facts

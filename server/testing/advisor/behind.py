"""A rule about reads at a server that lags behind the other servers of its ensemble.

* A reply to a read has the zxid of the last write that the server had applied. A read has missed a write if
  three facts are true: the write has a higher zxid, the write was answered before the read came, and the
  client sent no ``sync`` in between. A single server never lags.
* ZooKeeper allows a read to miss a write, and most such reads do no harm. The read does harm if its client
  then writes because of the read, and no other client has written meanwhile. The harm is one of two: the
  client overwrites the missed write, or the server refuses the client's write and the client does not read
  again.
* A refused delete of a deleted znode does no harm. A refused create of a parent without data does no harm.
"""

from __future__ import annotations

from typing import Final

import attrs

from ....protocol.errors import BadVersionError, NodeExistsError, NoNodeError, error_for
from ..describe import Asked
from ..history import Entry
from .finding import Rule
from .refusals import PATIENCE, Refusals
from .table import Table
from .world import READS, Client, Exchange, World, is_claim, parent_of

_WRITES: Final = frozenset({"create", "set_data", "delete"})
_MOST_READ: Final = 1000
"""The largest number of remembered reads of one session. For each operation and znode the last read is
remembered."""


@attrs.frozen
class _Write:
    """The last answered write to a znode."""

    op: str
    session: int
    exchange: Exchange


@attrs.frozen
class _Read:
    """A read of a session.

    :ivar found: whether the znode existed at the read.
    """

    op: str
    found: bool
    exchange: Exchange


@attrs.frozen
class _Harm:
    """The harm that was done by a read that has missed a write."""

    path: str
    what: str
    read: _Read
    write: _Write


class ReadWithoutSync(Rule):
    name = "read-without-sync"
    threshold = (
        "the first time that a client of a pretend ensemble overwrites data that it has not read. Or the "
        "first time that such a write is refused, and the client does not read again within "
        f"{PATIENCE} requests"
    )
    explanation = (
        "A client has read at a server that lagged: the read did not show a write of another client that was "
        "already answered. Then the client wrote because of the old state. This write overwrote the other "
        "client's write, or was refused."
    )
    remedy = (
        "Send sync before a read that must show what other clients already know. Write with the version "
        "that was read, so that you overwrite only data that you have read. If the write is refused, read "
        "again."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._writes: Table[str, _Write] = Table()
        self._reads: Table[int, Table[tuple[str, str], _Read]] = Table(lambda: Table(most=_MOST_READ))
        """The last reads by session, then by operation and path."""
        self._refusals: Refusals[_Harm] = Refusals()

    def exchange(self, client: Client, exchange: Exchange) -> None:
        if not exchange.server or exchange.err is None:
            return
        for harm in self._refusals.taken(client, exchange):
            self._report(client, harm, exchange.time)
        if exchange.refused is not None:
            self._refused(client, exchange, exchange.refused)
        for asked in exchange.asked:
            if asked.op in READS and exchange.err in (0, NoNodeError.code):
                self._reads[client.id][asked.op, asked.path] = _Read(asked.op, not exchange.err, exchange)
        for asked in exchange.done:
            if asked.op in _WRITES:
                self._written(client, exchange, asked)

    def event(self, client: Client, entry: Entry) -> None:
        """Forget the reads of a znode when the client gets an event of the znode. The event tells the client
        that its reads are old."""
        for op in READS:
            self._reads[client.id].pop((op, entry.path or ""), None)

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        for harm in self._refusals.left(client):
            self._report(client, harm, entry.time)
        self._reads.pop(client.id, None)

    def _written(self, client: Client, exchange: Exchange, asked: Asked) -> None:
        if asked.op == "set_data" and asked.version == -1:
            harm = self._harm(client, asked.path, f"{asked.path} was overwritten", ["get_data"], found=True)
            if harm is not None:
                self._report(client, harm, exchange.time)
        path = exchange.created or asked.path
        last = self._writes.get(path)
        if last is None or last.exchange.zxid < exchange.zxid:  # replies may come in another order
            self._writes[path] = _Write(asked.op, client.id, exchange)

    def _refused(self, client: Client, exchange: Exchange, asked: Asked) -> None:
        err, ops, found = exchange.err, ["get_data", "exists", "get_children"], True
        if err == BadVersionError.code and asked.op in ("set_data", "delete", "check"):
            ops = ["get_data", "exists"]
        elif err == NodeExistsError.code and is_claim(asked):
            ops, found = ["get_data", "exists"], False
        elif not (err == NoNodeError.code and asked.op in ("set_data", "check")):
            return
        what = f"{asked.op} of {asked.path} was refused with {type(error_for(err)).__name__}"
        harm = self._harm(client, asked.path, what, ops, found=found)
        if harm is not None:
            self._refusals.add(client, asked.path, harm)

    def _harm(self, client: Client, path: str, what: str, ops: list[str], *, found: bool) -> _Harm | None:
        """Return the harm if the last read of a client has missed the last write, and another client has made
        this write.

        :param ops: the operations of the reads that count.
        :param found: the result of a read that misleads the client: whether the znode was found.
        """
        write, reads = self._writes.get(path), self._reads[client.id]
        asked = [(op, parent_of(path) if op == "get_children" else path) for op in ops]
        known = [reads[key] for key in asked if key in reads]
        if write is None or write.session == client.id or not known:
            return None
        read = max(known, key=lambda each: each.exchange.began)
        if read.exchange.zxid >= write.exchange.zxid or read.exchange.began < write.exchange.ended:
            return None
        misled = read.op == "get_children" or read.found == found
        return _Harm(path, what, read, write) if misled else None

    def _report(self, client: Client, harm: _Harm, time: float) -> None:
        read, write = harm.read.exchange, harm.write.exchange
        self.report(
            (harm.path, harm.what),
            f"{harm.what} {{count}} times by a client that had read the state of 0x{read.zxid:x} at server "
            f"{read.server}, {_behind(read.zxid, write.zxid)} the {harm.write.op} 0x{write.zxid:x} that "
            f"server {write.server} had answered before",
            time=time,
            sessions=[client.id, harm.write.session],
            paths=[harm.path],
        )


def _behind(read: int, write: int) -> str:
    if read >> 32 != write >> 32:
        return "an epoch behind"
    return f"{write - read} transaction{'s' if write - read > 1 else ''} behind"


RULES: Final = (ReadWithoutSync,)

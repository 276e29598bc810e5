"""Rules about writes that overwrite the data of other clients, and about writes that are sent twice.

A write is *lost* if its connection ended before the reply. The client cannot know whether the server has
applied a lost write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from ....protocol.errors import NodeExistsError
from ..describe import Asked
from ..history import Entry
from .finding import Rule
from .refusals import PATIENCE, Refusals
from .table import Table
from .world import READS, Client, Exchange, World, is_claim, parent_of

BLIND: Final = 3
"""The rule reports when clients have overwritten a znode this number of times without a read of the other
clients' data. A client may do this once on purpose, to reset the data."""
_MOST_LOST: Final = 100
"""The largest number of lost writes of one session that are remembered."""


@attrs.define
class _Znode:
    """The reads and writes of a znode.

    :ivar writer: the session that has last written the znode.
    :ivar writes: the number of writes of the znode.
    :ivar read: for each session that has read the znode, the value of ``writes`` at its last read. A write of
        the session removes the entry of the session.
    :ivar blind: how often a session has overwritten data of another session that it had not read.
    """

    writer: int = 0
    writes: int = 0
    read: Table[int, int] = attrs.field(factory=lambda: Table[int, int](int, 100))
    blind: int = 0


class _Overwriting(Rule):
    """Remembers which sessions have read and written which znodes."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._znodes: Table[str, _Znode] = Table(_Znode)

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for asked in exchange.done:
            if asked.op == "get_data":
                znode = self._znodes[asked.path]
                znode.read[client.id] = znode.writes
            elif asked.op in ("set_data", "create"):
                znode = self._znodes[asked.path]
                if asked.op == "set_data" and asked.version == -1 and znode.writer not in (0, client.id):
                    self._written(znode, client, exchange, asked)
                znode.read.pop(client.id, None)
                znode.writer, znode.writes = client.id, znode.writes + 1
            elif asked.op == "delete":
                self._znodes.pop(asked.path, None)

    def _written(self, znode: _Znode, client: Client, exchange: Exchange, asked: Asked) -> None:
        """Note that a session has overwritten the data of another session by a set with the version -1."""
        raise NotImplementedError


class CheckThenAct(_Overwriting):
    name = "check-then-act"
    threshold = "the first time"
    explanation = (
        "A client read a znode, and another client wrote to the znode. Then the first client wrote a value "
        "that it had made from the old data, with any version (-1). So the write of the other client is "
        "lost."
    )
    remedy = (
        "Write with the version that was read (Stat.version). On BadVersion, read again and decide again."
    )

    def _written(self, znode: _Znode, client: Client, exchange: Exchange, asked: Asked) -> None:
        if znode.read.get(client.id, znode.writes) < znode.writes:
            self.report(
                asked.path,
                f"{asked.path} was written {{count}} times by a client that had read an older value",
                time=exchange.time,
                sessions=[client.id, znode.writer],
                paths=[asked.path],
            )


class BlindSet(_Overwriting):
    name = "blind-set"
    threshold = f"{BLIND} times for a znode"
    explanation = (
        "Several clients write to the same znode with any version (-1), and have not read the data that they "
        "overwrite. The last write wins, and chance decides which write is the last."
    )
    remedy = (
        "Read first, and write with the version that was read. Or give each client its own znode. Or "
        "let only the leader of an election write, with a check of its znode in the same multi."
    )

    def _written(self, znode: _Znode, client: Client, exchange: Exchange, asked: Asked) -> None:
        if client.id in znode.read:
            return
        znode.blind += 1
        if znode.blind >= BLIND:
            self.report(
                asked.path,
                f"{asked.path} was written {{count}} times over others' data, which its writer had not read",
                time=exchange.time,
                sessions=[client.id, znode.writer],
                paths=[asked.path],
                count=znode.blind,
            )


class _Repeating(Rule):
    """Keeps the lost writes of each client until this client reads the tree."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lost: Table[int, Table[Asked, Sequence[Asked]]] = Table(lambda: Table(most=_MOST_LOST))
        """The operations of lost requests, by session. Each operation is kept with all operations of its
        request."""

    def exchange(self, client: Client, exchange: Exchange) -> None:
        if exchange.err is None:
            if exchange.op not in READS:
                together = exchange.asked[:_MOST_LOST]
                for asked in together:
                    self._lost[client.id][asked] = together
            return
        found = self._lost.get(client.id)
        if not found:
            return
        for asked in exchange.asked:
            if asked.op in READS:
                for each, together in list(
                    found.items()
                ):  # a read of one path shows whether all were applied
                    if any(asked.path in (other.path, parent_of(other.path)) for other in together):
                        del found[each]
            elif asked in found:
                del found[asked]
                self._repeated(client, exchange, asked)

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        self._lost.pop(client.id, None)

    def _repeated(self, client: Client, exchange: Exchange, asked: Asked) -> None:
        """Note that a lost write was sent again, without a read of the tree in between."""
        raise NotImplementedError


class SequentialAgain(_Repeating):
    name = "sequential-create-again"
    threshold = "the first time"
    explanation = (
        "The connection ended before the reply to a sequential create, and the client created again "
        "without looking for the first znode. If the first znode exists, the client has two znodes and "
        "knows only one. In a lock, the unknown znode blocks everybody until the session ends."
    )
    remedy = (
        "Put your own id into the name, as Curator's protection does. After a lost reply, read the children "
        "and look for the id before you create again."
    )

    def _repeated(self, client: Client, exchange: Exchange, asked: Asked) -> None:
        if asked.op == "create" and "sequential" in asked.kind and exchange.err == 0:
            self.report(
                (client.id, asked.path),
                f"after a lost reply {asked.path} was created again {{count}} times",
                time=exchange.time,
                sessions=[client.id],
                paths=[asked.path, exchange.created or asked.path],
            )


class BlindRetry(_Repeating):
    name = "blind-retry"
    threshold = (
        "the first time. If the create finds that the znode exists, only if no read follows within "
        f"{PATIENCE} requests"
    )
    explanation = (
        "The connection ended before the reply to a write, and the client sent the write again as if the "
        "server had not applied the write. If the server had applied the write, a repeated set overwrites "
        "what others have written since, and a repeated create fails because the client's own znode exists."
    )
    remedy = (
        "After a lost reply, read first. Set with the version that was read, so that only one of the two "
        "writes can be applied. After NodeExists, compare the owner or the data with yours."
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._refusals: Refusals[str] = Refusals()

    def exchange(self, client: Client, exchange: Exchange) -> None:
        for path in self._refusals.taken(client, exchange):
            self._report(client, path, exchange.time)
        super().exchange(client, exchange)

    def _repeated(self, client: Client, exchange: Exchange, asked: Asked) -> None:
        if asked.op == "set_data" and asked.version == -1 and exchange.err == 0:
            if asked.path not in client.owned:  # nobody else writes to the client's own ephemeral
                self._report(client, asked.path, exchange.time)
        elif is_claim(asked) and exchange.err == NodeExistsError.code and asked is exchange.refused:
            self._refusals.add(client, asked.path, asked.path)

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        super().ended(client, entry, expired)
        for path in self._refusals.left(client):
            self._report(client, path, entry.time)

    def _report(self, client: Client, path: str, time: float) -> None:
        self.report(
            path,
            f"a write to {path} was sent again {{count}} times after a lost reply, without a read",
            time=time,
            sessions=[client.id],
            paths=[path],
        )


RULES: Final = (CheckThenAct, BlindSet, SequentialAgain, BlindRetry)

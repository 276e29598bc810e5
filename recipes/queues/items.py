"""Items of a queue: how their znodes are named, what is in them (recipe-rules.md B.9, D.10)."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from ...client import Stat, ZooKeeper
from ...protocol.paths import join
from ..base.creating import CreateOptions
from ..errors import AmbiguousResult, RecipeError

_NUMBER = r"(?P<number>\d{10}|-\d{9,10})"
_LAST_NUMBER = 2**31 - 1


class QueueEmpty(RecipeError):
    """There is nothing to take at the moment."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing to take from {path}")
        self.path = path


class QueueFull(RecipeError):
    """A bounded queue has no room at the moment."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(f"{path} holds the {limit} items that it may hold, or would hold more")
        self.path = path
        self.limit = limit


@attrs.frozen
class Item:
    """What was taken from a queue.

    :ivar payloads: the data; several where Curator's ``putMulti`` has put them into one znode.
    :ivar stat: of the znode; ``stat.ctime`` tells when it was put.
    """

    path: str
    payloads: tuple[bytes, ...]
    stat: Stat

    @property
    def data(self) -> bytes:
        """The payload. Raises ValueError if there are several, so that none is forgotten."""
        (payload,) = self.payloads
        return payload


class UndecidedItem(AmbiguousResult):
    """An item may have been taken or not, and it cannot be found out any more: handle it, and it is handled
    at least once; drop it, and it is handled at most once.

    :ivar item: that item.
    """

    def __init__(self, item: Item) -> None:
        super().__init__(f"taking {item.path}")
        self.item = item


class Position(NamedTuple):
    """Where an item stands in its queue.

    :ivar rank: its priority or, in ms since the epoch, when it is due. Lower ones come first.
    :ivar number: the server's.
    """

    rank: int
    number: int

    @property
    def exhausted(self) -> bool:
        """Whether there are no numbers left (recipe-rules.md 0.4)."""
        return self.number < 0 or self.number >= _LAST_NUMBER


@attrs.frozen
class Layout:
    """How the items of a kind of queue are stored.

    :ivar prefix: what their names begin with.
    :ivar middle: a regular expression for what comes between that and the number. It may name a group
        ``rank``, an integer to ``base``, and a group ``label``.
    :ivar framed: the data is a frame of Curator's, not the bare payload.
    :ivar ranked: an item may come before those that were put earlier.
    :ivar timed: the rank says when an item is due.
    """

    prefix: str
    middle: str = ""
    base: int = 10
    framed: bool = False
    ranked: bool = False
    timed: bool = False
    _pattern: re.Pattern[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: self._compile(), takes_self=True)
    )

    def _compile(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.prefix) + self.middle + _NUMBER)

    def position(self, name: str) -> Position | None:
        """None for a name that is no item's."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        rank = int(match["rank"], self.base) if self.ranked else 0
        return Position(rank, int(match["number"]))

    def label(self, name: str) -> str | None:
        match = self._pattern.fullmatch(name)
        return match["label"] if match is not None else None

    def encode(self, payload: bytes) -> bytes:
        return encode_frame([payload]) if self.framed else payload

    def decode(self, data: bytes | None) -> tuple[bytes, ...]:
        """Raises ValueError."""
        data = data or b""
        return decode_frame(data) if self.framed else (data,)


@attrs.frozen
class Place:
    """Where a queue is, and how.

    :ivar items: the directory of the items.
    :ivar claims: the directory of the claims; None where nobody claims.
    """

    zk: ZooKeeper
    layout: Layout
    items: str
    claims: str | None
    options: CreateOptions

    def item(self, name: str) -> str:
        """The path of an item."""
        return join(self.items, name)

    def claim(self, name: str) -> str:
        """The path of the claim on an item."""
        assert self.claims is not None
        return join(self.claims, name)


SIMPLE = Layout("qn-")
NATIVE = Layout("item-", r"(?P<label>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")
KAZOO = Layout("entry-", r"(?P<rank>\d{3})-", ranked=True)
CURATOR = Layout("queue-", framed=True)
CURATOR_PRIORITY = Layout("queue-", "(?P<rank>[01][0-9A-F]{8})", base=16, framed=True, ranked=True)
CURATOR_DELAY = Layout(
    "queue-", r"\|(?P<rank>[0-9A-F]{8,16})\|", base=16, framed=True, ranked=True, timed=True
)
CURATOR_ID = Layout("queue-", r"\|(?P<label>[^|]*)\|", framed=True)

DEFAULT_PRIORITY = 100


def kazoo_priority(priority: int) -> str:
    """The middle of a name of :data:`KAZOO`. Raises ValueError."""
    if not 0 <= priority <= 999:
        raise ValueError(f"a priority is between 0 and 999, not {priority}")
    return f"{priority:03d}-"


def curator_priority(priority: int) -> str:
    """The middle of a name of :data:`CURATOR_PRIORITY`. Raises ValueError."""
    if not -(2**31) <= priority < 2**31:
        raise ValueError(f"a priority is an integer of 32 bits, not {priority}")
    return f"{int(priority >= 0)}{priority & 0xFFFFFFFF:08X}"


# --- Curator's frames -----------------------------------------------------------------------------------

_VERSION = b"\x00\x01\x00\x01"
_PAYLOAD = 1
_END = 2


def encode_frame(payloads: Sequence[bytes]) -> bytes:
    """int32 0x00010001, for each payload a byte 1, its length as int32 and itself, at last a byte 2."""
    parts = [struct.pack(">Bi", _PAYLOAD, len(payload)) + payload for payload in payloads]
    return b"".join([_VERSION, *parts, bytes([_END])])


def decode_frame(data: bytes) -> tuple[bytes, ...]:
    """Raises ValueError for anything else."""
    if not data.startswith(_VERSION):
        raise ValueError("the data does not begin with 0x00010001")
    payloads = []
    at = len(_VERSION)
    while data[at : at + 1] != bytes([_END]):
        try:
            kind, length = struct.unpack_from(">Bi", data, at)
        except struct.error:
            raise ValueError("the data ends in the middle of a frame") from None
        at += 5
        if kind != _PAYLOAD or not 0 <= length <= len(data) - at:
            raise ValueError(f"a payload of kind {kind} and length {length} at offset {at - 5}")
        payloads.append(data[at : at + length])
        at += length
    return tuple(payloads)

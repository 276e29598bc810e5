"""The items of queues: the names and the data of their znodes (recipe-rules.md B.9, D.10)."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from ...client import Stat, ZooKeeper, paths
from ..base.creating import ZnodeOptions
from ..errors import AmbiguousResult, RecipeError

_NUMBER = r"(?P<number>\d{10}|-\d{9,10})"
_LAST_NUMBER = 2**31 - 1
"""The last sequence number of the server, which uses signed integers of 32 bits."""


class QueueEmpty(RecipeError):
    """No item can be taken now."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no item of {path} can be taken now")
        self.path = path


class QueueFull(RecipeError):
    """A queue with a limit has no room now."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(f"{path} has no room: its limit is {limit} items")
        self.path = path
        self.limit = limit


@attrs.frozen
class Item:
    """An item that was read from a queue.

    :ivar path: the path of the znode.
    :ivar payloads: the data of the item. Curator's ``putMulti`` puts several payloads into one znode.
    :ivar stat: the Stat of the znode. ``stat.ctime`` is the time of the put in ms since the epoch.
    """

    path: str
    payloads: tuple[bytes, ...]
    stat: Stat

    @property
    def data(self) -> bytes:
        """The only payload.

        :raises ValueError: the item has several payloads; use ``payloads``.
        """
        (payload,) = self.payloads
        return payload


class UndecidedItem(AmbiguousResult):
    """An item was taken, but it is unknown whether this call or another consumer has taken the item. If you
    handle the item, it is handled at least once. If you drop the item, it is handled at most once.

    :ivar item: the item.
    """

    def __init__(self, item: Item) -> None:
        super().__init__(f"taking {item.path}")
        self.item = item


class Position(NamedTuple):
    """The position of an item in its queue. Lower positions come first.

    :ivar rank: the priority of the item, or its due time in ms since the epoch.
    :ivar number: the sequence number from the server.
    """

    rank: int
    number: int

    @property
    def exhausted(self) -> bool:
        """True if the server has no number left after this number (recipe-rules.md 0.4)."""
        return self.number < 0 or self.number >= _LAST_NUMBER


@attrs.frozen
class ItemLayout:
    """The layout of the items of one kind of queue. A name consists of a prefix, a middle and a number.

    :ivar prefix: the beginning of every name.
    :ivar middle: a regular expression for the middle of the name. The expression can have a group ``rank``,
        an integer to the base ``base``, and a group ``label``.
    :ivar framed: whether the data is a frame of Curator. If False, the data is the payload.
    :ivar marked: whether each put uses unique names and a marker; see :mod:`.producer`.
    :ivar ranked: whether a later item may come before earlier items.
    :ivar timed: whether the rank is the due time of the item.
    """

    prefix: str
    middle: str = ""
    base: int = 10
    framed: bool = False
    marked: bool = False
    ranked: bool = False
    timed: bool = False
    _pattern: re.Pattern[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: self._compile(), takes_self=True)
    )

    def _compile(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.prefix) + self.middle + _NUMBER)

    def position(self, name: str) -> Position | None:
        """Return the position in the queue from a name; None if the name is not the name of an item."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        rank = int(match["rank"], self.base) if self.ranked else 0
        return Position(rank, int(match["number"]))

    def label(self, name: str) -> str | None:
        """Return the label from a name; None if the name is not the name of an item."""
        match = self._pattern.fullmatch(name)
        return match["label"] if match is not None else None

    def encode(self, payload: bytes) -> bytes:
        """Return the data of an item's znode."""
        return encode_frame([payload]) if self.framed else payload

    def decode(self, data: bytes | None) -> tuple[bytes, ...]:
        """Return the payloads of an item from the data of its znode.

        :raises ValueError: the data is not a frame.
        """
        data = data or b""
        return decode_frame(data) if self.framed else (data,)


@attrs.frozen
class QueueLocation:
    """The paths of the znodes of a queue, and the options of their creation.

    :ivar items: the directory of the items.
    :ivar claims: the directory of the claims; None in a queue without claims.
    """

    zk: ZooKeeper
    layout: ItemLayout
    items: str
    claims: str | None
    options: ZnodeOptions

    def item(self, name: str) -> str:
        """Return the path of an item."""
        return paths.join(self.items, name)

    def claim(self, name: str) -> str:
        """Return the path of the claim on an item."""
        assert self.claims is not None
        return paths.join(self.claims, name)


SIMPLE = ItemLayout("qn-")
NATIVE = ItemLayout("item-", r"(?P<label>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-", marked=True)
KAZOO = ItemLayout("entry-", r"(?P<rank>\d{3})-", ranked=True)
CURATOR = ItemLayout("queue-", framed=True)
CURATOR_PRIORITY = ItemLayout("queue-", "(?P<rank>[01][0-9A-F]{8})", base=16, framed=True, ranked=True)
CURATOR_DELAY = ItemLayout(
    "queue-", r"\|(?P<rank>[0-9A-F]{8,16})\|", base=16, framed=True, ranked=True, timed=True
)
CURATOR_ID = ItemLayout("queue-", r"\|(?P<label>[^|]*)\|", framed=True)

DEFAULT_PRIORITY = 100
"""The priority that kazoo gives an item by default."""


def kazoo_priority(priority: int) -> str:
    """Return the middle of a name in the layout :data:`KAZOO`.

    :raises ValueError: the priority is out of range.
    """
    if not 0 <= priority <= 999:
        raise ValueError(f"a priority is between 0 and 999, not {priority}")
    return f"{priority:03d}-"


def curator_priority(priority: int) -> str:
    """Return the middle of a name in the layout :data:`CURATOR_PRIORITY`: a digit for the sign and 8 hex
    digits. The digit makes negative priorities come first.

    :raises ValueError: the priority is out of range.
    """
    if not -(2**31) <= priority < 2**31:
        raise ValueError(f"a priority is an integer of 32 bits, not {priority}")
    return f"{int(priority >= 0)}{priority & 0xFFFFFFFF:08X}"


# --- Curator's frames -----------------------------------------------------------------------------------

_VERSION = b"\x00\x01\x00\x01"
_PAYLOAD = 1
_END = 2


def encode_frame(payloads: Sequence[bytes]) -> bytes:
    """Return payloads in a frame of Curator. A frame is the int32 0x00010001, then the payloads, and then a
    byte 2. Before each payload there is a byte 1, and the length of the payload as an int32."""
    parts = [struct.pack(">Bi", _PAYLOAD, len(payload)) + payload for payload in payloads]
    return b"".join([_VERSION, *parts, bytes([_END])])


def decode_frame(data: bytes) -> tuple[bytes, ...]:
    """Return the payloads of a frame: see :func:`encode_frame`.

    :raises ValueError: the data is not such a frame.
    """
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
            raise ValueError(f"the payload at offset {at - 5} is of kind {kind} and length {length}")
        payloads.append(data[at : at + length])
        at += length
    return tuple(payloads)

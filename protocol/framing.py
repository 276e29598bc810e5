"""Cutting a byte stream into frames. A frame is an int32 length and then this number of bytes (wire.md
section 1). The rules:

* The stream arrives in pieces of any size. A piece may contain many frames, or a part of one frame.
* All whole frames are copied out of the buffer together, so many small requests in one read cost one pass. A
  frame that arrives in many pieces costs one copy of each piece.
* After a length that is negative or above the limit, nothing more can be read. The frames before a wrong
  length are returned first.
"""

from __future__ import annotations

import struct

_LENGTH = struct.Struct(">i")


class FrameLengthError(ValueError):
    """The length before a frame is negative or above the limit; nothing after it can be read."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(length, limit)
        self.length = length
        self.limit = limit

    def __str__(self) -> str:
        if self.length < 0:
            return f"the frame length {self.length} is negative: the peer does not speak this protocol"
        return f"a message of {self.length:,} bytes exceeds jute.maxbuffer {self.limit:,}"


def frame(payload: bytes) -> bytes:
    """Return a frame: the length of a payload, then the payload."""
    return _LENGTH.pack(len(payload)) + payload


class FrameBuffer:
    """Collects bytes, and returns whole payloads.

    :ivar limit: the largest payload in bytes that is accepted (inclusive).
    :ivar more: whether the next :meth:`take` returns a payload or raises an error without more bytes.
    :ivar empty: whether the buffer is empty.
    """

    __slots__ = ("_data", "_pos", "empty", "limit", "more")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.more = False
        self.empty = True
        # A bytes object may hold whole frames. A bytearray holds the beginning of a frame that arrives in
        # pieces: it grows in place.
        self._data: bytes | bytearray = b""
        self._pos = 0

    def __len__(self) -> int:
        """Return the number of bytes that wait in the buffer."""
        return len(self._data) - self._pos

    def feed(self, data: bytes) -> None:
        if not data:
            return
        if self.empty:
            self.empty = False
            self._data = data
            self._pos = 0
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data[self._pos :])
            self._pos = 0
        self._data += data

    def peek(self, size: int) -> bytes:
        """Return the next bytes, at most ``size`` bytes, and leave them in the buffer."""
        return bytes(self._data[self._pos : self._pos + size])

    def take(self, most: int) -> list[bytes]:
        """Take up to ``most`` whole payloads.

        :raises FrameLengthError: the next frame has a bad length. The frames before it are returned first.
        """
        frames: list[bytes] = []
        data, pos, size, limit = self._data, self._pos, len(self._data), self.limit
        if isinstance(data, bytearray):
            if size - pos < 4 or size - pos - 4 < _LENGTH.unpack_from(data, pos)[0] <= limit:
                self.more = False
                return frames
            self._data = data = bytes(data)
        self.more = False
        unpack, last = _LENGTH.unpack_from, size - 4
        while pos <= last:
            (length,) = unpack(data, pos)
            start = pos + 4
            end = start + length
            if length < 0 or length > limit or end > size or not most:
                is_bad = not 0 <= length <= limit
                if is_bad and not frames:
                    raise FrameLengthError(length, limit)
                self.more = is_bad or end <= size
                break
            frames.append(data[start:end])
            most -= 1
            pos = end
        if pos == size:
            self._data, pos, self.empty = b"", 0, True
        self._pos = pos
        return frames

"""Streams of bytes: compression, and reading a large file piece by piece."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

_INT = struct.Struct(">i")
_PIECE: Final = 2**20
"""The number of bytes in one read."""
_GZIP: Final = b"\x1f\x8b"
_SNAPPY: Final = b"\x82SNAPPY\0"
_SNAPPY_HEAD: Final = 16
"""The number of bytes before the first chunk of a snappy file."""
_LONGEST_CHUNK: Final = 2**24
"""The largest size in bytes of a chunk of a snappy file. Known programs write chunks of 32 KiB."""


COMPRESSIONS: Final = ("", "gz", "snappy")
"""The kinds of compression of a snapshot; the name of the file ends with the kind."""
_CHUNK: Final = 32 * 1024
"""The size in bytes of the chunks that are compressed separately, as in snappy-java."""
_LEVEL: Final = 6
"""The level of gzip, as in Java. Level 9 takes twice as long and makes files only 1 % smaller."""


class FileError(ValueError):
    """A file is damaged, or is not of the kind that was expected.

    :ivar offset: the position of the byte where the fault was found, from 0. In a compressed file, the
        position counts uncompressed bytes.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset:,}: {reason}")
        self.offset = offset
        self.reason = reason


def begins_snapshot(start: bytes) -> bool:
    """Return whether a file is a snapshot, compressed or not.

    :param start: the first bytes of the file, 4 or more.
    """
    return start[:4] == b"ZKSN" or start.startswith(_GZIP) or start[:4] == _SNAPPY[:4]


def uncompressed(file: IO[bytes]) -> IO[bytes]:
    """Return a stream of the uncompressed bytes of a file. The first bytes of the file say how it is
    compressed.

    :param file: a stream at its beginning, which can return to its beginning (``seek``).
    :raises FileError: snappy needs the package ``cramjam``, which is not installed.
    """
    start = file.read(len(_SNAPPY))
    file.seek(0)
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if start == _SNAPPY:
        return io.BufferedReader(_Snappy(file), _PIECE)
    return file


@contextmanager
def compressing(file: IO[bytes], compression: str) -> Iterator[IO[bytes]]:
    """Yield a stream: bytes that are written to the stream are compressed and written into a file.

    :param compression: one of :data:`COMPRESSIONS`.
    :raises FileError: snappy needs the package ``cramjam``, which is not installed.
    """
    if compression == "gz":
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL) as stream:
            yield stream  # type: ignore[misc]
    elif compression == "snappy":
        compress = _snappy().compress_raw
        file.write(_SNAPPY + _INT.pack(1) + _INT.pack(1))
        with io.BufferedWriter(_SnappyWriter(file, compress), _CHUNK) as stream:
            yield stream
    else:
        yield file


def _snappy() -> Any:
    """:raises FileError: the package is not installed."""
    try:
        import cramjam
    except ImportError:
        raise FileError(0, "it is compressed with snappy; to read it: pip install cramjam") from None
    return cramjam.snappy


class _SnappyWriter(io.RawIOBase):
    """Writes its input into a file, in chunks of the stream format of snappy-java."""

    def __init__(self, file: IO[bytes], compress: Any) -> None:
        self._file = file
        self._compress = compress

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        for at in range(0, len(data), _CHUNK):
            chunk = bytes(self._compress(bytes(data[at : at + _CHUNK])))
            self._file.write(_INT.pack(len(chunk)) + chunk)
        return len(data)


class _Snappy(io.RawIOBase):
    """Reads the uncompressed bytes of a file in the stream format of snappy-java (files.md section 2.2)."""

    def __init__(self, file: IO[bytes]) -> None:
        self._expand: Any = _snappy().decompress_raw
        self._file = file
        self._left = memoryview(b"")
        self._at = len(file.read(_SNAPPY_HEAD))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            head = self._file.read(4)
            if not head:
                return 0
            size = _INT.unpack(head)[0] if len(head) == 4 else -1
            chunk = self._file.read(size) if 0 <= size <= _LONGEST_CHUNK else b""
            if len(chunk) != size:
                raise FileError(self._at, "the length of a compressed part is wrong, or the file was cut")
            if _expanded_size(chunk) > _LONGEST_CHUNK:
                raise FileError(self._at, "a compressed part is longer than the longest part of any writer")
            try:
                self._left = memoryview(bytes(self._expand(chunk)))
            except Exception as error:  # the package raises errors of its own
                raise FileError(self._at, f"a compressed part cannot be expanded: {error}") from None
            self._at += 4 + size
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _expanded_size(chunk: bytes) -> int:
    """Return the uncompressed size that is written at the beginning of a chunk of snappy. Each byte holds
    seven bits of the number."""
    size = 0
    for number, byte in enumerate(chunk[:5]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            break
    return size


class Input:
    """A stream that is read piece by piece, with the Adler32 of everything read so far.

    :param most: the largest number of bytes that the stream may have.
    :ivar data: the current piece. A caller reads the piece from ``pos`` on, and then moves ``pos``.
    """

    def __init__(self, stream: IO[bytes], most: float = math.inf) -> None:
        self._stream = stream
        self._most = most
        self._before = 0  # the number of bytes before this piece
        self._sum = 1  # the Adler32 of data[:_summed] and of all earlier bytes
        self._summed = 0
        self.data = b""
        self.pos = 0

    @property
    def offset(self) -> int:
        """The position of ``pos`` in the whole stream."""
        return self._before + self.pos

    def has(self, size: int) -> bool:
        """Read until there are ``size`` bytes after ``pos``. Returns False if the stream ends earlier."""
        if len(self.data) - self.pos >= size:
            return True
        self.checksum()
        pieces = [self.data[self.pos :]]
        have = len(pieces[0])
        while have < size:  # piece by piece, because a damaged length may be huge
            try:
                piece = self._stream.read(_PIECE)
            except (OSError, EOFError, zlib.error) as error:
                self._keep(pieces)
                raise FileError(self.offset, f"it cannot be uncompressed: {error}") from None
            if not piece:
                break
            pieces.append(piece)
            have += len(piece)
            if self.offset + have > self._most:
                raise FileError(self.offset, f"more than {self._most:,} bytes: it is compressed too well")
        self._keep(pieces)
        return have >= size

    def _keep(self, pieces: list[bytes]) -> None:
        self._before += self.pos
        self.data = b"".join(pieces)
        self.pos = self._summed = 0

    def take(self, size: int, what: str = "the file") -> bytes:
        """Return the next bytes.

        :raises FileError: the stream ends too early, or the size is negative.
        """
        if size < 0:
            raise FileError(self.offset, f"a length is negative, in {what}")
        if not self.has(size):
            raise FileError(self.offset, f"{what} ends too early: {size:,} bytes should follow")
        start = self.pos
        self.pos += size
        return self.data[start : self.pos]

    def checksum(self) -> int:
        """Return the Adler32 of all bytes before ``pos``."""
        if self._summed != self.pos:
            self._sum = zlib.adler32(memoryview(self.data)[self._summed : self.pos], self._sum)
            self._summed = self.pos
        return self._sum

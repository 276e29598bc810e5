"""Requests encoded ahead of time, and a blocking client: what all the benchmarks say to a server.

The clients of the tests (:mod:`tests.support.wire`) say the same, and decode every reply. That would cost a
benchmark more than the server does, so its client looks at the header of a reply and no further.

A request is a whole frame, made once and sent many times. Its xid is a mark of ours, since servers only
echo it: replies to COUNTED requests are what a benchmark counts, those to others are steps on the way.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from pyzk.protocol import records
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

Address = tuple[str, int]

COUNTED = 1
UNCOUNTED = 2
EVENT = -1  # the xid of a watch event

BASE = "/pyzk-benchmark"
DATA = b"x" * 100

REPLY = struct.Struct(">iqi")  # records.ReplyHeader
_NODE_EXISTS = -110
_CHUNK = 500


class BenchmarkError(Exception):
    """The server did not do its part; nothing that was measured counts."""


def request(op: int, record: Record | bytes = b"", xid: int = COUNTED) -> bytes:
    """The frame of a request."""
    body = record if isinstance(record, bytes) else record.encode()
    return frame(records.RequestHeader(xid, op).encode() + body)


def get(path: str, watch: bool = False, xid: int = COUNTED) -> bytes:
    return request(OpCode.GET_DATA, records.GetDataRequest(path, watch), xid)


def exists(path: str, watch: bool = False, xid: int = COUNTED) -> bytes:
    return request(OpCode.EXISTS, records.ExistsRequest(path, watch), xid)


def children(path: str, watch: bool = False, xid: int = COUNTED) -> bytes:
    return request(OpCode.GET_CHILDREN, records.GetChildrenRequest(path, watch), xid)


def set_data(path: str, data: bytes = DATA, xid: int = COUNTED) -> bytes:
    return request(OpCode.SET_DATA, records.SetDataRequest(path, data, -1), xid)


def create(
    path: str, data: bytes = DATA, mode: CreateMode = CreateMode.PERSISTENT, xid: int = COUNTED
) -> bytes:
    return request(OpCode.CREATE, records.CreateRequest(path, data, records.OPEN_ACL, mode), xid)


def delete(path: str, xid: int = COUNTED) -> bytes:
    return request(OpCode.DELETE, records.DeleteRequest(path, -1), xid)


def sync(path: str, xid: int = COUNTED) -> bytes:
    return request(OpCode.SYNC, records.SyncRequest(path), xid)


def multi_of(ops: Iterable[tuple[int, Record]], op: int = OpCode.MULTI) -> bytes:
    return request(op, encode_multi(MultiOp(*item) for item in ops))


def multi_set(paths: Iterable[str], data: bytes = DATA) -> bytes:
    return multi_of((OpCode.SET_DATA, records.SetDataRequest(path, data, -1)) for path in paths)


CLOSE_SESSION = request(OpCode.CLOSE_SESSION)


def hello(
    timeout: int,
    session_id: int = 0,
    password: bytes | None = bytes(16),
    *,
    last_zxid: int = 0,
    protocol_version: int = 0,
    read_only: bool | None = False,
) -> bytes:
    """The handshake; ``timeout`` in ms. ``read_only=None`` leaves the optional byte out."""
    connect = records.ConnectRequest(protocol_version, last_zxid, timeout, session_id, password).encode()
    return frame(connect if read_only is None else connect + records.ReadOnlyFlag(read_only).encode())


def created_path(reply: bytes) -> str:
    """What a create came to; ``reply`` is a payload, header included."""
    path: str = records.CreateResponse.decode(reply, REPLY.size).path
    return path


def names_in(reply: bytes) -> Sequence[str]:
    """The children that a listing came to."""
    return records.GetChildrenResponse.decode(reply, REPLY.size).children or ()


def deletion_of(reply: bytes, xid: int = COUNTED) -> bytes:
    """The request that deletes what a create came to."""
    return delete(created_path(reply), xid)


class Client:
    """A session over a blocking socket.

    :ivar events: how many watch events have come so far.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout: int = 40_000,
        session: tuple[int, bytes] = (0, bytes(16)),
        wait: bool = True,
        patience: float = 60.0,
    ) -> None:
        """Connect and ask for a session; ``wait`` for it too, which is :meth:`shake_hands`.

        :param timeout: of the session, in ms.
        :param patience: seconds that an answer may take.
        """
        self.socket = socket.create_connection(address, timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.events = 0
        self._buffer = FrameBuffer(2**31 - 1)
        self._incoming = self._payloads()
        try:
            self.socket.sendall(hello(timeout, *session))
            if wait:
                self.shake_hands()
        except BaseException:
            self.socket.close()
            raise

    def shake_hands(self) -> None:
        """Wait for the session."""
        answer = records.ConnectResponse.read(next(self._incoming))[0]
        if not answer.sessionId:
            raise BenchmarkError("the server gave no session")
        self.session = (answer.sessionId, answer.passwd or b"")

    def _payloads(self) -> Iterator[bytes]:
        while True:
            yield from self._buffer.take(_CHUNK)
            if not self._buffer.more:
                data = self.socket.recv(1 << 18)
                if not data:
                    raise BenchmarkError(
                        "the server has closed a connection; does it limit them (maxClientCnxns)?"
                    )
                self._buffer.feed(data)

    def ask(self, *requests: bytes, may_fail: Sequence[int] = ()) -> list[bytes]:
        """Send requests in one go and wait for all replies, payloads with their headers."""
        self.socket.sendall(b"".join(requests))
        return self.take_replies(len(requests), may_fail)

    def take_replies(self, count: int, may_fail: Sequence[int] = ()) -> list[bytes]:
        """Wait for the next replies; events before them are counted."""
        replies: list[bytes] = []
        while len(replies) < count:
            payload = next(self._incoming)
            xid, _, err = REPLY.unpack_from(payload)
            if xid == EVENT:
                self.events += 1
                continue
            if err and err not in may_fail:
                raise BenchmarkError(f"the server answered with error {err}")
            replies.append(payload)
        return replies

    def ask_all(self, requests: Iterable[bytes], may_fail: Sequence[int] = ()) -> None:
        """The same for any number of requests, a few hundred at a time."""
        waiting: list[bytes] = []
        for item in requests:
            waiting.append(item)
            if len(waiting) == _CHUNK:
                self.ask(*waiting, may_fail=may_fail)
                waiting.clear()
        self.ask(*waiting, may_fail=may_fail)

    def make(self, *paths: str) -> None:
        """See to it that these znodes are there."""
        self.ask_all(map(create, paths), may_fail=[_NODE_EXISTS])

    def clear(self, path: str) -> None:
        """Delete everything below ``path``, two levels deep at most, and ``path`` itself."""
        names = names_in(self.ask(children(path))[0])
        for name in names:
            grandchildren = names_in(self.ask(children(f"{path}/{name}"))[0])
            self.ask_all(delete(f"{path}/{name}/{child}") for child in grandchildren)
        self.ask_all(delete(f"{path}/{name}") for name in names)
        self.ask(delete(path))

    def leave(self) -> None:
        """Close the session and the connection."""
        self.ask(CLOSE_SESSION)
        self.drop()

    def drop(self) -> None:
        """Close the connection; the session is left to expire."""
        self.socket.close()


def four_letter_word(address: Address, word: bytes, patience: float = 10.0) -> str:
    with socket.create_connection(address, timeout=patience) as sock:
        sock.sendall(word)
        return b"".join(iter(lambda: sock.recv(1 << 16), b"")).decode()


def monitor(address: Address) -> dict[str, int]:
    """The whole numbers that ``mntr`` reports."""
    found = {}
    for line in four_letter_word(address, b"mntr").splitlines():
        name, _, value = line.partition("\t")
        if value.lstrip("-").isdigit():
            found[name] = int(value)
    return found

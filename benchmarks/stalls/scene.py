"""A server on its way through a case, and what several cases do with it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pyzk.protocol import records as r
from pyzk.protocol.jute import Record
from pyzk.protocol.operations import OpCode

from .. import wire
from ..servers import Server
from ..wire import Address, Client

MEGABYTE = 1_000_000  # bytes of a request: a little less than jute.maxbuffer allows
FILES = 16_000  # open files of one process
LONG = 600_000  # ms: a session timeout that never matters
PIPELINE = 32  # requests in flight where one is too few to tell
NO_AUTH, NO_NODE = -102, -101
BATCH = 500


class NotHere(Exception):
    """This machine lacks what the case needs."""


class Scene:
    """A server on its way through a case.

    :ivar elements: how many parts the transaction has that is measured.
    :ivar troubles: what went wrong, in words.
    :ivar kept: what a state has for the cases that begin with it.
    """

    def __init__(self, server: Server, log: IO[str], patience: float, quick: bool) -> None:
        self.server = server
        self.patience = patience
        self.quick = quick
        self.elements = 0
        self.troubles: list[str] = []
        self.kept: dict[str, Any] = {}
        self._log = log
        self._sockets: list[socket.socket] = []

    def size(self, full: int) -> int:
        return full // 10 if self.quick else full

    def trouble(self, words: str) -> None:
        self.troubles.append(words)

    def log(self) -> str:
        """The server's log. The file is opened anew: it is written at its own position."""
        return Path(f"/proc/self/fd/{self._log.fileno()}").read_text(errors="replace")

    def tracebacks(self) -> int:
        """How many there are in the server's log."""
        return self.log().count("Traceback (most recent call last)")

    def client(self, timeout: int = LONG, patience: float | None = None) -> Client:
        client = Client(self.server.address, timeout=timeout, patience=patience or self.patience)
        self._sockets.append(client.socket)
        return client

    def connect(self, address: Address | None = None) -> socket.socket:
        sock = socket.create_connection(address or self.server.address, timeout=self.patience)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.append(sock)
        return sock

    def clients(self, count: int, timeout: int = LONG) -> list[Client]:
        """Many sessions, with their handshakes under way together."""
        found: list[Client] = []
        for size in portions(count, 200):
            batch = [
                Client(self.server.address, timeout=timeout, wait=False, patience=self.patience)
                for _ in range(size)
            ]
            for client in batch:
                client.shake_hands()
            found += batch
        self._sockets += [client.socket for client in found]
        return found

    def fill(self, paths: Iterable[str], data: bytes = b"", mode: int = 0) -> None:
        """Create znodes, hundreds at a time."""
        client = self.client(patience=60)
        waiting: list[str] = []
        for path in itertools.chain(paths, [""]):
            if path:
                waiting.append(path)
            if len(waiting) == BATCH or not path:
                ops = ((OpCode.CREATE, r.CreateRequest(name, data, r.OPEN_ACL, mode)) for name in waiting)
                client.ask(wire.multi_of(ops))
                waiting.clear()
        if not mode:
            client.leave()

    def word(self, word: bytes) -> str:
        return wire.four_letter_word(self.server.address, word, self.patience)

    def http(self, command: str, count: int = 1) -> socket.socket:
        """Ask the admin server; the answers come from the socket until its end."""
        sock = self.connect(self.server.others["admin"])
        for n in range(count):
            last = "Connection: close\r\n" if n == count - 1 else ""
            sock.sendall(f"GET /commands/{command} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        return sock

    def reset(self, *socks: socket.socket) -> None:
        """Close with RST, which leaves no port in TIME_WAIT."""
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def drop(self) -> None:
        for sock in self._sockets:
            sock.close()


# --- helpers --------------------------------------------------------------------------------------------


def portions(total: int, most: int) -> Iterator[int]:
    """``total`` in pieces of at most ``most``."""
    for begin in range(0, total, most):
        yield min(most, total - begin)


def batches(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of at most ``size`` paths."""
    iterator = iter(paths)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def fitting(make: Callable[[int], tuple[int, Record]], size: int) -> list[tuple[int, Record]]:
    """As many operations as fit into ``size`` bytes of a multi."""
    each = len(make(99_999)[1].encode()) + len(r.MultiHeader(1, False, -1).encode())
    return [make(n) for n in range(size // each)]


def get_op(path: str) -> tuple[int, Record]:
    return OpCode.GET_DATA, r.GetDataRequest(path, False)


def create_op(path: str, data: bytes = b"") -> tuple[int, Record]:
    return OpCode.CREATE, r.CreateRequest(path, data, r.OPEN_ACL, 0)


def delete_op(path: str) -> tuple[int, Record]:
    return OpCode.DELETE, r.DeleteRequest(path, -1)


def set_op(path: str, data: bytes = b"") -> tuple[int, Record]:
    return OpCode.SET_DATA, r.SetDataRequest(path, data, -1)


def entries(count: int, perms: int = 31) -> list[r.ACL]:
    """Entries of an ACL that speak of other clients."""
    addresses = (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(count))
    return [r.ACL(perms, r.Id("ip", address)) for address in addresses]


def drain(sock: socket.socket) -> None:
    """Read until the end."""
    while sock.recv(1 << 20):
        pass


def exchange(client: Client, requests: bytes, count: int) -> None:
    """Send many requests and take their replies at the same time: neither side can read all of it first."""

    def send() -> None:
        with contextlib.suppress(OSError):  # which the replies tell, too
            client.socket.sendall(requests)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    client.take_replies(count)
    sender.join()


def take_all(clients: Sequence[Client], size: int) -> int:
    """How many of them get an answer of ``size`` bytes."""
    answered = 0
    for client in clients:
        with contextlib.suppress(OSError):
            answered += len(client.socket.recv(size)) == size
    return answered


def until(scene: Scene, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + scene.patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)

"""A flooding client delays nobody but itself: counted in requests handled, over real sockets."""

from __future__ import annotations

import fcntl
import itertools
import select
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server.config.settings import Settings
from pyzk.server.net import listening
from pyzk.server.net.gate import Gate
from pyzk.server.net.service import Service

from ...support.network import wait_for_delivery
from ...support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the hub needs epoll")

NOW = 1000.0
TURN = 32
"""The requests that one connection may have handled before the others get their turn."""
QUIET = 0.2  # seconds without anything to do, after which nothing is on its way any more
FLOOD = 16_000  # bytes: many more than the turns of a test handle
HELLO = wire.hello(40_000)
GET = wire.request(OpCode.GET_DATA, r.GetDataRequest("/", False), 1)
SET = wire.request(OpCode.SET_DATA, r.SetDataRequest("/", b"x" * 100, -1), 1)
GET_LARGE = wire.request(OpCode.GET_DATA, r.GetDataRequest("/large", False), 1)
CLOSE = wire.request(OpCode.CLOSE_SESSION, xid=99)
CREATE_LARGE = wire.request(OpCode.CREATE, r.CreateRequest("/large", b"x" * 500_000, r.OPEN_ACL, 0), 1)


class Listener(listening.Listener):
    """Remembers the server's ends of connections: a test can wait until something has arrived there."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: list[socket.socket] = []
        self.bind(("127.0.0.1", 0))
        self.listen()
        self.setblocking(False)

    def accept(self) -> tuple[socket.socket, Any]:
        sock, address = super().accept()
        self.accepted.append(sock)
        return sock, address

    @property
    def waiting(self) -> int:
        """How many connections are there to be accepted."""
        return int.from_bytes(self.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)[24:], sys.byteorder)


class Client:
    """A client's socket; ``far`` is the server's end of it."""

    def __init__(self, near: socket.socket, far: socket.socket, session_id: int) -> None:
        self.near = near
        self.far = far
        self.session_id = session_id

    def ask(self, data: bytes) -> None:
        """Send something, and see all of it arrive."""
        self.near.sendall(data)
        wait_for_bytes(self.far, len(data))

    def flood(self, request: bytes) -> None:
        """Send as many requests as the kernel takes."""
        data, total = request * 1000, 0
        self.near.setblocking(False)
        try:
            while True:
                sent = self.near.send(data)
                data = data[sent:] + data[:sent]
                total += sent
        except BlockingIOError:
            self.near.setblocking(True)
        wait_for_bytes(self.far, max(1, min(total, FLOOD)))

    def has_answer(self) -> bool:
        return bool(select.select([self.near], [], [], 0)[0])


def wait_for(sock: socket.socket) -> None:
    assert select.select([sock], [], [], PATIENCE)[0], "nothing has arrived"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not all arrived"
        time.sleep(0.0001)


def wait_for_bytes(sock: socket.socket, count: int) -> None:
    """What is sent at once may arrive in pieces, and a little later."""
    wait_until(lambda: struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0] >= count)


class Scene:
    """A hub whose turns the test takes.

    :ivar handled: the sessions of the requests handled so far.
    """

    def __init__(self) -> None:
        from pyzk.server.net.hub import Hub

        self.service = Service(Settings(max_client_connections=0), now=NOW, epoch=1.7e9)
        self.hub = Hub(self.service, lambda: NOW, lambda sock, peer, received: sock.close())
        self.listener = Listener()
        self.hub.listen(self.listener)
        self.handled: list[int] = []
        self.clients: list[Client] = []
        engine = self.service.engine
        handle = engine.handle

        def counting(client: Any, *arguments: Any) -> Any:
            self.handled.append(client.session_id)
            return handle(client, *arguments)

        engine.handle = counting  # type: ignore[method-assign]
        engine.reads = {}  # a connection calls the plain reads itself

    def connect(self) -> Client:
        near = socket.create_connection(self.listener.getsockname(), timeout=PATIENCE)
        wait_for(self.listener)
        self.hub.turn()
        far = self.listener.accepted[-1]
        near.sendall(HELLO)
        wait_for(far)
        self.hub.turn()
        payload = near.recv(1000)[4:]
        client = Client(near, far, r.ConnectResponse.read(payload)[0].sessionId)
        self.clients.append(client)
        return client

    def handled_for_others(self, client: Client, turns: int) -> int:
        """How many requests of others are handled before that of ``client``, within some turns."""
        before = len(self.handled)
        for _ in range(turns):
            self.hub.turn()
            if client.session_id in self.handled[before:]:
                wait_for(client.near)  # it is handled, and answered in that very turn
                return self.handled.index(client.session_id, before) - before
        raise AssertionError(f"not served within {turns} turns")

    def close(self) -> None:
        self.hub.close()
        for client in self.clients:
            client.near.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


def take_answers(client: Client) -> None:
    while client.has_answer():
        client.near.recv(1 << 20)


@pytest.mark.parametrize("count", [1, 8, 20])
@pytest.mark.parametrize("request_", [GET, SET], ids=["get", "set"])
def test_a_polite_client_is_served_in_the_next_turn(scene: Scene, count: int, request_: bytes) -> None:
    polite, *flooders = [scene.connect() for _ in range(1 + count)]
    for _ in range(5):
        for flooder in flooders:
            flooder.flood(request_)
            take_answers(flooder)
        for _ in range(3):  # in the midst of the flood
            scene.hub.turn()
        polite.ask(GET)
        assert scene.handled_for_others(polite, turns=1) <= count * TURN
        take_answers(polite)


def test_all_flooding_clients_get_the_same_share(scene: Scene) -> None:
    flooders = [scene.connect() for _ in range(5)]
    for flooder in flooders:
        flooder.flood(GET)
    for _ in range(10):
        scene.hub.turn()
    assert [scene.handled.count(flooder.session_id) for flooder in flooders] == [10 * TURN] * 5


def test_those_who_do_not_read_their_answers_are_not_served_for_ever(scene: Scene) -> None:
    polite, *flooders = [scene.connect() for _ in range(4)]
    read_on(scene, polite, until=1, say=CREATE_LARGE)
    for flooder in flooders:
        flooder.flood(GET_LARGE)
    while scene.hub.turn() or select.select([scene.hub._poller], [], [], QUIET)[0]:
        pass  # until their buffers are full
    scene.handled.clear()
    for _ in range(3):
        polite.ask(GET)
        assert scene.handled_for_others(polite, turns=1) == 0
        take_answers(polite)
    assert set(scene.handled) == {polite.session_id}


def test_a_newcomer_is_let_in_and_served_during_a_flood(scene: Scene) -> None:
    for _ in range(8):
        scene.connect().flood(GET)
    scene.hub.turn()
    newcomer = scene.connect()  # one turn to come in, one for its session
    newcomer.ask(GET)
    assert scene.handled_for_others(newcomer, turns=1) <= 8 * TURN


def test_many_newcomers_do_not_wait_for_a_crowd_that_floods(scene: Scene) -> None:
    for _ in range(60):
        scene.connect().flood(GET)
    scene.hub.turn()
    before = len(scene.listener.accepted)
    newcomers = [socket.create_connection(scene.listener.getsockname(), timeout=PATIENCE) for _ in range(20)]
    wait_until(lambda: scene.listener.waiting == 20)
    for _ in range(4):
        scene.hub.turn()
    assert len(scene.listener.accepted) == before + 20
    for newcomer in newcomers:
        newcomer.close()


@pytest.mark.parametrize("count", [1, 100])
def test_all_who_are_ready_are_served_in_one_turn(scene: Scene, count: int) -> None:
    clients = [scene.connect() for _ in range(count)]
    for client in clients:
        client.ask(GET)
    scene.hub.turn()
    for client in clients:
        wait_for(client.near)


# --- a crowd that watches -----------------------------------------------------------------------------------

WATCH = wire.request(OpCode.GET_DATA, r.GetDataRequest("/", True), 1)
CROWDS = [1, 31, 32, 63, 64, 100]


def watching(scene: Scene, count: int, request_: bytes = WATCH) -> list[Client]:
    clients = [scene.connect() for _ in range(count)]
    for client in clients:
        client.ask(request_)
        read_on(scene, client, until=1)
    while scene.hub.turn():  # until the poller has forgotten who was ready before: who asks next is first
        pass
    return clients


def reset(client: Client) -> None:
    client.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.near.close()


@pytest.mark.parametrize("count", CROWDS)
def test_a_crowd_is_told_although_some_are_gone(scene: Scene, count: int) -> None:
    writer, *watchers = watching(scene, 1 + count)
    writer.ask(SET)
    for client in watchers[::7]:
        reset(client)
    scene.hub.turn()
    assert read_on(scene, writer, until=1) == [-1, 1], "it watches too: its event comes before its reply"
    for client in watchers:
        if client not in watchers[::7]:
            assert read_on(scene, client, until=-1) == [-1]


@pytest.mark.parametrize("count", CROWDS)
def test_a_crowd_is_told_although_the_writer_is_gone(scene: Scene, count: int) -> None:
    writer, *watchers = watching(scene, 1 + count)
    writer.ask(SET)
    reset(writer)
    scene.hub.turn()
    for client in watchers:
        assert read_on(scene, client, until=-1) == [-1]


@pytest.mark.parametrize("count", CROWDS)
def test_a_crowd_that_watches_the_ephemeral_of_a_session_that_closes(scene: Scene, count: int) -> None:
    owner = scene.connect()
    owner.ask(wire.request(OpCode.CREATE, r.CreateRequest("/e", b"", r.OPEN_ACL, 1), 1))
    read_on(scene, owner, until=1)
    watchers = watching(scene, count, wire.request(OpCode.EXISTS, r.ExistsRequest("/e", True), 1))
    owner.ask(CLOSE)
    scene.hub.turn()
    assert read_on(scene, owner, until=99) == [99]
    for client in watchers:
        assert read_on(scene, client, until=-1) == [-1]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_client_that_is_found_to_be_gone_within_its_own_request(scene: Scene, count: int) -> None:
    """Faults send what was said before, in the middle of a request."""
    doomed, other = scene.connect(), scene.connect()

    class Sending(Gate):
        def handle(self, client: Any, *arguments: Any) -> Any:
            client.wake()
            scene.hub.flush()
            return super().handle(client, *arguments)

    scene.service.gate = Sending()
    doomed.ask(GET * count)
    reset(doomed)
    other.ask(LAST)
    scene.hub.turn()
    assert read_on(scene, other, until=99) == [99]


# --- who does not read, and then does: everything is still there, in its order ------------------------------

LARGE_PATH = "/" + "n" * 9000
LAST = wire.request(OpCode.GET_DATA, r.GetDataRequest("/", False), 99)


def read_on(scene: Scene, client: Client, until: int, say: bytes = b"") -> list[int]:
    """The xids of all that the client is sent, up to one or to the end. It says something meanwhile, as fast
    as that is taken."""
    data, xids = b"", list[int]()
    client.near.setblocking(False)
    while until not in xids:
        ready = select.select([client.near, scene.hub._poller], [client.near] if say else [], [], PATIENCE)
        assert ready[0] or ready[1], ("no more", xids)
        if ready[1]:
            say = say[client.near.send(say) :]
        scene.hub.turn()
        try:
            piece = client.near.recv(1 << 16)
        except BlockingIOError:
            continue
        if not piece:
            break
        data += piece
        while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4])):
            xids.append(*struct.unpack_from(">i", data, 4))
            data = data[4 + size :]
    assert not data, "a reply was cut"
    client.near.setblocking(True)
    return xids


@pytest.mark.parametrize("last", [CLOSE, LAST], ids=["close", "get"])
def test_a_request_beside_events_that_do_not_fit(scene: Scene, last: bytes) -> None:
    writer, watcher = scene.connect(), scene.connect()
    writer.ask(wire.request(OpCode.CREATE, r.CreateRequest(LARGE_PATH, b"", r.OPEN_ACL, 0), 1))
    read_on(scene, writer, until=1)
    watcher.ask(wire.request(OpCode.ADD_WATCH, r.AddWatchRequest(LARGE_PATH, 0), 1))
    read_on(scene, watcher, until=1)
    watcher.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    while scene.hub.turn():  # until the poller has forgotten who was ready before: the writer shall be first
        pass
    writer.ask(wire.request(OpCode.SET_DATA, r.SetDataRequest(LARGE_PATH, b"", -1), 1) * 5)
    watcher.ask(last)
    assert read_on(scene, watcher, until=99) == [-1] * 5 + [99]


def test_replies_that_do_not_fit(scene: Scene) -> None:
    client = scene.connect()
    read_on(scene, client, until=1, say=CREATE_LARGE)
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    client.ask(GET_LARGE)
    scene.hub.turn()
    client.near.sendall(LAST)
    assert read_on(scene, client, until=99) == [1, 99]


def test_a_session_that_is_closed_while_replies_wait(scene: Scene) -> None:
    """What is sent after that is left unread, and closing at once would reset the connection (wire.md, trap
    13)."""
    client = scene.connect()
    read_on(scene, client, until=1, say=CREATE_LARGE)
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    client.ask(GET_LARGE * 4 + CLOSE)
    scene.hub.turn()
    client.near.sendall(LAST)
    assert read_on(scene, client, until=0) == [1, 1, 1, 1, 99]


@pytest.mark.parametrize("size", [10, 2000, 60_000])
def test_one_turn_reads_a_request_of_any_usual_size(scene: Scene, size: int) -> None:
    """What has arrived counts as a sign of life before anybody's time is up."""
    client = scene.connect()
    client.ask(wire.request(OpCode.CREATE, r.CreateRequest("/a", b"x" * size, r.OPEN_ACL, 0), 1))
    scene.hub.turn()
    assert scene.handled == [client.session_id]


# --- what has arrived counts before anybody's time is up ----------------------------------------------------


class FewAtATime:
    """A poller that tells of three sockets at once, unless it is asked for more."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller

    def poll(self, timeout: float, most: int = 3) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = self._poller.poll(timeout, most)
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)


def test_a_look_reads_every_socket_however_many_are_ready(scene: Scene) -> None:
    clients = [scene.connect() for _ in range(20)]
    scene.hub._poller = FewAtATime(scene.hub._poller)  # type: ignore[assignment]
    for client in clients:
        client.ask(GET)
    scene.hub.look()
    assert set(scene.handled) == {client.session_id for client in clients}


def test_a_look_accepts_and_reads_every_waiting_client(scene: Scene) -> None:
    owner = scene.connect()
    session = scene.service.engine.sessions.get(owner.session_id)
    assert session is not None
    scene.hub._poller = FewAtATime(scene.hub._poller)  # type: ignore[assignment]
    again = wire.hello(40_000, session.id, session.password)
    newcomers = []
    for hello in [HELLO] * 15 + [again]:
        newcomers.append(socket.create_connection(scene.listener.getsockname(), timeout=PATIENCE))
        newcomers[-1].sendall(hello)
    wait_until(lambda: scene.listener.waiting == 16)
    wait_for_delivery(*newcomers)
    scene.hub.look()
    assert len(scene.service.engine.sessions) == 16
    assert scene.service.engine.client_of(session) in scene.service.connections
    assert len(scene.service.connections) == 16, "the owner's old connection has ended"
    for newcomer in newcomers:
        newcomer.close()


@pytest.mark.parametrize(("count", "slice_"), [(1, 0.005), (8, 0.005), (20, 0.002)])
def test_the_more_clients_are_ready_the_shorter_are_their_turns(
    scene: Scene, count: int, slice_: float
) -> None:
    clients = [scene.connect() for _ in range(count)]
    for client in clients:
        client.ask(GET)
    scene.hub.turn()
    assert scene.service.slice == pytest.approx(slice_)


def test_others_are_served_while_a_crowd_is_told(scene: Scene) -> None:
    writer, polite, *watchers = watching(scene, 102)
    scene.service.stopwatch = itertools.count(0.0, 0.001).__next__
    writer.ask(SET)
    scene.hub.turn()
    assert sum(watcher.has_answer() for watcher in watchers) < 50
    polite.ask(GET)
    assert scene.handled_for_others(polite, turns=1) == 0
    assert read_on(scene, polite, until=1) == [-1, 1], "its event comes before a reply that shows the change"
    for watcher in watchers:
        assert read_on(scene, watcher, until=-1) == [-1]


def test_others_are_served_while_a_crowd_goes(scene: Scene) -> None:
    """As when a process with very many clients is killed: to close a socket takes longer than to answer."""
    polite, *crowd = [scene.connect() for _ in range(101)]
    scene.service.stopwatch = itertools.count(0.0, 0.001).__next__
    for client in crowd:
        client.near.close()
        wait_for(client.far)
    polite.ask(GET)
    scene.hub.turn()
    assert polite.has_answer()
    assert len(scene.service.connections) == 1, "they count for nothing at once"
    still_open = [client for client in crowd if client.far.fileno() >= 0]
    assert len(still_open) > 50
    for _ in range(100):
        scene.hub.turn()
    assert not [client for client in crowd if client.far.fileno() >= 0]


def test_what_is_recorded_does_not_wait_behind_a_crowd_either(scene: Scene) -> None:
    writer, *_ = watching(scene, 101)
    other = scene.connect()
    scene.service.gate = Gate()  # every request goes the long way
    scene.service.stopwatch = itertools.count(0.0, 0.001).__next__
    writer.ask(SET)
    scene.hub.turn()
    assert len(scene.hub._dirty) > 50
    other.ask(GET)
    assert scene.handled_for_others(other, turns=1) == 0
    assert other.has_answer()

"""The parts of a server that runs inside a test: the server, its clock, history, gate and observers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar
from weakref import WeakSet

from ..core.engine import Engine
from ..core.txn import Txn
from ..net.clock import Clock
from ..net.server import Server
from .advice import Advised
from .gate import MessageGate
from .history import Entry, EntryKind, History, Listener, Recorder
from .memory import MemoryStream
from .observers import Observer, SessionNames
from .origin import mark

HISTORY_LIMIT = 20_000
"""The default number of entries that the history keeps. A request makes two entries."""
_MEMORY_HOST = "127.0.0.1"
"""The address of clients without a socket. Each such client gets a number from 1 as its port."""
LATE = "the history begins here: what came before was not recorded (pyzk-server --record all: from the start)"


class Running(Advised):
    """The parts of a running server: for tests of the server itself, and only in its own thread.

    :param record: whether the history is recorded. None: the recording begins with :meth:`begin_history`.
    :param history_limit: the number of entries that are kept.
    :param hostile: the seed of a hostile server (:mod:`.hostile`); None for a server that is not hostile.
    :cvar is_ensemble: always False: the entries of the history have no number of a server.
    :ivar started: the server's clock at the start, in seconds.
    :ivar records: whether the whole history is recorded now, and not only the latest entries
        (:mod:`.recent`).
    :ivar recorder: the recorder of the history; None if no recorder is needed.
    :ivar streams: the connections without a socket.
    :ivar names: the names of sessions.
    :ivar endpoints: host and port of each endpoint, by its name.
    """

    is_ensemble: ClassVar[bool] = False

    def __init__(
        self,
        server: Server,
        clock: Clock,
        *,
        record: bool | None,
        history_limit: int,
        hostile: int | None = None,
    ) -> None:
        super().__init__()
        self.server = server
        self.service = server.service
        self.clock = clock
        self.started = server.started
        self._frozen_at_start = clock.frozen
        self._restarts = self._memory_ports = 0
        self.names = SessionNames()
        self.endpoints: dict[str, tuple[str, int]] = {}
        self._may_record = record is not False
        self._history_limit = history_limit
        self.records = False
        self.recorder: Recorder | None = None
        self.streams: WeakSet[MemoryStream] = WeakSet()
        self._followers: list[Callable[[Txn], object]] = []
        self.gate = self._make_gate(hostile)(
            self.service,
            clock.now,
            self.started,
            self._call_at,
            self._send_waiting,
            self._go_on,
        )
        if record:
            self.begin_history()

    def _make_gate(self, hostile: int | None) -> Callable[..., MessageGate]:
        if hostile is None:
            return MessageGate
        from .hostile import HostileGate

        return partial(HostileGate, seed=hostile, frozen=lambda: self.clock.frozen, names=self.names)

    @property
    def engine(self) -> Engine:
        return self.service.engine

    @property
    def max_buffer(self) -> int:
        return self.service.settings.max_buffer

    def receive(self) -> None:
        """Handle the input that has arrived at the sockets."""
        self.server.receive()

    def open_stream(self, endpoint: str = "") -> MemoryStream:
        """Connect without a socket, and return the client's end.

        :param endpoint: the name of the client's endpoint.
        """
        self._memory_ports += 1
        peer = (_MEMORY_HOST, self._memory_ports)
        stream = MemoryStream(self.service, peer, self.clock.now, self.server.flush, endpoint)
        self.streams.add(stream)
        return stream

    def each(self) -> Iterable[Running]:
        """Return this server, the only one. The same method of an ensemble returns all servers of the
        ensemble."""
        return (self,)

    def leader_first(self) -> list[Running]:
        """Return this server, the only one. In an ensemble the leader is the first of the servers."""
        return [self]

    # --- who wants to know what happens ------------------------------------------------------------------

    def begin_history(self) -> None:
        """Record the history from now on. This does nothing if the history is recorded already, or with
        ``record=False``."""
        if self._may_record and not self.records:
            is_late = self.told is None and self.engine.stats.packets_received > 0
            self._keep_history()
            if is_late:
                self.enter(LATE, kind="note")

    def _keep_history(self) -> None:
        self.records = True
        if self.recorder is None:
            self.use(self._new_recorder(self._history_limit))
        else:
            self.renumber(self.recorder.dropped)
            self.recorder.keep(self._history_limit)

    def listen(self, listener: Listener) -> None:
        """Call a function immediately with each entry, in words, until :meth:`stop_listening`."""
        self.begin_telling().listeners.append(listener)

    def stop_listening(self, listener: Listener) -> None:
        """End :meth:`listen`. The second call does nothing."""
        recorder = self.recorder
        if recorder is not None and listener in recorder.listeners:
            recorder.listeners.remove(listener)
            self.end_telling()

    def begin_telling(self) -> Recorder:
        """Add a recorder for listeners and observers, if there is none."""
        if self.recorder is None:
            self.use(self._new_recorder(0))
        assert self.recorder is not None
        return self.recorder

    def end_telling(self) -> None:
        """Remove the recorder if no listener and no observer needs the recorder."""
        if self.recorder is not None and not (self.recorder.limit or self.recorder.is_heard):
            self.use(None)

    @property
    def told(self) -> History | None:
        return self.recorder if self.recorder is not None and self.recorder.limit else None

    def last_entries(self, most: int) -> Iterable[Entry]:
        """Return the last entries of the history, the oldest first. Return an empty list if nothing is
        recorded."""
        return () if self.recorder is None else self.recorder.last_entries(most)

    def wall_clock(self, seconds: float) -> float:
        """Return a time since the start of the server as seconds since the epoch."""
        return self.service.wall_clock(self.started + seconds)

    def _new_recorder(self, limit: int) -> Recorder:
        return Recorder(self.service, self.clock.now, self.started, limit)

    def use(self, recorder: Recorder | None) -> None:
        """Replace the recorder with this one. The new recorder gets the listeners of the former recorder."""
        if recorder is not None and self.recorder is not None:
            recorder.listeners = self.recorder.listeners
        self.recorder = self.gate.recorder = recorder
        self._attach()
        self.gate.update()

    def enter(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        """Enter an action of the test in the history."""
        if self.recorder is not None:
            self.recorder.control(text + mark() if kind == "control" else text, session, kind)

    def replace_engine(self, now: float) -> None:
        """Start again with an empty tree and no sessions."""
        before = self.engine
        self._restarts += 1
        # Session ids are made of the time, which may not have moved since the last start.
        at = self.service.at(now)
        epoch = before.wall_clock(at) + 1000 * self._restarts
        engine = self.service.start_engine(epoch)
        engine.epoch_offset = before.epoch_offset
        # A client that has seen a later zxid would be dropped without a word (wire.md, trap 17).
        engine.zxid = before.zxid
        before.on_txn = before.on_refusal = None
        self.service.engine = engine
        self._attach()
        self.gate.happened()

    def reset(self) -> None:
        """Reset the server to the state of a fresh server, after all connections are closed."""
        self.clock.freeze(self._frozen_at_start)
        now = self.started = self.clock.now()
        self.service.refusing = False
        self.gate.reset()
        self.names.clear()
        if not self.endpoints:
            self.unobserve(self.names)
        self.replace_engine(now)
        self.forget_advice()
        if self.recorder is not None:
            self.recorder.clear(self.engine, now)

    def observe(self, observer: Observer) -> None:
        """Call an observer until :meth:`unobserve`."""
        if observer not in self.gate.observers:
            self.gate.observers = [*self.gate.observers, observer]  # not while it is gone through
        self._attach()
        self.gate.update()

    def unobserve(self, observer: Observer) -> None:
        self.gate.observers = [each for each in self.gate.observers if each is not observer]
        self._attach()
        self.gate.update()

    @contextmanager
    def following(self, follower: Callable[[Txn], object]) -> Iterator[None]:
        """Call a function with each transaction that is applied inside the block."""
        self._followers.append(follower)
        self._attach()
        try:
            yield
        finally:
            self._followers.remove(follower)
            self._attach()

    def expect_name(self, name: str, address: str | None) -> None:
        """Give a name to the next new session; see :meth:`.Controls.name_session`."""
        self.names.expect(name, address)
        self.observe(self.names)

    def _attach(self) -> None:
        """Let the engine pass its transactions to the listeners."""
        if self.gate.observers or self._followers:
            self.engine.on_txn = self._transaction
        elif self.recorder is not None:
            self.engine.on_txn = self.recorder.transaction
        else:
            self.engine.on_txn = None
        self.engine.on_refusal = None if self.recorder is None else self.recorder.refusal

    def _transaction(self, txn: Txn) -> None:
        if self.recorder is not None:
            self.recorder.transaction(txn)
        for follower in self._followers:
            follower(txn)
        self.gate.happened()

    def _call_at(self, when: float, callback: Callable[[], object]) -> None:
        self.service.call_at(when, callback)
        self.clock.wake()

    def _send_waiting(self) -> None:
        self.server.flush()
        for stream in list(self.streams):
            stream.settle()

    def _go_on(self) -> None:
        self.server.flush()
        for stream in list(self.streams):
            stream.pump()

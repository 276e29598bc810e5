"""The parts of a pretend ensemble inside a test: the servers, their clock, gates, and one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from ..config.members import ServerAddress
from ..ensemble.host import EnsembleHost
from ..ensemble.member import Member
from ..net.server import Server
from .advice import Advised
from .ensemble_history import EnsembleHistory
from .history import Entry, History, Listener, Recorder
from .observers import SessionNames
from .running import LATE, Running


class _Part(Running):
    """The parts of one server of an ensemble."""

    def __init__(
        self, ensemble: RunningEnsemble, number: int, server: Server, record: bool | None, history_limit: int
    ) -> None:
        self._ensemble = ensemble
        self._number = number
        super().__init__(server, server.clock, record=record, history_limit=history_limit)
        self.names = ensemble.names

    def begin_history(self) -> None:
        """Record the history of all servers from now on."""
        if self._may_record:
            if not self.records:
                self._keep_history()
            self._ensemble.begin_history()

    def expect_name(self, name: str, address: str | None) -> None:
        super().expect_name(name, address)
        for part in self._ensemble.parts.values():
            part.observe(self.names)

    def record_latest(self) -> None:
        """Record the history of this server, with as many entries as the history of the ensemble keeps."""
        self.use(self._new_recorder(self._ensemble.history.limit))

    def _new_recorder(self, limit: int) -> Recorder:
        return self._ensemble.history.recorder(
            self._number, self.service, self.clock.now, self._ensemble.started, limit
        )


class RunningEnsemble(Advised):
    """The parts of a running ensemble, only for its own thread.

    :param record: whether the history is recorded. None: the recording begins with the first use of the
        history.
    :param history_limit: the number of entries that are kept for each server, and for all servers together.
    :cvar is_ensemble: always True: each entry of the history has the number of its server.
    :ivar host: the servers with their sockets.
    :ivar parts: the parts of each server, by number.
    :ivar history: the history of all servers; empty until it is recorded.
    :ivar names: the names of sessions.
    :ivar started: the clock at the start, in seconds.
    :ivar records: whether the whole history is recorded now.
    """

    is_ensemble: ClassVar[bool] = True

    def __init__(self, host: EnsembleHost, *, record: bool | None, history_limit: int) -> None:
        super().__init__()
        self.host = host
        self.started = next(iter(host.servers.values())).started
        self.names = SessionNames()
        self.history = EnsembleHistory(host.ensemble.epoch << 32)
        self.parts: dict[int, _Part] = {}
        self._recording = record, history_limit
        self.records = False
        self._controls_of: Callable[[int], object] | None = None
        for number, server in host.servers.items():
            self._take(number, server)
        host.ensemble.on_change = self._note_role

    def _take(self, number: int, server: Server) -> None:
        self.parts[number] = part = _Part(self, number, server, *self._recording)
        if self.records:
            part.begin_history()
        elif self.history.limit:
            part.record_latest()
        elif self.history.listeners:
            part.begin_telling()
        if self._controls_of is not None:
            server.controls = self._controls_of(number)

    def hand_over(self, controls_of: Callable[[int], object]) -> None:
        """Set the function with which a test gets the controls of a server.

        :param controls_of: returns the controls of the server with this number.
        """
        self._controls_of = controls_of
        for number, server in self.host.servers.items():
            server.controls = controls_of(number)

    def add(self, address: ServerAddress) -> None:
        """Make a further server. The ensemble does not run yet.

        :raises OSError: its address cannot be bound.
        """
        self._take(address.number, self.host.add(address))

    def _note_role(self, member: Member, text: str) -> None:
        self.parts[member.number].enter(text, kind="role")

    def now_ms(self) -> int:
        """Return the time of the clock in whole ms."""
        return next(iter(self.parts.values())).service.at(self.host.clock.now())

    @property
    def max_buffer(self) -> int:
        return next(iter(self.parts.values())).max_buffer

    def receive(self) -> None:
        """Handle the input that has arrived at the sockets of all servers."""
        self.host.receive()
        self.host.ensemble.now = max(self.host.ensemble.now, self.now_ms())

    def each(self) -> Iterable[Running]:
        """Return the servers of the ensemble."""
        return self.parts.values()

    def leader_first(self) -> list[Running]:
        """Return the servers. The leader comes first.

        :raises EnsembleError: if nobody leads.
        """
        leader = self.parts[self.host.ensemble.leader().member.number]
        return [leader, *(part for part in self.parts.values() if part is not leader)]

    # --- who wants to know what happens ------------------------------------------------------------------

    def begin_history(self) -> None:
        """Record the history of all servers from now on. The second call does nothing."""
        is_first = not self.history.limit
        if not self.records:
            self.records = True
            self.renumber(self.history.dropped)
            self.history.keep(self._recording[1])
        for part in self.parts.values():
            if not part.records:
                part.begin_history()
        if is_first and any(part.engine.stats.packets_received for part in self.parts.values()):
            with self.history.once():
                for part in self.parts.values():
                    part.enter(LATE, kind="note")

    def record_latest(self, history: EnsembleHistory) -> None:
        """Record in this history. Each server keeps the same number of entries, and the history of all
        servers together keeps that number too."""
        history.listeners = self.history.listeners
        self.history = history
        for part in self.parts.values():
            part.record_latest()

    def record_nothing(self) -> None:
        """End :meth:`record_latest`."""
        self.history = EnsembleHistory(self.history.zxid_base)
        for part in self.parts.values():
            part.use(None)

    def listen(self, listener: Listener) -> None:
        """Call a function immediately with each entry, in words, until :meth:`stop_listening`."""
        self.history.listeners.append(listener)
        for part in self.parts.values():
            part.begin_telling()

    def stop_listening(self, listener: Listener) -> None:
        """End :meth:`listen`. The second call does nothing."""
        if listener in self.history.listeners:
            self.history.listeners.remove(listener)
            for part in self.parts.values():
                part.end_telling()

    @property
    def told(self) -> History | None:
        return self.history if self.history.limit else None

    def last_entries(self, most: int) -> Iterable[Entry]:
        """Return the last entries of the history, the oldest first. Return an empty list if nothing is
        recorded."""
        return self.history.last_entries(most)

    def wall_clock(self, seconds: float) -> float:
        """Return a time since the start of the ensemble as seconds since the epoch."""
        return next(iter(self.parts.values())).service.wall_clock(self.started + seconds)

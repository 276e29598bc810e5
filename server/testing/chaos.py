"""Chaos: random faults. The same seed repeats the faults.

The same seed and the same requests give the same faults. These rules ensure that:

1. Four things decide whether a message is affected: the seed, the kind of fault, the session, and the number
   of the message in this session. The decision is a hash of these four. The decision does not depend on the
   time, on other sessions, on ids or on the contents of the message. So changing the probability of one kind
   of fault does not change the faults of other kinds.
2. A session is identified by its name if it has one. A session without a name is identified by its place in
   the order in which sessions began. The count of the session's messages continues after a reconnect.
   Therefore the faults are repeated if clients connect one after the other, even if they do everything else
   at the same time. The order of sessions varies if clients connect at the same time, or if they connect
   again after their sessions have expired. In these cases give names to the sessions. If there are more than
   10,000 sessions, the oldest ones are forgotten.
3. Requests, events and handshakes are counted separately. Pings are not counted and not affected, because
   their number depends on the time. Handshakes that ask for a new session are counted together, because
   nothing distinguishes them.
4. If two faults are due for one request, only the first of them in :data:`FAULTS` is injected.

Networks cause all of these faults except ``expire``, so a client must survive them. Only an operator, or a
server whose clock jumps, can end the session of a connected client.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Self

import attrs

from .describe import describe_request
from .faults import Action, Injection, Injector, Run, When
from .observers import SessionNames
from .operations import Selection, name_of
from .origin import BY_TEST

if TYPE_CHECKING:
    from .gate import MessageGate

_OF_REQUESTS: Final[Mapping[str, tuple[When, Action]]] = {
    "disconnect": ("before", "disconnect"),
    "lose_reply": ("after", "disconnect"),
    "silence": ("after", "drop_reply"),
    "delay_request": ("before", "delay"),
    "delay_reply": ("after", "delay"),
    "expire": ("before", "expire"),
}
FAULTS: Final = (*_OF_REQUESTS, "delay_event", "refuse", "lose_session")
"""The kinds of faults. The last three affect events, handshakes, and the answers to handshakes."""

_KEPT: Final = 10_000
"""The largest number of remembered faults, and the largest number of sessions whose messages are counted. The
oldest are forgotten first."""
_BITS: Final = 53  # of a float's fraction


def draw(*of: object) -> float:
    """Return a number from 0 to 1 (1 excluded). The number depends only on the arguments."""
    text = "\0".join(map(str, of))
    digest = blake2b(text.encode(), digest_size=8).digest()
    return float((int.from_bytes(digest) >> 64 - _BITS) / 2**_BITS)


@attrs.frozen
class Injected:
    """One fault that was injected.

    :ivar fault: one of :data:`FAULTS`.
    :ivar who: the name of the session. A session without a name has its number, in the order in which
        sessions began, from 1. Empty for a handshake that requests a new session.
    :ivar number: the number of the message in this session, from 1.
    :ivar session: the id of the session; 0 if there is no session yet.
    :ivar op: the operation of a request.
    :ivar path: the path of the znode, if there is exactly one.
    """

    fault: str
    who: str
    number: int
    session: int = attrs.field(eq=False)
    op: str | None = None
    path: str | None = None


@attrs.define
class _Stream:
    """The messages of one session."""

    place: int
    counts: Counter[str] = attrs.field(factory=Counter)


class Chaos(Injector):
    """Injects faults by the rules at the head of this module, until :meth:`end`. It is also a context
    manager.

    :param sessions: the ids of the sessions that are alive, the oldest first.
    :param probabilities: the probability of each kind of fault, from 0 to 1.
    :param longest: the longest delay of a message, in seconds. The length of a delay is random.
    :param selection: the requests that may be affected. Other requests are not counted.
    :param cause: the name of the cause, which the timeline shows.
    :param origin: the origin of the faults (:mod:`.origin`).
    :param gate: the gate of the server.
    :param run: calls a function in the server's own thread.
    :ivar seed: the same seed and the same requests give the same faults.
    :ivar probabilities: the probability of each fault that may be injected.
    :raises ValueError: a probability is not from 0 to 1, all probabilities are 0, or ``longest`` is below 0.
    """

    def __init__(
        self,
        seed: int,
        probabilities: Mapping[str, float],
        *,
        longest: float,
        selection: Selection,
        names: SessionNames,
        sessions: Iterable[int],
        gate: MessageGate,
        run: Run,
        cause: str = "chaos",
        origin: str = BY_TEST,
    ) -> None:
        for fault, probability in probabilities.items():
            if not 0 <= probability <= 1:
                raise ValueError(f"{fault} must be a probability from 0 to 1, not {probability}")
        if not any(probabilities.values()):
            raise ValueError(f"give at least one fault a probability: {', '.join(FAULTS)}")
        if not 0 <= longest < float("inf"):
            raise ValueError(f"longest is a number of seconds of at least 0, not {longest}")
        self.seed = seed
        self.probabilities = MappingProxyType(
            {fault: probabilities[fault] for fault in FAULTS if probabilities.get(fault)}
        )
        self._longest = longest
        self._selection = selection
        self._names = names
        self._gate = gate
        self._run = run
        self._cause = f"{cause} {seed}"
        self.origin = origin
        self._streams: dict[int, _Stream] = {}
        self._began = 0
        self._new = Counter[str]()  # handshakes that ask for a new session
        self._injected: deque[Injected] = deque(maxlen=_KEPT)
        self._due: Injected | None = None
        self._counts = Counter[str]()
        for session in sessions:
            self._begin(session)

    def __repr__(self) -> str:
        rates = ", ".join(f"{fault}={rate:g}" for fault, rate in self.probabilities.items())
        return f"<{type(self).__name__} seed={self.seed} {rates}: {self._counts.total()} injected>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        except RuntimeError:  # the server is gone: the body's own error, if any, says more
            if error is None:
                raise

    def end(self) -> None:
        """Inject no more faults. Messages that are delayed now remain delayed until their time. The second
        call does nothing."""
        self._run(self._gate.remove_injector, self)

    @property
    def counts(self) -> Counter[str]:
        """How many faults of each kind were injected."""
        return Counter(self._counts)

    @property
    def injected(self) -> list[Injected]:
        """The faults so far, the oldest first. Only the last 10,000 faults are kept."""
        return list(self._injected)

    # --- in the server's thread --------------------------------------------------------------------------

    def request(self, session: int, op: int, frame: bytes) -> Injection | None:
        if not self._selection.has_request(session, op, frame):
            return None
        number = self._count(session, "request")
        for fault, (when, action) in _OF_REQUESTS.items():
            if self._hits(fault, session, number):
                path = describe_request(op, frame).path
                self._due = self._entry(fault, number, session, name_of(op), path)
                seconds = self._seconds(fault, session, number) if action == "delay" else 0.0
                return Injection(when, action, seconds=seconds, cause=self._cause, origin=self.origin)
        return None

    def has_fired(self) -> None:
        if self._due is not None:
            self._note(self._due)

    def event(self, session: int, path: str) -> Injection | None:
        number = self._count(session, "event")
        if not self._selection.has_paths(session, lambda: [path]):
            return None
        if not self._hits("delay_event", session, number):
            return None
        self._note(self._entry("delay_event", number, session, path=path))
        seconds = self._seconds("delay_event", session, number)
        return Injection("after", "delay", seconds=seconds, cause=self._cause, origin=self.origin)

    def handshake(self, session: int) -> Injection | None:
        return self._shakes("refuse", session, "before")

    def attached(self, session: int, resumed: bool) -> Injection | None:
        if not resumed:
            self._begin(session)
        return self._shakes("lose_session", session, "after")

    def _shakes(self, fault: str, session: int, when: When) -> Injection | None:
        number = self._count(session, fault)
        if not self._selection.has_paths(session, lambda: ()) or not self._hits(fault, session, number):
            return None
        self._note(self._entry(fault, number, session))
        return Injection(when, "disconnect", cause=self._cause, origin=self.origin)

    # --- streams -----------------------------------------------------------------------------------------

    def _begin(self, session: int) -> None:
        self._began += 1
        self._streams[session] = _Stream(self._began)
        if len(self._streams) > _KEPT:
            del self._streams[next(iter(self._streams))]

    def who(self, session: int) -> str:
        """Return what identifies a session."""
        name = self._names[session]
        if name is not None:
            return name
        stream = self._streams.get(session)
        return "" if stream is None else str(stream.place)

    def _count(self, session: int, kind: str) -> int:
        """Count a message, and return its number. The first message has the number 1."""
        stream = self._streams.get(session)
        counts = self._new if stream is None else stream.counts
        counts[kind] += 1
        return counts[kind]

    def _hits(self, fault: str, session: int, number: int) -> bool:
        rate = self.probabilities.get(fault)
        return rate is not None and draw(self.seed, fault, self.who(session), number) < rate

    def _seconds(self, fault: str, session: int, number: int) -> float:
        """Return a random delay for a message, in whole ms."""
        drawn = draw(self.seed, fault, self.who(session), number, "seconds")
        return round(drawn * self._longest, 3)

    def _entry(
        self, fault: str, number: int, session: int, op: str | None = None, path: str | None = None
    ) -> Injected:
        return Injected(fault, self.who(session), number, session, op, path)

    def _note(self, injected: Injected) -> None:
        self._counts[injected.fault] += 1
        self._injected.append(injected)

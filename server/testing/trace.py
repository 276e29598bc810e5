"""The trace: a line for each request, reply, event, session and fault, written immediately.

* A :class:`Tracer` listens to a server, filters the entries, measures how long each request takes, and
  passes lines on.
* A reply names its request, so that a line can be read alone. The line of a refused request has the reason:
  the ACL and the client's identities, or the setting that disables the operation.
* Pings are left out unless they are selected by name.
* Secrets are not shown: auth packets do not pass the recorder, and digests of ACLs are masked.
* Text from clients is escaped: it can neither forge lines nor control a terminal.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...protocol.text import printable, session_text
from ..lines import LineWriter
from ..net.server import Server
from .describe import error_name
from .globs import Glob
from .history import Entry
from .operations import operation_name
from .running import Running
from .takeover import running_of

if TYPE_CHECKING:
    from ..ensemble.host import EnsembleHost
    from .running_ensemble import RunningEnsemble

FORMATS: Final = ("text", "json")

_SYMBOLS = {
    "request": "->",
    "reply": "<-",
    "event": "<<",
    "fault": "!!",
    "hold": "||",
    "control": "==",
    "reaper": "--",
    "note": "##",
    "role": "**",
}
"""The first characters of the lines, as in the timeline. Requests and replies have arrows, which the timeline
does not have."""
_COLOURS = {"request": "36", "reply": "32", "event": "35", "fault": "31", "session": "33", "reaper": "33"}
"""Foreground colours of ANSI terminals. A refused request has the colour of a fault."""
_DIM = "2"
_MOST_OPEN = 10_000
"""The largest number of requests whose start is remembered. Without a limit, requests whose replies were lost
would stay in memory for ever."""


@attrs.frozen
class Selection:
    """The selection of a trace. If an entry does not have a property that the selection asks for, the entry
    is left out.

    :ivar ops: the names of operations; empty for all operations except pings.
    :ivar pattern: the pattern that the path, or one of several paths, must match.
    :ivar session: a session's id.
    :ivar server: the number of a server of an ensemble.
    """

    ops: frozenset[str] = frozenset()
    pattern: Glob | None = None
    session: int | None = None
    server: int | None = None

    @classmethod
    def of(
        cls,
        ops: Iterable[str] = (),
        path: str | None = None,
        session: int | None = None,
        server: int | None = None,
    ) -> Selection:
        """:raises ValueError: a word is not an operation."""
        return cls(frozenset(map(operation_name, ops)), None if path is None else Glob(path), session, server)

    def wants(self, entry: Entry) -> bool:
        if entry.op not in self.ops if self.ops else entry.op == "ping":
            return False
        if self.session is not None and entry.session != self.session:
            return False
        if self.server is not None and entry.server != self.server:
            return False
        if self.pattern is None:
            return True
        paths = entry.paths or ([entry.path] if entry.path else [])
        return any(self.pattern.matches(path) for path in paths)


_TOO_SLOW = "lines were lost here: the reader of this trace is too slow"


@attrs.frozen
class Traced:
    """An entry of the history, with facts that only the trace has.

    :ivar at: seconds since the epoch.
    :ivar seconds: the seconds from the request to its reply. Delays by a test are included. None for entries
        that are not replies.
    :ivar of_ensemble: whether each line has the number of the server in the ensemble.
    """

    entry: Entry
    at: float
    seconds: float | None = None
    of_ensemble: bool = False

    def as_text(self, *, colours: bool = False) -> str:
        """Return the line for people: the time, the server, the client, the session and the event."""
        entry, seconds = self.entry, self.seconds
        stamp = f"{time.strftime('%H:%M:%S', time.localtime(self.at))}.{int(self.at % 1 * 1000):03d}"
        text = entry.text
        if entry.kind == "reply":
            text = f"{entry.op} {entry.path or ''}".rstrip() + f": {text}"
        words = [_SYMBOLS.get(entry.kind, "  "), text]
        if entry.zxid and entry.kind != "session":
            words.append(f" zxid 0x{entry.zxid:x}")
        if seconds is not None:
            words.append(f" {seconds * 1000:.3f} ms")
        if entry.reason:
            words.append(f" ({entry.reason})")
        where = f"{entry.client or '-':<21} {session_text(entry.session) if entry.session else '-':<18}"
        if self.of_ensemble:
            where = f"[{entry.server or '-'}] {where}"
        said = printable(" ".join(words))
        if not colours:
            return f"{stamp} {where} {said}"
        colour = _COLOURS["fault"] if entry.err else _COLOURS.get(entry.kind, "0")
        return f"\x1b[{_DIM}m{stamp} {where}\x1b[0m \x1b[{colour}m{said}\x1b[0m"

    def as_fields(self) -> Mapping[str, Any]:
        """Return the fields of the line for programs, without empty fields. Sessions and zxids are text,
        because many JSON parsers would round such numbers."""
        entry, whole = self.entry, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.at))
        fields: dict[str, Any] = {
            "time": f"{whole}.{int(self.at % 1 * 1000):03d}Z",
            "kind": entry.kind,
            "server": entry.server,
            "client": entry.client,
            "connection": entry.connection,
            "session": session_text(entry.session) if entry.session else "",
            "xid": entry.xid,
            "op": entry.op,
            "path": entry.path,
            "paths": list(entry.paths) if len(entry.paths) > 1 else None,
            "zxid": f"0x{entry.zxid:x}" if entry.zxid else "",
            "error": error_name(entry.err) if entry.err else "",
            "text": entry.text,
            "reason": entry.reason,
        }
        fields = {key: value for key, value in fields.items() if value}
        if self.seconds is not None:
            fields["latency_ms"] = round(self.seconds * 1000, 3)
        return fields

    def as_json(self) -> str:
        return json.dumps(self.as_fields())

    def as_line(self, style: str, *, colours: bool = False) -> str:
        """:param style: one of :data:`FORMATS`."""
        return self.as_json() if style == "json" else self.as_text(colours=colours)


def lost_line(count: int, style: str, why: str = _TOO_SLOW) -> str:
    """The line that replaces lines that were left out.

    :param style: one of :data:`FORMATS`.
    """
    text = f"{count:,} {why}"
    return json.dumps({"kind": "lost", "count": count, "text": text}) if style == "json" else text


class Tracer:
    """Passes on the selected entries of a history immediately.

    :param running: a server, or an ensemble.
    :param tell: called with each entry. It must not wait. If the function raises an exception, the log shows
        it.
    :param may_look: called before each entry, whether it is selected or not. It returns whether the entry is
        read.
    """

    def __init__(
        self,
        running: Running | RunningEnsemble,
        selection: Selection,
        tell: Callable[[Traced], object],
        may_look: Callable[[], bool] = lambda: True,
    ) -> None:
        self._running, self._selection, self._tell, self._may_look = running, selection, tell, may_look
        # When the request came, by server, connection and xid
        self._started: dict[tuple[int, int, int], float] = {}
        running.listen(self._listen)

    def stop(self) -> None:
        """Trace no more. The second call does nothing."""
        self._running.stop_listening(self._listen)

    def _listen(self, entry: Entry) -> None:
        if not self._may_look() or not self._selection.wants(entry):
            return
        key, started, seconds = (entry.server, entry.connection, entry.xid), self._started, None
        if entry.kind == "reply" and key in started:
            seconds = time.perf_counter() - started.pop(key)
        self._tell(Traced(entry, time.time(), seconds, self._running.is_ensemble))
        if entry.kind == "request":
            if len(started) >= _MOST_OPEN:
                started.clear()
            started[key] = time.perf_counter()  # last, so that the line itself does not count


def tell_past(running: Running | RunningEnsemble, selection: Selection, most: int) -> Iterator[Traced]:
    """Yield the selected entries among the last entries of the history. Yield nothing if the history is not
    recorded.

    :param most: the number of entries to read.
    """
    for entry in running.last_entries(most):
        if selection.wants(entry):
            yield Traced(entry, running.wall_clock(entry.time), of_ensemble=running.is_ensemble)


class Trace:
    """The trace of the command, on a file descriptor. Lines that the reader does not read in time are lost
    and counted.

    :param style: one of :data:`FORMATS`.
    """

    def __init__(self, fd: int, selection: Selection, style: str = "text") -> None:
        self._lines = LineWriter(fd, self._tell_lost)
        self._selection = selection
        self._style = style
        self._colours = style == "text" and os.isatty(fd) and not os.environ.get("NO_COLOR")

    @classmethod
    def to(cls, file: str | None, selection: Selection, style: str) -> Trace:
        """Append the trace to a file, which only its owner can read, or send the trace to standard output.

        :raises OSError: if that is impossible.
        """
        if file is not None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
            return cls(os.open(file, flags, 0o600), selection, style)
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        return cls(sys.stdout.fileno(), selection, style)

    def attach(self, server: Server | EnsembleHost) -> None:
        """Show the trace of this server from now on. If the server belongs to an ensemble, show the trace of
        all its servers."""
        Tracer(running_of(server), self._selection, self._write)

    def _write(self, traced: Traced) -> None:
        self._lines.write(traced.as_line(self._style, colours=self._colours))

    def _tell_lost(self, count: int) -> str:
        return lost_line(count, self._style)

    def flush(self) -> None:
        """Write the lines that wait for the reader."""
        self._lines.flush()

    def close(self) -> None:
        """Wait at most one second for the reader to read the waiting lines."""
        self._lines.close()

"""The history as text: one column per session, time downwards. A failing test shows it. The rules:

* One line per entry. A reply stands in the line of its request (``get_data /x -> ..``) if nothing of that
  connection came between them; a new session stands in the line of its connection.
* The time is in seconds since the start of the server, and is left out where it is that of the line above.
  The zxid stands at changes only.
* Sessions are called A, B, C ...; the head says their ids. Entries that belong to no session (the reaper, the
  test's own notes and controls) take the whole width.
* Of an ensemble each line has the number of the server, and zxids are epoch and counter: ``1:5`` is the fifth
  transaction of the epoch after that of the start.
* Marks: ``<<`` an event, ``!!`` a fault, ``||`` held back, ``==`` a control, ``--`` the reaper, ``##`` a
  note, ``**`` another role of a server.
* What was asked for over HTTP ends in ``(over HTTP)``; see :mod:`.origin`.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import attrs

from ...protocol.operations import WRITES
from ...protocol.text import session_text
from .history import FAULT, Entry
from .operations import name_of

_LEFT = 19  # characters: the time and the zxid
_LEAST, _MOST = 32, 60  # characters of a column
_LONG = 40  # characters: names in paths that are longer lose their middle
_NAME = re.compile(rf"[^/\s,\[\]]{{{_LONG + 1},}}")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_SESSION = re.compile(r"\b0x[0-9a-f]+\b")


@attrs.define
class _Line:
    """One line before it is drawn.

    :ivar session: whose column the line is in; None for the whole width.
    """

    time: float
    zxid: int
    session: int | None
    text: str


def format_timeline(
    entries: Sequence[Entry],
    *,
    title: str = "Timeline",
    zxid_base: int = 0,
    named: Mapping[int, str] = MappingProxyType({}),
    sessions: Iterable[int] | None = None,
    pings: bool = False,
    width: int = 120,
    limit: int | None = None,
    by_epoch: bool = False,
) -> str:
    """Draw entries of a history.

    :param by_epoch: whether zxids are shown as epoch and counter.
    :param zxid_base: subtracted from every zxid shown, so that they are small numbers.
    :param named: names of sessions; those without get letters.
    :param sessions: the ids of the sessions that get a column; all by default.
    :param pings: whether pings are shown.
    :param width: the width in characters. A column has at least 32 of them, so many sessions take
        more.
    :param limit: show no more than this many lines, the last ones.
    """
    shown = [entry for entry in entries if pings or entry.op != "ping"]
    left_out = len(entries) - len(shown)
    columns = list(dict.fromkeys(entry.session for entry in shown if entry.session))
    if sessions is not None:
        wanted = set(sessions)
        columns = [session for session in columns if session in wanted]
        shown = [entry for entry in shown if entry.session in wanted or not entry.session]
    names = _names(columns, named)

    head = [title]
    if by_epoch:
        head.append(f"epochs are counted from 0x{zxid_base >> 32:x}")
    elif zxid_base:
        head.append(f"zxids are counted from 0x{zxid_base:x}")
    if left_out:
        head.append(f"{left_out} pings and pongs are left out")
    text = ["; ".join(head)]
    text += [f"  {names[session]}  session {session_text(session)}" for session in columns]
    if not shown:
        return "\n".join([*text, "  nothing has happened"])

    column = min(max((width - _LEFT) // max(len(columns), 1) - 3, _LEAST), _MOST)
    heading = "   seconds    zxid"
    text.append((heading + "".join(f" | {names[s]:<{column}}" for s in columns)).rstrip())
    text.append("-" * (_LEFT - 1) + "".join("-+-" + "-" * column for _ in columns))
    lines = list(_lines(shown, names))
    if limit is not None and len(lines) > limit:
        text.append(f"  .. {len(lines) - limit} earlier lines")
        lines = lines[-limit:]
    last = ""

    def zxid(number: int) -> str:
        if by_epoch:
            return f"{(number >> 32) - (zxid_base >> 32)}:{number & 0xFFFFFFFF}" if number else ""
        return str(number - zxid_base) if number > zxid_base else ""

    for line in lines:
        stamp = f"{line.time:10.3f}"
        for row in _draw(line, stamp if stamp != last else "", columns, column, zxid(line.zxid)):
            text.append(row.rstrip())
        last = stamp
    return "\n".join(text)


def _names(columns: Iterable[int], named: Mapping[int, str]) -> dict[int, str]:
    """Return the heads of the columns; a name that several sessions had gets a number."""
    times: Counter[str] = Counter()
    names = {}
    for n, session in enumerate(columns):
        name = named.get(session) or _letter(n)
        times[name] += 1
        names[session] = name if times[name] == 1 else f"{name}#{times[name]}"
    return names


def _letter(n: int) -> str:
    return chr(ord("A") + n) if n < 26 else f"S{n + 1}"


def _lines(entries: Sequence[Entry], names: dict[int, str]) -> Iterator[_Line]:
    """Yield one line for each entry, but a reply goes with its request where nothing of that connection came
    between them but events, and a new session with its connection."""
    answers = _answers(entries)
    merged = {id(reply) for reply in answers.values()}
    for n, entry in enumerate(entries):
        if id(entry) in merged or _is_implied(entry, answers):
            continue
        text = entry.text
        zxid = entry.zxid
        if entry.kind == "request":
            reply = answers.get(id(entry))
            if reply is not None:
                text += f" -> {reply.text}"
                # a read tells the last zxid there was: only that of a change is worth its room
                zxid = reply.zxid if entry.op in _WRITES else 0
        elif entry.kind == "reply":
            text = f"{entry.op} {entry.path or ''}".rstrip() + f" -> {text}"
        elif entry.kind == "session":
            after = entries[n + 1] if n + 1 < len(entries) else entry
            if after.kind == "connection" and after.session == entry.session and "begins" in text:
                text = after.text
                merged.add(id(after))
        text = _MARKS.get(entry.kind, "") + _shorten(text, names)
        if entry.server:
            text = f"[{entry.server}] {text}"
        column = entry.session if entry.session in names else None
        if entry.kind in ("control", "reaper", "note", "role"):
            column = None
        yield _Line(entry.time, zxid, column, text)


def _is_implied(entry: Entry, answers: dict[int, Entry]) -> bool:
    """Return whether the line before or after the entry says the same."""
    if entry.kind == "connection":
        return entry.text.startswith(_IMPLIED)
    return entry.op == "close_session" and id(entry) in answers and not answers[id(entry)].err


_IMPLIED = ("opened from", "disconnected: its session", f"disconnected: {FAULT}")
_MARKS = {
    "event": "<< ",
    "fault": "!! ",
    "hold": "|| ",
    "control": "== ",
    "reaper": "-- ",
    "note": "## ",
    "role": "** ",
}
_WRITES = frozenset(map(name_of, WRITES))


def _answers(entries: Sequence[Entry]) -> dict[int, Entry]:
    """Find the replies that can be shown beside their requests, by the id() of the request."""
    answers: dict[int, Entry] = {}
    waiting: dict[tuple[int, int], Entry] = {}
    for entry in entries:
        connection = entry.server, entry.connection
        if entry.kind == "request":
            waiting[connection] = entry
        elif entry.kind == "fault":
            waiting.pop(connection, None)
        elif entry.kind == "reply":
            request = waiting.pop(connection, None)
            if request is not None and request.xid == entry.xid and request.time == entry.time:
                answers[id(request)] = entry
    return answers


def _draw(line: _Line, stamp: str, columns: list[int], column: int, zxid: str) -> Iterator[str]:
    left = f"{stamp:>10} {zxid:>7} "
    if line.session is None:
        room = max(len(columns), 1) * (column + 3)
        for row in _wrap(line.text, room):
            yield f"{left}  {row}"
            left = " " * _LEFT
        return
    at = columns.index(line.session)
    for row in _wrap(line.text, column):
        cells = [row if n == at else "" for n in range(len(columns))]
        yield left.rstrip().ljust(_LEFT - 1) + "".join(f" | {cell:<{column}}" for cell in cells)
        left = ""


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines before a slash too."""

    wordsep_simple_re = re.compile(r"(\s+|(?=/))")


def _wrap(text: str, width: int) -> list[str]:
    return _Wrapper(width, subsequent_indent="   ", break_on_hyphens=False).wrap(text)


def _shorten(text: str, names: dict[int, str]) -> str:
    """Write sessions as their letters, cut UUIDs to 4 digits, and long names to their ends."""

    def letter(match: re.Match[str]) -> str:
        return names.get(int(match[0], 16), match[0])

    def cut(match: re.Match[str]) -> str:
        return f"{match[0][: _LONG // 2]}..{match[0][-_LONG // 2 :]}"

    text = _SESSION.sub(letter, text)
    text = _UUID.sub(lambda match: f"{match[0][:4]}..", text)
    return _NAME.sub(cut, text)

"""The history as text. Each session has a column, and later entries are further down. A failing test shows
it. The rules:

* The history is cut before it is drawn: only the last lines are kept, at most 1 MiB. Only the sessions in
  these lines have columns. If there are more than 12 sessions, or the given width is too small for all
  columns, there are no columns. Then each line names its session.
* Each entry has a line. A reply is in the line of its request (``get_data /x -> ..``) if no other entry of
  the connection came between the two. A new session is in the line of its connection.
* A client sends syncs while it holds a lock. If three or more syncs follow each other, only the first and the
  last have lines.
* The time is in seconds since the start of the server. The time is left out if it equals the time of the line
  above. Only changes of the tree have their zxid in the line.
* Sessions are called A, B, C and so on. The head of the timeline has their ids. The head also has the program
  of each session that is still connected, if the program runs on this machine and is not this process.
  Entries that belong to no session (the reaper, the test's own notes and controls) take the whole width.
* In an ensemble, each line has the number of the server, and zxids are epoch and counter: ``1:5`` is the
  fifth transaction of the epoch that follows the first epoch.
* Marks: ``<<`` an event, ``!!`` a fault, ``||`` held back, ``==`` a control, ``--`` the reaper, ``##`` a
  note, ``**`` another role of a server.
* Clients choose paths and data, so control characters and invisible characters are escaped.
* Controls over HTTP end in ``(over HTTP)``; see :mod:`.origin`.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

import attrs

from ...protocol.operations import WRITES
from ...protocol.text import printable, session_text
from .history import FAULT, Entry
from .operations import name_of

_LEFT = 19  # characters: the time and the zxid
_LEAST, _MOST = 32, 60  # characters of a column
_COLUMNS = 12  # at most
_WIDTH = 120  # characters, if it is not given
_NARROWEST, _WIDEST = 60, 400  # characters of a line without columns
_LARGEST = 2**20
"""Characters of the whole."""
_LONGEST = 2000
"""The largest number of characters of a line before it is drawn."""
_STEP = 20
"""The number of entries, or of lines, that are handled in one step. A step takes 1 ms."""
_LONG = 40  # characters: names in paths that are longer lose their middle
_NAME = re.compile(rf"[^/\s,\[\]]{{{_LONG + 1},}}")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_SESSION = re.compile(r"\b0x[0-9a-f]+\b")


@attrs.define
class _Line:
    """One line before it is drawn.

    :ivar session: the session in whose column the line is; 0 if the line takes the whole width.
    :ivar more: the number of lines after this line that have the same text and are left out.
    """

    time: float
    zxid: int
    session: int
    server: int
    mark: str
    text: str
    more: int = 0


def drawing(
    entries: Iterable[Entry],
    *,
    title: str = "Timeline",
    zxid_base: int = 0,
    named: Mapping[int, str] = MappingProxyType({}),
    sessions: Iterable[int] | None = None,
    pings: bool = False,
    width: int | None = None,
    limit: int | None = None,
    by_epoch: bool = False,
    programs: Mapping[int, str] = MappingProxyType({}),
    ending: Callable[[Mapping[int, str]], Iterable[str]] | None = None,
) -> Generator[None, None, str]:
    """Draw entries of a history, in steps of about 1 ms. The generator returns the drawing.

    :param by_epoch: whether zxids are shown as epoch and counter.
    :param zxid_base: the number that is subtracted from each shown zxid, so that the shown numbers are small.
    :param named: the names of sessions. Sessions without a name get letters.
    :param sessions: the ids of the sessions whose lines are shown. The default is all sessions.
    :param pings: whether pings are shown.
    :param width: the width in characters, at least 60. The default is 120, or the width that the columns
        need. Each column has at least 32 characters.
    :param limit: the largest number of shown lines; the last ones are shown.
    :param programs: the programs behind sessions, for the head.
    :param ending: a function that makes the last lines from the names of the sessions.
    """
    lines = _Lines(limit)
    wanted = None if sessions is None else set(sessions)
    seen: dict[int, None] = {}  # the sessions, in order
    left_out = 0
    for n, entry in enumerate(entries):
        if n % _STEP == 0:
            yield
        if entry.op == "ping" and not pings:
            left_out += 1
        elif wanted is None or not entry.session or entry.session in wanted:
            if entry.session:
                seen[entry.session] = None
            lines.add(entry)
    names = _names(seen, named)
    kept = list(lines.kept.values())
    shown = {line.session for line in kept}
    columns = [session for session in seen if session in shown]
    room = _WIDEST * _COLUMNS if width is None else width
    by_column = len(columns) <= min(_COLUMNS, max(1, (room - _LEFT) // (_LEAST + 3)))
    sheet: _Columns | _List
    if by_column:
        sheet = _Columns(columns, names, width or _WIDTH)
    else:
        names = {session: name for session in seen if (name := named.get(session))}
        sheet = _List([names.get(session) or session_text(session) for session in columns], width or _WIDTH)

    last = [] if ending is None else list(ending(names))
    head = [title]
    if by_epoch:
        head.append(f"epochs are counted from 0x{zxid_base >> 32:x}")
    elif zxid_base:
        head.append(f"zxids are counted from 0x{zxid_base:x}")
    if left_out:
        head.append(f"{left_out} pings and pongs are left out")
    heading = "; ".join(head)
    text = [heading] if width is None else textwrap.wrap(heading, width, subsequent_indent="  ")
    if by_column:
        text += [
            f"  {names[session]}  session {session_text(session)}{_behind(programs.get(session))}"
            for session in columns
        ]
    else:
        known = (session for session in columns if session in programs)
        text += [
            f"  {names.get(session) or session_text(session)}{_behind(programs[session])}"
            for session in islice(known, _COLUMNS)
        ]
    if not kept:
        return "\n".join(
            [*text, "  nothing has happened" if not lines.count else _earlier(lines.count), *last]
        )
    text += sheet.head

    def zxid(number: int) -> str:
        if by_epoch:
            return f"{(number >> 32) - (zxid_base >> 32)}:{number & 0xFFFFFFFF}" if number else ""
        return str(number - zxid_base) if number > zxid_base else ""

    drawn: list[str] = []  # the last line first
    size = 0
    for n in reversed(range(len(kept))):
        if n % _STEP == 0:
            yield
        line = kept[n]
        stamp = f"{line.time:10.3f}"
        before = f"{kept[n - 1].time:10.3f}" if n and size < _LARGEST else ""
        left = f"{stamp if stamp != before else '':>10} {zxid(line.zxid):>7} "
        said = (
            f"{f'[{line.server}] ' if line.server else ''}{line.mark}{_shorten(printable(line.text), names)}"
            f"{f' (and {line.more} more)' if line.more else ''}"
        )
        who = names.get(line.session) or session_text(line.session)
        rows = "\n".join(row.rstrip() for row in sheet.draw(left, line.session, who, said))
        size += len(rows)
        if size > _LARGEST:
            break
        drawn.append(rows)
    if lines.count > len(drawn):
        text.append(_earlier(lines.count - len(drawn)))
    return "\n".join([*text, *reversed(drawn), *last])


def _behind(program: str | None) -> str:
    return f"  {program}" if program else ""


def _earlier(count: int) -> str:
    return f"  .. {count} earlier lines"


def _names(columns: Iterable[int], named: Mapping[int, str]) -> dict[int, str]:
    """Return the heads of the columns. If several sessions have the same name, each gets a number too."""
    times: Counter[str] = Counter()
    names = {}
    for n, session in enumerate(columns):
        name = named.get(session) or _letter(n)
        times[name] += 1
        names[session] = name if times[name] == 1 else f"{name}#{times[name]}"
    return names


def _letter(n: int) -> str:
    return chr(ord("A") + n) if n < 26 else f"S{n + 1}"


class _Lines:
    """The last lines of a history, one for each entry. A reply joins the line of its request if only events
    of the connection came between the two. A new session joins the line of its connection.

    :param limit: the number of kept lines. None: keep as many lines as can be drawn.
    :ivar kept: by number.
    :ivar count: the number of all sessions.
    """

    def __init__(self, limit: int | None) -> None:
        self.kept: OrderedDict[int, _Line] = OrderedDict()
        self.count = 0
        self._limit, self._number, self._size = limit, 0, 0
        self._waiting: dict[
            tuple[int, int], tuple[Entry, int]
        ] = {}  # requests without a reply, by connection
        self._syncs: dict[int, list[int]] = {}  # the numbers of the last lines of a session, if all are syncs
        self._begun = 0, 0  # a session that has just begun, and the number of its line

    def add(self, entry: Entry) -> None:
        begun, self._begun = self._begun, (0, 0)
        connection = entry.server, entry.connection
        if entry.kind == "connection":
            if entry.session and entry.session == begun[0]:
                if begun[1] in self.kept:
                    self.kept[begun[1]].text = entry.text[:_LONGEST]
                return
            if entry.text.startswith(_IMPLIED):
                return
        elif entry.kind == "fault":
            self._waiting.pop(connection, None)
        elif entry.kind == "reply":
            request, number = self._waiting.pop(connection, (None, 0))
            if request is not None and request.xid == entry.xid and request.time == entry.time:
                self._answer(number, entry)
                return
        number = self._append(entry)
        if entry.kind == "request":
            self._waiting[connection] = entry, number
        elif entry.kind == "session" and "begins" in entry.text:
            self._begun = entry.session, number

    def _answer(self, number: int, reply: Entry) -> None:
        if reply.op == "close_session" and not reply.err:  # the line of the session says the same
            self.count -= 1
            self.kept.pop(number, None)
        elif (line := self.kept.get(number)) is not None:
            line.text = f"{line.text} -> {reply.text}"[:_LONGEST]
            # a read tells the last zxid there was: only that of a change is worth its room
            line.zxid = reply.zxid if reply.op in _WRITES else 0
            if reply.op == "sync":
                self._fold(line, number)

    def _fold(self, line: _Line, number: int) -> None:
        """Keep only the first and the last of three or more equal syncs that follow each other. A client
        sends such syncs while it holds a lock."""
        syncs = self._syncs.setdefault(line.session, [])
        syncs.append(number)
        first, *between = syncs[:-1] or [number]
        if between and first in self.kept and self.kept[first].text == line.text:
            [dropped] = between
            syncs.remove(dropped)
            self.kept[first].more += 1
            self.count -= 1
            self._size -= len(self.kept.pop(dropped).text) if dropped in self.kept else 0
        elif between or first not in self.kept:
            self._syncs[line.session] = [number]

    def _append(self, entry: Entry) -> int:
        text = entry.text
        if entry.kind == "reply":
            text = f"{entry.op} {entry.path or ''}".rstrip() + f" -> {text}"
        session = 0 if entry.kind in ("control", "reaper", "note", "role") else entry.session
        mark = _MARKS.get(entry.kind, "")
        line = _Line(entry.time, entry.zxid, session, entry.server, mark, text[:_LONGEST])
        if session and entry.op != "sync":
            self._syncs.pop(session, None)
        self._number += 1
        self.count += 1
        self._size += len(line.text)
        kept = self.kept
        kept[self._number] = line
        while kept and (self._size > _LARGEST or (self._limit is not None and len(kept) > self._limit)):
            self._size -= len(kept.popitem(last=False)[1].text)
        return self._number


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


class _Columns:
    """A column for each session."""

    def __init__(self, columns: list[int], names: Mapping[int, str], width: int) -> None:
        self._columns = columns
        self._column = column = min(max((width - _LEFT) // max(len(columns), 1) - 3, _LEAST), _MOST)
        heading = "   seconds    zxid" + "".join(f" | {names[each]:<{column}}" for each in columns)
        self.head = [heading.rstrip(), "-" * (_LEFT - 1) + "".join("-+-" + "-" * column for _ in columns)]

    def draw(self, left: str, session: int, who: str, text: str) -> Iterator[str]:
        columns, column = self._columns, self._column
        if not session:
            yield from _whole(left, text, max(len(columns), 1) * (column + 3))
            return
        before, after = columns.index(session), len(columns) - columns.index(session) - 1
        for row in _wrap(text, column):
            cells = [*[""] * before, row, *[""] * after]
            yield left.rstrip().ljust(_LEFT - 1) + "".join(f" | {cell:<{column}}" for cell in cells)
            left = ""


class _List:
    """Each line names its session."""

    def __init__(self, names: Iterable[str], width: int) -> None:
        self._who = max(map(len, names))
        self._room = min(max(width, _NARROWEST), _WIDEST) - _LEFT
        what = max(self._room - self._who - 5, 1)
        self.head = [
            f"   seconds    zxid | {'session':<{self._who}} |",
            "-" * (_LEFT - 1) + "-+-" + "-" * self._who + "-+-" + "-" * what,
        ]

    def draw(self, left: str, session: int, who: str, text: str) -> Iterator[str]:
        if not session:
            yield from _whole(left, text, self._room - 2)
            return
        for row in _wrap(text, self._room - self._who - 5):
            yield f"{left.rstrip():<{_LEFT - 1}} | {who:<{self._who}} | {row}"
            left = who = ""


def _whole(left: str, text: str, room: int) -> Iterator[str]:
    for row in _wrap(text, room):
        yield f"{left}  {row}"
        left = " " * _LEFT


class _Wrapper(textwrap.TextWrapper):
    """A text wrapper that breaks lines before a slash too."""

    wordsep_simple_re = re.compile(r"(\s+|(?=/))")


def _wrap(text: str, width: int) -> list[str]:
    return _Wrapper(width, subsequent_indent="   ", break_on_hyphens=False).wrap(text)


def _shorten(text: str, names: dict[int, str]) -> str:
    """Write the letters of sessions in place of their ids, cut UUIDs to 4 digits, and leave out the middle of
    long names."""

    def letter(match: re.Match[str]) -> str:
        return names.get(int(match[0], 16), match[0])

    def cut(match: re.Match[str]) -> str:
        return f"{match[0][: _LONG // 2]}..{match[0][-_LONG // 2 :]}"

    text = _SESSION.sub(letter, text)
    text = _UUID.sub(lambda match: f"{match[0][:4]}..", text)
    return _NAME.sub(cut, text)

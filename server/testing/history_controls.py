"""The controls of the flight recorder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .base import BaseControls
from .history import KINDS, Entry, Kind
from .operations import glob, operation_name
from .sessions import SessionRef, session_id_of
from .timeline import format_timeline


class HistoryControls(BaseControls):
    def history(
        self,
        *,
        session: SessionRef | None = None,
        kind: Kind | Iterable[Kind] | None = None,
        op: str | None = None,
        path: str | None = None,
        since: float = 0.0,
    ) -> list[Entry]:
        """What has happened, the oldest first; empty with ``record=False``. All conditions must hold.

        :param session: a session that need not be alive any more.
        :param kind: one or several kinds; see :class:`.history.Entry`.
        :param op: as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`.
        :param since: seconds on the server's clock since its start.
        :raises ValueError: for an unknown kind or operation.
        """
        kinds = set(KINDS) if kind is None else {kind} if isinstance(kind, str) else set(kind)
        if not kinds <= set(KINDS):
            raise ValueError(f"unknown kind in {sorted(kinds)}; there are: {', '.join(KINDS)}")
        wanted_op = None if op is None else operation_name(op)
        wanted_session = None if session is None else session_id_of(session)
        pattern = None if path is None else glob(path)
        self._server.receive()

        def wanted(entry: Entry) -> bool:
            return (
                entry.kind in kinds
                and wanted_op in (None, entry.op)
                and wanted_session in (None, entry.session)
                and (pattern is None or (entry.path is not None and bool(pattern.fullmatch(entry.path))))
                and entry.time >= since
            )

        return [entry for entry in self._entries() if wanted(entry)]

    def _entries(self) -> Iterator[Entry]:
        return iter(()) if self._recorder is None else self._recorder.entries()

    def note(self, text: str) -> None:
        """Write a line into the history, to find one's place in the timeline."""
        self._server.receive()
        if self._recorder is not None:
            self._recorder.control(text, kind="note")

    def format_timeline(
        self,
        *,
        sessions: Iterable[SessionRef] | None = None,
        pings: bool = False,
        width: int = 120,
        limit: int | None = None,
        since: float = 0.0,
    ) -> str:
        """The history as text, one column for each session.

        :param sessions: those that get a column; all by default.
        :param pings: whether pings are shown.
        :param width: in characters.
        :param limit: at most so many lines, the last ones.
        :param since: seconds on the server's clock since its start.
        """
        if self._recorder is None:
            return "Nothing was recorded: record=False."
        title = "Timeline of {}:{}".format(*self._server.address)
        if self._recorder.dropped:
            title += f"; the oldest {self._recorder.dropped:,} entries are gone"
        return format_timeline(
            self.history(since=since),
            title=title,
            zxid_base=self._recorder.zxid_base,
            sessions=None if sessions is None else [session_id_of(session) for session in sessions],
            pings=pings,
            width=width,
            limit=limit,
        )

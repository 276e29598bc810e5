"""The controls of the history, of one server or of an ensemble: as entries, as text, as advice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from ..finding import find
from ..history import Entry, EntryKind, select
from ..sessions import SessionRef
from ..steps import finish
from ..timeline import drawing
from .base import Base, control

if TYPE_CHECKING:
    from ..advisor.finding import Finding
    from ..running import Running
    from ..running_ensemble import RunningEnsemble


class HistoryControls(Base):
    """What a test asks about the past."""

    @property
    @abstractmethod
    def running(self) -> Running | RunningEnsemble:
        """The parts of the server, or of the ensemble."""

    @property
    @abstractmethod
    def hosts(self) -> str:
        """The connect string."""

    @control
    def advice(self) -> list[Finding]:
        """List what clients do wrong and how to do it right, as far as the history shows it: docs/advisor.md.

        Nothing is looked at before the first call. A later call adds what has happened since; entries that
        the history has lost between the calls are not looked at. Empty with ``record=False``.
        """
        return self.running.advice()

    @control
    def history(
        self,
        *,
        session: SessionRef | None = None,
        kind: EntryKind | Iterable[EntryKind] | None = None,
        op: str | None = None,
        path: str | None = None,
        since: float = 0.0,
    ) -> list[Entry]:
        """List what has happened, the oldest first; empty with ``record=False``. All conditions must be met.

        In the history of an ensemble ``server`` of an entry says where it happened.

        :param session: a session that need not be alive any more.
        :param kind: one or several kinds; see :class:`.history.Entry`.
        :param op: as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`.
        :param since: seconds on the server's clock since its start.
        :raises ValueError: for an unknown kind or operation.
        """
        if session is not None:
            session = find(self.running.each(), session)
        told = self.running.told
        entries = () if told is None else told.entries()
        return select(entries, session=session, kind=kind, op=op, path=path, since=since)

    @control
    def note(self, text: str) -> None:
        """Write a line into the history, as a mark in the timeline."""
        self._enter(text, kind="note")

    @control
    def format_timeline(
        self,
        *,
        sessions: Iterable[SessionRef] | None = None,
        pings: bool = False,
        width: int | None = None,
        limit: int | None = None,
        since: float = 0.0,
    ) -> str:
        """Show the history as text, one column for each session; of an ensemble each line has the number of
        its server. At most 1 MiB, the last lines.

        :param sessions: those whose lines are shown; all by default.
        :param pings: whether pings are shown.
        :param width: in characters, at least 60; where not all sessions have room for a column, each line
            names its session. By default 120, or as much as up to 12 columns need.
        :param limit: at most so many lines, the last ones.
        :param since: seconds on the server's clock since its start.
        """
        ids = None if sessions is None else [find(self.running.each(), session) for session in sessions]
        return finish(timeline_of(self, sessions=ids, pings=pings, width=width, limit=limit, since=since))


def timeline_of(
    controls: HistoryControls, *, since: float = 0.0, until: float = inf, **options: Any
) -> Generator[None, None, str]:
    """Draw what :meth:`HistoryControls.format_timeline` shows, in steps, for callers in the server's thread
    who let others run between them.

    :param since: as for that method.
    :param until: likewise.
    :param options: those of :func:`.timeline.drawing`.
    """
    told, running = controls.running.told, controls.running
    if told is None:
        return "Nothing was recorded: record=False."
    title = f"Timeline of {controls.hosts}"
    if told.dropped:
        title += f"; the oldest {told.dropped:,} entries are gone"
    return (
        yield from drawing(
            (entry for entry in told.entries() if since <= entry.time <= until),
            title=title,
            zxid_base=told.zxid_base,
            named=running.names.all,
            by_epoch=running.is_ensemble,
            **options,
        )
    )

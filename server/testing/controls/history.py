"""The controls of the history of a server or an ensemble: as entries, as text and as advice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from ..finding import find
from ..history import Entry, EntryKind, select
from ..programs import find_programs_now, other_programs
from ..sessions import SessionRef
from ..steps import finish
from ..timeline import drawing
from .base import Base, control

if TYPE_CHECKING:
    from ..advisor.finding import Finding
    from ..running import Running
    from ..running_ensemble import RunningEnsemble


class HistoryControls(Base):
    """The controls of the history."""

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
        """List what clients do wrong in the history, and how to do it right (docs/advisor.md).

        The first call reads the whole history, and a later call reads the new entries. A call does not see
        entries that the history has already dropped. The list is empty with ``record=False``.
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
        """List the entries of the history that meet all conditions, the oldest first.

        The list is empty with ``record=False``. In the history of an ensemble, the field ``server`` of an
        entry names the server where the entry happened.

        :param session: list only entries of this session, which may be over.
        :param kind: list only entries of this kind or these kinds: see :class:`.history.Entry`.
        :param op: list only entries of this operation, as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`: list only entries with a matching path.
        :param since: list only entries from this time on, in seconds on the server's clock since its start.
        :raises ValueError: a kind or an operation is unknown.
        """
        if session is not None:
            session = find(self.running.each(), session)
        told = self.running.told
        entries = () if told is None else told.entries()
        return select(entries, session=session, kind=kind, op=op, path=path, since=since)

    @control
    def note(self, text: str) -> None:
        """Write a line into the history. The timeline shows the line."""
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
        """Return the history as text, with one column for each session.

        In the timeline of an ensemble, each line has the number of its server. The text has at most 1 MiB.
        From a longer text, the first lines are left out.

        :param sessions: show the lines of these sessions; None shows the lines of all sessions.
        :param pings: whether to show pings.
        :param width: the width in characters, at least 60. If the width is too small for a column for each
            session, each line names its session. The default is 120, or the width that up to 12 columns need.
        :param limit: show only this number of lines, from the end of the history.
        :param since: show only entries from this time on, in seconds on the server's clock since its start.
        """
        ids = None if sessions is None else [find(self.running.each(), session) for session in sessions]
        find_programs_now(self.running.each())
        return finish(timeline_of(self, sessions=ids, pings=pings, width=width, limit=limit, since=since))


def timeline_of(
    controls: HistoryControls, *, since: float = 0.0, until: float = inf, **options: Any
) -> Generator[None, None, str]:
    """Draw the timeline of :meth:`HistoryControls.format_timeline` in steps.

    Callers in the server's thread can let other tasks run between two steps.

    :param since: the earliest time of an entry, in seconds on the server's clock since its start.
    :param until: the latest time of an entry, in seconds on the server's clock since its start.
    :param options: the options of :func:`.timeline.drawing`.
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
            programs=other_programs(running.each()),
            **options,
        )
    )

"""Waiting, by a test: until something is the case, or until the clients are idle.

The wait runs in the thread of the servers. A thread that calls is blocked; where an event loop runs (asyncio,
trio) the call returns an awaitable, for what is waited for may be that loop's own work.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from ..conditions import QUIET, Condition, PastRequests, begin, kind_of
from ..errors import NotInTime
from ..sessions import SessionInfo, SessionRef
from ..steps import finish
from .history import HistoryControls, timeline_of

if TYPE_CHECKING:
    from ..running import Running
    from ..running_ensemble import RunningEnsemble

_PATIENCE: Final = 10.0
"""Seconds that a test waits, if it does not say."""
_LINES: Final = 100
"""Lines of the timeline of a wait that was in vain."""


class _Absent:
    def __repr__(self) -> str:
        return "..."


_ABSENT: Final = _Absent()
"""What stands for data that is not given: None is data too."""


class WaitControls(HistoryControls):
    """How a test waits for what clients do."""

    @property
    @abstractmethod
    def running(self) -> Running | RunningEnsemble: ...

    @abstractmethod
    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        """Run what waits in the thread of the servers: to its end, or as an awaitable."""

    def wait_for(
        self,
        path: str | None = None,
        *,
        data: bytes | str | _Absent | None = _ABSENT,
        children: Collection[str] | int | None = None,
        gone: bool = False,
        op: str | None = None,
        session: SessionRef | None = None,
        count: int | None = None,
        timeout: float = _PATIENCE,
    ) -> Any:
        """Wait until something is the case; returns at once if it is. Write ``await`` before it where an
        event loop runs, of asyncio or trio; elsewhere the call blocks.

        * ``wait_for("/x")``: the znode exists, be it for a moment.
        * ``wait_for("/x", data=b"1")``, ``wait_for("/x", children=["a", "b"])``,
          ``wait_for("/x", children=2)``: it has this data, these children and no others, so many.
        * ``wait_for("/x", gone=True)``: it does not exist.
        * ``wait_for("/x", session=client)``: it exists, as an ephemeral of this session.
        * ``wait_for(session="worker")``: a session of this name lives.
        * ``wait_for(op="create", path="/locks/*", session=client, count=2)``: so many requests have come
          since the start, as far as the history has the earlier ones.

        :param path: of a request a glob, as for ``fault``.
        :param op: as for ``fault``; ``"any"`` is every request but ping.
        :param session: as for ``expire``; a text may name a session that comes later.
        :param count: how many requests, or sessions, at least; 1.
        :param timeout: seconds of trio's clock: real ones, but in virtual time.
        :raises NotInTime: an :class:`AssertionError`, with the timeline.
        :raises ValueError: for arguments that do not go together.
        """
        all_given = {"path": path, "children": children, "op": op, "session": session, "count": count}
        given: dict[str, Any] = {name: value for name, value in all_given.items() if value is not None}
        if not isinstance(data, _Absent):
            given["data"] = data.encode() if isinstance(data, str) else data
        if gone:
            given["gone"] = True
        kind = kind_of(given)
        if op == "any":
            del given["op"]
        return self._wait(lambda: self._until(kind, given, timeout))

    def wait_idle(self, quiet: float = QUIET, *, timeout: float | None = None) -> Any:
        """Wait until the clients are idle: every request is answered, and for a while nothing but pings has
        come and nothing has changed. What is held back is not answered; what paused clients send has not
        come. Write ``await`` before it where an event loop runs.

        :param quiet: seconds of trio's clock without a request.
        :param timeout: seconds of trio's clock; the default is 10 more than ``quiet``.
        :raises NotInTime: an :class:`AssertionError`, with the timeline.
        :raises ValueError: unless ``quiet`` is above 0.
        """
        patience = quiet + _PATIENCE if timeout is None else timeout
        return self._wait(lambda: self._until("idle", {"quiet": quiet}, patience))

    async def _until(self, kind: str, values: dict[str, Any], timeout: float) -> None:
        __tracebackhide__ = True
        if "session" in values and not isinstance(values["session"], str):
            values["session"] = _named(values["session"])
        condition = begin(self.running, kind, values)
        if not await condition.is_met(timeout, _count_past):
            raise NotInTime(self.hosts, in_vain(condition, timeout), finish(timeline_of(self, limit=_LINES)))


async def _count_past(wait: Any) -> None:
    if isinstance(wait, PastRequests):
        finish(wait.count_past())


def in_vain(condition: Condition, timeout: float) -> str:
    """Say what was waited for, and what was the case instead."""
    return f"waited {timeout:g} s for {condition.words}; {condition.instead()}"


def _named(session: SessionRef) -> str:
    from ....protocol.text import session_text
    from ..sessions import session_id_of

    return session_text(session.id if isinstance(session, SessionInfo) else session_id_of(session))

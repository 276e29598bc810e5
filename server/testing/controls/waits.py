"""The waits of a test. A test can wait until a condition holds, or until the clients are idle.

The wait runs in the thread of the servers. A call from a plain thread blocks. In a thread with an event loop
(asyncio, trio) the call returns an awaitable, because the condition may depend on that loop's own work.
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
"""The default timeout of a wait, in seconds."""
_LINES: Final = 100
"""The number of lines of the timeline that a failed wait shows."""


class _Absent:
    def __repr__(self) -> str:
        return "..."


_ABSENT: Final = _Absent()
"""The default of ``data``. This value cannot be None, because None is data too."""


class WaitControls(HistoryControls):
    """The controls with which a test waits for clients."""

    @property
    @abstractmethod
    def running(self) -> Running | RunningEnsemble: ...

    @abstractmethod
    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        """Run a wait in the thread of the servers. Wait and return the result. If an event loop runs in this
        thread, return an awaitable instead."""

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
        """Wait until a condition holds, and return at once if it holds now.

        In a thread with an event loop (asyncio, trio) write ``await`` before the call. In other threads the
        call blocks.

        * ``wait_for("/x")``: the znode exists, even if only for a moment.
        * ``wait_for("/x", data=b"1")``: the znode has this data.
        * ``wait_for("/x", children=["a", "b"])``: the znode has exactly these children.
        * ``wait_for("/x", children=2)``: the znode has this number of children.
        * ``wait_for("/x", gone=True)``: the znode does not exist.
        * ``wait_for("/x", session=client)``: the znode exists as an ephemeral of this session.
        * ``wait_for(session="worker")``: a session with this name is alive.
        * ``wait_for(op="create", path="/locks/*", session=client, count=2)``: at least 2 such requests have
          come since the start. Requests that the history has dropped do not count.

        :param path: the path of a znode. With ``op``, it is a glob, as for ``fault``.
        :param op: an operation, as for ``fault``. ``"any"`` means every request except ping.
        :param session: a session, as for ``expire``. A text may name a session that begins later.
        :param count: the least number of requests or sessions; 1 by default.
        :param timeout: the timeout in seconds of trio's clock: real seconds, except in virtual time.
        :raises NotInTime: the condition did not hold in time. This is an :class:`AssertionError` with the
            timeline.
        :raises ValueError: the arguments exclude each other.
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
        """Wait until the clients are idle.

        Clients are idle if every request is answered, and if for ``quiet`` seconds only pings have come and
        nothing has changed. A held request counts as not answered. Messages of paused clients count as not
        sent. In a thread with an event loop, write ``await`` before the call.

        :param quiet: the seconds of trio's clock without a request.
        :param timeout: the timeout in seconds of trio's clock; the default is ``quiet`` plus 10.
        :raises NotInTime: the clients were not idle in time. This is an :class:`AssertionError` with the
            timeline.
        :raises ValueError: ``quiet`` is not above 0.
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
    """Return the message of a wait that has timed out: the condition, and the present state."""
    return f"waited {timeout:g} s for {condition.words}; {condition.instead()}"


def _named(session: SessionRef) -> str:
    from ....protocol.text import session_text
    from ..sessions import session_id_of

    return session_text(session.id if isinstance(session, SessionInfo) else session_id_of(session))

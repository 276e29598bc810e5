"""The controls of one server of a pretend ensemble."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from ...core.engine import Engine
from ...ensemble.errors import EnsembleError
from ..running import Running
from ..sessions import SessionRef
from .server import Controls

if TYPE_CHECKING:
    from .ensemble import EnsembleControls

T = TypeVar("T")


class MemberControls(Controls):
    """The controls of one server of an ensemble. The server has its own port, and has all controls of a
    single server.

    Writes pass through the leader: ``load``, ``restore`` and ``expire`` take effect here when this server
    applies them.
    """

    def __init__(self, ensemble: EnsembleControls, number: int) -> None:
        super().__init__()
        self._all = ensemble
        self.number = number

    def __repr__(self) -> str:
        return f"<server {self.number} of {self.ensemble!r}>"

    @property
    def ensemble(self) -> EnsembleControls:
        return self._all

    @property
    def running(self) -> Running:
        return self.ensemble.running.parts[self.number]

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.ensemble.run(function, *arguments)

    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        return self.ensemble._wait(wait)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket in the trio run of :func:`open_ensemble`; return the client's end."""
        return self.running.open_stream()

    def writer(self) -> Engine:
        return self.ensemble.running.host.ensemble.leader()

    def _receive(self) -> None:
        self.ensemble._receive()

    def _flush(self) -> None:
        self.ensemble._flush()

    def _advance(self, seconds: float, keep_alive: bool) -> None:
        self.ensemble.clock.advance(seconds, keep_alive=keep_alive)

    def expire(self, session: SessionRef) -> None:
        self.ensemble.expire(session)

    def accept_connections(self) -> None:
        """End :meth:`refuse_connections`. A server that is down refuses connections in any case."""
        if self.ensemble.role(self.number) != "down":
            super().accept_connections()

    def restart(self, *, keep_data: bool = True) -> None:
        """Kill the process and start it again.

        :param keep_data: must be True: the server gets its data from the other servers.
        :raises ValueError: ``keep_data`` is False.
        """
        if not keep_data:
            raise ValueError(
                "a server of an ensemble gets its data from the other servers: use keep_data=True"
            )
        self.ensemble.kill(self.number)
        self.ensemble.start(self.number)

    def reset(self) -> None:
        """Raise an error, because one server of an ensemble cannot be reset alone.

        :raises EnsembleError: always.
        """
        raise EnsembleError("one server cannot be reset alone: start a new ensemble, which takes some ms")

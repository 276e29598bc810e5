"""A whole server inside a test: in a separate thread, or in the caller's trio run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..config.arguments import settings_of
from ..control import serve_http
from ..testing.clock import ClockMode
from ..testing.controls import Controls
from ..testing.host import Launch, LocalServer
from ..testing.in_thread import InThread
from ..testing.running import HISTORY_LIMIT, Running
from ..testing.virtual import PATIENCE


def open_server(
    *,
    clock: ClockMode = "running",
    record: bool = True,
    history_limit: int = HISTORY_LIMIT,
    data: str | os.PathLike[str] | None = None,
    hostile: int | None = None,
    patience: float = PATIENCE,
    otlp: str | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[LocalServer]:
    """Run a server in the caller's trio run: an async context manager that yields its controls.

    It uses trio's clock, so under ``autojump_clock`` its sessions expire without real time. It listens on a
    free port. :meth:`.LocalServer.open_stream` connects without a socket.

    :param clock: ``"running"``: the clock runs with trio's clock. ``"frozen"``: only ``clock.advance`` moves
        the clock.
    :param record: whether the history is recorded.
    :param history_limit: the number of entries that are kept.
    :param data: a directory that keeps the data in the file format of Apache ZooKeeper. The server starts
        with the data in it.
    :param hostile: the seed of a hostile server, which always does what ZooKeeper may do but rarely does
        (:mod:`pyzk.server.testing.hostile`).
    :param patience: the seconds of virtual time in which clients can only ping. After this time a test under
        ``autojump_clock`` ends, because it waits in vain. ``math.inf``: such a test never ends.
    :param otlp: the URL of an OpenTelemetry collector, which gets a span for each request
        (``docs/operations.md``).
    :param settings: the fields of :class:`pyzk.server.config.settings.Settings`; ``port`` is 0 by default.
    :raises TypeError: a setting does not exist.
    :raises ValueError: a setting is out of range.
    :raises OSError: the address cannot be bound, at the beginning of the block.
    :raises NotInTime: ``patience`` is over; the error has the timeline.
    :raises StorageError: the data cannot be used, at the beginning of the block.
    """
    return Launch(
        clock, record, history_limit, settings_of(settings), hostile, data, serve_http, patience, otlp
    ).open()


class EmbeddedServer(InThread[LocalServer], Controls):
    """A server in a daemon thread. It listens on a free port.

    Use it with ``with``, or call :meth:`start` and :meth:`stop`. All methods can be called from any thread. A
    method returns when the server has done the work. They raise :class:`ServerStopped` if it does not run,
    and
    :class:`ServerDied` if its thread has ended with an error.

    In a fork of this process clients can connect to the server, but its methods raise :class:`ServerStopped`.

    :param clock: ``"running"``, or ``"frozen"``: only ``clock.advance`` moves a frozen clock.
    :param record: whether the history is recorded.
    :param history_limit: the number of entries that are kept.
    :param data: a directory that keeps the data in the file format of Apache ZooKeeper. The server starts
        with the data in it.
    :param hostile: the seed of a hostile server, which always does what ZooKeeper may do but rarely does
        (:mod:`pyzk.server.testing.hostile`).
    :param otlp: the URL of an OpenTelemetry collector, which gets a span for each request
        (``docs/operations.md``).
    :param settings: the fields of :class:`pyzk.server.config.settings.Settings`; ``port`` is 0 by default.
    :raises TypeError: a setting does not exist.
    :raises ValueError: a setting is out of range.
    :ivar clock: the server's clock.
    """

    def __init__(
        self,
        *,
        clock: ClockMode = "running",
        record: bool = True,
        history_limit: int = HISTORY_LIMIT,
        data: str | os.PathLike[str] | None = None,
        hostile: int | None = None,
        otlp: str | None = None,
        **settings: Any,
    ) -> None:
        __tracebackhide__ = True
        super().__init__()
        checked = settings_of(settings)
        self._launch = Launch(clock, record, history_limit, checked, hostile, data, serve_http, otlp=otlp)

    def __repr__(self) -> str:
        where = self.hosts if self._inside is not None else "not running"
        return f"<EmbeddedServer {where}>"

    def _open(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[LocalServer]:
        return self._launch.open(ended)

    @property
    def running(self) -> Running:
        return self._local.running

"""The functions that run a whole server or a whole pretend ensemble for the command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..config.settings import Settings
from ..control import serve_http
from ..monitoring.server import MonitoredServer
from ..net.clock import Clock
from ..net.service import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config.members import ServerAddress
    from ..ensemble.host import EnsembleHost
    from ..ensemble.timing import Timing
    from ..storage.storage import Storage


def make_server(
    settings: Settings, clock: Clock, make_service: Callable[..., Service] = Service
) -> MonitoredServer:
    """Make a server with all its parts."""
    return MonitoredServer(settings, clock, make_service, http=serve_http)


async def serve(
    settings: Settings,
    prepare: Callable[[MonitoredServer], object] = lambda server: None,
    storage: Storage | None = None,
    *,
    task_status: trio.TaskStatus[MonitoredServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, as the command does.

    :param prepare: called with the server before it listens.
    :param storage: keeps the data in files.
    :raises OSError: an address cannot be bound.
    """
    server = make_server(settings, Clock(follow_wall_clock=True), partial(Service, storage=storage))
    server.own_the_process()
    prepare(server)
    await server.run(task_status=task_status)


async def serve_ensemble(
    settings: Settings,
    addresses: Sequence[ServerAddress],
    timing: Timing,
    prepare: Callable[[EnsembleHost], object] = lambda host: None,
    *,
    task_status: trio.TaskStatus[EnsembleHost] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, as the command does.

    :param prepare: called with the ensemble before it listens.
    :raises OSError: an address cannot be bound.
    """
    from ..ensemble.host import EnsembleHost

    host = EnsembleHost(settings, Clock(follow_wall_clock=True), addresses, timing, http=serve_http)
    prepare(host)
    await host.run(task_status=task_status)

"""The flag ``--record``: the requests that a server records, and the time at which it loads the test kit.

A command that starts must not wait for the test kit. Therefore the latest requests are recorded from the
first request or connection on (:mod:`..testing.from_start`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ensemble.host import EnsembleHost
    from ..monitoring.server import MonitoredServer


def record_recent(server: MonitoredServer) -> None:
    """Record the latest requests of a server."""
    if server.controls is None:
        from ..testing.from_start import FromStart

        FromStart(server)
    else:  # the test kit is loaded already
        from ..testing.recent import Recent
        from ..testing.takeover import controls_of

        Recent(controls_of(server).running)


def record_recent_of_all(host: EnsembleHost) -> None:
    """Record the latest requests of all servers of a pretend ensemble."""

    def begin() -> None:
        from ..testing.recent_ensemble import RecentEnsemble
        from ..testing.takeover import ensemble_of

        RecentEnsemble(ensemble_of(host))

    if all(server.controls is None for server in host.servers.values()):
        from ..testing.from_start import FromFirstConnection

        FromFirstConnection(host, begin)
    else:  # the test kit is loaded already
        begin()


def record_all(server: MonitoredServer | EnsembleHost) -> None:
    """Record the whole history of a server or of a pretend ensemble."""
    from ..testing.takeover import running_of

    running_of(server).begin_history()

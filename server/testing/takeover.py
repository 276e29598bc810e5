"""The controls of a running server or ensemble. The first call makes the controls, and all later calls return
the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..net.server import Server
from .controls import Controls
from .from_start import FromStart
from .host import LocalServer, take_over

if TYPE_CHECKING:
    from ..ensemble.host import EnsembleHost
    from .running import Running
    from .running_ensemble import RunningEnsemble


def controls_of(server: Server) -> Controls:
    """Return the controls of a server, which may belong to an ensemble. The history is recorded from the
    first use of a control that needs the history."""
    if isinstance(server.controls, FromStart):
        server.controls = LocalServer(server.controls.running())
    if server.controls is None:
        if server.in_ensemble:
            from ..ensemble.host import MemberServer
            from .ensemble import take_over as take_over_ensemble

            assert isinstance(server, MemberServer)
            take_over_ensemble(server.ensemble_host)
        else:
            server.controls = take_over(server)
    assert isinstance(server.controls, Controls)
    return server.controls


def running_of(server: Server | EnsembleHost) -> Running | RunningEnsemble:
    """Return the parts of a server, or of an ensemble, for listeners."""
    return controls_of(server).running if isinstance(server, Server) else ensemble_of(server)


def ensemble_of(host: EnsembleHost) -> RunningEnsemble:
    """Return the parts of an ensemble."""
    controls = controls_of(next(iter(host.servers.values())))
    assert controls.ensemble is not None
    return controls.ensemble.running

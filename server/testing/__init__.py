"""The test kit: servers that run inside a test suite.

:class:`EmbeddedServer` runs a server in a thread, for tests with any client; :func:`open_server` runs a
server in the test's own trio run; :class:`EmbeddedEnsemble` and :func:`open_ensemble` run several servers
that pretend to be an ensemble. All servers have the same controls. A test can expire sessions on the server,
move the time, and make requests fail. Names are imported at their first use, so that the pytest plugin costs
nothing in a suite that does not use the plugin. Tests import the parts of :mod:`pyzk.server.app` from this
package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..app import clients
    from ..app.case import ServerCase
    from ..app.embedded import EmbeddedServer, open_server
    from ..app.embedded_ensemble import EmbeddedEnsemble, open_ensemble
    from ..ensemble.errors import EnsembleError
    from ..ensemble.timing import Timing
    from ..sweep import NotControlled, SweepFailed, sweep
    from .advisor.finding import Finding
    from .chaos import Chaos, Injected
    from .clock import ServerClock
    from .controls import Controls
    from .controls.endpoints import Endpoint
    from .controls.ensemble import EnsembleControls
    from .ensemble import LocalEnsemble
    from .errors import LimitExceeded, NotInTime
    from .faults import Fault, FaultNeverFired
    from .history import Entry
    from .holding import HeldMessage
    from .host import LocalServer
    from .in_thread import ServerDied, ServerStopped
    from .limits import limits
    from .sessions import SessionInfo, UnknownSessionError
    from .snapshots import Snapshot
    from .tree_io import Node

_HOMES = {
    "Chaos": ".chaos",
    "Controls": ".controls",
    "EmbeddedEnsemble": "..app.embedded_ensemble",
    "EmbeddedServer": "..app.embedded",
    "Endpoint": ".controls.endpoints",
    "EnsembleControls": ".controls.ensemble",
    "EnsembleError": "..ensemble.errors",
    "Entry": ".history",
    "Fault": ".faults",
    "FaultNeverFired": ".faults",
    "Finding": ".advisor.finding",
    "HeldMessage": ".holding",
    "Injected": ".chaos",
    "LimitExceeded": ".errors",
    "LocalEnsemble": ".ensemble",
    "LocalServer": ".host",
    "Node": ".tree_io",
    "NotControlled": "..sweep",
    "NotInTime": ".errors",
    "ServerCase": "..app.case",
    "ServerClock": ".clock",
    "ServerDied": ".in_thread",
    "ServerStopped": ".in_thread",
    "SessionInfo": ".sessions",
    "Snapshot": ".snapshots",
    "SweepFailed": "..sweep",
    "Timing": "..ensemble.timing",
    "UnknownSessionError": ".sessions",
    "limits": ".limits",
    "open_ensemble": "..app.embedded_ensemble",
    "open_server": "..app.embedded",
    "sweep": "..sweep",
}

__all__ = [
    "Chaos",
    "Controls",
    "EmbeddedEnsemble",
    "EmbeddedServer",
    "Endpoint",
    "EnsembleControls",
    "EnsembleError",
    "Entry",
    "Fault",
    "FaultNeverFired",
    "Finding",
    "HeldMessage",
    "Injected",
    "LimitExceeded",
    "LocalEnsemble",
    "LocalServer",
    "Node",
    "NotControlled",
    "NotInTime",
    "ServerCase",
    "ServerClock",
    "ServerDied",
    "ServerStopped",
    "SessionInfo",
    "Snapshot",
    "SweepFailed",
    "Timing",
    "UnknownSessionError",
    "clients",
    "limits",
    "open_ensemble",
    "open_server",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "clients":
        return import_module("..app.clients", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value

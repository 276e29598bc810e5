"""The server as a whole, its connections, and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.version import __version__
from ...net.service import SLICE
from ...testing.controls.base import Base, advancing
from ...testing.snapshots import Snapshot
from ..routes import Ask, Field, Route
from ..views.turns import Turns

if TYPE_CHECKING:
    from ..control import Control


def _server(control: Control, ask: Ask) -> Any:
    controls = control.controls
    return {
        "version": __version__,
        "hosts": controls.hosts,
        "host": controls.host,
        "port": controls.port,
        "url": controls.url,
        "secure_port": controls.secure_port,
        "server": controls.running.service.server_id,
        "uptime": controls.clock.now(),
        "sessions": len(controls.running.engine.sessions),
    }


async def _restart(control: Control, ask: Ask) -> Any:
    before = _tree(control)
    control.controls.restart(keep_data=ask.values["keep_data"])
    await _free(control, before)
    return {}


async def _reset(control: Control, ask: Ask) -> Any:
    before, snapshots = _tree(control), list(control.snapshots.values())
    control.reset()
    await _free(control, before, *snapshots)
    return {}


def _tree(control: Control) -> Snapshot:
    return Snapshot.served(control.controls.running.engine)


async def _free(control: Control, *trees: Snapshot) -> None:
    """Free the memory of trees that are not used any longer, in turns, so that other tasks run. In an
    ensemble nothing is freed, because a lagging server may still need these trees."""
    turns = Turns()
    if control.controls.ensemble is None:
        for tree in trees:
            if not tree.is_of(control.controls.running.engine):
                await turns.finish(tree.forget())


def _refuse(control: Control, ask: Ask) -> Any:
    control.controls.refuse_connections()
    return {}


def _accept(control: Control, ask: Ask) -> Any:
    control.controls.accept_connections()
    return {}


def _disconnect_all(control: Control, ask: Ask) -> Any:
    control.controls.disconnect_all()
    return {}


def _pause_all(control: Control, ask: Ask) -> Any:
    control.controls.pause()
    return {}


def _resume_all(control: Control, ask: Ask) -> Any:
    control.controls.resume()
    return {}


def _clock(control: Control, ask: Ask) -> Any:
    clock = control.controls.clock
    return {"seconds": clock.now(), "frozen": clock.frozen}


async def _advance(control: Control, ask: Ask) -> Any:
    controls = control.controls
    await in_turns(controls.ensemble or controls, ask.values["seconds"], ask.values.get("keep_alive", False))
    return _clock(control, ask)


async def in_turns(controls: Base, seconds: float, keep_alive: bool) -> None:
    """Advance the clock of a server or an ensemble. Clients are served meanwhile.

    :raises ValueError: the time is negative or longer than 30 years.
    """
    await Turns().finish(advancing(controls, seconds, keep_alive, within=SLICE))


def _freeze(control: Control, ask: Ask) -> Any:
    control.controls.clock.freeze()
    return _clock(control, ask)


def _unfreeze(control: Control, ask: Ask) -> Any:
    control.controls.clock.unfreeze()
    return _clock(control, ask)


ROUTES: Final = (
    Route(
        "GET",
        "/server",
        _server,
        "Where the server is.",
        serves=("host", "port", "hosts", "url", "secure_port"),
    ),
    Route(
        "POST",
        "/server/restart",
        _restart,
        "Restart the server: close every connection, and accept new connections.",
        {"keep_data": Field("boolean", "whether the tree and the sessions survive", required=True)},
        serves=("restart",),
    ),
    Route(
        "POST",
        "/reset",
        _reset,
        "Reset the server to the state of a fresh server, with the same port.",
        serves=("reset",),
    ),
    Route("POST", "/server/pause", _pause_all, "Hear and say nothing.", serves=("pause",)),
    Route("POST", "/server/resume", _resume_all, "End every pause.", serves=("resume",)),
    Route("POST", "/connections/refuse", _refuse, "Refuse new ones.", serves=("refuse_connections",)),
    Route("POST", "/connections/accept", _accept, "Accept them again.", serves=("accept_connections",)),
    Route("POST", "/connections/disconnect", _disconnect_all, "Close all.", serves=("disconnect_all",)),
    Route("GET", "/clock", _clock, "The server's time.", serves=("clock",)),
    Route(
        "POST",
        "/clock/advance",
        _advance,
        "Advance the server's clock.",
        {
            "seconds": Field("number", "how far, at least 0", required=True),
            "keep_alive": Field("boolean", "true: treat connected clients as if they had sent their pings"),
        },
        serves=("clock", "advance"),
    ),
    Route("POST", "/clock/freeze", _freeze, "Stop the server's time.", serves=("clock",)),
    Route("POST", "/clock/unfreeze", _unfreeze, "Let it go on.", serves=("clock",)),
)

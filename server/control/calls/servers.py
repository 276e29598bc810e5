"""Routes for other servers in the same process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...testing.clock import CLOCK_MODES
from ...testing.controls import Controls
from ..routes import ApiError, Ask, Field, Route, look_up

if TYPE_CHECKING:
    from ..control import Control
    from ..servers import Servers


def _known(control: Control) -> Servers:
    if control.servers is None:
        raise ApiError(
            409, "this server cannot start others; send the request to the server that has started this one"
        )
    return control.servers


def _form(number: int, controls: Controls) -> Any:
    whole = controls.ensemble or controls
    return {"server": number, "hosts": whole.hosts, "port": controls.port, "url": whole.url}


def _servers(control: Control, ask: Ask) -> Any:
    running = _known(control).running
    return {"servers": [_form(number, started.controls) for number, started in running.items()]}


def _server(control: Control, ask: Ask) -> Any:
    number, started = look_up(_known(control).running, ask.values["server"], "server")
    return _form(number, started.controls)


async def _new_server(control: Control, ask: Ask) -> Any:
    return _form(*await _known(control).start(**{"config": {}, **ask.values}))


async def _delete_server(control: Control, ask: Ask) -> Any:
    servers = _known(control)
    number, _ = look_up(servers.running, ask.values["server"], "server")
    await servers.stop(number)
    return {}


ROUTES: Final = (
    Route("GET", "/servers", _servers, "The servers that this server has started."),
    Route(
        "POST",
        "/servers",
        _new_server,
        "Start a fresh server in the same process. The server has its own port, tree, clock and faults.",
        {
            "config": Field(
                "object",
                "keys of zoo.cfg with their values; without clientPort the server chooses a free port",
            ),
            "clock": Field("string", "frozen: only /clock/advance moves the clock", choices=CLOCK_MODES),
            "record": Field("boolean", "whether the history is recorded (default: true)"),
            "hostile": Field(
                "integer|null",
                "the seed of a hostile server, which always does what ZooKeeper may do but rarely does",
            ),
            "ensemble": Field("integer", "the number of voting servers of a pretend ensemble"),
            "observers": Field("integer", "the number of observers of the ensemble"),
            "election_ms": Field(
                "integer", "the number of ms that an election of the ensemble takes (default: 200)"
            ),
        },
    ),
    Route("GET", "/servers/{server}", _server, "The addresses of one started server."),
    Route("DELETE", "/servers/{server}", _delete_server, "End the server, and close its sockets."),
)

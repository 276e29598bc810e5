"""The commands of ZooKeeper's ControllerService, ``/command/ACTION[/PARAMETER]``, for its CommandClient.

The answers are those of the real one: 200 once the command is done, 400 if the action or its parameter is
none, 500 once the server is shut down; the content is the command. The differences:

* REJECTCONNECTIONS refuses new connections until RESET, as its documentation says. The real one does nothing.
* NORESPONSE makes the connection of each reply that is lost silent for good: a client could not make sense of
  a later reply.
* SHUTDOWN closes all connections and refuses new ones. Only the control API can end that.
* ADDDELAY delays the requests of each connection by itself, on the server's clock. In the real one the
  delay of one connection holds up the others too.
* ELECTNEWLEADER does nothing: there is one server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...protocol.errors import APIError
from ...protocol.operations import CLIENTS
from ..logger import logger
from ..net.http import Request, Response
from ..testing.operations import name_of
from ..testing.origin import over_http
from ..testing.sessions import UnknownSessionError

if TYPE_CHECKING:
    from .control import Control

PREFIX: Final = "/command/"
_SHOWN: Final = 100  # characters of a command in a log line
_DELAY: Final = 1000
"""The milliseconds of ADDDELAY without a parameter."""
_LONG: Final = re.compile(r"([+-]?)(?:(?:0[xX]|#)([0-9a-fA-F]+)|0([0-7]+)|(0|[1-9][0-9]*))")
_ALL_OPS: Final = tuple(sorted({name_of(op) for op in CLIENTS}))
"""Pings too, which a fault leaves alone by default."""

_Act: TypeAlias = "Callable[[Control, int | None], object]"


class _ShutDownError(Exception):
    """The server was shut down: it obeys no more."""


async def answer(control: Control, request: Request) -> Response:
    """Answer a request below :data:`PREFIX`."""
    control.controls.running.begin_history()
    command = request.path.removeprefix("/")
    status = 200
    if request.method != "GET":
        status = 405
    else:
        try:
            with over_http():
                _obey(control, *command.removeprefix("command/").partition("/"))
        except _ShutDownError:
            status = 500
        except ValueError as error:
            logger.warning("/%s is refused: %s", command[:_SHOWN], error)
            status = 400
    return Response(status, f"{command}\n".encode(), {"content-type": "text/html;charset=utf-8"})


def _obey(control: Control, action: str, slash: str, parameter: str) -> None:
    """
    :raises ValueError: if the action or its parameter is none.
    :raises _ShutDownError: after SHUTDOWN.
    """
    if action.upper() not in _ACTIONS:
        raise ValueError(f"there are {', '.join(_ACTIONS)}")
    if control.shut_down:
        raise _ShutDownError
    act, takes_number = _ACTIONS[action.upper()]
    act(control, _decode(parameter) if takes_number and slash else None)


def _decode(text: str) -> int:
    """Read a number as Java's ``Long.decode`` does.

    :raises ValueError: if it is none.
    """
    match = _LONG.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no number")
    sign, sixteen, eight, ten = match.groups()
    number = int(sixteen, 16) if sixteen else int(eight, 8) if eight else int(ten)
    number = -number if sign == "-" else number
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{text} is too large")
    return number


def _shut_down(control: Control, _: int | None) -> None:
    control.shut_down = True
    control.controls.refuse_connections()
    control.controls.disconnect_all()


def _close_connection(control: Control, session: int | None) -> None:
    if session is None:
        control.controls.disconnect_all()
    else:
        with suppress(UnknownSessionError):
            control.controls.disconnect(session)


def _expire_session(control: Control, session: int | None) -> None:
    for info in control.controls.sessions():
        if session in (None, info.id):
            control.controls.expire(info.id)


def _add_delay(control: Control, ms: int | None) -> None:
    ms = _DELAY if ms is None else ms
    if ms < 0:
        raise ValueError(f"a delay is a number of ms of at least 0, not {ms}")
    _inject(control, "delay", ms != 0, when="before", action="delay", seconds=ms / 1000, times=None)


def _fail_requests(control: Control, count: int | None) -> None:
    times = _times(count)
    _inject(control, "fail", times != 0, when="before", action="error", error=APIError, times=times)


def _no_response(control: Control, count: int | None) -> None:
    times = _times(count)
    _inject(control, "silence", times != 0, when="after", action="drop_reply", times=times)


def _times(count: int | None) -> int | None:
    """None, which is all requests, for a negative number too."""
    return None if count is None or count < 0 else count


def _inject(control: Control, what: str, wanted: bool, **fault: Any) -> None:
    """Do something to all requests, instead of what was done under the same name until now."""
    before = control.injected.pop(what, None)
    if before is not None:
        before.__exit__(None, None, None)
    if wanted:
        control.injected[what] = control.controls.fault(op=_ALL_OPS, required=False, **fault).__enter__()


def _reset(control: Control, _: int | None) -> None:
    for what in list(control.injected):
        _inject(control, what, wanted=False)
    control.controls.accept_connections()


def _refuse_connections(control: Control, _: int | None) -> None:
    control.controls.refuse_connections()


_ACTIONS: Final[dict[str, tuple[_Act, bool]]] = {
    "PING": (lambda control, _: None, False),
    "SHUTDOWN": (_shut_down, False),
    "CLOSECONNECTION": (_close_connection, True),
    "EXPIRESESSION": (_expire_session, True),
    "REJECTCONNECTIONS": (_refuse_connections, False),
    "ADDDELAY": (_add_delay, True),
    "FAILREQUESTS": (_fail_requests, True),
    "NORESPONSE": (_no_response, True),
    "RESET": (_reset, False),
    "ELECTNEWLEADER": (lambda control, _: None, False),
}
"""What each does, and whether it takes a number."""

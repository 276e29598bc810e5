"""The control API: each call of the test kit's server as a route below ``/api/v1``.

Whatever a request changes has happened when its answer comes: events have been sent, connections closed, the
ephemerals of an expired session deleted. :data:`ROUTES` is the table of contents.
"""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from ...protocol.errors import ZooKeeperError
from ...protocol.version import __version__
from ..net.http import Request, Response
from ..testing.controls import Controls
from ..testing.faults import Fault
from ..testing.sessions import SessionInfo, UnknownSessionError
from ..testing.snapshots import Snapshot
from . import forms, openapi
from .routes import ApiError, Ask, Field, Route, answer_json, answer_text, find, problem

logger = logging.getLogger("pyzk.server")

PREFIX: Final = "/api/v1"
_OWNER_OF: Final = "owner-of:"
_MAX_SNAPSHOTS: Final = 64
_MAX_FAULTS: Final = 1000
_PATIENCE: Final = 10.0
"""Seconds that a request waits for something, if it does not say."""
_MOST_PATIENCE: Final = 3600.0  # seconds


class Control:
    """What one server's control API knows, beside the server.

    :param controls: the server in a test's hands.
    """

    def __init__(self, controls: Controls) -> None:
        self.controls = controls
        self.faults: dict[int, Fault] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self._numbers = itertools.count(1)
        self._in_force = ExitStack()

    def number(self) -> int:
        """A number that nothing else of this server has."""
        return next(self._numbers)

    async def answer(self, request: Request) -> Response:
        """Answer a request below :data:`PREFIX`, or for ``/openapi.json``."""
        try:
            if request.path == "/openapi.json":
                return answer_json(openapi.document(ROUTES, PREFIX))
            path = request.target.partition("?")[0].removeprefix(PREFIX)
            route, names = find(ROUTES, request.method, path)
            result = route.handler(self, route.read(request, names))
            if inspect.isawaitable(result):
                result = await result
        except ApiError as error:
            return problem(error)
        except UnknownSessionError as error:
            return problem(ApiError(404, str(error)))
        except ZooKeeperError as error:
            return problem(ApiError(409, str(error), code=error.code))
        except (ValueError, TypeError) as error:
            return problem(ApiError(400, str(error)))
        return result if isinstance(result, Response) else answer_json(result)

    def find(self, given: str) -> SessionInfo:
        """The live session that a request names: by id, by ``owner-of:/path``, or by the address of its
        client. Raises :class:`.UnknownSessionError`."""
        sessions = self.controls.sessions()
        if given.startswith(_OWNER_OF):
            path = given.removeprefix(_OWNER_OF)
            found = [info for info in sessions if path in info.ephemerals]
        else:
            try:
                number = int(given, 0)
            except ValueError:
                found = [info for info in sessions if info.peer and forms.address_form(info.peer) == given]
            else:
                found = [info for info in sessions if info.id == number]
        if found:
            return found[0]
        live = ", ".join(forms.session_form(info.id) for info in sessions) or "none"
        raise UnknownSessionError(f"there is no session {given}; live sessions: {live}")

    def fault(self, given: str) -> tuple[int, Fault]:
        return _numbered(self.faults, given, "fault")

    def snapshot(self, given: str) -> tuple[int, Snapshot]:
        return _numbered(self.snapshots, given, "snapshot")


def _numbered(things: Mapping[int, Any], given: str, what: str) -> tuple[int, Any]:
    try:
        return int(given), things[int(given)]
    except (KeyError, ValueError):
        known = ", ".join(map(str, things)) or "none"
        raise ApiError(404, f"there is no {what} {given}; there are: {known}") from None


# --- the server -------------------------------------------------------------------------------------------


def _server(control: Control, ask: Ask) -> Any:
    controls = control.controls
    return {
        "version": __version__,
        "hosts": controls.hosts,
        "host": controls.host,
        "port": controls.port,
        "url": controls.url,
        "secure_port": controls.secure_port,
        "uptime": controls.clock.now(),
        "sessions": len(controls.sessions()),
    }


def _restart(control: Control, ask: Ask) -> Any:
    control.controls.restart(keep_data=ask.values["keep_data"])
    return {}


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


# --- sessions ---------------------------------------------------------------------------------------------


def _sessions(control: Control, ask: Ask) -> Any:
    return {"sessions": [forms.info_form(info, None) for info in control.controls.sessions()]}


def _session(control: Control, ask: Ask) -> Any:
    return forms.info_form(control.find(ask.values["session"]), None)


def _expire(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.expire)


def _disconnect(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.disconnect)


def _pause(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.pause)


def _resume(control: Control, ask: Ask) -> Any:
    return _with_session(control, ask, control.controls.resume)


def _with_session(control: Control, ask: Ask, act: Any) -> Any:
    info = control.find(ask.values["session"])
    act(info.id)
    return forms.info_form(info, None)


# --- time -------------------------------------------------------------------------------------------------


def _clock(control: Control, ask: Ask) -> Any:
    return {"seconds": control.controls.clock.now()}


def _advance(control: Control, ask: Ask) -> Any:
    control.controls.clock.advance(ask.values["seconds"], keep_alive=ask.values.get("keep_alive", False))
    return {"seconds": control.controls.clock.now()}


# --- faults -----------------------------------------------------------------------------------------------


def _faults(control: Control, ask: Ask) -> Any:
    return {"faults": [forms.fault_form(number, fault) for number, fault in control.faults.items()]}


def _new_fault(control: Control, ask: Ask) -> Any:
    if len(control.faults) >= _MAX_FAULTS:
        raise ApiError(409, f"there are {_MAX_FAULTS} faults already; delete some")
    given = dict(ask.values)
    if "session" in given:
        given["session"] = control.find(given["session"]).id
    if "error" in given:
        given["error"] = _error(given["error"])
    fault = control.controls.fault(**given, required=False)
    fault.__enter__()
    number = control.number()
    control.faults[number] = fault
    return forms.fault_form(number, fault)


def _error(given: str | int) -> int:
    if isinstance(given, int):
        return given
    from ...protocol import errors

    found = getattr(errors, given, None) or getattr(errors, f"{given}Error", None)
    code = getattr(found, "code", None)
    if not isinstance(code, int):
        raise ApiError(400, f"error is a code such as -101, or a name such as NoNode, not {given!r}")
    return code


def _fault(control: Control, ask: Ask) -> Any:
    return forms.fault_form(*control.fault(ask.values["fault"]))


def _delete_fault(control: Control, ask: Ask) -> Any:
    number, fault = control.fault(ask.values["fault"])
    fault.__exit__(None, None, None)
    del control.faults[number]
    return forms.fault_form(number, fault)


# --- the tree ---------------------------------------------------------------------------------------------


def _dump(control: Control, ask: Ask) -> Any:
    path = ask.values.get("path", "/")
    if ask.values.get("format") == "text":
        return answer_text(control.controls.format_tree())
    nodes = control.controls.dump(path, form="nodes")
    return {"znodes": {path: forms.node_form(node) for path, node in nodes.items()}}


def _load(control: Control, ask: Ask) -> Any:
    znodes = _read_znodes(ask.values["znodes"])
    control.controls.load(znodes)
    return {"loaded": len(znodes)}


def _diff(control: Control, ask: Ask) -> Any:
    expected = _read_znodes(ask.values["znodes"])
    try:
        control.controls.assert_tree(expected, ask.values.get("path", "/"))
    except AssertionError as error:
        head, *lines = str(error).splitlines()
        return {"equal": False, "message": head, "differences": [line.strip() for line in lines]}
    return {"equal": True, "message": "", "differences": []}


def _read_znodes(given: Mapping[str, Any]) -> dict[str, Any]:
    znodes: dict[str, Any] = {}
    for path, form in given.items():
        if not path.startswith("/"):
            raise ApiError(400, f"znodes are named by their whole path, not {path!r}")
        try:
            # of plain data only the data is compared
            znodes[path] = forms.read_node(form) if _is_object(form) else forms.read_data(form)
        except (ValueError, TypeError) as error:
            raise ApiError(400, f"{path}: {error}") from None
    return znodes


def _is_object(form: Any) -> bool:
    return isinstance(form, Mapping) and "base64" not in form


def _new_snapshot(control: Control, ask: Ask) -> Any:
    if len(control.snapshots) >= _MAX_SNAPSHOTS:
        raise ApiError(409, f"there are {_MAX_SNAPSHOTS} snapshots already; delete some")
    snapshot = control.controls.snapshot()
    number = control.number()
    control.snapshots[number] = snapshot
    return {"snapshot": number, "zxid": f"0x{snapshot.zxid:x}"}


def _restore(control: Control, ask: Ask) -> Any:
    number, snapshot = control.snapshot(ask.values["snapshot"])
    control.controls.restore(snapshot)
    return {"snapshot": number}


def _delete_snapshot(control: Control, ask: Ask) -> Any:
    number, _ = control.snapshot(ask.values["snapshot"])
    del control.snapshots[number]
    return {}


# --- what has happened ------------------------------------------------------------------------------------


def _history(control: Control, ask: Ask) -> Any:
    given = dict(ask.values)
    if "session" in given:
        given["session"] = forms.read_session_id(given["session"])
    return {"entries": [forms.entry_form(entry) for entry in control.controls.history(**given)]}


def _timeline(control: Control, ask: Ask) -> Any:
    return answer_text(control.controls.format_timeline(**ask.values))


def _note(control: Control, ask: Ask) -> Any:
    control.controls.note(ask.values["text"])
    return {}


def _leaks(control: Control, ask: Ask) -> Any:
    return {"leaks": control.controls.leaks()}


# --- the table --------------------------------------------------------------------------------------------

_SINCE = Field("number", "seconds on the server's clock since its start")
_ZNODES = Field("object", 'path: data, or {"data", "acl", "kind", "ttl_ms", "owner"}', required=True)
_PATH = Field("string", "a path; / if it is not given")

ROUTES: Final[tuple[Route, ...]] = (
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
        "Close every connection, and be there again.",
        {"keep_data": Field("boolean", "whether tree and sessions survive", required=True)},
        serves=("restart",),
    ),
    Route("POST", "/server/pause", _pause_all, "Hear and say nothing.", serves=("pause",)),
    Route("POST", "/server/resume", _resume_all, "End every pause.", serves=("resume",)),
    Route("POST", "/connections/refuse", _refuse, "Refuse new ones.", serves=("refuse_connections",)),
    Route("POST", "/connections/accept", _accept, "Accept them again.", serves=("accept_connections",)),
    Route("POST", "/connections/disconnect", _disconnect_all, "Close all.", serves=("disconnect_all",)),
    Route("GET", "/sessions", _sessions, "Every live session, the oldest first.", serves=("sessions",)),
    Route("GET", "/sessions/{session}", _session, "One live session."),
    Route("POST", "/sessions/{session}/expire", _expire, "End it as if by time.", serves=("expire",)),
    Route(
        "POST", "/sessions/{session}/disconnect", _disconnect, "Cut its connection.", serves=("disconnect",)
    ),
    Route("POST", "/sessions/{session}/pause", _pause, "Cut its client off, unnoticed.", serves=("pause",)),
    Route("POST", "/sessions/{session}/resume", _resume, "Let its client through.", serves=("resume",)),
    Route("GET", "/clock", _clock, "The server's time.", serves=("clock",)),
    Route(
        "POST",
        "/clock/advance",
        _advance,
        "Let the server's time jump ahead.",
        {
            "seconds": Field("number", "how far, at least 0", required=True),
            "keep_alive": Field("boolean", "whether connected clients count as having sent their pings"),
        },
        serves=("clock",),
    ),
    Route("GET", "/faults", _faults, "Every fault that was planned."),
    Route(
        "POST",
        "/faults",
        _new_fault,
        "Plan what goes wrong with certain requests.",
        {
            "op": Field("string|array", "such as create, get_data, multi; or several"),
            "path": Field("string", "a glob; * is any text without a slash, ** any text"),
            "session": Field("string", "only requests of this session"),
            "nth": Field("integer", "the first matching request to spoil, from 1"),
            "times": Field("integer|any", "how many from there on; null is all"),
            "when": Field("string", "before the request is applied, or after", choices=("before", "after")),
            "action": Field(
                "string", "what goes wrong", choices=("disconnect", "drop_reply", "error", "delay")
            ),
            "error": Field("string|integer", "with action error: such as NoNode, or -101"),
            "seconds": Field("number", "with action delay, on the server's clock"),
        },
        serves=("fault",),
    ),
    Route("GET", "/faults/{fault}", _fault, "One fault: how many requests it has seen and spoiled."),
    Route("DELETE", "/faults/{fault}", _delete_fault, "End it."),
    Route(
        "GET",
        "/tree",
        _dump,
        "The znodes at and below a path.",
        {"path": _PATH, "format": Field("string", "json or text", choices=("json", "text"))},
        serves=("dump", "format_tree"),
    ),
    Route("POST", "/tree", _load, "Create znodes, or replace their data.", {"znodes": _ZNODES}, ("load",)),
    Route(
        "POST",
        "/tree/diff",
        _diff,
        "Compare the tree with what it should be.",
        {"znodes": _ZNODES, "path": _PATH},
        serves=("assert_tree",),
    ),
    Route("POST", "/snapshots", _new_snapshot, "Put the whole tree aside.", serves=("snapshot",)),
    Route("POST", "/snapshots/{snapshot}/restore", _restore, "Bring a tree back.", serves=("restore",)),
    Route("DELETE", "/snapshots/{snapshot}", _delete_snapshot, "Forget it."),
    Route(
        "GET",
        "/history",
        _history,
        "What has happened, the oldest first.",
        {
            "session": Field("string", "an id; the session may be over"),
            "kind": Field("string", "such as request, reply, event, session, fault"),
            "op": Field("string", "such as create"),
            "path": Field("string", "a glob"),
            "since": _SINCE,
        },
        serves=("history",),
    ),
    Route(
        "GET",
        "/timeline",
        _timeline,
        "The history as text, a column for each session.",
        {
            "pings": Field("boolean", "whether pings are shown"),
            "width": Field("integer", "in characters"),
            "limit": Field("integer", "at most so many lines, the last ones"),
            "since": _SINCE,
        },
        serves=("format_timeline",),
    ),
    Route(
        "POST",
        "/notes",
        _note,
        "Write a line into the timeline.",
        {"text": Field("string", "the line", required=True)},
        serves=("note",),
    ),
    Route("GET", "/leaks", _leaks, "What clients have left behind.", serves=("leaks",)),
)

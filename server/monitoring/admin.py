"""What the admin server answers (operator-surface.md section 2): every command, as JSON, without a socket.

The URL, the methods and the format are those of the real server's, down to the blanks. :data:`_COMMANDS` is
the table of contents.
"""

from __future__ import annotations

import json
import logging
import random
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ...protocol.errors import AuthFailedError, NoAuthError
from ..config.zoocfg import masked
from ..config.zookeys import KEY_OF, is_secret
from ..net.http import Request, Response, method_refused, plain, web_page_behind
from ..net.service import java_address
from .metrics import java_double
from .words import VERSION_TEXT, environment, in_pieces, monitored, operation_name

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..net.connection import Connection
    from ..net.service import Service

logger = logging.getLogger("pyzk.server")

Data: TypeAlias = dict[str, Any]
"""What a command tells. An iterator in it is a list, or as :class:`_Rows` an object, that may be long."""


@attrs.frozen
class _Rows:
    """An object of JSON, row by row. A row without a name is none: it took time to find that out."""

    rows: Iterator[tuple[object, Any]]


class _Refused(Exception):
    """A command that is not carried out; an ``error`` that it sets itself comes first in the answer."""

    def __init__(self, status: int, error: str | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.data: Data = {} if error is None else {"error": error}


@attrs.frozen
class _Ask:
    service: Service
    now: float
    arguments: Mapping[str, str]
    body: bytes


@attrs.frozen
class _Command:
    """
    :ivar names: the primary one, then the aliases, with blanks between.
    :ivar guarded: only for those to whom the root's ACL gives every permission by name, and the super user.
    :ivar changes: it changes something although its method is GET.
    """

    names: str
    run: Callable[[_Ask], Data | _Rows]
    method: str = "GET"
    guarded: bool = False
    changes: bool = False


# --- the request (sections 2.2 and 2.3) -------------------------------------------------------------------


def answer(request: Request, service: Service, now: float) -> Response:
    """The answer to one request, given the monotonic time in seconds."""
    url = service.settings.admin_url.rstrip("/")
    path = request.path
    if path != url and not path.startswith(f"{url}/"):
        return plain(404)
    if refusal := method_refused(request.method, "GET", "HEAD", "POST"):
        return refusal
    name = path[len(url) + 1 :]
    command = _BY_NAME.get(name)
    strict = command is not None and command.changes
    if page := web_page_behind(request, _own_names(service.settings), strict=strict):
        logger.warning(
            "the admin server refused a request from %s that a web page may have made: %s; "
            "admin.allowedHosts adds names of this machine",
            request.peer,
            page,
        )
        return plain(403)
    if not name:
        names = sorted(command.names.split()[0] for command in _COMMANDS)
        links = (f'<a href="{url}/{name}">{name}</a>\n<br/>\n' for name in names)
        return Response(200, "".join(links).encode())
    if command is None:
        return _json(200, name, {}, f"Unknown command: {name}")
    if command.guarded and (refused := _unauthorized(request, service)):
        logger.warning("the admin command %s was refused to %s: %s", name, request.peer, refused[1])
        return _json(refused[0], name, {}, refused[1])
    if command.method != request.method.replace("HEAD", "GET"):
        return plain(500)  # as the real server, which finds no result to show
    is_get = command.method == "GET"
    ask = _Ask(service, now, request.arguments if is_get else {}, request.body)
    primary = command.names.split()[0]
    try:
        return _json(200, primary, command.run(ask))
    except _Refused as error:
        return _json(error.status, primary, error.data)


def _own_names(settings: Settings) -> frozenset[str]:
    own = ("localhost", socket.gethostname(), settings.admin_host, *settings.admin_allowed_hosts)
    return frozenset(name.lower() for name in own)


def _unauthorized(request: Request, service: Service) -> tuple[int, str] | None:
    """Why this client may not, as status and error."""
    credentials = request.headers.get("authorization")
    if credentials is None:
        return 401, "Auth info is missing for the command"
    scheme, *auth = credentials.rstrip(" ").split(" ")
    access = service.engine.access
    root = service.engine.tree.nodes["/"]
    try:
        if len(auth) > 1:
            raise AuthFailedError
        secret = auth[0].encode("latin-1") if auth else None
        identities = access.authenticate(scheme, secret, java_address(request.peer))
        if any(identity.scheme == "super" for identity in identities):
            return None
        # What is open to everybody names nobody: it would make any digest an operator's.
        named = tuple(entry for entry in root.acl if entry.id.scheme != "world")
        if not named or service.settings.skip_acl:
            raise NoAuthError
        for bit in range(5):  # every single one: any would do for allows() (section 9, trap 30)
            access.check(named, 1 << bit, identities, "/")
    except AuthFailedError:
        return 401, "Not authenticated"
    except NoAuthError:
        return 403, "Not authorized"
    return None


# --- the format -------------------------------------------------------------------------------------------


def _json(status: int, command: str, data: Data | _Rows, error: str | None = None) -> Response:
    """What is short is whole; the rest of what is long is made while others are served."""
    rows = data.rows if isinstance(data, _Rows) else iter(data.items())
    told = "error" in data if isinstance(data, dict) else False
    last = {"command": command} if told else {"command": command, "error": error}
    whole = _Rows(chain(rows, last.items()))
    # What is no text in UTF-8 (a path may hold it) becomes an escape of JSON.
    pieces = (piece.encode("utf-8", "backslashreplace") for piece in in_pieces(_texts(whole)))
    return Response(status, next(pieces), {"content-type": "application/json"}, pieces)


_SCALARS: Final = (str, int, float, type(None))
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
"""What json.dumps() does, but it makes an encoder for each call."""


def _texts(value: Any, indent: str = "") -> Iterator[str]:
    """JSON as Jackson's default printer lays it out, bit by bit."""
    if isinstance(value, dict):
        value = _Rows(iter(value.items()))
    if isinstance(value, _Rows):
        inner = f"{indent}  "
        before = "{\n"
        for key, item in value.rows:
            if key is None:
                yield ""
                continue
            head = f"{before}{inner}{_quoted(str(key))} : "
            if isinstance(item, _SCALARS):
                yield head + _scalar(item)
            else:
                yield head
                yield from _texts(item, inner)
            before = ",\n"
        yield f"\n{indent}}}" if before == ",\n" else "{ }"
    elif isinstance(value, list | Iterator):
        before = "[ "
        for item in value:
            if isinstance(item, _SCALARS):
                yield before + _scalar(item)
            else:
                yield before
                yield from _texts(item, indent)
            before = ", "
        yield " ]" if before == ", " else "[ ]"
    else:
        yield _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return java_double(value) if value == value else '"NaN"'
    return _quoted(value)


# --- the server -------------------------------------------------------------------------------------------


def _configuration(ask: _Ask) -> Data:
    settings = ask.service.settings
    least, most = settings.session_timeout_range
    return {
        "client_port": ask.service.address[1] if ask.service.address else settings.port,
        "data_dir": "",
        "data_log_dir": "",
        "tick_time": settings.tick_time,
        "max_client_cnxns": settings.max_client_connections,
        "min_session_timeout": least,
        "max_session_timeout": most,
        "server_id": 0,
        "client_port_listen_backlog": settings.listen_backlog,
    }


def _initial_configuration(ask: _Ask) -> Data:
    return {"initial_configuration": masked(ask.service.settings.config_text)}


def _system_properties(ask: _Ask) -> Data:
    """What a Java process has as properties; here the settings that have a key, and the unknown keys."""
    settings = ask.service.settings
    known = {key: getattr(settings, field) for field, key in KEY_OF.items()}
    found = {key: _text(value) for key, value in known.items() if value is not None}
    found.update(settings.extra)
    return {key: "***" if is_secret(key) else value for key, value in sorted(found.items())}


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _server_stats(ask: _Ask) -> Data:
    service = ask.service
    engine = service.engine
    stats, latency = engine.stats, engine.stats.latency
    sizes = {
        "last_buffer_size": stats.last_response,
        "min_buffer_size": stats.min_response,
        "max_buffer_size": stats.max_response,
    }
    return {
        "version": VERSION_TEXT,
        "read_only": False,
        "server_stats": {
            "packets_sent": stats.packets_sent,
            "packets_received": stats.packets_received,
            "fsync_threshold_exceed_count": 0,
            "client_response_stats": sizes,
            "data_dir_size": 0,
            "log_dir_size": 0,
            "provider_null": False,
            "last_processed_zxid": engine.zxid,
            "server_state": "standalone",
            "outstanding_requests": service.outstanding(),
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
            "min_latency": latency.minimum,
            "num_alive_client_connections": len(service.connections),
            "auth_failed_count": stats.auth_failed,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "uptime": int((ask.now - engine.started) * 1000),
        },
        "client_response": sizes,
        "node_count": len(engine.tree),
    }


def _stats(ask: _Ask) -> Data:
    return _server_stats(ask) | _both(ask, _brief)


def _monitor(ask: _Ask) -> _Rows:
    def rows() -> Iterator[tuple[object, Any]]:
        yield "version", VERSION_TEXT
        yield "server_state", "standalone"
        for key, value in monitored(ask.service, ask.now):
            yield key or None, float(value) if isinstance(value, str) else value

    return _Rows(rows())


def _reset_stats(ask: _Ask) -> Data:
    ask.service.engine.stats.reset()
    return {}


def _set_trace_mask(ask: _Ask) -> Data:
    error = "setTraceMask requires long traceMask argument"
    text = ask.arguments.get("traceMask")
    if text is None:
        raise _Refused(200, error)
    if not re.fullmatch("[+-]?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise _Refused(200, f"{error}, got {text}")
    ask.service.trace_mask = int(text)
    return {"tracemask": int(text)}


# --- connections ------------------------------------------------------------------------------------------


def _connections(ask: _Ask) -> Data:
    patience = ask.service.settings.sessionless_timeout
    return _both(ask, lambda connection: _full(connection, patience))


def _both(ask: _Ask, describe: Callable[[Connection], Data]) -> Data:
    service = ask.service
    secure = [connection for connection in service.connections if connection in service.secure]
    plain = [connection for connection in service.connections if connection not in service.secure]
    return {"connections": map(describe, plain), "secure_connections": map(describe, secure)}


def _brief(connection: Connection) -> Data:
    host, port = connection.peer
    return {
        "remote_socket_address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "interest_ops": connection.interest,
        "outstanding_requests": connection.outstanding,
        "packets_received": connection.figures.received,
        "packets_sent": connection.figures.sent,
    }


def _full(connection: Connection, patience: int) -> Data:
    """``patience``: what takes the place of a timeout while there is no session, in ms."""
    figures, session = connection.figures, connection.session
    latency = figures.latency
    return _brief(connection) | {
        "session_id": connection.session_id,
        "last_operation": operation_name(figures.last_op) if session else None,
        "established": int(figures.established * 1000),
        "session_timeout": session.timeout if session else patience,
        "last_cxid": figures.last_xid or 0,
        "last_zxid": figures.last_zxid,
        "last_response_time": int(figures.last_response * 1000),
        "last_latency": figures.last_latency,
        "min_latency": latency.minimum,
        "avg_latency": int(latency.average),
        "max_latency": latency.maximum,
    }


def _reset_connections(ask: _Ask) -> Data:
    for connection in ask.service.connections:
        connection.figures.reset()
    return {}


def _shed_connections(ask: _Ask) -> Data:
    """Close each connection with the given probability; its client comes back, to this server or another."""
    try:
        asked = json.loads(ask.body or b"null")
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"Invalid JSON or failed to read request body: {error}") from None
    if not isinstance(asked, dict) or "percentage" not in asked:
        raise _Refused(400, "Missing required field: percentage")
    percentage = asked["percentage"]
    if type(percentage) not in (int, float) or not 0 <= percentage <= 100:
        raise _Refused(400, "Percentage must be between 0 and 100")
    percentage = int(percentage)
    chosen = [c for c in ask.service.connections if random.random() * 100 < percentage]
    for connection in chosen:
        connection.abort("an operator has it shed")
    logger.info("shed %d connections (%d%%)", len(chosen), percentage)
    return {"connections_shed": len(chosen), "percentage_requested": percentage}


# --- sessions and watches ---------------------------------------------------------------------------------


def _dump(ask: _Ask) -> Data:
    buckets = list(ask.service.engine.sessions.by_deadline())
    owners = ask.service.engine.tree.ephemerals
    return {
        "expiry_time_to_session_ids": _Rows((end, (each.id for each in found)) for end, found in buckets),
        "session_id_to_ephemeral_paths": _Rows(
            (owner, iter(list(owners.get(owner, ())))) for owner in list(owners)
        ),
    }


def _watches(ask: _Ask) -> Data:
    """The paths that each session watches, those of child watches apart (section 1.3)."""
    watches = ask.service.engine.watches

    def rows() -> Iterator[tuple[object, Any]]:
        for watcher in list(watches.watchers):
            paths = []
            for path in watches.paths_of(watcher):
                if watches.sees_data(path, watcher):
                    paths.append(path)
                yield None, None
            if paths:
                yield watcher.session_id, iter(paths)

    return {"session_id_to_watched_paths": _Rows(rows())}


def _watches_by_path(ask: _Ask) -> Data:
    """The sessions that watch each path."""
    watches = ask.service.engine.watches.data_by_path()
    rows = ((path if told else None, [each.session_id for each in told]) for path, told in watches)
    return {"path_to_session_ids": _Rows(rows)}


def _watch_summary(ask: _Ask) -> _Rows:
    def rows() -> Iterator[tuple[object, Any]]:
        for summary in ask.service.engine.watches.summary():
            connections, paths, total = summary
            yield None, None
        yield from {"num_connections": connections, "num_paths": paths, "num_total_watches": total}.items()

    return _Rows(rows())


# --- the table (section 2.4) ------------------------------------------------------------------------------


def _constant(**data: Any) -> Callable[[_Ask], Data]:
    return lambda ask: data


def _disabled(ask: _Ask) -> Data:
    raise _Refused(503)  # nothing is kept on disk


_COMMANDS: Final[Iterable[_Command]] = (
    _Command("configuration conf config", _configuration),
    _Command("connection_stat_reset crst", _reset_connections, changes=True),
    _Command("connections cons", _connections),
    _Command("dirs", _constant(datadir_size=0, logdir_size=0)),
    _Command("dump", _dump),
    _Command("environment env envi", lambda ask: {**environment()}),
    _Command("get_trace_mask gtmk", lambda ask: {"tracemask": ask.service.trace_mask}),
    _Command("hash", _constant(digests=[])),
    _Command("initial_configuration icfg", _initial_configuration),
    _Command("is_read_only isro", _constant(read_only=False)),
    _Command("last_snapshot lsnp", _constant(zxid="0", timestamp=-1)),
    _Command("leader lead", _constant(error="server is not initialized")),
    _Command("monitor mntr", _monitor),
    _Command("observer_connection_stat_reset orst", _constant(), changes=True),
    _Command("observers obsr", _constant(synced_observers=0, observers=[])),
    _Command("restore rest", _disabled, method="POST", guarded=True),
    _Command("ruok", _constant()),
    _Command("server_stats srvr", _server_stats),
    _Command("set_trace_mask stmk", _set_trace_mask, changes=True),
    _Command("shed_connections shed", _shed_connections, method="POST", guarded=True),
    _Command("snapshot snap", _disabled, guarded=True),
    _Command("stat_reset srst", _reset_stats, changes=True),
    _Command("stats stat", _stats),
    _Command("system_properties sysp", _system_properties),
    _Command("voting_view", _constant(current_config={})),
    _Command("watch_summary wchs", _watch_summary),
    _Command("watches wchc", _watches),
    _Command("watches_by_path wchp", _watches_by_path),
    _Command("zabstate", _constant(voting=False, zabstate="")),
)
_BY_NAME: Final = {name: command for command in _COMMANDS for name in command.names.split()}

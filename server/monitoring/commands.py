"""The commands of the admin server, with the answer of each command (operator-surface.md section 2.4).

:data:`COMMANDS` lists all commands. A command is a function that receives an :class:`Ask` and returns the
fields of the JSON object of the answer, with the names of the real server. A figure that has no meaning for
one process in memory has the value that an idle real server shows. A list or an object that may be long is an
iterator or a :class:`Rows`. It is read while other clients are served.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ..config.properties import masked
from ..config.zookeys import KEY_OF, is_secret
from ..logger import logger
from .four_letter_words import environment, monitored, operation_name, version_text

if TYPE_CHECKING:
    from ..config.releases import Release
    from ..net.connection import Connection
    from ..net.service import Service


Data: TypeAlias = dict[str, Any]
"""The JSON object of the answer of a command."""


@attrs.frozen
class Rows:
    """A JSON object that is made row by row. A row with the name None is no part of the object. It only ends
    a step of the work."""

    rows: Iterator[tuple[object, Any]]


class CommandRefused(Exception):
    """A command that is not executed.

    :ivar status: the status of the HTTP answer.
    :ivar data: the object of the answer. If the object has an error, the error precedes the command's name.
    """

    def __init__(self, status: int, error: str | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.data: Data = {} if error is None else {"error": error}


@attrs.frozen
class Ask:
    """A request for a command.

    :ivar now: the monotonic time in seconds.
    :ivar arguments: the arguments in the URL; none for POST.
    """

    service: Service
    now: float
    arguments: Mapping[str, str]
    body: bytes


@attrs.frozen
class Command:
    """A command of the admin server.

    :ivar names: the primary name and then the aliases, separated by blanks.
    :ivar run: executes the command. It can raise :class:`CommandRefused`.
    :ivar guarded: whether the command is only for the super user and for identities that have all permissions
        in the ACL of ``/``.
    :ivar changes: whether the command changes something although its method is GET.
    :ivar limited: whether the command can be disabled and has a limited rate.
    :ivar takes_tree: whether the body of the request is a snapshot.
    :ivar always: whether a server that serves no clients answers the command too.
    :ivar change: the row of :data:`.releases.CHANGES` that introduced the command; None: every release has
        the command.
    """

    names: str
    run: Callable[[Ask], Data | Rows | Stream]
    method: str = "GET"
    guarded: bool = False
    changes: bool = False
    limited: bool = False
    takes_tree: bool = False
    always: bool = False
    change: str | None = None

    def is_in(self, release: Release) -> bool:
        """Return whether a release has this command."""
        return self.change is None or release.has(self.change)

    @property
    def primary(self) -> str:
        return self.names.split()[0]


@attrs.frozen
class Stream:
    """An answer that is a snapshot.

    :ivar pieces: yields the zxid and a part of the bytes, again and again. While the snapshot is made, the
        pairs have no bytes.
    :ivar whole: whether the client requests the whole answer; otherwise only the length of the answer.
    """

    pieces: Iterator[tuple[int, bytes]]
    whole: bool


# --- the server -------------------------------------------------------------------------------------------


def _configuration(ask: Ask) -> Data:
    settings = ask.service.settings
    least, most = settings.session_timeout_range
    storage = ask.service.storage
    return {
        "client_port": ask.service.address[1] if ask.service.address else settings.port,
        "data_dir": "" if storage is None else str(storage.directory.folder),
        "data_log_dir": "" if storage is None else str(storage.directory.log_folder),
        "tick_time": settings.tick_time,
        "max_client_cnxns": settings.max_client_connections,
        "min_session_timeout": least,
        "max_session_timeout": most,
        "server_id": ask.service.server_id,
        "client_port_listen_backlog": settings.listen_backlog,
    }


def _initial_configuration(ask: Ask) -> Data:
    return {"initial_configuration": masked(ask.service.settings.config_text)}


def _system_properties(ask: Ask) -> Data:
    """Return the properties of a Java process. In this server they are the settings that have a key, and the
    unknown keys."""
    settings = ask.service.settings
    known = {key: getattr(settings, field) for field, key in KEY_OF.items()}
    found = {key: _text(value) for key, value in known.items() if value is not None}
    found.update(settings.extra)
    return {key: "***" if is_secret(key) else value for key, value in sorted(found.items())}


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _server_stats(ask: Ask) -> Data:
    service = ask.service
    engine = service.engine
    stats, latency = engine.stats, engine.stats.latency
    sizes = {
        "last_buffer_size": stats.last_response,
        "min_buffer_size": stats.min_response,
        "max_buffer_size": stats.max_response,
    }
    sizes_of_files = _sizes(ask)
    return {
        "version": version_text(service.settings),
        "read_only": service.is_read_only,
        "server_stats": {
            "packets_sent": stats.packets_sent,
            "packets_received": stats.packets_received,
            "fsync_threshold_exceed_count": 0,
            "client_response_stats": sizes,
            "data_dir_size": sizes_of_files["datadir_size"],
            "log_dir_size": sizes_of_files["logdir_size"],
            "provider_null": False,
            "last_processed_zxid": engine.zxid,
            "server_state": ask.service.mode,
            "outstanding_requests": service.outstanding(),
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
            "min_latency": latency.minimum,
            "num_alive_client_connections": len(service.connections),
            "auth_failed_count": stats.auth_failed,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "uptime": ask.service.at(ask.now) - engine.started,
        },
        "client_response": sizes,
        "node_count": len(engine.tree),
    }


def _stats(ask: Ask) -> Data:
    return _server_stats(ask) | _both(ask, _brief)


def _monitor(ask: Ask) -> Rows:
    def rows() -> Iterator[tuple[object, Any]]:
        yield "version", version_text(ask.service.settings)
        yield "server_state", ask.service.mode
        for key, value in monitored(ask.service, ask.now):
            yield key or None, float(value) if isinstance(value, str) else value

    return Rows(rows())


def _reset_stats(ask: Ask) -> Data:
    ask.service.engine.stats.reset()
    return {}


def _set_trace_mask(ask: Ask) -> Data:
    error = "setTraceMask requires long traceMask argument"
    text = ask.arguments.get("traceMask")
    if text is None:
        raise CommandRefused(200, error)
    if not re.fullmatch("[+-]?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise CommandRefused(200, f"{error}, got {text}")
    ask.service.trace_mask = int(text)
    return {"tracemask": int(text)}


# --- connections ------------------------------------------------------------------------------------------


def _connections(ask: Ask) -> Data:
    patience = ask.service.settings.sessionless_timeout
    return _both(ask, lambda connection: _full(connection, patience))


def _both(ask: Ask, describe: Callable[[Connection], Data]) -> Data:
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
        "packets_received": connection.stats.received,
        "packets_sent": connection.stats.sent,
    }


def _full(connection: Connection, patience: int) -> Data:
    """Return the figures of a connection.

    :param patience: the time in ms to show in place of a timeout while there is no session."""
    own, session = connection.stats, connection.session
    latency = own.latency
    return _brief(connection) | {
        "session_id": connection.session_id,
        "last_operation": operation_name(own.last_op) if session else None,
        "established": int(own.established * 1000),
        "session_timeout": session.timeout if session else patience,
        "last_cxid": own.last_xid or 0,
        "last_zxid": own.last_zxid,
        "last_response_time": int(own.last_response * 1000),
        "last_latency": own.last_latency,
        "min_latency": latency.minimum,
        "avg_latency": int(latency.average),
        "max_latency": latency.maximum,
    }


def _reset_connections(ask: Ask) -> Data:
    for connection in ask.service.connections:
        connection.stats.reset()
    return {}


def _shed_connections(ask: Ask) -> Data:
    """Close each connection with the given probability. The client of a closed connection can reconnect to
    this server or to another server."""
    try:
        asked = json.loads(ask.body or b"null")
    except (ValueError, RecursionError) as error:
        raise CommandRefused(400, f"Invalid JSON or failed to read request body: {error}") from None
    if not isinstance(asked, dict) or "percentage" not in asked:
        raise CommandRefused(400, "Missing required field: percentage")
    percentage = asked["percentage"]
    if type(percentage) not in (int, float) or not 0 <= percentage <= 100:
        raise CommandRefused(400, "Percentage must be between 0 and 100")
    percentage = int(percentage)
    chosen = [c for c in ask.service.connections if random.random() * 100 < percentage]
    for connection in chosen:
        connection.abort("shed by an operator; its client can reconnect")
    text = "an operator shed %d %% of the connections: %d are closed, and their clients can reconnect"
    logger.info(text, percentage, len(chosen))
    return {"connections_shed": len(chosen), "percentage_requested": percentage}


# --- sessions and watches ---------------------------------------------------------------------------------


def _dump(ask: Ask) -> Data:
    buckets = list(ask.service.engine.sessions.by_deadline())
    owners = ask.service.engine.tree.ephemerals
    return {
        "expiry_time_to_session_ids": Rows((end, (each.id for each in found)) for end, found in buckets),
        "session_id_to_ephemeral_paths": Rows(
            (owner, iter(list(owners.get(owner, ())))) for owner in list(owners)
        ),
    }


def _watches(ask: Ask) -> Data:
    """Return for each session the paths of its data watches and the paths of its child watches (section
    1.3)."""
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

    return {"session_id_to_watched_paths": Rows(rows())}


def _watches_by_path(ask: Ask) -> Data:
    """Return the sessions that watch each path."""
    watches = ask.service.engine.watches.data_by_path()
    rows = ((path if told else None, [each.session_id for each in told]) for path, told in watches)
    return {"path_to_session_ids": Rows(rows)}


def _watch_summary(ask: Ask) -> Rows:
    def rows() -> Iterator[tuple[object, Any]]:
        for summary in ask.service.engine.watches.summary():
            connections, paths, total = summary
            yield None, None
        yield from {"num_connections": connections, "num_paths": paths, "num_total_watches": total}.items()

    return Rows(rows())


# --- the table (section 2.4) ------------------------------------------------------------------------------


def _constant(**data: Any) -> Callable[[Ask], Data]:
    return lambda ask: data


def _snapshot(ask: Ask) -> Stream:
    """Return the tree as a snapshot. If data is kept in files, the snapshot is also written to a file."""
    from ..storage.online import snapshot_steps

    engine, storage = ask.service.engine, ask.service.storage

    def pieces() -> Iterator[tuple[int, bytes]]:
        if storage is not None:
            for _ in storage.snapshot_steps():
                yield 0, b""
        began = time.monotonic()
        yield from snapshot_steps(engine)
        if storage is None:
            engine.stats.snapshot_time.add(int(1000 * (time.monotonic() - began)))

    return Stream(pieces(), ask.arguments.get("streaming", "true") == "true")


def _restore(ask: Ask) -> Data:
    """Replace the tree and the sessions by the tree and the sessions of a snapshot. All connections are
    closed. A client whose session is in the snapshot continues its session when it reconnects. For all other
    clients the session is over."""
    from ...protocol.files.streams import FileError
    from ..storage.online import read_snapshot, restore

    service = ask.service
    began = time.monotonic()
    try:
        image = read_snapshot(ask.body, service.settings.max_buffer)
    except FileError as error:
        service.engine.stats.restores.failed += 1
        logger.warning("a snapshot could not be restored, and the tree stays as it is: %s", error)
        raise CommandRefused(500) from None
    zxid, count = image.zxid, len(image.nodes)
    for connection in list(service.connections):
        connection.abort("the tree was replaced by a snapshot; the client can reconnect")
    restore(service.engine, image, service.at(ask.now))
    service.engine.stats.restore_time.add(int(1000 * (time.monotonic() - began)))
    logger.info(
        "a snapshot of %d znodes at zxid 0x%x was restored, as zxid 0x%x", count, zxid, service.engine.zxid
    )
    return {"last_zxid": zxid}


def _sizes(ask: Ask) -> Data:
    storage = ask.service.storage
    if storage is None:
        return {"datadir_size": 0, "logdir_size": 0}
    directory = storage.directory
    return {"datadir_size": directory.size("snapshot"), "logdir_size": directory.size("log")}


def _hash(ask: Ask) -> Data:
    """Return the digests of the tree. The server computes digests only with ``--data`` and
    ``digest.enabled``."""
    storage = ask.service.storage
    digests = [] if storage is None else storage.digests
    return {
        "digests": [{"zxid": zxid, "digest": digest, "digest_version": 2} for zxid, digest in digests],
    }


def _last_snapshot(ask: Ask) -> Data:
    storage = ask.service.storage
    zxid, time = storage.directory.last_snapshot() if storage is not None else (0, -1)
    return {"zxid": f"{zxid:x}", "timestamp": int(time)}


COMMANDS: Final[Iterable[Command]] = (
    Command("configuration conf config", _configuration),
    Command("connection_stat_reset crst", _reset_connections, changes=True),
    Command("connections cons", _connections),
    Command("dirs", _sizes),
    Command("dump", _dump),
    Command("environment env envi", lambda ask: {**environment(ask.service.settings)}, always=True),
    Command("get_trace_mask gtmk", lambda ask: {"tracemask": ask.service.trace_mask}, always=True),
    Command("hash", _hash),
    Command("initial_configuration icfg", _initial_configuration),
    Command("is_read_only isro", lambda ask: {"read_only": ask.service.is_read_only}),
    Command("last_snapshot lsnp", _last_snapshot),
    Command("leader lead", _constant(error="server is not initialized")),
    Command("monitor mntr", _monitor, always=True),
    Command("observer_connection_stat_reset orst", _constant(), changes=True),
    Command("observers obsr", _constant(synced_observers=0, observers=[])),
    Command(
        "restore rest",
        _restore,
        method="POST",
        guarded=True,
        limited=True,
        takes_tree=True,
        change="snapshots-over-http",
    ),
    Command("ruok", _constant()),
    Command("server_stats srvr", _server_stats),
    Command("set_trace_mask stmk", _set_trace_mask, changes=True, always=True),
    Command("shed_connections shed", _shed_connections, method="POST", guarded=True),
    Command("snapshot snap", _snapshot, guarded=True, limited=True, change="snapshots-over-http"),
    Command("stat_reset srst", _reset_stats, changes=True),
    Command("stats stat", _stats),
    Command("system_properties sysp", _system_properties, always=True),
    Command("voting_view", _constant(current_config={})),
    Command("watch_summary wchs", _watch_summary),
    Command("watches wchc", _watches),
    Command("watches_by_path wchp", _watches_by_path),
    Command("zabstate", _constant(voting=False, zabstate=""), always=True),
)
BY_NAME: Final = {name: command for command in COMMANDS for name in command.names.split()}

"""The four-letter words: commands for operators on the port for clients (operator-surface.md section 1)."""

from __future__ import annotations

import os
import platform
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ...protocol.constants import TELNET_CLOSE
from ...protocol.operations import OpCode
from ...protocol.text import printable, session_text
from ...protocol.version import __version__
from ..config.settings import Settings
from .metrics import java_double, metrics

if TYPE_CHECKING:
    from ..core.sessions import SessionTracker
    from ..net.connection import Connection
    from ..net.service import Service


def version_text(settings: Settings) -> str:
    """Return the version in the form that operators and monitoring expect."""
    return f"{settings.release}-pyzk-{__version__}, built on 2026-11-20 00:00 UTC"


NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
_ALWAYS_ANSWERED = frozenset(("ruok", "gtmk", "stmk", "envi", "telnet close"))
_PIECE = 32 * 1024
"""The size in characters of a piece of a long answer. Making a piece takes 1 ms."""
_LINE = 100
"""The time to begin a line, as the number of characters that can be made in this time."""
_ENVIRONMENT = (
    "zookeeper.version", "host.name", "java.version", "java.vendor", "java.home", "java.class.path",
    "java.library.path", "java.io.tmpdir", "java.compiler", "os.name", "os.arch", "os.version", "user.name",
    "user.home", "user.dir", "os.memory.free", "os.memory.max", "os.memory.total",
)  # fmt: skip


def answer(word: bytes, service: Service, asker: Connection, now: float, rest: bytes) -> Iterator[bytes]:
    """Yield the reply, piece by piece. The connection is closed after the reply. ``rest`` has the bytes after
    the word.

    Each piece takes a bounded time, also in a very long answer. Other clients are served between two pieces.
    So each line was true when it was made, but perhaps there was no moment at which all lines were true.
    """
    name = "telnet close" if word == TELNET_CLOSE else word.decode()
    allowed = service.settings.four_letter_words
    enabled = name in allowed or "*" in allowed or name == "srvr"
    if name == "isro" and service.settings.read_only_mode:
        enabled = True
    if not enabled:
        yield f"{name} is not executed because it is not in the whitelist.\n".encode()
    elif not service.serves and name not in _ALWAYS_ANSWERED:
        yield f"{NOT_SERVING}\n".encode() if name != "isro" else b"null"
    elif name == "stmk":
        (service.trace_mask,) = struct.unpack_from(">q", rest)
        yield str(service.trace_mask).encode()
    else:
        found = (service.words.get(name) or _ANSWERS[name])(service, asker, now)
        if isinstance(found, str):
            yield found.encode()
        else:
            for piece in in_pieces(found):
                yield piece.encode()


def in_pieces(texts: Iterable[str]) -> Iterator[str]:
    """Join texts to pieces. Making one piece takes about 1 ms."""
    piece: list[str] = []
    size = 0
    for text in texts:
        piece.append(text)
        size += _LINE + len(text)
        if size >= _PIECE:
            yield "".join(piece)
            piece.clear()
            size = 0
    if piece:
        yield "".join(piece)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# --- the server and its connections -----------------------------------------------------------------------


def _srvr(service: Service, asker: Connection, now: float) -> str:
    return _version(service) + _lines(totals(service))


def _version(service: Service) -> str:
    note = "READ-ONLY mode; serving only read-only clients\n" if service.is_read_only else ""
    return f"Zookeeper version: {version_text(service.settings)}\n{note}"


def _stat(service: Service, asker: Connection, now: float) -> Iterator[str]:
    yield f"{_version(service)}Clients:\n"
    for connection in list(service.connections):
        yield f" {_brief(connection, asker)})\n"
    yield "\n" + _lines(totals(service))


def totals(service: Service) -> Iterator[str]:
    stats = service.engine.stats
    latency = stats.latency
    yield f"Latency min/avg/max: {latency.minimum}/{java_double(latency.average)}/{latency.maximum}"
    yield f"Received: {stats.packets_received}"
    yield f"Sent: {stats.packets_sent}"
    yield f"Connections: {len(service.connections)}"
    yield f"Outstanding: {service.outstanding()}"
    yield f"Zxid: 0x{service.engine.zxid:x}"
    yield f"Mode: {service.mode}"
    yield f"Node count: {len(service.engine.tree)}"
    yield from service.totals_of_role()


def _cons(service: Service, asker: Connection, now: float) -> Iterator[str]:
    for connection in list(service.connections):
        yield f" {_brief(connection, asker)}{_details(connection)})\n"
    yield "\n"


def _brief(connection: Connection, asker: Connection) -> str:
    host, port = connection.peer
    address = f"[{host}]" if ":" in host else host
    interest = 0 if connection is asker else connection.interest
    return (
        f"/{address}:{port}[{interest}](queued={connection.outstanding},"
        f"recved={connection.stats.received},sent={connection.stats.sent}"
    )


def _details(connection: Connection) -> str:
    session = connection.session
    if session is None:
        return ""
    own, latency = connection.stats, connection.stats.latency
    last_xid = "" if own.last_xid is None else f"lcxid=0x{own.last_xid:x},"
    return (
        f",sid={session_text(session.id)},lop={operation_name(own.last_op)},"
        f"est={int(own.established * 1000)},to={session.timeout},{last_xid}"
        f"lzxid=0x{own.last_zxid % 2**64:x},lresp={int(own.last_response * 1000)},"
        f"llat={own.last_latency},minlat={latency.minimum},avglat={int(latency.average)},"
        f"maxlat={latency.maximum}"
    )


def operation_name(op: int | None) -> str:
    """Return the abbreviation of the last operation of a connection, as ``cons`` shows it."""
    try:
        return OpCode(op).short if op is not None else "NA"
    except ValueError:
        return "NA"


def _crst(service: Service, asker: Connection, now: float) -> str:
    for connection in service.connections:
        connection.stats.reset()
    return "Connection stats reset.\n"


def _srst(service: Service, asker: Connection, now: float) -> str:
    service.engine.stats.reset()
    return "Server stats reset.\n"


def conf(service: Service, asker: Connection, now: float) -> str:
    settings = service.settings
    least, most = settings.session_timeout_range
    directory = service.storage.directory if service.storage is not None else None
    secure_port = service.secure_address[1] if service.secure_address else -1
    return _lines(
        f"{key}={value}"
        for key, value in (
            ("clientPort", service.address[1] if service.address else settings.port),
            ("secureClientPort", secure_port),
            ("dataDir", directory.folder if directory else ""),
            ("dataDirSize", _size(service, "snapshot")),
            ("dataLogDir", directory.log_folder if directory else ""),
            ("dataLogSize", _size(service, "log")),
            ("tickTime", settings.tick_time),
            ("maxClientCnxns", settings.max_client_connections),
            ("minSessionTimeout", least),
            ("maxSessionTimeout", most),
            ("clientPortListenBacklog", settings.listen_backlog),
            ("serverId", service.server_id),
        )
    )


def _dirs(service: Service, asker: Connection, now: float) -> str:
    return f"datadir_size: {_size(service, 'snapshot')}\nlogdir_size: {_size(service, 'log')}\n"


def _hash(service: Service, asker: Connection, now: float) -> str:
    digests = [] if service.storage is None else service.storage.digests
    return _lines(f"{zxid:x}: {digest}" for zxid, digest in digests)


def _size(service: Service, kind: str) -> int:
    """Return the size in bytes of all snapshots, or of all logs."""
    return 0 if service.storage is None else service.storage.directory.size(kind)


def _user() -> str:
    try:
        import pwd
    except ImportError:  # Windows
        return os.getlogin()
    return pwd.getpwuid(os.getuid()).pw_name


def environment(settings: Settings) -> dict[str, str]:
    """Return the 18 values of ``envi``. The values about a JVM are placeholders."""
    try:
        user = _user()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    try:
        directory = os.getcwd()
    except OSError:  # it was deleted
        directory = "<NA>"
    known = {
        "zookeeper.version": version_text(settings),
        "host.name": platform.node(),
        "java.vendor": f"{platform.python_implementation()} {platform.python_version()}",
        "java.io.tmpdir": os.environ.get("TMPDIR", "/tmp"),
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": user,
        "user.home": os.path.expanduser("~"),
        "user.dir": directory,
        "java.home": sys.prefix,
    }
    of = "jvm" if settings.release.has("memory-of-jvm") else "os"
    return {name.replace("os.memory", f"{of}.memory"): known.get(name, "<NA>") for name in _ENVIRONMENT}


def _envi(service: Service, asker: Connection, now: float) -> str:
    return _lines(
        ["Environment:", *(f"{key}={value}" for key, value in environment(service.settings).items())]
    )


def _mntr(service: Service, asker: Connection, now: float) -> Iterator[str]:
    yield f"zk_version\t{version_text(service.settings)}\nzk_server_state\t{service.mode}\n"
    for key, value in monitored(service, now):
        yield f"zk_{key}\t{value}\n" if key else ""


def monitored(service: Service, now: float) -> Iterator[tuple[str, str | int]]:
    """Yield every metric as (key without its prefix, value as printed), with the names of the enabled metrics
    provider (operator-surface.md section 3.1). A row without a key is no metric. It only ends a step of the
    work."""
    if service.settings.metrics_port is None:
        return metrics(service, now)
    from .prometheus import dump

    return dump(service, now)


# --- sessions and watches ---------------------------------------------------------------------------------


def _date(service: Service, now: float) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(service.wall_clock(now)))


def _dump(service: Service, asker: Connection, now: float) -> Iterator[str]:
    yield from dump(service, now, session_sets(service, service.engine.sessions, now))


def session_sets(service: Service, sessions: SessionTracker, now: float) -> Iterator[str]:
    """Yield the sessions, the earliest expiry first."""
    buckets = list(sessions.by_deadline())
    yield f"Session Sets ({len(buckets)})/({sum(len(found) for _, found in buckets)}):\n"
    for deadline, found in buckets:
        yield f"{len(found)} expire at {_date(service, deadline / 1000)}:\n"
        for session in found:
            yield f"\t{session_text(session.id)}\n"


def dump(service: Service, now: float, sessions: Iterable[str]) -> Iterator[str]:
    """
    :param sessions: the part about sessions.
    """
    yield "SessionTracker dump:\n"
    yield from sessions
    engine = service.engine
    owners = engine.tree.ephemerals
    yield f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owners)}):\n"
    for owner in list(owners):
        yield f"{session_text(owner)}:\n"
        for path in list(owners.get(owner, ())):
            yield f"\t{printable(path)}\n"
    sets: dict[float, list[Connection]] = {}
    for connection in list(service.connections):
        sets.setdefault(service.idle_deadline(connection), []).append(connection)
        yield ""
    yield f"Connections dump:\nConnections Sets ({len(sets)})/({len(service.connections)}):\n"
    for end, connections in sorted(sets.items()):
        yield f"{len(connections)} expire at {_date(service, end)}:\n"
        for c in connections:
            yield f"\tip: /{c.peer[0]}:{c.peer[1]} sessionId: {session_text(c.session_id)}\n"


def _wchs(service: Service, asker: Connection, now: float) -> Iterator[str]:
    for summary in service.engine.watches.summary():
        connections, paths, total = summary
        yield ""
    yield f"{connections} connections watching {paths} paths\nTotal watches:{total}\n"


def _wchc(service: Service, asker: Connection, now: float) -> Iterator[str]:
    watches = service.engine.watches
    for watcher in list(watches.watchers):
        head = f"{session_text(watcher.session_id)}\n"
        for path in watches.paths_of(watcher):
            if watches.sees_data(path, watcher):
                yield f"{head}\t{printable(path)}\n"
                head = ""
            else:
                yield ""
    yield "\n"


def _wchp(service: Service, asker: Connection, now: float) -> Iterator[str]:
    for path, watchers in service.engine.watches.data_by_path():
        yield f"{printable(path)}\n" if watchers else ""
        for watcher in watchers:
            yield f"\t{session_text(watcher.session_id)}\n"
    yield "\n"


# --- the table --------------------------------------------------------------------------------------------


_Word: TypeAlias = Callable[["Service", "Connection", float], str | Iterator[str]]
"""Makes an answer: a text, or an iterator of lines if the answer may be long."""


def _constant(text: str) -> _Word:
    return lambda service, asker, now: text


_ANSWERS: dict[str, _Word] = {
    "conf": conf,
    "cons": _cons,
    "crst": _crst,
    "dirs": _dirs,
    "dump": _dump,
    "envi": _envi,
    "gtmk": lambda service, asker, now: str(service.trace_mask),
    "hash": _hash,
    "isro": _constant("rw"),
    "mntr": _mntr,
    "ruok": _constant("imok"),
    "srst": _srst,
    "srvr": _srvr,
    "stat": _stat,
    "telnet close": _constant(""),
    "wchc": _wchc,
    "wchp": _wchp,
    "wchs": _wchs,
}

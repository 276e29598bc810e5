"""The flags of ``pyzk-server`` and their evaluation before the server starts.

A function that reads a file or checks a place raises :class:`Refusal` if it fails. The message is one line
that says why, and what to do. Modules are imported when they are needed, so that ``--help`` and ``--version``
do not wait for trio.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from ...protocol.version import __version__
from ..logger import logger
from . import logs

if TYPE_CHECKING:
    from ..config.members import ServerAddress
    from ..config.settings import Settings
    from ..config.sourced_values import Configuration, SourcedValue
    from ..core.engine import Engine
    from ..storage.storage import Storage
    from ..testing.spans import Exporter
    from ..testing.trace import Trace

PROG: Final = "pyzk-server"
FLAGS: Final = {
    "emulate": "--emulate",
    "host": "--host",
    "port": "--port",
    "tick_time": "--tick-time",
    "min_session_timeout": "--min-session-timeout",
    "max_session_timeout": "--max-session-timeout",
    "data_log_dir": "--data-log",
}
"""The flags by the field of Settings that they set."""
_TLS_PORT: Final = 2281
"""The usual port for clients over TLS."""
_TRACE_FORMATS: Final = ("text", "json")
_RECORDS: Final = ("recent", "all", "none")


class Refusal(Exception):
    """The server cannot start. The message is one line that says why, and what to do."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message} (see {PROG} --help)")


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROG,
        description="An in-memory coordination server that speaks the ZooKeeper protocol.",
        epilog="A key of zoo.cfg can also be an environment variable: PYZK_TICK_TIME is tickTime."
        " Flags override variables, and variables override the file. Without --data a restarted server "
        "is empty.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", metavar="HOST", help="listen at this address (default: 127.0.0.1)")
    add("--port", metavar="PORT", type=int, help="listen at this port (default: 2181; 0: any free port)")
    add("--config", metavar="FILE", help="read settings from a file in zoo.cfg syntax")
    add("--emulate", metavar="RELEASE", help="behave as this release: 3.5 to 3.10 (default: 3.9)")
    add("--tick-time", metavar="MS", type=int, help="length of a tick (default: 2000)")
    add("--min-session-timeout", metavar="MS", type=int, help="smallest session timeout (default: 2 ticks)")
    add("--max-session-timeout", metavar="MS", type=int, help="largest session timeout (default: 20 ticks)")
    add(
        "--tls",
        metavar="DIR",
        nargs="?",
        const="",
        help="TLS with certificates that the server makes",
    )
    add(
        "--tls-port",
        metavar="PORT",
        type=int,
        help="the port for TLS (default: 2281; with --port 0 any free port)",
    )
    add(
        "--ensemble",
        metavar="N",
        type=int,
        help="pretend to be N servers, for tests: each has its own port, and nothing is replicated",
    )
    add(
        "--observers",
        metavar="N",
        type=int,
        default=0,
        help="with --ensemble: the number of observers (default: 0)",
    )
    add(
        "--election-time",
        metavar="MS",
        type=int,
        help="with --ensemble: the time of an election, in ms (default: 200)",
    )
    add(
        "--load",
        metavar="FILE",
        help="start with the znodes of a file of --save or pyzk dump, a snapshot or a data directory",
    )
    add(
        "--load-subtree",
        metavar="PATH",
        default="/",
        help="with --load: the path in the file that becomes the top (default: /)",
    )
    add("--load-no-acl", action="store_true", help="with --load: without ACLs")
    add(
        "--load-ephemerals",
        action="store_true",
        help="with --load: load ephemerals too, as persistent znodes",
    )
    add(
        "--load-mask",
        metavar="GLOB",
        action="append",
        default=[],
        help="with --load: write *** instead of the data of these znodes",
    )
    add("--save", metavar="FILE", help="write all znodes to this file at the end")
    add(
        "--data",
        metavar="DIR",
        help="keep the data here, in the files of Apache ZooKeeper, and start from it",
    )
    add(
        "--data-log",
        metavar="DIR",
        dest="data_log_dir",
        help="with --data: the directory of the logs (default: the directory of the data)",
    )
    add(
        "--data-repair",
        action="store_true",
        help="start from damaged files with the data before the damage",
    )
    add(
        "--end-with-stdin",
        action="store_true",
        help="end when standard input ends, so the server ends with the program that has started it",
    )
    add("--no-expiry", action="store_true", help="no session expires while its connection is open")
    add(
        "--hostile",
        metavar="SEED",
        type=int,
        help="for tests: always do what ZooKeeper may do but rarely does",
    )
    add(
        "--record",
        choices=_RECORDS,
        help="the history for timeline and advice: the latest requests, unless there are very many "
        "(default); all requests; or none until the history is requested",
    )
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of zoo.cfg; may be repeated")
    add("--log-level", type=str.lower, choices=logs.LEVELS, default="info", help="(default: info)")
    add("--log-format", choices=logs.FORMATS, default="text", help="(default: text)")
    trace = parser.add_argument_group(
        "trace", "A line for each request, reply, event, session and fault, on standard output."
    )
    add = trace.add_argument
    add("--trace", action="store_true", help="print the trace; so do the other flags of this group")
    add("--trace-op", metavar="OP", action="append", default=[], help="only this operation; may be repeated")
    add(
        "--trace-path",
        metavar="GLOB",
        help="only these znodes: * is any text within one name, ** is any text",
    )
    add("--trace-session", metavar="ID", type=_session_id, help="only this session")
    add("--trace-server", metavar="N", type=int, help="only this server of an ensemble")
    add("--trace-format", choices=_TRACE_FORMATS, help="(default: text)")
    add("--trace-file", metavar="FILE", help="append the trace to this file, not to standard output")
    add = parser.add_argument
    add("--otlp", metavar="URL", help="send a span for each request to this collector: OTLP, HTTP with JSON")
    add("--version", action="version", version=f"{PROG} {__version__}")
    return parser


def _session_id(text: str) -> int:
    return int(text, 0)


def configuration(arguments: argparse.Namespace, port_given: bool) -> Configuration:
    """Return the values of the file, the environment and ``--set``.

    :raises ConfigError: a value cannot be used.
    """
    from ..config import overrides
    from ..config.sourced_values import Configuration

    beside, warnings = overrides.from_environment(os.environ)
    beside += overrides.from_flags(arguments.set)
    found = Configuration({}, ())
    ensemble = arguments.ensemble is not None
    if arguments.config is not None or beside:
        from ..config import zoocfg

        if arguments.config is not None:
            found = zoocfg.read(arguments.config, port_given=port_given, beside=beside, ensemble=ensemble)
        else:
            name = "what was given"
            found = zoocfg.interpret("", name, port_given=True, beside=beside, ensemble=ensemble)
    for warning in (*warnings, *found.warnings):
        logger.warning("%s", warning)
    return found


def members(
    arguments: argparse.Namespace, found: Configuration, emulated: SourcedValue | None = None
) -> Sequence[ServerAddress]:
    """Return the servers of the requested ensemble; none for a single server.

    :param emulated: the requested release, if it is not the default one.
    :raises Refusal: the file or the place cannot be used.
    """
    from ..config.members import MemberError, chosen

    try:
        members = chosen(found.members, arguments.ensemble, arguments.observers)
    except MemberError as error:
        raise Refusal(f"--ensemble: {error}") from None
    single = (
        ("--hostile", arguments.hostile is not None),
        (emulated, emulated is not None),
    )
    for what, is_given in single:
        if members and is_given:
            raise Refusal(f"{what} is for a single server; leave it out with an ensemble")
    if arguments.election_time is not None and (not members or arguments.election_time < 0):
        raise Refusal("--election-time is a time of at least 0 ms, and works only with --ensemble")
    numbers = [member.number for member in members]
    if arguments.trace_server is not None and arguments.trace_server not in numbers:
        known = f"there are {', '.join(map(str, numbers))}" if numbers else "use it with --ensemble"
        raise Refusal(f"--trace-server is the number of a server of an ensemble: {known}")
    if members:
        text = "%d servers pretend to be an ensemble, for tests: nothing is replicated; for production use %s"
        logger.warning(text, len(members), "Apache ZooKeeper")
    return members


def certificates(
    arguments: argparse.Namespace, given: Mapping[str, SourcedValue]
) -> Mapping[str, SourcedValue]:
    """Return the values for ``--tls``, by field of Settings.

    :raises ConfigError: TLS is not possible.
    """
    if arguments.tls is None:
        if arguments.tls_port is not None:
            raise Refusal("--tls-port works only with --tls; give --tls, or use the key secureClientPort")
        return {}
    from pathlib import Path

    from ..config.sourced_values import SourcedValue
    from ..config.tls import TlsError
    from . import certificates

    if "secure_port" in given:
        raise Refusal(
            f"--tls: {given['secure_port']} already has a certificate; remove --tls, or the other setting"
        )
    directory = Path(arguments.tls or _temporary())
    host = given.get("host")
    try:
        context = certificates.make(directory, str(host.value) if host else "localhost")
    except certificates.NotInstalled:
        raise Refusal("--tls needs more: pip install trustme") from None
    except OSError as error:
        raise Refusal(f"--tls: cannot write to {directory}: {error.strerror}; name another one") from None
    except TlsError as error:
        raise Refusal(f"--tls: {error}; delete {directory}, and the server makes it again") from None
    logger.info(
        "TLS: clients trust this server by %s; %s is a certificate for a client, the identity x509:%s",
        directory / certificates.CA,
        directory / certificates.CLIENT,
        certificates.IDENTITY,
    )
    port = arguments.tls_port
    if port is None:
        port = 0 if arguments.port == 0 else _TLS_PORT
    return {"secure_port": SourcedValue(port, "--tls-port"), "ssl_context": SourcedValue(context, "--tls")}


def _temporary() -> str:
    """A temporary directory, which is deleted at the end of this process."""
    import atexit
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="pyzk-server-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def trace(arguments: argparse.Namespace) -> Trace | None:
    """Return the requested trace.

    :raises Refusal: the file or the place cannot be used.
    """
    if not _asks_for_trace(arguments):
        return None
    from ..testing.trace import Selection, Trace

    try:
        selection = Selection.of(
            arguments.trace_op, arguments.trace_path, arguments.trace_session, arguments.trace_server
        )
    except ValueError as error:
        raise Refusal(f"--trace-op: {error}") from None
    try:
        return Trace.to(arguments.trace_file, selection, arguments.trace_format or "text")
    except OSError as error:
        where = arguments.trace_file or "standard output"
        raise Refusal(f"--trace: cannot write to {where}: {error.strerror}; send it elsewhere") from None


def exporter(arguments: argparse.Namespace) -> Exporter | None:
    """Return the sender of spans, if they are requested.

    :raises Refusal: the file or the place cannot be used.
    """
    if arguments.otlp is None:
        return None
    from ..testing.spans import Exporter

    try:
        return Exporter(arguments.otlp)
    except ValueError as error:
        raise Refusal(f"--otlp: {error}") from None


def _asks_for_trace(arguments: argparse.Namespace) -> bool:
    """Return whether any flag of the trace is given."""
    return any(value for name, value in vars(arguments).items() if name.partition("_")[0] == "trace")


def loading(arguments: argparse.Namespace) -> Callable[[Engine], None]:
    """Return a function that loads a file into a tree.

    :raises Refusal: the file cannot be read.
    """
    path = arguments.load
    if path is None:
        for name, value in vars(arguments).items():
            if name.startswith("load_") and value not in ("/", False, []):
                raise Refusal(f"--{name.replace('_', '-')} is for --load; name a file by it")
        return lambda engine: None
    from ...protocol.dump import Choice
    from . import tree_files

    choice = Choice(
        arguments.load_subtree,
        not arguments.load_no_acl,
        "persist" if arguments.load_ephemerals else "keep",
        tuple(arguments.load_mask),
    )
    try:
        nodes = tree_files.read(path, choice)
    except tree_files.DumpError as error:
        raise Refusal(f"--load: {error}") from None

    def load(engine: Engine) -> None:
        try:
            tree_files.load(engine, nodes, path)
        except tree_files.DumpError as error:
            raise Refusal(f"--load: {error}") from None

    return load


_FOR_FILES: Final = (
    *("data_log_dir", "snap_count", "snap_size_limit", "snapshot_compression", "tree_digest"),
    *("purge_interval", "snap_retain_count"),
)
"""Settings without a meaning unless ``--data`` is given."""
_FOR_ENSEMBLES: Final = ("local_sessions", "local_sessions_upgrading")
"""Settings without a meaning for a single server."""


def _warn_of_idle(settings: Settings, fields: Sequence[str], reason: str) -> None:
    """Warn about settings that differ from their defaults and have no effect."""
    from ..config.zookeys import KEY_OF

    defaults = type(settings)()
    keys = [KEY_OF[field] for field in fields if getattr(settings, field) != getattr(defaults, field)]
    if keys:
        logger.warning("without effect, because %s: %s", reason, ", ".join(keys))


def storage(arguments: argparse.Namespace, settings: Settings) -> Storage | None:
    """Return the data of ``--data``, already read.

    :raises Refusal: the data cannot be used.
    """
    _warn_of_idle(settings, _FOR_ENSEMBLES, "there is a single server")
    if arguments.data is None:
        _warn_of_idle(settings, _FOR_FILES, "nothing is kept in files without --data")
        return None
    from ..storage.directory import StorageError
    from ..storage.storage import Storage

    storage = Storage(arguments.data, settings, repair=arguments.data_repair)
    try:
        storage.load()
    except StorageError as error:
        raise Refusal(f"--data: {error}") from None
    return storage


def check_place(path: str | None) -> None:
    """Check that the tree can be saved at the end."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise Refusal(f"--save: cannot write {path}; name a file in a directory that can be written to")

"""The command ``pyzk-server``: flags and zoo.cfg in, one readiness line out, until a signal comes.

Modules are imported when they are needed, so that ``--help`` and ``--version`` do not wait for trio.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ..protocol.version import __version__
from . import logs
from .core.failures import report
from .core.memory import reserve
from .later import import_later
from .logger import logger
from .net import descriptors

if TYPE_CHECKING:
    from .config.members import Member
    from .config.settings import Settings
    from .config.zoocfg import Configuration, Given
    from .core.engine import Engine
    from .core.tree import DataTree
    from .ensemble.ensemble import Timing
    from .serve import Server
    from .storage.storage import Storage
    from .testing.trace import Trace
    from .together import Servers


PROG: Final = "pyzk-server"
_FLUSH: Final = 1.0
"""Seconds between two attempts to write lines of the log that wait for their reader."""

# Flags by the field of Settings that they set.
_FLAGS: Final = {
    "host": "--host",
    "port": "--port",
    "tick_time": "--tick-time",
    "min_session_timeout": "--min-session-timeout",
    "max_session_timeout": "--max-session-timeout",
}


_TLS_PORT: Final = 2281
"""The usual port for clients over TLS."""
_TRACE_FORMATS: Final = ("text", "json")


class _Refusal(Exception):
    """The server cannot start: one line that says why and how to mend it."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refusal(f"{message} (see {PROG} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROG,
        description="An in-memory coordination server that speaks the ZooKeeper protocol.",
        epilog="A key of zoo.cfg can also be an environment variable: tickTime is PYZK_TICK_TIME."
        " Flags win over these, and these over the file. Without --data a restarted server is empty.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", metavar="HOST", help="listen at this address (default: 127.0.0.1)")
    add("--port", metavar="PORT", type=int, help="listen at this port (default: 2181; 0: any free one)")
    add("--config", metavar="FILE", help="read settings from a file in zoo.cfg syntax")
    add("--tick-time", metavar="MS", type=int, help="length of a tick (default: 2000)")
    add("--min-session-timeout", metavar="MS", type=int, help="least session timeout (default: 2 ticks)")
    add("--max-session-timeout", metavar="MS", type=int, help="greatest session timeout (default: 20 ticks)")
    add(
        "--tls",
        metavar="DIR",
        nargs="?",
        const="",
        help="TLS with certificates that are made on the spot",
    )
    add("--tls-port", metavar="PORT", type=int, help="where (default: 2281; with --port 0 any free one)")
    add(
        "--ensemble",
        metavar="N",
        type=int,
        help="pretend to be N servers, for tests: each has its own port, and nothing is replicated",
    )
    add("--observers", metavar="N", type=int, default=0, help="and so many observers (default: 0)")
    add("--load", metavar="FILE", help="start with the znodes of a file that --save or pyzk dump has written")
    add("--save", metavar="FILE", help="write all znodes to this file at the end")
    add(
        "--data",
        metavar="DIR",
        help="keep the data here, in the files of Apache ZooKeeper, and start from it",
    )
    add(
        "--data-repair",
        action="store_true",
        help="start from damaged files with what comes before the damage",
    )
    add(
        "--end-with-stdin",
        action="store_true",
        help="end when standard input does: with what started the server",
    )
    add("--no-expiry", action="store_true", help="no session expires while its connection is open")
    add("--hostile", metavar="SEED", type=int, help="legal but rare behaviour all the time: for tests")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of zoo.cfg; may be repeated")
    add("--log-level", type=str.lower, choices=logs.LEVELS, default="info", help="(default: info)")
    add("--log-format", choices=logs.FORMATS, default="text", help="(default: text)")
    trace = parser.add_argument_group(
        "trace", "A line for each request, reply, event, session and fault, on standard output."
    )
    add = trace.add_argument
    add("--trace", action="store_true", help="print the trace; so do the other flags of this group")
    add("--trace-op", metavar="OP", action="append", default=[], help="only this operation; may be repeated")
    add("--trace-path", metavar="GLOB", help="only these znodes: * is within one name, ** is anything")
    add("--trace-session", metavar="ID", type=_session_id, help="only this session")
    add("--trace-format", choices=_TRACE_FORMATS, help="(default: text)")
    add("--trace-file", metavar="FILE", help="append to this file instead")
    add = parser.add_argument
    add("--version", action="version", version=f"{PROG} {__version__}")
    return parser


def _session_id(text: str) -> int:
    return int(text, 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    :param argv: the arguments without the program's name; those of the process by default.
    :returns: 0 after SIGINT or SIGTERM; 2 if the server could not start, with one line on stderr saying why.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    import_later("ssl", "idna", "hashlib", "hmac", "bz2", "lzma")
    try:
        try:
            _run(_parser().parse_args(argv))
        except SystemExit:
            _say("")  # flush what argparse has printed
            raise
    except _Refusal as refusal:
        with suppress(OSError, ValueError, AttributeError):  # there may be no standard error either
            sys.stderr.write(f"{PROG}: {refusal}\n")
            sys.stderr.flush()
        return 2
    except KeyboardInterrupt:  # before the server began to listen for signals
        pass
    return 0


def _run(arguments: argparse.Namespace) -> None:
    from .config import zoocfg

    if arguments.data is None and arguments.data_repair:
        raise _Refusal("--data-repair is for --data")
    if arguments.data is not None and arguments.load is not None:
        raise _Refusal("--load and --data both say what to start with; drop one: pyzk load adds to a tree")
    logs.configure(arguments.log_level, arguments.log_format)
    flags = {field: (getattr(arguments, field), flag) for field, flag in _FLAGS.items()}
    given = {field: zoocfg.Given(value, flag) for field, (value, flag) in flags.items() if value is not None}
    if arguments.no_expiry:
        given["expire_connected"] = zoocfg.Given(False, "--no-expiry")
    try:
        found = _configuration(arguments, "port" in given)
        given = {**found.given, **given}
        given |= _certificates(arguments, given)
        settings = zoocfg.build(given, names=_FLAGS)
    except zoocfg.ConfigError as error:
        raise _Refusal(str(error)) from None
    members = _members(arguments, found)

    descriptors.raise_limit()
    if descriptors.limit() < descriptors.LEAST:
        raise _Refusal(
            f"only {descriptors.limit()} files may be open at a time; "
            f"raise the limit (ulimit -n) to {descriptors.LEAST} or more"
        )
    import trio

    from . import serve

    trace = _trace(arguments)
    trees: list[Callable[[], DataTree]] = []  # what is saved at the end
    load = _loading(arguments.load)

    def prepare(server: Server) -> None:
        trees.append(lambda: server.service.engine.tree)
        load(server.service.engine)
        if arguments.hostile is not None:
            _make_hostile(server, arguments.hostile)
        if trace is not None:
            trace.attach(server)

    def prepare_all(servers: Servers) -> None:
        trees.append(servers.ensemble.newest_tree)
        load(servers.ensemble.leader())

    _check_place(arguments.save)
    plain = trace is arguments.load is arguments.save is arguments.hostile is None
    storage = None
    if members:
        if arguments.data is not None:
            raise _Refusal("--data is for one server: a pretended ensemble keeps nothing; drop one of them")
        from .together import serve_together

        start = partial(serve_together, settings, members, _timing(found), prepare_all)
    else:
        storage = _storage(arguments, settings)
        start = partial(serve.serve, settings) if storage is None else partial(_serve_data, storage, settings)
        if not plain:
            start = partial(start, prepare=prepare)
    _spare_the_collector()
    try:
        with reserve.held():
            refused = trio.run(_serve, start, trace, arguments.end_with_stdin)
    except BaseExceptionGroup as group:
        refused = _failed_journal(group)
        if refused is None:
            raise
    finally:
        if storage is not None:
            storage.close()
    logs.flush(at_end=True)
    if trace is not None:
        trace.close()
    if arguments.save is not None and refused is None:
        _save(trees[0](), arguments.save)
    if isinstance(refused, _Refusal):
        raise refused
    if refused is not None:
        raise _Refusal(_explain(refused, settings, given))


def _configuration(arguments: argparse.Namespace, port_given: bool) -> Configuration:
    """Return what the file, the environment and ``--set`` say.

    :raises ConfigError: if that cannot be honoured.
    """
    from .config import zoocfg

    beside, warnings = zoocfg.from_environment(os.environ)
    beside += zoocfg.from_flags(arguments.set)
    found = zoocfg.Configuration({}, ())
    if arguments.config is not None:
        found = zoocfg.read(arguments.config, port_given=port_given, beside=beside)
    elif beside:
        found = zoocfg.interpret("", "what was given", port_given=True, beside=beside)
    for warning in (*warnings, *found.warnings):
        logger.warning("%s", warning)
    return found


def _members(arguments: argparse.Namespace, found: Configuration) -> Sequence[Member]:
    """Return the servers of the ensemble that is asked for; none for a single server.

    :raises _Refusal: if it cannot be had.
    """
    from .config.members import MemberError, made_up

    members: Sequence[Member] = found.members
    if arguments.ensemble is not None:
        try:
            asked = made_up(arguments.ensemble, arguments.observers)
        except MemberError as error:
            raise _Refusal(f"--ensemble: {error}") from None
        if members and [m.votes for m in members] != [m.votes for m in asked]:
            raise _Refusal(f"--ensemble: the file has {len(members)} server lines; leave the flag out")
        members = members or asked
    elif arguments.observers:
        raise _Refusal("--observers needs --ensemble beside it")
    if members:
        given = {
            name.partition("_")[0]
            for name, value in vars(arguments).items()
            if value not in (None, False, [])
        }
        for flag in ("trace", "hostile"):
            if flag in given:
                raise _Refusal(f"--{flag} is for a single server; leave it out with an ensemble")
    if members:
        text = "%d servers pretend to be an ensemble, for tests: nothing is replicated; for production use %s"
        logger.warning(text, len(members), "Apache ZooKeeper")
    return members


def _timing(found: Configuration) -> Timing:
    from .ensemble.ensemble import Timing

    if not found.members:
        return Timing()
    return Timing(sync_limit=found.sync_limit, init_limit=found.init_limit)


def _certificates(arguments: argparse.Namespace, given: Mapping[str, Given]) -> Mapping[str, Given]:
    """Return the values that ``--tls`` stands for, by field of Settings.

    :raises ConfigError: if that cannot be had.
    """
    if arguments.tls is None:
        if arguments.tls_port is not None:
            raise _Refusal("--tls-port is for --tls, or use the key secureClientPort")
        return {}
    from pathlib import Path

    from . import certificates
    from .config import zoocfg
    from .config.tls import TlsError

    if "secure_port" in given:
        raise _Refusal(f"--tls: there is a certificate already, for {given['secure_port']}; drop one of them")
    directory = Path(arguments.tls or _temporary())
    host = given.get("host")
    try:
        context = certificates.make(directory, str(host.value) if host else "localhost")
    except certificates.NotInstalled:
        raise _Refusal("--tls needs more: pip install 'pyzk-server[tls]'") from None
    except OSError as error:
        raise _Refusal(f"--tls: cannot write to {directory}: {error.strerror}; name another one") from None
    except TlsError as error:
        raise _Refusal(f"--tls: {error}; delete {directory}, and it is made anew") from None
    logger.info(
        "TLS: clients trust this server by %s; %s is a certificate for a client, the identity x509:%s",
        directory / certificates.CA,
        directory / certificates.CLIENT,
        certificates.IDENTITY,
    )
    port = arguments.tls_port
    if port is None:
        port = 0 if arguments.port == 0 else _TLS_PORT
    return {"secure_port": zoocfg.Given(port, "--tls-port"), "ssl_context": zoocfg.Given(context, "--tls")}


def _temporary() -> str:
    """A directory that goes with this process."""
    import atexit
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="pyzk-server-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _make_hostile(server: Server, seed: int) -> None:
    from .testing.host import take_over

    logger.warning("hostile, seed %d: legal but rare behaviour all the time; for tests alone", seed)
    server.controls = take_over(server, seed)


def _trace(arguments: argparse.Namespace) -> Trace | None:
    """The trace that is asked for.

    :raises _Refusal: if it cannot be had.
    """
    given = {name: value for name, value in vars(arguments).items() if name.partition("_")[0] == "trace"}
    if not any(value for value in given.values()):
        return None
    from .testing.trace import Selection, Trace

    try:
        selection = Selection.of(arguments.trace_op, arguments.trace_path, arguments.trace_session)
    except ValueError as error:
        raise _Refusal(f"--trace-op: {error}") from None
    try:
        return Trace.to(arguments.trace_file, selection, arguments.trace_format or "text")
    except OSError as error:
        where = arguments.trace_file or "standard output"
        raise _Refusal(f"--trace: cannot write to {where}: {error.strerror}; send it elsewhere") from None


def _loading(path: str | None) -> Callable[[Engine], None]:
    """Return a function that loads a file into a tree.

    :raises _Refusal: if the file cannot be read.
    """
    if path is None:
        return lambda engine: None
    from . import dumps

    try:
        nodes = dumps.read(path)
    except dumps.DumpError as error:
        raise _Refusal(f"--load: {error}") from None

    def load(engine: Engine) -> None:
        try:
            dumps.load(engine, nodes, path)
        except dumps.DumpError as error:
            raise _Refusal(f"--load: {error}") from None

    return load


def _storage(arguments: argparse.Namespace, settings: Settings) -> Storage | None:
    """Return the data of ``--data``, which are read already.

    :raises _Refusal: if they cannot be used.
    """
    if arguments.data is None:
        return None
    from .storage.directory import StorageError
    from .storage.storage import Storage

    storage = Storage(arguments.data, settings, repair=arguments.data_repair)
    try:
        storage.load()
    except StorageError as error:
        raise _Refusal(f"--data: {error}") from None
    return storage


def _failed_journal(error: BaseException) -> _Refusal | None:
    """Return the refusal for a log that cannot be written, if that is what has ended the server."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _Refusal(f"--data: {error}") if type(error).__name__ == "JournalFailed" else None


def _check_place(path: str | None) -> None:
    """Refuse a place where nothing could be saved at the end."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise _Refusal(f"--save: cannot write {path}; name a file in a directory that can be written to")


def _save(tree: DataTree, path: str) -> None:
    from . import dumps

    try:
        dumps.save(tree, path)
    except dumps.DumpError as error:
        raise _Refusal(f"--save: {error}") from None


def _say(text: str) -> None:
    """Write to standard output at once.

    :raises _Refusal: that is impossible.
    """
    try:
        print(text, end="", flush=True)
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
    except (OSError, ValueError) as error:  # ValueError: it was closed by this process
        sys.stdout = None  # the interpreter would try again at its end
        reason = getattr(error, "strerror", None) or error
        raise _Refusal(f"cannot write to standard output: {reason}; send it elsewhere") from None


def _spare_the_collector() -> None:
    """Let the garbage collector look at young objects only.

    A full collection stops the server for 0.1 s per million znodes, and finds nothing: objects that live long
    are in no cycles here (tests/benchmarks/test_leaks.py).
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 1_000_000)


def _read_to_the_end() -> None:
    """Read standard input until its end, which comes when no process holds the other end of the pipe."""
    with suppress(OSError):  # there is none
        while os.read(
            0, io.DEFAULT_BUFFER_SIZE
        ):  # not sys.stdin: a blocked reader locks that when Python ends
            pass


async def _serve(
    start: Callable[..., Awaitable[object]], trace: Trace | None, ends_with_stdin: bool
) -> Exception | None:
    """Serve until SIGINT or SIGTERM.

    :param start: what serves; it tells its ``task_status`` the server, or the servers, once they listen.
    :param trace: is flushed now and then.
    :param ends_with_stdin: serve until the end of standard input at the latest.
    :returns: the error if the server cannot listen, or cannot write its readiness line.
    """
    import signal

    import trio

    refused: Exception | None = None

    async def stop_at_signal(scope: trio.CancelScope) -> None:
        async for _ in signals:
            scope.cancel()

    async def stop_with_stdin(scope: trio.CancelScope) -> None:
        await trio.to_thread.run_sync(_read_to_the_end, abandon_on_cancel=True)
        scope.cancel()

    async def flush_log() -> None:
        while True:
            await trio.sleep(_FLUSH)
            try:
                logs.flush()
                if trace is not None:
                    trace.flush()
            except Exception:
                report("lines of the log may be missing; what reads standard error must go on reading")

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        # The receiver outlives the server, so that a second signal during its shutdown does not kill it.
        async with trio.open_nursery() as receiver:
            async with trio.open_nursery() as nursery:
                receiver.start_soon(stop_at_signal, nursery.cancel_scope)
                receiver.start_soon(flush_log)
                if ends_with_stdin:
                    receiver.start_soon(stop_with_stdin, nursery.cancel_scope)
                try:
                    server = await nursery.start(start)
                except* (OSError, UnicodeError, _Refusal) as errors:  # UnicodeError: an impossible host name
                    refused = _first(errors)
                else:
                    try:
                        _say(f"{_readiness(server)}\n")
                    except _Refusal as refusal:
                        refused = refusal
                        nursery.cancel_scope.cancel()
            receiver.cancel_scope.cancel()
    return refused


async def _serve_data(storage: Storage, settings: Settings, **arguments: Any) -> None:
    """Serve what is in files.

    :raises _Refusal: the first snapshot cannot be written.
    """
    from .serve import serve
    from .storage.directory import StorageError

    try:
        await serve(settings, storage=storage, **arguments)
    except StorageError as error:
        raise _Refusal(f"--data: {error}") from None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _readiness(server: Server | Servers) -> str:
    if hasattr(server, "servers"):
        line = f"{PROG} is ready at {server.hosts} as a pretend ensemble: nothing is replicated"
        first = next(iter(server.servers.values()))
        return line if first.url is None else f"{line}\nHTTP at {first.url}"
    others = {
        "secure": server.secure_address,
        "admin": server.admin_address,
        "metrics": server.metrics_address,
    }
    words = [f"{name} {_spell(*address)}" for name, address in others.items() if address]
    line = " ".join([f"{PROG} is ready at {_spell(*server.address)}", *words])
    return line if server.url is None else f"{line}\nHTTP at {server.url}"


def _spell(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_REASONS: Final = {
    errno.EADDRINUSE: "the port is in use; stop what uses it, or change {port} (0: any free port)",
    errno.EACCES: "ports below 1024 are for privileged programs; change {port}",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; raise its limit (fs.file-max), or close some",
    errno.EADDRNOTAVAIL: "no such address on this machine; change {host}",
}


# Fields of Settings: where to listen.
_LISTENERS: Final = (
    ("host", "port"),
    ("secure_host", "secure_port"),
    ("admin_host", "admin_port"),
    ("metrics_host", "metrics_port"),
)


def _explain(error: Exception, settings: Settings, given: Mapping[str, Given]) -> str:
    """Say why the server cannot listen, and which flag or key to change."""
    import socket

    from .config.zookeys import KEY_OF

    tried = {
        (host, port): (getattr(settings, host) or settings.host, getattr(settings, port))
        for host, port in _LISTENERS
        if getattr(settings, port) is not None
    }
    culprit = getattr(error, "filename", None)
    tried = {fields: address for fields, address in tried.items() if address == culprit} or tried
    host, port = (
        " or ".join(str(given.get(field) or _FLAGS.get(field) or KEY_OF[field]) for field in fields)
        for fields in zip(*tried, strict=True)
    )
    reason = f"{getattr(error, 'strerror', None) or error}; change {{host}} or {{port}}"
    if isinstance(error, socket.gaierror | UnicodeError):
        reason = "the host name cannot be resolved; change {host}"
    elif isinstance(error, OSError):
        reason = _REASONS.get(error.errno or 0, reason)
    addresses = " or ".join(_spell(*address) for address in tried.values())
    return f"cannot listen at {addresses}: {reason.format(port=port, host=host)}"

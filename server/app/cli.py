"""The command ``pyzk-server``. It serves from its readiness line until it gets a signal.

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
from typing import TYPE_CHECKING, Any, Final

from ..core.failures import ran_out, report
from ..logger import logger
from ..net import descriptors
from . import flags, logs, recording
from .flags import FLAGS, PROG, Refusal
from .lazy_imports import import_later

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..config.sourced_values import SourcedValue
    from ..core.tree import DataTree
    from ..ensemble.host import EnsembleHost
    from ..monitoring.server import MonitoredServer
    from ..storage.storage import Storage
    from ..testing.spans import Exporter
    from ..testing.trace import Trace


_NO_MEMORY: Final = f"{PROG}: memory ran out; raise its limit (ulimit -v), or keep less\n".encode()
_FLUSH: Final = 1.0
"""The time in seconds between two attempts to write waiting lines of the log."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    :param argv: the arguments without the program's name; by default the arguments of the process.
    :returns: The exit status is 0 after SIGINT or SIGTERM, 2 if the server could not start, and 3 if memory
        ran out. With 2 and 3, one line on stderr says why.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    import_later("ssl", "idna", "hashlib", "hmac", "bz2", "lzma")
    try:
        try:
            _run(flags.parser().parse_args(argv))
        except SystemExit:
            _say("")  # flush what argparse has printed
            raise
    except Refusal as refusal:
        with suppress(OSError, ValueError, AttributeError):  # there may be no standard error either
            sys.stderr.write(f"{PROG}: {refusal}\n")
            sys.stderr.flush()
        return 2
    except KeyboardInterrupt:  # before the server began to listen for signals
        pass
    except BaseException as error:
        if not ran_out(error):
            raise
        with suppress(OSError):
            os.write(2, _NO_MEMORY)
        return 3
    return 0


def _run(arguments: argparse.Namespace) -> None:
    from ..config.properties import ConfigError
    from ..config.sourced_values import SourcedValue, build

    for flag, value in (("--data-repair", arguments.data_repair), ("--data-log", arguments.data_log_dir)):
        if arguments.data is None and value:
            raise Refusal(f"{flag} is for --data")
    if arguments.data is not None and arguments.load is not None:
        raise Refusal(
            "--load and --data both name the data to start with; drop one of them (pyzk load adds znodes "
            "to a running server)"
        )
    logs.configure(arguments.log_level, arguments.log_format)
    values = {field: (getattr(arguments, field), flag) for field, flag in FLAGS.items()}
    given = {field: SourcedValue(value, flag) for field, (value, flag) in values.items() if value is not None}
    if arguments.no_expiry:
        given["expire_connected"] = SourcedValue(False, "--no-expiry")
    try:
        found = flags.configuration(arguments, "port" in given)
        given = {**found.values, **given}
        given |= flags.certificates(arguments, given)
        settings = build(given, names=FLAGS)
    except ConfigError as error:
        raise Refusal(str(error)) from None
    members = flags.members(arguments, found, None if settings.release.is_default else given["emulate"])

    descriptors.raise_limit()
    if descriptors.limit() < descriptors.LEAST:
        raise Refusal(
            f"only {descriptors.limit()} files may be open at a time; "
            f"raise the limit (ulimit -n) to {descriptors.LEAST} or more"
        )
    import trio

    from . import serve

    trace = flags.trace(arguments)
    exporter = flags.exporter(arguments)
    trees: list[Callable[[], DataTree]] = []  # what is saved at the end
    load = flags.loading(arguments)

    def prepare(server: MonitoredServer) -> None:
        trees.append(lambda: server.service.engine.tree)
        load(server.service.engine)
        if arguments.hostile is not None:
            _make_hostile(server, arguments.hostile)
        if trace is not None:
            trace.attach(server)
        if exporter is not None:
            _make_spans(server, exporter)
        if arguments.record == "all":
            recording.record_all(server)
        elif arguments.record != "none":
            recording.record_recent(server)

    def prepare_all(host: EnsembleHost) -> None:
        trees.append(host.ensemble.newest_tree)
        load(host.ensemble.leader())
        if trace is not None:
            trace.attach(host)
        if exporter is not None:
            _make_spans(host, exporter)
        if arguments.record == "all":
            recording.record_all(host)
        elif arguments.record != "none":
            recording.record_recent_of_all(host)

    flags.check_place(arguments.save)
    storage = None
    if members:
        if arguments.data is not None:
            raise Refusal(
                "--data works only for a single server, because a pretend ensemble keeps no data; drop "
                "--data or --ensemble"
            )
        from ..ensemble.timing import timing_of

        timing = timing_of(found, arguments.election_time)
        start = partial(serve.serve_ensemble, settings, members, timing, prepare_all)
    else:
        storage = flags.storage(arguments, settings)
        start = partial(serve.serve, settings) if storage is None else partial(_serve_data, storage, settings)
        start = partial(start, prepare=prepare)
    _spare_the_collector()
    try:
        refused = trio.run(_serve, start, trace, arguments.end_with_stdin)
    except BaseExceptionGroup as group:
        refused = None if ran_out(group) else _failed_journal(group)
        if refused is None:
            raise
    finally:
        if storage is not None:
            storage.close()
    logs.flush(at_end=True)
    if trace is not None:
        trace.close()
    if exporter is not None:
        exporter.close()
    if arguments.save is not None and refused is None:
        _save(trees[0](), arguments.save)
    if isinstance(refused, Refusal):
        raise refused
    if refused is not None:
        raise Refusal(_explain(refused, settings, given))


def _make_spans(server: MonitoredServer | EnsembleHost, exporter: Exporter) -> None:
    from ..testing.spans import Spans
    from ..testing.takeover import running_of

    Spans(running_of(server), exporter)


def _make_hostile(server: MonitoredServer, seed: int) -> None:
    from ..testing.host import take_over

    logger.warning(
        "hostile, seed %d: this server always does what ZooKeeper may do but rarely does; only for tests",
        seed,
    )
    server.controls = take_over(server, seed)


def _failed_journal(error: BaseException) -> Refusal | None:
    """Return the message for a log that cannot be written, if this has ended the server; otherwise None."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return Refusal(f"--data: {error}") if type(error).__name__ == "JournalFailed" else None


def _save(tree: DataTree, path: str) -> None:
    from . import tree_files

    try:
        tree_files.save(tree, path)
    except tree_files.DumpError as error:
        raise Refusal(f"--save: {error}") from None


def _say(text: str) -> None:
    """Write to standard output at once.

    :raises Refusal: writing is impossible.
    """
    try:
        print(text, end="", flush=True)
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
    except (OSError, ValueError) as error:  # ValueError: it was closed by this process
        sys.stdout = None  # the interpreter would try again at its end
        reason = getattr(error, "strerror", None) or error
        raise Refusal(f"cannot write to standard output: {reason}; send it elsewhere") from None


def _spare_the_collector() -> None:
    """Restrict the garbage collector to young objects.

    A full collection stops the server for 0.1 s per million znodes. It finds nothing, because long-lived
    objects are not in cycles (tests/benchmarks/test_leaks.py).
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

    :param start: the function that serves; it passes the listening server, or the servers, to its
        ``task_status``.
    :param trace: the trace, which is flushed at intervals.
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
                report("lines of the log may be lost; the reader of standard error must read faster")

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
                except* (OSError, UnicodeError, Refusal) as errors:  # UnicodeError: an impossible host name
                    refused = _first(errors)
                else:
                    try:
                        _say(f"{_readiness(server)}\n")
                    except Refusal as refusal:
                        refused = refusal
                        nursery.cancel_scope.cancel()
            receiver.cancel_scope.cancel()
    return refused


async def _serve_data(storage: Storage, settings: Settings, **arguments: Any) -> None:
    """Serve the data in files.

    :raises Refusal: the first snapshot cannot be written.
    """
    from ..storage.directory import StorageError
    from .serve import serve

    try:
        await serve(settings, storage=storage, **arguments)
    except StorageError as error:
        raise Refusal(f"--data: {error}") from None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _readiness(server: MonitoredServer | EnsembleHost) -> str:
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
    errno.EADDRINUSE: "the port is in use; stop the program that uses it, or change {port} (0: any free "
    "port)",
    errno.EACCES: "ports below 1024 are for privileged programs; change {port}",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; raise its limit (fs.file-max), or close some "
    "files",
    errno.EADDRNOTAVAIL: "no such address on this machine; change {host}",
}


# Fields of Settings: where to listen.
_LISTENERS: Final = (
    ("host", "port"),
    ("secure_host", "secure_port"),
    ("admin_host", "admin_port"),
    ("metrics_host", "metrics_port"),
)


def _explain(error: Exception, settings: Settings, given: Mapping[str, SourcedValue]) -> str:
    """Say why the server cannot listen, and which flag or key to change."""
    import socket

    from ..config.zookeys import KEY_OF

    tried = {
        (host, port): (getattr(settings, host) or settings.host, getattr(settings, port))
        for host, port in _LISTENERS
        if getattr(settings, port) is not None
    }
    culprit = getattr(error, "filename", None)
    tried = {fields: address for fields, address in tried.items() if address == culprit} or tried
    host, port = (
        " or ".join(str(given.get(field) or FLAGS.get(field) or KEY_OF[field]) for field in fields)
        for fields in zip(*tried, strict=True)
    )
    reason = f"{getattr(error, 'strerror', None) or error}; change {{host}} or {{port}}"
    if isinstance(error, socket.gaierror | UnicodeError):
        reason = "the host name cannot be resolved; change {host}"
    elif isinstance(error, OSError):
        reason = _REASONS.get(error.errno or 0, reason)
    addresses = " or ".join(_spell(*address) for address in tried.values())
    return f"cannot listen at {addresses}: {reason.format(port=port, host=host)}"

"""The command ``pyzk-sweep``: a sweep of programs in any language."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from ....protocol.version import __version__
from ...net.http import HttpServer
from ...net.unread import UnreadOutput
from .. import explore, tokens
from ..faults import FAULTS, chosen
from ..judging import innermost
from ..model import NotControlled
from ..report import Report
from .asking import Desk
from .subject import CannotRun, Options, Programs

PROG: Final = "pyzk-sweep"
_FOUND, _USAGE, _NOT_CONTROLLED = 1, 2, 3
_MOST_SERVERS: Final = 9
_TIMEOUT: Final = 30.0
"""The seconds in which a program must send its whole request, and the seconds in which it must read the
answer."""
_UNREAD: Final = 2**20  # bytes
_SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
HAS_GROUPS: Final = hasattr(os, "killpg")


class _Ended(Exception):
    """A signal has come. The sweep kills the programs, and then ends."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog=PROG,
        usage=f"{PROG} [option ...] -- COMMAND [argument ...]",
        description="Run a command many times: with each fault at each request of its clients, and with the "
        "requests in every order. Report the runs that fail.",
        epilog="COMMAND must connect its clients to the addresses in ZOOKEEPER_HOSTS_A, ZOOKEEPER_HOSTS_B, "
        "... and must end with a status other than 0 if something is wrong. Exit status: 0 if no run fails, "
        "1 if a run fails, 2 if the command line is wrong or COMMAND cannot be run, 3 if the sweep does not "
        "control the order of requests.",
    )
    made.add_argument(
        "--clients",
        default="a,b",
        metavar="NAMES",
        help="the clients' names, of lower-case letters; default: %(default)s",
    )
    made.add_argument(
        "--each",
        action="store_true",
        help="start COMMAND once for each client, all at once; ZOOKEEPER_HOSTS is the address of its client",
    )
    made.add_argument("--before", metavar="LINE", help="a shell command that runs before each run")
    made.add_argument("--after", metavar="LINE", help="a shell command that checks the data after each run")
    made.add_argument(
        "--faults",
        default="zookeeper",
        metavar="NAMES",
        help=f"the faults: {', '.join(FAULTS)}; "
        "or zookeeper: all faults of a ZooKeeper; keeper: these faults and swap; none; default: %(default)s",
    )
    made.add_argument(
        "--orders",
        choices=("some", "all", "none"),
        default="some",
        help="as many orders as fit into the budget, all orders, or none; default: %(default)s",
    )
    made.add_argument(
        "--ensemble",
        type=int,
        metavar="NUMBER",
        help="run each time with a pretend ensemble of this many servers, at least 3: its followers may lag, "
        "and its leader may die; default: a single server",
    )
    made.add_argument(
        "--replies",
        action="store_true",
        help="make each reply a step of its own: it may come after steps of other clients; many more orders "
        "differ then",
    )
    made.add_argument(
        "--budget",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="the seconds of real time for the sweep; default: 60",
    )
    made.add_argument("--replay", metavar="TOKEN", help="run only this token from a report")
    made.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="GLOB",
        help="cells that may fail, such as '*-gone-after'; may be given more than once",
    )
    made.add_argument(
        "--session-timeout",
        type=int,
        default=2000,
        metavar="MS",
        help="the longest session timeout that the server grants; default: %(default)s",
    )
    made.add_argument(
        "--patience",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="after this time without a request, a run counts as hung; default: 10",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page that plays the findings")
    made.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    made.add_argument("command", nargs="+", metavar="COMMAND", help="the command to run, with its arguments")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``pyzk-sweep``; return its exit status.

    :param argv: the arguments without the program's name; by default the arguments of the process.
    :raises SystemExit: the command line is wrong, or has ``--help`` or ``--version``.
    """
    made = parser()
    arguments = made.parse_args(argv)
    if not HAS_GROUPS:
        made.error(
            f"{sys.platform} has no process groups, with which a sweep ends the processes of a command"
        )
    clients = tuple(arguments.clients.split(","))
    if len(set(clients)) < len(clients) or not all(
        name.isascii() and name.isalpha() and name.islower() and len(name) < 24 for name in clients
    ):
        made.error(
            f"--clients must be different names of lower-case letters, such as a,b: not {arguments.clients!r}"
        )
    in_ensemble = arguments.ensemble is not None
    if in_ensemble and not 3 <= arguments.ensemble <= _MOST_SERVERS:
        made.error(f"--ensemble must be 3 to {_MOST_SERVERS} servers, not {arguments.ensemble}")
    try:
        faults = chosen(_names(arguments.faults), in_ensemble=in_ensemble)
    except ValueError as error:
        made.error(f"--faults: {error}")
    if not 200 <= arguments.session_timeout <= 60_000:
        made.error(f"--session-timeout must be 200 to 60000 ms, not {arguments.session_timeout}")
    if arguments.replay is not None:
        try:
            tokens.check(arguments.replay, in_ensemble=in_ensemble)
        except ValueError as error:
            made.error(f"--replay: {error}")
    plan = explore.Plan(
        faults, None if arguments.orders == "none" else arguments.orders, arguments.budget, arguments.allow
    )
    options = Options(
        arguments.command,
        clients,
        each=arguments.each,
        before=arguments.before,
        after=arguments.after,
        session_timeout=arguments.session_timeout,
        patience=arguments.patience,
        ensemble=arguments.ensemble,
        replies=arguments.replies or tokens.has_replies(arguments.replay),
    )
    try:
        report = trio.run(_sweep, options, plan, arguments.replay)
    except _Ended as ended:
        return 128 + ended.signal
    except CannotRun as error:
        _say(str(error))
        return _USAGE
    except NotControlled as error:
        _say(str(error))
        return _NOT_CONTROLLED
    with suppress(BrokenPipeError):
        print(report, flush=True)
    if arguments.json is not None:
        arguments.json.write_text(report.as_json() + "\n", encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(report.as_html(), encoding="utf-8")
    return _FOUND if report.failed else 0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds"


def _names(text: str) -> list[str]:
    return [] if text == "none" else [name.strip() for name in text.split(",")]


def _say(line: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{PROG}: {line}\n")
        sys.stderr.flush()


async def _sweep(options: Options, plan: explore.Plan, token: str | None) -> Report:
    desk = Desk()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    http = HttpServer(desk.answer, _TIMEOUT, UnreadOutput(_UNREAD))
    with listener, trio.open_signal_receiver(*_SIGNALS) as signals:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_at_signal, signals)
                nursery.start_soon(http.listen, listener)
                programs = Programs(options, desk, url, nursery, _say)
                try:
                    results = await trio.to_thread.run_sync(_carry_out, programs, plan, token)
                finally:
                    with trio.CancelScope(shield=True):
                        await desk.close()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise innermost(errors) from None
    _say(f"{programs.runs} runs; the sweep assumes that all programs wait when {programs.quiet.words}")
    return Report(results, " ".join(options.command))


async def _end_at_signal(signals: AsyncIterator[int]) -> None:
    """Wait for a signal.

    :raises _Ended: a signal has come.
    """
    async for number in signals:
        raise _Ended(number)


def _carry_out(programs: Programs, plan: explore.Plan, token: str | None) -> explore.Results:
    programs.rehearse()
    return explore.replay(programs, token) if token else explore.carry_out(programs, plan)

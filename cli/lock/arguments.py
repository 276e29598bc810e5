"""The arguments of ``pyzk-lock``."""

from __future__ import annotations

import argparse
import math
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from ...protocol.version import __version__
from ..arguments import (
    Parser,
    add_hosts,
    check_path,
    check_server,
    identities,
    number,
    seconds,
    split_command,
    wrong,
)
from ..status import Failure
from ..tls import add_tls, ssl_context_of

if TYPE_CHECKING:  # the completions of all commands import this module, and need no recipe
    from ...recipes.base.ownership import Suspended
    from ...recipes.locks.role import LockLayout

PROG: Final = "pyzk-lock"

_DESCRIPTION = "Run a command while holding a lock in ZooKeeper, or show who holds it."
_USAGE = f"""{PROG} [OPTIONS] PATH -- COMMAND [ARGUMENT ...]
       {PROG} [OPTIONS] --list [--json] PATH
       {PROG} [OPTIONS] --break [--yes] PATH"""
_EPILOG = (
    "Exit status: the status of the command; 75: not acquired; 76: lost, and the command was ended; 69: "
    "no server."
    " The command has in its environment: PYZK_LOCK_PATH, PYZK_LOCK_TOKEN, PYZK_LOCK_NODE, PYZK_LOCK_SESSION."
)


@attrs.frozen(kw_only=True)
class Options:
    """The arguments, checked. Times are in seconds.

    :ivar command: the command and its arguments; empty if no command runs, for example with ``--list``.
    :ivar timeout: the seconds to wait for the lock. Infinity means a wait without end. 0 means no wait.
    :ivar slots: the number of processes that can hold the semaphore; None for a lock.
    :ivar data: the data of the znode of this process.
    :ivar breaks: whether to delete the znodes of the lock's holders.
    :ivar yes: whether the lock is broken without a question.
    :ivar ssl_context: for TLS; None without.
    :ivar auth: identities, as pairs of scheme and credential.
    """

    path: str
    command: tuple[str, ...]
    hosts: str
    session_timeout: float
    shared: bool
    timeout: float
    slots: int | None
    layout: LockLayout
    suspended: Suspended
    data: bytes
    kill_after: float
    auth: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    verbose: bool
    list: bool
    json: bool
    breaks: bool
    yes: bool
    ssl_context: ssl.SSLContext | None


def _wrong(message: str) -> Failure:
    return wrong(PROG, message)


def new_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog=PROG,
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "path", metavar="PATH", help="the path of the lock; the znode is created when it is missing"
    )

    lock = parser.add_argument_group("the lock")
    add = lock.add_mutually_exclusive_group().add_argument
    add(
        "-s",
        "--shared",
        action="store_true",
        help="hold a read lock: several readers can hold it at the same time",
    )
    add(
        "--slots", metavar="N", type=number, help="hold a semaphore: N processes can hold it at the same time"
    )
    add = lock.add_mutually_exclusive_group().add_argument
    add(
        "-n", "--try", dest="timeout", action="store_const", const=0.0, help="do not wait if the lock is held"
    )
    add(
        "-w",
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        help="wait for the lock at most this long (default: for ever)",
    )
    add = lock.add_argument
    add(
        "--layout",
        choices=["curator", "kazoo", "both"],
        default="curator",
        help="the library that names the znodes: programs that use this library then compete for the "
        "same lock",
    )
    add(
        "--data",
        metavar="TEXT",
        help="the text that --list shows about this holder (default: host, pid, name of the command)",
    )

    add = parser.add_argument_group("the command").add_argument
    add(
        "-k",
        "--kill-after",
        metavar="SECONDS",
        type=seconds,
        default=5.0,
        help="seconds from SIGTERM to SIGKILL if the command must end (default: 5; less if the lock ends "
        "earlier)",
    )
    add(
        "--suspended",
        choices=["deadline", "cancel", "ignore"],
        default="deadline",
        help="when to end the command after the connection is lost: before the session can expire "
        "(deadline, the default), at once (cancel), or when the server says that the session has expired "
        "(ignore)",
    )

    server = parser.add_argument_group("the server").add_argument
    add_hosts(server, environ)
    add_tls(server)

    add = parser.add_argument_group("output").add_argument
    add(
        "-l",
        "--list",
        action="store_true",
        help="show who holds the lock and who waits for it, and run no command",
    )
    add("--json", action="store_true", help="with --list: print JSON")
    add(
        "--break",
        dest="breaks",
        action="store_true",
        help="break the lock: delete the znodes of its holders, after a question; run no command",
    )
    add("-y", "--yes", action="store_true", help="with --break: do not ask before the deletion")
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="print who holds the lock during the wait (default: only to a terminal), and when the lock is "
        "granted and released",
    )
    add("--version", action="version", version=f"{PROG} {__version__}")
    return parser


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """Read the arguments.

    :raises Failure: the arguments are wrong or exclude each other.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    own, dashes, command = split_command(argv)
    given, rest = new_parser(environ).parse_known_args(own)
    if rest and not (dashes or rest[0].startswith("-")):
        raise _wrong(f"put -- before the command: {PROG} {given.path} -- {' '.join(rest)}")
    if rest:
        what = (
            "no such option"
            if rest[0].startswith("-")
            else "there must be only one PATH; put -- before the command, or leave out"
        )
        raise _wrong(f"{what}: {rest[0]}")
    if given.list and given.breaks:
        raise _wrong("--list and --break exclude each other; leave out one of them")
    if (given.list or given.breaks) and command:
        option = "--list" if given.list else "--break"
        raise _wrong(f"{option} runs no command; leave out -- and the command")
    if given.json and not given.list:
        raise _wrong("--json needs --list")
    if not (given.list or given.breaks or command):
        raise _wrong(f"no command to run: {PROG} {given.path} -- COMMAND")
    if given.slots and given.layout == "both":
        raise _wrong("--slots and --layout both exclude each other: choose the layout of Curator or of kazoo")
    check_server(PROG, given.hosts, given.session_timeout)
    check_path(PROG, given.path)

    auth_file = given.__dict__.pop("auth_file")
    context = ssl_context_of(PROG, given)
    for name in ("tls", "ca_file", "cert_file", "key_file", "insecure"):
        del given.__dict__[name]
    if given.timeout is None:
        given.timeout = math.inf
    given.data = os.fsencode(_self_portrait(command) if given.data is None else given.data)
    auth = identities(PROG, auth_file, environ)
    return Options(**vars(given), command=tuple(command), auth=auth, ssl_context=context)


def _self_portrait(command: Sequence[str]) -> str:
    """The default of ``--data``. The data leaves out the arguments of the command, because they may contain
    secrets, and everybody who may read the lock can read the data."""
    return f"{socket.gethostname()} pid {os.getpid()}: {os.path.basename(command[0]) if command else PROG}"

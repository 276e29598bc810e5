"""The arguments of ``pyzk``: one table of verbs, from which completion is made too.

The parser of a verb is made when that verb is used: a start takes 0.1 s, and should not take more.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from ..protocol.version import __version__
from .arguments import Parser, add_hosts, check_path, check_server, number, seconds, wrong
from .status import Failure
from .units import duration, size

PROG: Final = "pyzk"
_Add = Callable[..., Any]


@attrs.frozen
class Verb:
    """What ``pyzk`` can do.

    :ivar run: the module of :mod:`.verbs` and the function in it.
    :ivar add: declares the arguments, given ``add_argument``.
    """

    help: str
    run: str
    add: Callable[[_Add], None]


def _path(add: _Add, *, default: str | None = None, help: str = "the znode") -> None:
    if default is None:
        add("path", metavar="PATH", help=help)
    else:
        add("path", metavar="PATH", nargs="?", default=default, help=f"{help} (default: {default})")


def _version(add: _Add) -> None:
    add(
        "--version",
        dest="expected",
        metavar="N",
        type=int,
        default=-1,
        help="only if its data has this version",
    )


def _new_data(add: _Add, what: str) -> None:
    add("data", metavar="DATA", nargs="?", help=f"{what}, as text")
    add("--file", metavar="FILE", help=f"{what}, from a file; - for standard input")
    add("--hex", metavar="DIGITS", help=f"{what}, as hex digits")


def _ls(add: _Add) -> None:
    _path(add, default="/")
    add("-R", "--recursive", action="store_true", help="everything below, by path")
    add("-l", "--long", action="store_true", help="size, version, children, time of change and owner too")
    add("--paths", dest="whole", action="store_true", help="whole paths instead of names")


def _tree(add: _Add) -> None:
    _path(add, default="/")
    add("--depth", metavar="N", type=number, help="at most so many levels")
    add("--data", action="store_true", help="the data too, shortened")


def _get(add: _Add) -> None:
    _path(add)
    add("--raw", action="store_true", help="the bytes as they are, with nothing added")
    add("--hex", action="store_true", help="hex digits and characters, 16 bytes a line")
    add("--stat", action="store_true", help="the Stat too")


def _set(add: _Add) -> None:
    _path(add)
    _new_data(add, "the new data")
    _version(add)


def _create(add: _Add) -> None:
    _path(add)
    _new_data(add, "its data")
    add("-p", "--parents", action="store_true", help="create missing parents too")
    add("-e", "--ephemeral", action="store_true", help="ephemeral: it stays until pyzk is interrupted")
    add("-s", "--sequential", action="store_true", help="the server appends a number of ten digits")
    add("-c", "--container", action="store_true", help="the server deletes it when its last child has gone")
    add(
        "--ttl",
        metavar="TIME",
        type=duration,
        help="the server deletes it after so long without a change: 90, 5m",
    )
    add("--acl", metavar="ACL", default="open", help="SCHEME:ID:PERMISSIONS,... (default: open to everybody)")


def _rm(add: _Add) -> None:
    add("paths", metavar="PATH", nargs="+", help="the znodes")
    add("-r", "--recursive", action="store_true", help="everything below too")
    _version(add)


def _stat(add: _Add) -> None:
    _path(add)


def _acl(add: _Add) -> None:
    _path(add)
    add("acl", metavar="ACL", nargs="?", help="set this one: SCHEME:ID:PERMISSIONS,... or open")
    add("-R", "--recursive", action="store_true", help="everything below too")


def _watch(add: _Add) -> None:
    _path(add)
    add("-R", "--recursive", action="store_true", help="everything below too")
    add("-n", "--count", metavar="N", type=number, help="end after so many events")


def _find(add: _Add) -> None:
    _path(add, default="/")
    add("--name", metavar="GLOB", help="its name matches")
    add(
        "--owner",
        metavar="SESSION",
        help="an ephemeral of this session, as in 0x1a2b; any: of whichever; none",
    )
    add("--larger", metavar="SIZE", type=size, help="more data than 300, 10k, 1M")
    add("--smaller", metavar="SIZE", type=size, help="less data than")
    add("--older", metavar="TIME", type=duration, help="not changed for 90s, 5m, 2h, 1d")
    add("--newer", metavar="TIME", type=duration, help="changed within")
    add("--empty", action="store_true", help="without data and without children")
    add("-l", "--long", action="store_true", help="size, version, children, time of change and owner too")


def _cp(add: _Add) -> None:
    add("source", metavar="SOURCE", help="PATH, or HOST:PORT,.../PATH on another server")
    add("target", metavar="TARGET", help="the same; what is below SOURCE comes below this")
    _writing(add)
    _acls(add)


def _writing(add: _Add) -> None:
    add("--overwrite", action="store_true", help="replace the data and the ACL of what exists")


def _acls(add: _Add) -> None:
    add("--no-acl", dest="acl", action="store_false", help="without access control lists")


def _diff(add: _Add) -> None:
    add("left", metavar="LEFT", help="PATH, or HOST:PORT,.../PATH on another server")
    add("right", metavar="RIGHT", help="the same")
    _acls(add)


def _dump(add: _Add) -> None:
    _path(add, default="/", help="the top of what is written")
    add("file", metavar="FILE", nargs="?", default="-", help="(default: standard output)")
    _acls(add)


def _load(add: _Add) -> None:
    _path(add, help="where the top of what was written goes")
    add("file", metavar="FILE", nargs="?", default="-", help="(default: standard input)")
    _writing(add)


def _nothing(add: _Add) -> None:
    pass


def _locks(add: _Add) -> None:
    _path(add, default="/")
    add("--all", action="store_true", help="groups, queues and barriers too, and directories without anybody")


def _health(add: _Add) -> None:
    add("--all", action="store_true", help="every server of --hosts has to be well, not only one")
    add("--wait", metavar="TIME", type=duration, default=0.0, help="wait so long for it: 30s, 2m")


def _exec(add: _Add) -> None:
    add("--config", metavar="FILE", type=Path, help="settings of the server, in zoo.cfg syntax")


def _completion(add: _Add) -> None:
    add("shell", choices=["bash", "zsh", "fish"], help="the shell")


VERBS: Final[Mapping[str, Verb]] = {
    "ls": Verb("list children", "listing:ls", _ls),
    "tree": Verb("draw what is below a znode", "listing:tree", _tree),
    "find": Verb("find znodes by name, owner, size and age", "listing:find", _find),
    "get": Verb("show data", "znodes:get", _get),
    "stat": Verb("show what is known of a znode beside its data", "znodes:stat", _stat),
    "acl": Verb("show or set access control lists", "znodes:acl", _acl),
    "set": Verb("replace data", "znodes:set_data", _set),
    "create": Verb("create a znode", "znodes:create", _create),
    "rm": Verb("delete znodes", "deleting:rm", _rm),
    "watch": Verb("follow changes until interrupted", "watching:watch", _watch),
    "cp": Verb("copy a tree, between servers too", "copying:cp", _cp),
    "diff": Verb("compare two trees, on two servers too", "copying:diff", _diff),
    "dump": Verb("write a tree as JSON, one znode a line", "copying:dump", _dump),
    "load": Verb("create what dump has written", "copying:load", _load),
    "sessions": Verb("show sessions, their clients and ephemerals", "servers:sessions", _nothing),
    "locks": Verb("show who holds what and who waits for whom", "locks:locks", _locks),
    "health": Verb("say by the exit status whether a server serves", "servers:health", _health),
    "exec": Verb("run a command beside a fresh pyzk-server", "executing:execute", _exec),
    "completion": Verb("print the completion of a shell", "completing:completion", _completion),
}

_EPILOG = (
    "Exit status: 0; 1: no (no such znode, trees differ, not healthy, not confirmed); 2: arguments;"
    " 69: no server; 70: refused; 77: not allowed. PYZK_HOSTS and PYZK_AUTH replace --hosts and --auth-file."
)


def new_parser(verb: str | None, environ: Mapping[str, str] = os.environ) -> argparse.ArgumentParser:
    """The parser, with the arguments of one verb; of every verb if None."""
    parser = Parser(
        prog=PROG,
        description="Look at any ZooKeeper, and change it.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add_common(parser, environ)
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, known in VERBS.items():
        sub = subparsers.add_parser(name, help=known.help, description=known.help, allow_abbrev=False)
        if verb is None or verb == name:
            known.add(sub.add_argument)
            if name not in ("completion", "exec"):
                # after the verb too; only what is given there counts there
                common = sub.add_argument_group("for every verb")
                common.add_argument(
                    "--json", action="store_true", default=argparse.SUPPRESS, help="for programs"
                )
                common.add_argument(
                    "-y", "--yes", action="store_true", default=argparse.SUPPRESS, help="do not ask"
                )
    return parser


def add_common(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Declare what goes before the verb."""
    group = parser.add_argument_group("the server")
    add_hosts(group, environ)
    group.add_argument(
        "--connect-timeout", metavar="SECONDS", type=seconds, default=10.0, help="(default: 10)"
    )
    group.add_argument("--tls", action="store_true", help="speak TLS, and check the server's certificate")
    group.add_argument(
        "--ca-file", metavar="FILE", type=Path, help="whom to trust, as PEM (default: this machine's)"
    )
    group.add_argument(
        "--cert-file", metavar="FILE", type=Path, help="our certificate, and our key behind it, as PEM"
    )
    group.add_argument("--key-file", metavar="FILE", type=Path, help="our key, if it is in a file of its own")
    group.add_argument("--insecure", action="store_true", help="do not check the server's certificate")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object a line")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask before changing a server that is no pyzk-server"
    )


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """Read the arguments.

    :raises Failure: if they make no sense.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    own, dashes, command = list(argv), False, []
    if "--" in argv:
        at = own.index("--")
        own, dashes, command = own[:at], True, own[at + 1 :]
    verb = next((word for word in own if word in VERBS), None)
    given = new_parser(verb, environ).parse_args(own)
    if given.verb != verb:  # an option's value is called like a verb
        given = new_parser(None, environ).parse_args(own)
    if given.verb == "exec":
        if not command:
            raise _wrong("no command to run: pyzk exec -- COMMAND")
        given.command = command
    elif dashes:
        raise _wrong("-- goes with exec only")
    check_server(PROG, given.hosts, given.session_timeout)
    for path in getattr(given, "paths", None) or [getattr(given, "path", "/")]:
        check_path(PROG, path)
    return given


def _wrong(message: str) -> Failure:
    return wrong(PROG, message)

"""The arguments of ``pyzk``: one table of verbs, from which the completion is made too.

The parser of a verb is made when that verb is used, because a start must not take more than 0.1 s.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..protocol.dump import EPHEMERALS
from ..protocol.version import __version__
from . import ensembles
from .arguments import Parser, add_hosts, check_path, check_server, number, seconds, split_command, wrong
from .status import Status
from .tls import add_tls
from .units import duration, size
from .verb import Add, Verb

PROG: Final = "pyzk"


def _path(add: Add, *, default: str | None = None, help: str = "the znode") -> None:
    if default is None:
        add("path", metavar="PATH", help=help)
    else:
        add("path", metavar="PATH", nargs="?", default=default, help=f"{help} (default: {default})")


def _version(add: Add) -> None:
    add(
        "--version",
        dest="expected",
        metavar="N",
        type=int,
        default=-1,
        help="change the znode only if its data has this version",
    )


def _new_data(add: Add, what: str) -> None:
    add("data", metavar="DATA", nargs="?", help=f"{what}, as text")
    add("--file", metavar="FILE", help=f"{what}, from a file; - for standard input")
    add("--hex", metavar="DIGITS", help=f"{what}, as hex digits")


def _ls(add: Add) -> None:
    _path(add, default="/")
    add("-R", "--recursive", action="store_true", help="everything below, by path")
    add("-l", "--long", action="store_true", help="show size, version, children, time of change, owner")
    add("--paths", dest="whole", action="store_true", help="show whole paths instead of names")


def _tree(add: Add) -> None:
    _path(add, default="/")
    add("--depth", metavar="N", type=number, help="the largest number of levels")
    add("--data", action="store_true", help="the data too, shortened")


def _get(add: Add) -> None:
    _path(add)
    add("--raw", action="store_true", help="the unchanged bytes")
    add("--hex", action="store_true", help="show hex digits and characters, 16 bytes on each line")
    add("--stat", action="store_true", help="the Stat too")


def _set(add: Add) -> None:
    _path(add)
    _new_data(add, "the new data")
    _version(add)


def _create(add: Add) -> None:
    _path(add)
    _new_data(add, "its data")
    add("-p", "--parents", action="store_true", help="create missing parents too")
    add(
        "-e",
        "--ephemeral",
        action="store_true",
        help="create an ephemeral; it exists until pyzk is interrupted",
    )
    add("-s", "--sequential", action="store_true", help="the server appends a number of ten digits")
    add(
        "-c",
        "--container",
        action="store_true",
        help="the server deletes the znode after the last child of the znode is deleted",
    )
    add(
        "--ttl",
        metavar="TIME",
        type=duration,
        help="the server deletes the znode after this time without a change: 90, 5m",
    )
    add("--acl", metavar="ACL", default="open", help="SCHEME:ID:PERMISSIONS,... (default: open to everybody)")


def _rm(add: Add) -> None:
    add("paths", metavar="PATH", nargs="+", help="the znodes")
    add("-r", "--recursive", action="store_true", help="everything below too")
    _version(add)


def _stat(add: Add) -> None:
    _path(add)


def _acl(add: Add) -> None:
    _path(add)
    add("acl", metavar="ACL", nargs="?", help="the ACL to set: SCHEME:ID:PERMISSIONS,... or open")
    add("-R", "--recursive", action="store_true", help="everything below too")


def _acls(add: Add) -> None:
    _path(add, default="/", help="the top of the shown part")
    add(
        "--world-writable",
        dest="world_writable",
        action="store_true",
        help="show only znodes that everybody may change; exit with status 1 if there is one",
    )


def _watch(add: Add) -> None:
    _path(add)
    add("-R", "--recursive", action="store_true", help="everything below too")
    add("-n", "--count", metavar="N", type=number, help="end after this number of events")


def _find(add: Add) -> None:
    _path(add, default="/")
    add("--name", metavar="GLOB", help="its name matches")
    add(
        "--owner",
        metavar="SESSION",
        help="only ephemerals of this session, such as 0x1a2b; any: all ephemerals; none: no ephemerals",
    )
    add("--larger", metavar="SIZE", type=size, help="more data than 300, 10k, 1M")
    add("--smaller", metavar="SIZE", type=size, help="less data than")
    add("--older", metavar="TIME", type=duration, help="not changed for 90s, 5m, 2h, 1d")
    add("--newer", metavar="TIME", type=duration, help="changed within")
    add("--empty", action="store_true", help="without data and without children")
    add("-l", "--long", action="store_true", help="show size, version, children, time of change, owner")


def _cp(add: Add) -> None:
    add("source", metavar="SOURCE", help="PATH, HOST:PORT,.../PATH on another server, or file:NAME")
    add("target", metavar="TARGET", help="as SOURCE; the znodes below SOURCE are copied below TARGET")
    add("--subtree", metavar="PATH", default="/", help="the path in a file that becomes the top (default: /)")
    _writing(add)
    _choosing(add, "omit")


def _choosing(add: Add, ephemerals: str) -> None:
    _no_acl(add)
    add(
        "--mask",
        metavar="GLOB",
        action="append",
        default=[],
        help="write *** instead of the data of these znodes",
    )
    add(
        "--ephemerals",
        choices=EPHEMERALS,
        default=ephemerals,
        help="leave ephemerals out, keep them in a file, or make them persistent (default: %(default)s)",
    )


def _writing(add: Add) -> None:
    add("--overwrite", action="store_true", help="replace the data and the ACL of znodes that exist")


def _no_acl(add: Add) -> None:
    add("--no-acl", dest="acl", action="store_false", help="without access control lists")


def _diff(add: Add) -> None:
    add("left", metavar="LEFT", help="PATH, or HOST:PORT,.../PATH on another server")
    add("right", metavar="RIGHT", help="the same")
    _no_acl(add)


def _dump(add: Add) -> None:
    _path(add, default="/", help="the top of the written part")
    add("file", metavar="FILE", nargs="?", default="-", help="(default: standard output)")
    add("--data", metavar="PLACE", help="dump a snapshot, a data directory or a dump, without a server")
    _writing(add)
    _choosing(add, "keep")


def _load(add: Add) -> None:
    _path(add, help="the path at which the top of the dump is created")
    add(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help="a dump, a snapshot or a data directory (default: a dump on standard input)",
    )
    add(
        "--subtree",
        metavar="PATH",
        default="/",
        help="the path in the file that becomes the top (default: /)",
    )
    _writing(add)
    _choosing(add, "omit")


def _inspect(add: Add) -> None:
    add("file", metavar="FILE", help="a snapshot, a log, or a data directory")
    _path(add, default="/", help="the top of the shown part of a tree")
    add(
        "--sums",
        metavar="DEPTH",
        type=number,
        nargs="?",
        const=1,
        help="show the number of znodes and bytes of each subtree",
    )
    add("--largest", metavar="N", type=number, help="the znodes with the most data")
    add("--history", metavar="ZNODE", help="the transactions in the logs that concern this znode")


def _nothing(add: Add) -> None:
    pass


def _locks(add: Add) -> None:
    _path(add, default="/")
    add("--all", action="store_true", help="show groups, queues, barriers and empty directories too")
    add("--check", action="store_true", help="exit with status 1 if there is a deadlock or a remark")
    help = "delete the znodes of the holders of the lock PATH, after a question"
    add("--break", dest="breaks", action="store_true", help=help)


def _health(add: Add) -> None:
    add("--all", action="store_true", help="require that every server of --hosts serves, not only one")
    add(
        "--wait",
        metavar="TIME",
        type=duration,
        default=0.0,
        help="the longest time to wait until the servers serve: 30s, 2m",
    )


def _exec(add: Add) -> None:
    add("--config", metavar="FILE", type=Path, help="settings of the server, in zoo.cfg syntax")
    help = (
        "the command and its arguments, perhaps after --; its environment has PYZK_HOSTS and ZOOKEEPER_HOSTS"
    )
    add("command", metavar="COMMAND", nargs=argparse.REMAINDER, help=help)


def _selected(add: Add) -> None:
    add("--op", metavar="OP", action="append", default=[], help="create, get_data, multi; may be repeated")
    add("--path", dest="glob", metavar="GLOB", help="* is any text without a slash, ** any text")
    add("--session", metavar="SESSION", help=ensembles.SESSION)


def _trace(add: Add) -> None:
    _selected(add)
    add("--server", metavar="N", type=number, help="in an ensemble: show only entries of this server")
    add("-n", "--count", metavar="N", type=number, help="end after this number of lines")


def _timeline(add: Add) -> None:
    add("--session", metavar="SESSION", help=ensembles.SESSION)
    add(
        "--since",
        metavar="TIME",
        type=duration,
        help="show only entries later than this time after the server's start, by the server's clock: 90, 5m",
    )
    add("--limit", metavar="N", type=number, help="the largest number of lines; the last ones are shown")
    add("--pings", action="store_true", help="show pings too")


def _advise(add: Add) -> None:
    help = "leave out the findings of this rule; may be repeated"
    add("--ignore", metavar="RULE", action="append", default=[], help=help)


def _session(add: Add) -> None:
    add("session", metavar="SESSION", help=ensembles.SESSION)


def _session_or_all(add: Add) -> None:
    add("session", metavar="SESSION", nargs="?", help=f"{ensembles.SESSION} (default: the whole server)")


def _endpoint(add: Add) -> None:
    add(
        "name",
        metavar="NAME",
        nargs="?",
        help="the endpoint, which is created if it does not exist (default: list all endpoints)",
    )
    add(
        "what",
        choices=["cut", "pause", "delay", "resume"],
        nargs="?",
        help="the fault of the clients of the endpoint",
    )
    add(
        "time",
        metavar="TIME",
        type=duration,
        nargs="?",
        help="with delay: the time by which each message is late, by the server's clock",
    )


def _advance(add: Add) -> None:
    add("time", metavar="TIME", type=duration, help="90, 30s, 5m, 2h, 1d")
    add("--keep-alive", action="store_true", help="treat connected clients as if they had sent their pings")


def _fault(add: Add) -> None:
    add("what", choices=["set", "list", "rm"], help="plan a fault, list all faults, or end faults")
    add("numbers", metavar="NUMBER", nargs="*", help="with rm: the numbers of the faults, or all")
    _selected(add)
    add("--nth", metavar="N", type=number, help="the first matching request to affect (default: 1)")
    add(
        "--times",
        metavar="N",
        type=_times,
        default=1,
        help="the number of requests to affect, from the nth on, or all (default: 1)",
    )
    add(
        "--when",
        choices=["before", "after"],
        help="the fault happens before or after the request is applied (default: before)",
    )
    actions = ["disconnect", "drop_reply", "error", "delay", "expire"]
    add("--action", choices=actions, help="the kind of fault (default: disconnect)")
    add("--error", metavar="ERROR", type=_error, help="with error: NoNode, or -101")
    add(
        "--seconds",
        metavar="TIME",
        type=duration,
        help="with delay: the time by which the reply is late, by the server's clock",
    )


def _meant(word: str) -> str:
    """Return the verb that the user probably meant."""
    from difflib import get_close_matches  # slow to import, and needed for an error only

    meant = get_close_matches(word, VERBS, n=1)
    return f"; did you mean {meant[0]}?" if meant else ""


def _times(text: str) -> int | None:
    return None if text == "all" else number(text)


def _error(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdigit() else text


def _helper(add: Add) -> None:
    add("language", metavar="LANGUAGE", choices=["java", "go", "node"], help="java, go or node")
    help = "the folder for the files (default: src/test/java for Java, else the current folder)"
    add("folder", metavar="DIR", nargs="?", help=help)
    help = (
        "Java: also the classes that replace Curator's TestingServer or ZooKeeper's ZooKeeperServerEmbedded"
    )
    add("--with", dest="kinds", action="append", default=[], choices=["curator", "embedded"], help=help)
    add("--overwrite", action="store_true", help="replace files that differ")


def _completion(add: Add) -> None:
    add("shell", choices=["bash", "zsh", "fish"], help="the shell")


VERBS: Final[Mapping[str, Verb]] = {
    "ls": Verb("list children", "listing:ls", _ls),
    "tree": Verb("draw the znodes below a znode", "listing:tree", _tree),
    "find": Verb("find znodes by name, owner, size and age", "listing:find", _find),
    "get": Verb("show data", "znodes:get", _get),
    "stat": Verb("show the metadata of a znode", "znodes:stat", _stat),
    "acl": Verb("show or set access control lists", "znodes:acl", _acl),
    "acls": Verb("show who may do what below a znode", "znodes:acls", _acls),
    "set": Verb("replace data", "znodes:set_data", _set),
    "create": Verb("create a znode", "znodes:create", _create),
    "rm": Verb("delete znodes", "deleting:rm", _rm),
    "watch": Verb("follow changes until interrupted", "watching:watch", _watch),
    "cp": Verb("copy a tree, between servers too", "copying:cp", _cp),
    "diff": Verb("compare two trees, on two servers too", "copying:diff", _diff),
    "dump": Verb("write a tree as JSON, one znode on each line", "copying:dump", _dump),
    "load": Verb("create the znodes of a dump", "copying:load", _load),
    "inspect": Verb("show the content of the files of a server", "inspecting:inspect", _inspect),
    "sessions": Verb("show sessions, their clients and ephemerals", "servers:sessions", _nothing),
    "locks": Verb(
        "show locks and other recipes: who holds them, and who waits for whom", "locks:locks", _locks
    ),
    "health": Verb("exit with 0 if a server serves", "servers:health", _health),
    "exec": Verb("run a command beside a fresh pyzk-server", "executing:execute", _exec),
    "trace": Verb("follow every request and reply, on a pyzk-server", "control:trace", _trace),
    "timeline": Verb("show the history, on a pyzk-server", "control:timeline", _timeline),
    "advise": Verb("show what clients do wrong, on a pyzk-server", "control:advise", _advise),
    "expire": Verb(
        "end a session, as if its timeout had passed, on a pyzk-server", "control:expire", _session
    ),
    "pause": Verb(
        "cut off one client or all clients, without notice to the clients, on a pyzk-server",
        "control:pause",
        _session_or_all,
    ),
    "resume": Verb("end a pause, on a pyzk-server", "control:resume", _session_or_all),
    "endpoint": Verb(
        "add an address for some clients, and cut off these clients, on a pyzk-server",
        "control:endpoint",
        _endpoint,
    ),
    "advance": Verb("advance the clock of a pyzk-server", "control:advance", _advance),
    "fault": Verb("make certain requests fail, on a pyzk-server", "control:fault", _fault),
    "ensemble": Verb(
        "show the servers of a pretend ensemble, and inject faults",
        "ensemble:show",
        _nothing,
        ensembles.VERBS,
    ),
    "reset": Verb("reset a pyzk-server to an empty server", "control:reset", _nothing),
    "helper": Verb(
        "write the files with which tests in Java, Go or Node start servers", "helping:helper", _helper
    ),
    "completion": Verb("print the completion of a shell", "completing:completion", _completion),
}

_EPILOG = (
    "Exit status: 0; 1: no (no such znode, trees differ, not healthy, not confirmed, advice);"
    " 2: arguments; 69: no server; 70: refused; 77: not allowed."
    " The variables PYZK_HOSTS, PYZK_AUTH and PYZK_TOKEN replace missing options --hosts, --auth-file "
    "and --token."
    " All these options can also follow the verb."
)


def new_parser(environ: Mapping[str, str] = os.environ) -> argparse.ArgumentParser:
    """Return the parser of the verb and of everything before the verb. The parsed argument ``rest`` has the
    words after the verb."""
    parser = Parser(
        prog=PROG,
        usage=f"{PROG} [OPTIONS] VERB [ARGUMENT ...]",
        description=f"Look at any ZooKeeper, and change it.\n\n{_listed(VERBS)}",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", metavar="VERB", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", metavar="ARGUMENT", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    _add_common(parser)
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    add_server(parser.add_argument_group("the server").add_argument, environ)
    return parser


def add_server(add: Add, environ: Mapping[str, str] = os.environ) -> None:
    """Declare the options for the server, the connection and the identities."""
    add_hosts(add, environ)
    add("--connect-timeout", metavar="SECONDS", type=seconds, default=10.0, help="(default: 10)")
    add_tls(add)
    add("--token", metavar="TOKEN", help="control.token of a pyzk-server (default: $PYZK_TOKEN)")


def _listed(verbs: Mapping[str, Verb]) -> str:
    widest = max(map(len, verbs))
    lines = [f"  {name:<{widest}}  {verb.help}" for name, verb in verbs.items()]
    return "\n".join(["verbs (VERB --help shows the arguments):", *lines])


def verb_parser(name: str, what: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the arguments after a verb.

    :param what: one of the verbs that can follow the verb.
    """
    verb, prog = VERBS[name], f"{PROG} {name}"
    if what is not None:
        verb, prog = verb.verbs[what], f"{prog} {what}"
    parser = Parser(prog=prog, description=verb.help, allow_abbrev=False)
    if verb.verbs:
        parser.description = f"{verb.help}\n\n{_listed(verb.verbs)}"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument("what", metavar="VERB", nargs="?", choices=verb.verbs, help=argparse.SUPPRESS)
    verb.add(parser.add_argument)
    if name not in ("completion", "exec"):
        # What was given before the verb counts too. The help of pyzk alone tells of the server.
        _add_common(parser, default=argparse.SUPPRESS)
        hidden = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        add_server(lambda flag, **options: parser.add_argument(flag, **{**options, **hidden}))
    return parser


def _add_common(parser: argparse.ArgumentParser, **options: Any) -> None:
    add = partial(parser.add_argument, action="store_true", **options)
    add("--json", help="output for programs: one JSON object on each line")
    add("-y", "--yes", help="do not ask before changing a server that is not a pyzk-server")


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """Read the arguments.

    :raises Failure: the arguments are wrong.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    own, dashes, given_command = split_command(argv)
    parser = new_parser(environ)
    given = parser.parse_args(own)
    if given.verb is None:
        parser.print_help()
        parser.exit(0 if not argv else Status.USAGE)
    if given.verb not in VERBS:
        raise wrong(PROG, f"there is no verb {given.verb!r}{_meant(given.verb)}")
    verb, rest = VERBS[given.verb], list(given.rest)
    what = None
    for word in rest:
        if word.replace("_", "-") in verb.verbs:  # as the control API writes it
            what = given.what = word.replace("_", "-")
            verb = verb.verbs[what]
            rest.remove(word)
            break
    given.run = verb.run
    if given.verb == "exec":
        given = verb_parser(given.verb).parse_args(rest, given)
        given.command = [*given.command, *(["--"] if given.command and dashes else []), *given_command]
        if not given.command:
            raise wrong(PROG, "no command to run: pyzk exec COMMAND")
        return given
    given = verb_parser(given.verb, what).parse_intermixed_args(rest, given)
    if given.verb == "completion":
        given.words = given_command
    elif dashes:
        raise wrong(PROG, "-- goes with exec only")
    check_server(PROG, given.hosts, given.session_timeout)
    for path in getattr(given, "paths", None) or [getattr(given, "path", "/")]:
        check_path(PROG, path)
    return given

"""Arguments that the commands share: types, the options of the server, checks."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from .status import Failure, Status

_ZKCLI = re.compile(r"unrecognized arguments: .*-s(erver)?\b")
"""Options of other tools that users may try here, each with a hint to the right option."""
DEFAULT_HOSTS = "127.0.0.1:2181"


class Parser(argparse.ArgumentParser):
    """A parser that raises a failure for wrong arguments."""

    def error(self, message: str) -> NoReturn:
        if _ZKCLI.search(message):
            message += "; for -server write --hosts"
        raise wrong(self.prog, message)


class _NoAuth(argparse.Action):
    """``--auth``: an option of other tools, which these commands refuse."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(
            "--auth is refused, because everybody on this machine can see the arguments of a command: "
            "write SCHEME:CREDENTIAL into a file for --auth-file, or into PYZK_AUTH"
        )


def wrong(program: str, message: str) -> Failure:
    """Return the failure for wrong arguments."""
    return Failure(Status.USAGE, f"{message} (see {program} --help)")


def seconds(text: str) -> float:
    """Parse a number of seconds."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def number(text: str) -> int:
    """Parse a count, which must be at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def add_hosts(add: Callable[..., object], environ: Mapping[str, str]) -> None:
    """Declare, by ``add_argument``, the options for the server and the identities."""
    add(
        "--hosts",
        metavar="HOST:PORT,...",
        default=environ.get("PYZK_HOSTS") or DEFAULT_HOSTS,
        help=f"(default: $PYZK_HOSTS, else {DEFAULT_HOSTS})",
    )
    add("--auth", nargs="?", action=_NoAuth, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add("--session-timeout", metavar="SECONDS", type=seconds, default=10.0, help="(default: 10)")
    add(
        "--auth-file",
        metavar="FILE",
        type=Path,
        help="a file of identities, one SCHEME:CREDENTIAL on each line, as in digest:user:password "
        "(default: $PYZK_AUTH)",
    )


def split_command(argv: Sequence[str]) -> tuple[Sequence[str], bool, Sequence[str]]:
    """Return three values: the program's own arguments, whether there is a ``--``, and the command after the
    ``--``."""
    if "--" not in argv:
        return argv, False, []
    at = argv.index("--")
    return argv[:at], True, argv[at + 1 :]


def check_server(program: str, hosts: str, session_timeout: float = 1.0) -> None:
    """Check the options of :func:`add_hosts`.

    :raises Failure: an option is wrong.
    """
    from ..client.hosts import ConnectString
    from ..protocol.errors import BadArgumentsError

    if not session_timeout:
        raise wrong(program, "--session-timeout must be more than 0")
    try:
        ConnectString.parse(hosts)
    except (ValueError, BadArgumentsError) as error:
        raise wrong(program, str(error)) from None


def check_path(program: str, path: str) -> None:
    """Check the path of a znode.

    :raises Failure: the path is malformed.
    """
    from ..protocol.errors import BadArgumentsError
    from ..protocol.paths import validate_path

    try:
        validate_path(path)
    except BadArgumentsError as error:
        raise wrong(program, str(error)) from None


def identities(
    program: str, file: Path | None, environ: Mapping[str, str] = os.environ
) -> tuple[tuple[str, str], ...]:
    """Return the identities, as pairs of scheme and credential. An error message shows only the file and the
    line of a wrong identity, not the identity.

    :raises Failure: a file cannot be read, or a line is malformed.
    """
    source, text = "PYZK_AUTH", environ.get("PYZK_AUTH", "")
    if file is not None:
        source = str(file)
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise wrong(program, f"cannot read --auth-file {file}: {reason}") from None
    found = []
    for count, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            scheme, colon, credential = line.partition(":")
            if not (scheme and colon):
                raise wrong(program, f"{source}, line {count}: it must be SCHEME:CREDENTIAL")
            if scheme.strip() == "sasl" and not credential.partition(":")[0]:
                raise wrong(program, f"{source}, line {count}: it must be sasl:NAME:PASSWORD")
            found.append((scheme.strip(), credential))
    return tuple(found)

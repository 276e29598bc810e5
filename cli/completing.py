"""The znodes that may stand at the end of an unfinished command line, for the completions of shells.

* A shell gives the words of the line, and the unfinished one last. zsh and fish have taken their quotes away;
  bash has not: :func:`unquoted` does it. Nothing is expanded, in a shell or here: a word with ``$`` or a
  backtick, whose value only the shell knows, is no connect string, and no znode is offered.
* The server that is asked is the one that the line names, by every option that says how: ``--hosts``,
  ``--tls`` and so on, before the verb or behind it.
* The names come from a server, and anybody may have put them there. They are printed one a line, whole
  and as they are, for scripts that compare and quote them, and never let a shell expand them. A name that the
  rules of paths forbid, as one with a line feed, is not printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio

from ..protocol.errors import BadArgumentsError
from ..protocol.paths import join, validate_path
from .arguments import Parser
from .context import Context
from .lock import arguments as lock
from .parser import PROG, VERBS, add_server, new_parser, verb_parser
from .status import Failure, Status

_PATIENCE = 1.0
"""Seconds that the server may take, without ``--connect-timeout``: somebody waits at the keyboard."""


def complete(words: Sequence[str], *, quoted: bool) -> int:
    """Print the paths that begin with the last word; returns the exit status.

    :param words: of the command line, the first the name of the program: ``pyzk`` or ``pyzk-lock``.
    :param quoted: whether they have their quotes.
    """
    words = [unquoted(word) for word in words] if quoted else list(words)
    program, *before, current = words
    if not current.startswith("/") or _is_for_a_file(program, before):
        return Status.NO
    try:
        paths = trio.run(_children, _server_of(before), current)
    except Failure as failure:
        return failure.status
    print("".join(f"{path}\n" for path in paths if path.startswith(current)), end="")
    return 0


def unquoted(word: str) -> str:
    """A word of a shell without its quotes; a quote that is still open is one too."""
    found, quote, escaped = [], "", False
    for character in word:
        if escaped:
            found.append(character if not quote or character in '"\\$`' else f"\\{character}")
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote = character
        else:
            found.append(character)
    return "".join(found)


_FILES = ("FILE", "PLACE")
"""What stands in the help for arguments that are files."""


def _is_for_a_file(program: str, before: Sequence[str]) -> bool:
    """Whether the next word is that of a file, or none of ours."""
    if "--" in before:
        return True
    if program == lock.PROG:
        own, common = lock.new_parser({})._actions, []
        behind = before
    else:
        verbs = [at for at, word in enumerate(before) if word in VERBS]
        if not verbs or before[verbs[0]] in ("exec", "inspect"):
            return True
        own, common = verb_parser(before[verbs[0]])._actions, new_parser()._actions
        behind = before[verbs[0] + 1 :]
    for action in (*common, *own):
        if before and before[-1] in action.option_strings:
            return action.metavar in _FILES
    positional = [action for action in own if not action.option_strings]
    at = sum(not word.startswith("-") for word in behind)
    return at < len(positional) and positional[at].metavar in _FILES


def _server_of(words: Sequence[str]) -> argparse.Namespace:
    """What the words say of the server.

    :raises Failure: they make no sense.
    """
    parser = Parser(prog=PROG, allow_abbrev=False, add_help=False)
    add_server(parser.add_argument)
    parser.set_defaults(connect_timeout=_PATIENCE)
    options, _ = parser.parse_known_args(words)
    for name, value in vars(options).items():
        if isinstance(value, Path):
            with suppress(RuntimeError):  # nobody of that name has a home
                setattr(options, name, value.expanduser())
    return options


async def _children(options: argparse.Namespace, current: str) -> list[str]:
    """The paths of the children of the znode whose path stands before the last slash.

    :raises Failure: the server does not tell.
    """
    top = current[: current.rindex("/")] or "/"
    found: list[str] = []
    with trio.move_on_after(options.connect_timeout):
        async with Context(options).connect() as zk:
            for name in sorted(await zk.get_children(top)):
                path = join(top, name)
                with suppress(BadArgumentsError):
                    validate_path(path)
                    found.append(path)
    return found

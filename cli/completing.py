"""The completion of a command line in a shell: the znodes that the unfinished word can name.

* A shell passes the words of the line. The last word is the unfinished word. zsh and fish remove quotes from
  the words; for bash :func:`unquoted` removes them. Neither a shell nor this module expands anything. Only
  the shell knows the value of a word with ``$`` or a backtick, so such a word is not used as a connect
  string, and no znode is offered.
* The completion connects to the server of the command line, with all options of the command line:
  ``--hosts``, ``--tls`` and so on, before or after the verb.
* The names come from a server, where anybody may have created them. The names are printed unchanged, one on
  each line. The scripts must compare and quote the names, and must never let a shell expand them. A name that
  the rules of paths forbid, such as a name with a line feed, is not printed.
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
"""Seconds to wait for the server without ``--connect-timeout``. The wait is short because the user waits at
the keyboard."""


def complete(words: Sequence[str], *, quoted: bool) -> int:
    """Print the paths that begin with the last word; returns the exit status.

    :param words: the words of the command line. The first word is the program: ``pyzk`` or ``pyzk-lock``.
    :param quoted: whether the words still have their quotes.
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
    """Return a word of a shell without its quotes. A quote that is still open is removed too."""
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
"""The metavars of arguments that are files."""


def _is_for_a_file(program: str, before: Sequence[str]) -> bool:
    """Return whether the completion offers no znode, because the next word is a file or belongs to another
    program."""
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
    """Return the options for the server which the words contain.

    :raises Failure: the words are wrong.
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
    """Return the paths of the children of the znode before the last slash.

    :raises Failure: the server does not answer.
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

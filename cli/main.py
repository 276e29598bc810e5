"""The command ``pyzk``. For users: docs/pyzk.md.

Each verb is a function of a module in :mod:`.verbs`, which is imported when that verb is used.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence

from .parser import PROG, parse
from .status import Failure, Status, say, show_warnings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    :param argv: the arguments without the program's name; by default the arguments of the process.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    show_warnings(PROG)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # whatever others have put there
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except Failure as failure:
        say(PROG, str(failure))
        return failure.status
    except KeyboardInterrupt:  # before or after the verb
        return Status.SIGNAL + signal.SIGINT
    except BrokenPipeError:  # who reads our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes at its end
        return Status.SIGNAL + 13  # SIGPIPE, which Windows does not name
    return status


def _run(argv: Sequence[str]) -> int:
    options = parse(argv)
    module, _, function = options.run.partition(":")
    verb = getattr(importlib.import_module(f"{__package__}.verbs.{module}"), function)
    if options.verb == "completion":
        return int(verb(options))
    import trio

    from .running import run

    return trio.run(run, verb, options)

"""``pyzk-lock``: run a command while holding a lock. For users: docs/pyzk-lock.md.

``arguments`` reads the arguments, ``running`` holds the lock while the command runs, ``listing`` shows the
holders and the waiters of a lock.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import trio

from ..status import Failure, Status, say, show_warnings
from .arguments import PROG, parse
from .running import run, show, take_away


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``pyzk-lock``; returns its exit status.

    :param argv: the arguments without the program's name; by default the arguments of the process.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    show_warnings(PROG)
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        return trio.run(show if options.list else take_away if options.breaks else run, options)
    except Failure as failure:
        say(PROG, str(failure))
        return failure.status
    except KeyboardInterrupt:
        return Status.SIGNAL + signal.SIGINT

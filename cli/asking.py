"""The question before a change that cannot be undone."""

from __future__ import annotations

import ssl
import sys

import trio

from ..client import ZooKeeper
from ..protocol.text import printable
from . import four_letter_words
from .status import Failure, Status


async def confirm(zk: ZooKeeper, what: str, *, yes: bool, ssl_context: ssl.SSLContext | None) -> None:
    """Ask the user, unless the server is a pyzk-server or ``--yes`` was given.

    :param what: the change, such as ``delete /a``.
    :raises Failure: the answer is no, or nobody can answer.
    """
    if yes:
        return
    assert zk.server is not None
    version = await four_letter_words.version(zk.server, ssl_context)
    if four_letter_words.OURS in version:
        return
    where = f"{zk.server}, which is no pyzk-server"
    if not sys.stdin.isatty():
        raise Failure(Status.NO, f"not confirmed: {what} on {where}; pass --yes")
    print(printable(f"{what} on {where}? [y/N] "), end="", file=sys.stderr, flush=True)
    answer = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    if answer.strip().lower() not in ("y", "yes"):
        raise Failure(Status.NO, "not confirmed: nothing was changed")

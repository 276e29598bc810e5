"""The context of every verb: a client, output, the question before a deletion, and the messages of errors."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import attrs
import trio

from ..client import (
    BadArgumentsError,
    BadVersionError,
    ConnectionLossError,
    Host,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    Sync,
    UnimplementedError,
    ZooKeeper,
    ZooKeeperError,
)
from ..client.hosts import ConnectString, list_servers
from .arguments import check_path, check_server, identities, wrong
from .asking import confirm
from .connecting import client
from .parser import PROG
from .show import as_json
from .status import Failure, Status, say
from .tls import ssl_context_of
from .walking import Walker

# Without a text here, the error's own says what to do.
_ADVICE: Mapping[type[ZooKeeperError], tuple[Status, str]] = {
    NoNodeError: (Status.NO, "no such znode; pyzk ls shows the znodes that exist"),
    NodeExistsError: (Status.NO, "it exists already; pyzk set replaces its data"),
    NotEmptyError: (Status.NO, "it has children; -r deletes the children too"),
    BadVersionError: (Status.NO, "version conflict: another client has changed the znode; read it again"),
    NoChildrenForEphemeralsError: (Status.NO, "its parent is ephemeral and cannot have children"),
    UnimplementedError: (
        Status.REFUSED,
        "the server cannot do this: it is older than 3.6, or TTL znodes are not switched on"
        " (extendedTypesEnabled)",
    ),
    BadArgumentsError: (Status.USAGE, ""),
    SessionExpiredError: (
        Status.LOST,
        "the session has expired; run the command again, with a longer --session-timeout",
    ),
}
_BUFFER = 64 * 1024
"""The number of characters of waiting output after which the output is written."""
_SOON = 0.1
"""The seconds after which waiting output is written, even if the output is short."""


@attrs.define(slots=False)
class Context:
    """A run of ``pyzk``.

    :ivar options: the arguments.
    """

    options: argparse.Namespace
    _lines: list[str] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _flushed_at: float = attrs.field(factory=trio.current_time, init=False)

    @cached_property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The context for ``--tls``.

        :raises Failure: a file cannot be used.
        """
        return ssl_context_of(PROG, self.options)

    @asynccontextmanager
    async def connect(self, hosts: str | None = None) -> AsyncIterator[ZooKeeper]:
        """A client.

        :param hosts: another connect string than that of the arguments.
        :param hosts: a connect string in place of the one in the arguments.
        """
        async with client(
            PROG,
            hosts or self.options.hosts,
            session_timeout=self.options.session_timeout,
            connect_timeout=self.options.connect_timeout,
            auth=identities(PROG, self.options.auth_file),
            ssl_context=self.ssl_context,
        ) as zk:
            # A command before this one may have written at another server: what follows sees that.
            zk.submit(Sync("/"))
            try:
                yield zk
            except ConnectionLossError as error:
                if not error.sent:
                    raise
                raise Failure(
                    Status.UNAVAILABLE,
                    f"{error.path}: the connection was lost before the answer; check whether the change "
                    "was made",
                ) from None
            except tuple(_ADVICE) as error:
                raise explained(error) from None

    async def ask(self, zk: ZooKeeper, what: str) -> None:
        """Ask before a change that cannot be undone, unless the server is a pyzk-server or ``--yes`` was
        given.

        :param what: the change, as in ``delete /a``.
        :param what: the change, such as ``delete /a``.
        """
        await confirm(zk, what, yes=self.options.yes, ssl_context=self.ssl_context)

    async def out(self, text: str, fields: Mapping[str, Any]) -> None:
        """Print a line: text for people, or with ``--json`` the fields for programs.

        A thread writes it soon: a reader of the output that pauses, such as a pager, must not stop the
        client's pings.
        """
        line = as_json(fields) if self.options.json else text
        self._lines.append(line)
        self._size += len(line)
        if self._size > _BUFFER or trio.current_time() - self._flushed_at > _SOON:
            await self.flush()

    async def flush(self) -> None:
        """Write what was printed."""
        lines, self._lines, self._size = self._lines, [], 0
        if lines:
            await trio.to_thread.run_sync(_write, "\n".join([*lines, ""]), abandon_on_cancel=True)
        self._flushed_at = trio.current_time()

    def tell_left_out(self, *walkers: Walker) -> int:
        """Print which znodes were left out, and why; returns the exit status."""
        refused = [path for walker in walkers for path in walker.refused]
        forbidden = [path for walker in walkers for path in walker.forbidden]
        if forbidden:
            say(
                PROG,
                f"left out, because no znode can have such a name: {_first_of(forbidden)}; distrust this "
                "server",
            )
        if refused:
            more = "check --auth-file or PYZK_AUTH"
            say(PROG, f"left out, because this client may not read them: {_first_of(refused)}; {more}")
        return Status.FORBIDDEN if refused else Status.REFUSED if forbidden else 0


def _first_of(paths: list[str]) -> str:
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def explained(error: ZooKeeperError) -> Failure:
    """Return the failure for an error of a server, with a hint."""
    for kind, (status, advice) in _ADVICE.items():
        if isinstance(error, kind):
            return Failure(status, f"{error.path}: {advice or error.words}" if error.path else str(error))
    raise error


def split_location(text: str, hosts: str) -> tuple[str, str]:
    """Return the connect string and the path of ``HOST:PORT,.../PATH``. If the text is only ``PATH``, return
    ``hosts`` and the path.

    :raises Failure: the text has another form.
    """
    other, slash, path = text.partition("/")
    if not slash:
        raise wrong(PROG, f"{text!r} must be PATH or HOST:PORT,.../PATH")
    path = slash + path
    check_path(PROG, path)
    check_server(PROG, other or hosts)
    return other or hosts, path


async def hosts_of(options: argparse.Namespace) -> list[Host]:
    """Every server of ``--hosts``.

    :raises Failure: the look-up of SRV records fails.
    """
    try:
        return await list_servers(ConnectString.parse(options.hosts).hosts)
    except OSError as error:
        raise Failure(Status.UNAVAILABLE, f"{options.hosts}: {error}") from None

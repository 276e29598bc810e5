"""The client as users know it: one method for each operation of the service.

:mod:`.caller` says how operations are carried out; :mod:`.writes` and :mod:`.reads` have the operations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from ..protocol.errors import BadArgumentsError
from ..protocol.text import session_text
from .arguments import check_arguments
from .background import Background
from .hosts import ConnectString, Host
from .janitor import Janitor, Jobs
from .operations import server_path
from .pending import wait_settled
from .reads import Reads
from .runner import Runner
from .session import Session
from .session_data import Credential, Metrics
from .writes import Writes


class ZooKeeper(Writes, Reads):
    """A client; made by :func:`.connect`.

    Any number of tasks may share it. An operation is submitted when its method is first awaited, before any
    other task runs; the server carries out operations in the order in which they were submitted.

    Each method that asks the server may raise, besides the errors that its docstring names:

    * :class:`ConnectionLossError`. Of a write, ``sent`` says whether it may have been applied. A read was
      repeated by the client, and failed because there was no server for the length of the session timeout.
    * :class:`SessionExpiredError` and :class:`ClosingError`.
    * :class:`BadArgumentsError` for an argument that cannot be sent, before anything is sent.
    * :class:`UnimplementedError` if the server is older than the docstring says; 3.5 if it says nothing.

    Cancelling a call withdraws a request that has not left the client. One that has left is carried out.

    :ivar chroot: the path in front of every path; ``""`` for none.
    :ivar session: the session, and what is known of it.
    :ivar janitor: removes, in the background, what cancelled or failed tasks could not.
    """

    def __init__(
        self, runner: Runner, session: Session, background: Background, chroot: str, jobs: Jobs
    ) -> None:
        super().__init__(runner, session, chroot)
        self.janitor = Janitor(self, jobs)
        self._background = background
        self._watches.remove = self._remove_watch

    def __repr__(self) -> str:
        where = f"{self.server or 'no server yet'}{self.chroot}"
        return (
            f"<ZooKeeper at {where}, {self.session.state.name}, session {session_text(self.session.id)}, "
            f"{self.requests_in_flight} requests in flight, {self.requests_waiting} waiting>"
        )

    @property
    def server(self) -> Host | None:
        """The server of the present connection, or of the last one; None before there was any."""
        return self._runner.reporter.server

    @property
    def metrics(self) -> Metrics:
        """Counters of what was sent."""
        return self._machine.data.metrics

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and not answered."""
        return self._machine.in_flight

    @property
    def requests_waiting(self) -> int:
        """The number of requests that were not sent yet; most of them wait for a connection."""
        return len(self._machine.data.outbox)

    @property
    def watch_count(self) -> int:
        """The number of local watches that are armed."""
        return len(self._watches)

    @property
    def event_count(self) -> int:
        """The number of watch events that have come from servers."""
        return self._watches.events

    async def update_hosts(self, servers: str) -> None:
        """Replace the list of servers. So that each server gets its share of the clients, this client may
        move to another one, by the probability rule of the Java client; the session goes on there. The client
        moves when all requests in flight are answered; nothing is lost with the connection.

        :param servers: ``host:port,host:port``, as for :func:`.connect`.
        :raises BadArgumentsError: a host is malformed; or there is a chroot, and it is not that of this
            client.
        """
        check_arguments(servers=servers)
        try:
            parsed = ConnectString.parse(servers)
        except ValueError as error:
            raise BadArgumentsError(None, str(error)) from None
        if parsed.chroot not in ("", self.chroot):
            raise BadArgumentsError(
                None, f"the chroot cannot be changed to {parsed.chroot!r}: use zk.view, or connect anew"
            )
        await self._runner.update_hosts(parsed.hosts)

    def view(self, path: str) -> ZooKeeper:
        """Return a client whose paths lie below a znode of this one. Both have the same connection and the
        same session: a view costs nothing, needs no closing, and ends with the client.

            jobs = zk.view("/app/jobs")
            await jobs.get("/a")  # the znode /app/jobs/a of zk

        The znode itself need not exist; ``await view.ensure_path("/")`` creates it.

        :raises BadArgumentsError: the path is malformed.
        """
        chroot = server_path(self.chroot, path) if path != "/" else self.chroot
        view = ZooKeeper(self._runner, self.session, self._background, chroot, self.janitor.jobs)
        view.on_submit = self.on_submit
        return view

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run ``function(*args)`` in a task, until it ends or the client closes. An exception that it raises
        ends the client."""
        check_arguments(function=function)
        self._background.start_soon(function, *args)

    def keep_lease(self, moved: Callable[[], object]) -> Callable[[], None]:
        """Keep ``session.lease_deadline()`` in the future, as far as the servers allow. Unless the program
        sends writes anyway, the client sends 5 to 8 ``sync`` per session timeout, and no pings.

        :param moved: called after each change of the deadline; it must not raise.
        :returns: a function that takes this back. To call it again does nothing.
        """
        check_arguments(moved=moved)
        lease = self._machine.data.lease
        keeper = partial(moved)  # a new object for each call, even if the function is the same
        lease.keep(keeper, trio.current_time())
        self._runner.reset_timer()
        return lambda: lease.release(keeper)

    async def add_auth(self, scheme: str, credential: bytes | str) -> None:
        """Add an identity to this connection and to every later one: ``add_auth("digest", "user:password")``.

        :raises AuthFailedError: the server refused the identity. It closes the connection, and the client
            opens another.
        """
        check_arguments(scheme=scheme, credential=credential)
        pending = self._machine.add_credential(Credential(scheme, credential), trio.current_time())
        self._runner.wake()
        await wait_settled(pending, self._machine.withdraw)
        pending.result()

"""Opening and closing a client.

The rules:

* The block begins with a session. Inside the block the session is kept as the ``on_expired`` parameter says.
* The end of the block takes at most ``close_grace`` seconds, also after an exception. In this time the jobs
  of the cleanup end, and the session is closed. After that, nothing of the client runs.
* An exception of the block is raised unchanged. An exception of the client's own tasks ends the block.
"""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import trio

from ..protocol.constants import JUTE_MAXBUFFER
from ..protocol.errors import (
    AuthFailedError,
    ClosingError,
    ConnectionLossError,
    SessionExpiredError,
    ZooKeeperError,
)
from .arguments import complaint
from .auth import Credential, SaslUser
from .cleanup import Background, Jobs
from .hosts import ConnectString, Host, HostCycle, Resolver, Service, servers_of
from .machine import SessionMachine, SessionState
from .observer import Log, Observer, Reporter
from .pending import wait_settled
from .registry import WatchRegistry
from .repeating import UNANSWERED
from .runner import Connector, Runner
from .session import Session
from .session_data import DEFAULT_REPLY_LIMIT, NO_PASSWORD, SessionData
from .tcp import TcpStream
from .zookeeper import ZooKeeper

logger = logging.getLogger(__name__)


@asynccontextmanager
async def connect(
    hosts: str,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float = 15.0,
    close_grace: float = 1.0,
    auth: Iterable[tuple[str, bytes | str]] = (),
    sasl: tuple[str, str] | None = None,
    on_expired: Literal["cancel", "new_session"] = "cancel",
    resume: tuple[int, bytes] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    connector: Connector | None = None,
    request_limit: int = JUTE_MAXBUFFER,
    reply_limit: int = DEFAULT_REPLY_LIMIT,
    follow_config: bool = False,
    read_only: bool = False,
    observer: Observer | None = None,
    rng: random.Random | None = None,
) -> AsyncIterator[ZooKeeper]:
    """Open a client with a session, until the end of the block.

        async with connect("10.0.0.1:2181,10.0.0.2:2181/app", session_timeout=10) as zk:
            ...

    The block begins when there is a session, and nothing of the client runs after the block. The end of the
    block closes the session, and the server deletes the session's ephemeral znodes. Exceptions of the block
    are raised unchanged, not in a group.

    When the server says that the session has expired, the session's ephemeral znodes are already deleted.
    Then the block is cancelled, and ``connect`` raises :class:`SessionExpiredError`. With
    ``on_expired="new_session"`` the block continues: all pending calls raise SessionExpiredError,
    ``session.generation`` increases by 1, and later calls use a new session.

    :param hosts: ``host:port,host:port/chroot``, tried in random order. Host names are looked up again for
        each round of attempts. Each address of a name counts as one server.
        ``srv+zk://_zookeeper._tcp.example.com/chroot`` means the servers in the SRV records of that name;
        ``dns-srv://``, the prefix of the Java client, means the same. The SRV records are looked up again for
        each round too. The look-up needs the package dnspython.
    :param session_timeout: seconds without contact after which the server may end the session. The server can
        choose another timeout: see ``session.negotiated_timeout``.
    :param connect_timeout: seconds to wait for the first session; ``math.inf`` waits for ever.
    :param close_grace: the seconds that the end of the block can take to finish the cleanup's jobs and to
        close the session.
    :param auth: pairs of scheme and credential, as for :meth:`.ZooKeeper.add_auth`.
    :param sasl: the name and the password of a user. The client logs in by SASL DIGEST-MD5 on each
        connection, before it sends anything else.
    :param resume: the id and the password of a session to take over. Pass the ``session_timeout`` with which
        the session was created, because a new leader of the servers uses that timeout (docs/lease.md).
    :param ssl_context: use TLS. The TLS context decides how the host name is checked.
    :param connector: opens the stream to a host name and a port of ``hosts``. Tests and tunnels use this
        parameter. The client then looks up no names, so ``hosts`` cannot be a name of SRV records.
    :param request_limit: the largest request in bytes, the ``jute.maxbuffer`` of the servers.
    :param reply_limit: the largest reply in bytes.
    :param follow_config: whether the client replaces its list of servers by the servers of the ensemble's
        configuration, as :meth:`.ZooKeeper.update_hosts` does. The client does this at the beginning and
        after each change of the configuration.
    :param read_only: whether the client also connects to a read-only server as long as no other server
        answers. A read-only server answers reads, and writes raise :class:`NotReadOnlyError`. Meanwhile the
        client looks for a full server. The block can begin with a read-only server.
    :param observer: the object that receives state changes, failed attempts and requests, for metrics.
    :param rng: the random numbers for the order of the servers and the pauses between attempts.
    :raises ConnectionLossError: there is no session within ``connect_timeout``.
    :raises AuthFailedError: the first server refuses an identity; or, after a lost connection, a server
        refuses an identity and no other server accepts it.
    :raises SessionExpiredError: the session has expired, with ``on_expired="cancel"``.
    :raises ValueError: a parameter has a wrong type or value.
    :raises RuntimeError: the caller does not run in trio.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "pyzk.client works in tasks of trio only. With asyncio, import from pyzk.aio; with threads, from "
            "pyzk.blocking"
        )
    identities = list(auth) if isinstance(auth, Iterable) else auth
    wrong = complaint(
        {
            "hosts": hosts,
            "session_timeout": session_timeout,
            "connect_timeout": connect_timeout,
            "close_grace": close_grace,
            "auth": identities,
            "sasl": sasl,
            "on_expired": on_expired,
            "resume": resume,
            "ssl_context": ssl_context,
            "connector": connector,
            "request_limit": request_limit,
            "reply_limit": reply_limit,
            "follow_config": follow_config,
            "read_only": read_only,
            "observer": observer,
            "rng": rng,
        }
    )
    if wrong is not None:
        raise ValueError(wrong)
    parsed = ConnectString.parse(hosts)
    if connector is not None and any(isinstance(host, Service) for host in parsed.hosts):
        raise ValueError(f"with a connector hosts must be servers, not a name of SRV records: {hosts!r}")
    session_id, password = resume or (0, NO_PASSWORD)
    data = SessionData(
        WatchRegistry(),
        wanted_timeout=session_timeout,
        connect_budget=session_timeout,
        credentials=[Credential(*identity) for identity in identities],
        sasl=None if sasl is None else SaslUser(*sasl),
        session_id=session_id,
        password=password,
        read_only=read_only,
        request_limit=request_limit,
        reply_limit=reply_limit,
    )
    machine = SessionMachine(data)
    renews = on_expired == "new_session"
    session = Session(machine, renews=renews)

    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        background = Background(nursery)
        runner = Runner(
            machine,
            Reporter(machine, session, Log(renews=renews), observer),
            HostCycle(parsed.hosts, rng or random.Random()),
            connector or TcpStream.open,
            ssl_context,
            Resolver(parsed.hosts, background.start_soon) if connector is None else None,
            connect_timeout,
            renews,
        )
        zk = ZooKeeper(runner, session, background, parsed.chroot, Jobs())
        try:
            background.start_soon(runner.run)
            background.start_soon(runner.run_timer)
            with trio.move_on_after(connect_timeout) as limit:
                await session.wait_served()
            if limit.cancelled_caught:
                raise ConnectionLossError(
                    message=f"no session with {hosts} within {connect_timeout} s ({machine.reason})"
                )
            with trio.CancelScope() as body:
                runner.on_end = body.cancel
                if follow_config:
                    background.start_soon(_follow_ensemble, zk, runner.update_hosts)
                yield zk
            if body.cancelled_caught:
                raise machine.fatal or SessionExpiredError
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Raised again outside the nursery, which would put it into a group.
            failure = error
        finally:
            with trio.move_on_after(close_grace, shield=True):
                await _close(zk, machine, runner)
            machine.abandon()
            background.cancel()
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # otherwise it refers to itself by its traceback


async def _close(zk: ZooKeeper, machine: SessionMachine, runner: Runner) -> None:
    if machine.state is SessionState.CONNECTING:
        return  # there is no session, and nothing to clean up
    await zk.cleanup.idle()
    request = machine.close()
    zk.session.wake()  # tasks that rely on the session have to stop before it is closed
    runner.wake()
    await wait_settled(request, None)


async def _follow_ensemble(zk: ZooKeeper, use: Callable[[Sequence[Host]], Awaitable[None]]) -> None:
    """Keep the list of servers equal to the configuration of the ensemble, until the client ends.

    :param use: called with the servers of each configuration that names servers.
    """
    with suppress(ClosingError, SessionExpiredError, AuthFailedError):  # by wait_connected: the client ends
        while True:
            await zk.session.wait_connected()
            try:
                data, _, watch = await zk.get_config_and_watch()
            except (*UNANSWERED, SessionExpiredError):
                continue
            except ClosingError:
                return
            except ZooKeeperError as error:
                logger.warning("The list of servers does not follow the ensemble's configuration: %s", error)
                return
            with watch:
                if servers := servers_of(data):
                    await use(servers)
                await watch.wait()

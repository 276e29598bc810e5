"""Opening and closing a client."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Literal

import trio

from ..protocol.constants import JUTE_MAXBUFFER
from ..protocol.errors import ConnectionLossError, SessionExpiredError
from .arguments import complaint
from .background import Background
from .hosts import ConnectString, HostCycle
from .machine import SessionMachine, SessionState
from .pending import wait_settled
from .registry import WatchRegistry
from .resolver import Resolver
from .runner import Connector, Runner
from .session import Session
from .session_data import DEFAULT_REPLY_LIMIT, NO_PASSWORD, Credential, SessionData
from .zookeeper import ZooKeeper


async def open_tcp(host: str, port: int) -> trio.abc.Stream:
    """A connector that looks up the name itself, and takes the first address that accepts a connection."""
    return await trio.open_tcp_stream(host, port)


@asynccontextmanager
async def connect(
    servers: str,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float = 15.0,
    close_grace: float = 1.0,
    auth: Iterable[tuple[str, bytes | str]] = (),
    on_expired: Literal["cancel", "new_session"] = "cancel",
    resume: tuple[int, bytes] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    connector: Connector | None = None,
    request_limit: int = JUTE_MAXBUFFER,
    reply_limit: int = DEFAULT_REPLY_LIMIT,
    rng: random.Random | None = None,
) -> AsyncIterator[ZooKeeper]:
    """A client with a session, for as long as the block lasts.

        async with connect("10.0.0.1:2181,10.0.0.2:2181/app", session_timeout=10) as zk:
            ...

    The block begins when there is a session, and nothing of the client runs after it. Leaving it closes the
    session, which removes its ephemeral znodes. Exceptions of the block come out as they are, not in a group.

    When the server says that the session has expired, the block is cancelled and ``connect`` raises
    :class:`SessionExpiredError`: what the block believed to hold is gone. With ``on_expired="new_session"``
    the block goes on instead: every call on its way raises SessionExpiredError, ``session.generation`` goes
    up, and later calls use a new session.

    :param servers: ``host:port,host:port/chroot``. Tried in random order. Host names are looked up anew for
        each round of attempts, and each address of a name is a server of its own.
    :param session_timeout: seconds without contact after which the server may end the session. The server
        has the last word: see ``session.negotiated_timeout``.
    :param connect_timeout: seconds to wait for the first session.
    :param close_grace: seconds that leaving the block may take to clean up and to close the session.
    :param auth: identities, as for :meth:`.ZooKeeper.add_auth`.
    :param resume: id and password of a session to take over. ``session_timeout`` is to be the one that it was
        created with: a new leader of the servers goes by that one (docs/lease.md).
    :param ssl_context: speak TLS. The host name is checked as the context demands.
    :param connector: opens the stream to a host name and a port, both as they are in ``servers``: for tests
        and tunnels. Names are not looked up then.
    :param request_limit: the largest request in bytes, the ``jute.maxbuffer`` of the servers.
    :param reply_limit: the largest reply in bytes.
    :param rng: decides the order of the servers and the pauses between attempts.

    Raises :class:`ConnectionLossError` if there is no session in time, :class:`AuthFailedError` if the first
    server refuses an identity, ValueError for a parameter that is not what it must be.
    """
    identities = list(auth) if isinstance(auth, Iterable) else auth
    wrong = complaint(
        {
            "servers": servers,
            "session_timeout": session_timeout,
            "connect_timeout": connect_timeout,
            "close_grace": close_grace,
            "auth": identities,
            "on_expired": on_expired,
            "resume": resume,
            "ssl_context": ssl_context,
            "connector": connector,
            "request_limit": request_limit,
            "reply_limit": reply_limit,
            "rng": rng,
        }
    )
    if wrong is not None:
        raise ValueError(wrong)
    parsed = ConnectString.parse(servers)
    session_id, password = resume or (0, NO_PASSWORD)
    data = SessionData(
        WatchRegistry(),
        wanted_timeout=session_timeout,
        connect_budget=session_timeout,
        credentials=[Credential(scheme, credential) for scheme, credential in identities],
        session_id=session_id,
        password=password,
        request_limit=request_limit,
        reply_limit=reply_limit,
    )
    machine = SessionMachine(data)
    renews = on_expired == "new_session"
    session = Session(machine, renews=renews)
    machine.on_state_change = session.note

    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        background = Background(nursery)
        runner = Runner(
            machine,
            HostCycle(parsed.hosts, rng or random.Random()),
            connector or open_tcp,
            ssl_context,
            Resolver(parsed.hosts, background.start_soon) if connector is None else None,
            connect_timeout,
            renews,
        )
        zk = ZooKeeper(runner, session, background, parsed.chroot)
        try:
            background.start_soon(runner.run)
            background.start_soon(runner.run_timer)
            with trio.move_on_after(connect_timeout) as patience:
                await session.wait_connected()
            if patience.cancelled_caught:
                raise ConnectionLossError(
                    message=f"no session with {servers} within {connect_timeout} s ({machine.reason})"
                )
            with trio.CancelScope() as body:
                runner.on_expired = body.cancel
                yield zk
            if body.cancelled_caught:
                raise SessionExpiredError
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Raised again outside of the nursery, which would wrap it.
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
            del failure  # a cycle through its own traceback otherwise


async def _close(zk: ZooKeeper, machine: SessionMachine, runner: Runner) -> None:
    if machine.state is SessionState.CONNECTING:
        return  # nothing to clean up: there is no session
    await zk.janitor.idle()
    request = machine.close()
    zk.session.note(machine.state)  # whoever holds something in another task must stop
    runner.wake()
    await wait_settled(request, None)

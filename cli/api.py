"""Requests to the control API of a pyzk-server, over HTTP on the port of clients (docs/http.md)."""

from __future__ import annotations

import json
import math
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode

import h11
import trio

from ..client import Host
from ..protocol.version import __version__
from . import four_letter_words
from .arguments import wrong
from .context import Context, hosts_of
from .parser import PROG
from .status import Failure, Status
from .streams import ERRORS, LONGEST, reason, stream_to

_PREFIX = "/api/v1"
_PATIENCE = 60.0
"""The seconds to wait for an answer. The number is large because an advance of the server's clock can take
long."""
_RECEIVE = 64 * 1024  # bytes
_CLIENTS = 1000
"""The largest number of sessions in one request for descriptions. A server returns at most this many sessions
at once."""
_STATUSES: Mapping[int, Status] = {
    400: Status.USAGE,
    401: Status.FORBIDDEN,
    403: Status.FORBIDDEN,
    404: Status.NO,
}
"""The exit status for each status of HTTP. For a status that is missing here, the exit status is "the server
refuses"."""


class Api:
    """One connection to the control API.

    :ivar of_all: the prefix of the paths of requests that concern all servers of ``--hosts``.
    """

    def __init__(self, context: Context, host: Host, stream: trio.abc.Stream) -> None:
        self._context, self._host, self._stream = context, host, stream
        self.of_all: Sequence[str] = ()
        self._http = h11.Connection(h11.CLIENT)
        self._headers = {"host": str(Host(host.name, host.port)), "user-agent": f"{PROG}/{__version__}"}
        token = context.options.token or os.environ.get("PYZK_TOKEN")
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    async def ask(self, method: str, *path: str, **fields: Any) -> Any:
        """Make a request, and return the JSON of its answer.

        :param path: the segments after ``/api/v1``.
        :param fields: of the body, or with GET of the query, where those that are None are left out.
        :param fields: the fields of the body, or with GET of the query, where None is left out.
        """
        await self._send(method, path, fields)
        await self._begin()
        answer = await self._rest()
        self._http.start_next_cycle()
        return json.loads(answer)

    async def follow(self, *path: str, **fields: Any) -> AsyncGenerator[str, None]:
        """Make a request whose answer has no end; yield the lines of the answer.

        :raises Failure: the server refuses, or has ended.
        """
        await self._send("GET", path, fields)
        await self._begin()
        received = bytearray()
        while data := await self._data(math.inf):
            received += data
            *lines, rest = received.split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            received = rest
            self._check(received)

    async def _send(self, method: str, path: tuple[str, ...], fields: Mapping[str, Any]) -> None:
        target = "/".join([_PREFIX, *(quote(part, safe=":") for part in path)])
        headers, body = dict(self._headers), b""
        if method == "POST":
            body = json.dumps(fields).encode()
            headers |= {"content-type": "application/json", "content-length": str(len(body))}
        elif query := {name: value for name, value in fields.items() if value is not None}:
            target += f"?{urlencode(query)}"
        events = (
            h11.Request(method=method, target=target, headers=list(headers.items())),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        data = b"".join(self._http.send(event) or b"" for event in events)
        async with _told(self._context, self._host, _PATIENCE):
            await self._stream.send_all(data)

    async def _begin(self) -> None:
        """Read the head of an answer.

        :raises Failure: if the server refuses.
        """
        head = await self._event(_PATIENCE)
        assert isinstance(head, h11.Response)
        if head.status_code == 200:
            return
        try:
            detail = json.loads(await self._rest())["detail"]
        except (ValueError, TypeError, KeyError):
            detail = f"HTTP status {head.status_code}"
        status = _STATUSES.get(head.status_code, Status.REFUSED)
        hint = "; pyzk takes it from --token or PYZK_TOKEN" if status is Status.FORBIDDEN else ""
        raise Failure(status, f"{detail}{hint}")

    async def _rest(self) -> bytes:
        """Return a whole body."""
        answer = bytearray()
        while data := await self._data(_PATIENCE):
            answer += data
            self._check(answer)
        return bytes(answer)

    async def _data(self, patience: float) -> bytes:
        """Return a piece of a body; return an empty piece after the end of the body."""
        event = await self._event(patience)
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _event(self, patience: float) -> Any:
        async with _told(self._context, self._host, patience):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._stream.receive_some(_RECEIVE)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise trio.BrokenResourceError("it has closed the connection")
                self._http.receive_data(bytes(data))
            return event

    def _check(self, answer: bytearray) -> None:
        if len(answer) > LONGEST:
            raise Failure(Status.REFUSED, f"the answer has more than {LONGEST:,} bytes")


@asynccontextmanager
async def api(context: Context, *, of_all: bool = False, from_one: bool = False) -> AsyncIterator[Api]:
    """Connect to the control API of the server that the arguments name.

    :param of_all: whether ``--hosts`` can name several servers of an ensemble. In this case the first server
        that can be reached answers for the whole ensemble.
    :param from_one: whether the request concerns the whole ensemble even if ``--hosts`` names only one server
        of the ensemble.
    :raises Failure: the server is not a pyzk-server, its control is off, or the connection fails.
    """
    options, hosts = context.options, await hosts_of(context.options)
    several = wrong(PROG, f"{options.verb} works with one server only, but --hosts names {len(hosts)}")
    if len(hosts) > 1 and not of_all:
        raise several
    async with AsyncExitStack() as stack:
        found = await _first(context, hosts, stack)
        if len(hosts) > 1:
            try:
                await found.ask("GET", "ensemble")
            except Failure as failure:
                raise several if failure.status is Status.REFUSED else failure from None
            found.of_all = ("ensemble",)
        elif from_one and (await found.ask("GET", "server")).get("server"):
            found.of_all = ("ensemble",)
        yield found


async def clients(context: Context) -> dict[str, Any]:
    """Return the descriptions of the sessions, by session. Only a pyzk-server has them."""
    found: dict[str, Any] = {}
    for host in await hosts_of(context.options):
        with suppress(Failure):
            if four_letter_words.OURS in await four_letter_words.version(host, context.ssl_context):
                async with _told(context, host, _PATIENCE), stream_to(host, context.ssl_context) as stream:
                    answer = await Api(context, host, stream).ask("GET", "clients", limit=_CLIENTS)
                found |= {each["id"]: each for each in answer["clients"]}
    return found


async def _first(context: Context, hosts: Sequence[Host], stack: AsyncExitStack) -> Api:
    """Connect to the first server that can be reached.

    :raises Failure: no server can be reached.
    """
    failures = []
    for host in hosts:
        try:
            async with _told(context, host, context.options.connect_timeout):
                stream = await stack.enter_async_context(stream_to(host, context.ssl_context))
            return Api(context, host, stream)
        except Failure as failure:
            failures.append(failure)
    raise failures[0]


@asynccontextmanager
async def _told(context: Context, host: Host, patience: float) -> AsyncIterator[None]:
    """Turn errors of a connection into failures that say what to do.

    :param patience: the number of seconds after which the block is cancelled.
    """
    try:
        with trio.fail_after(patience):
            yield
    except (h11.RemoteProtocolError, trio.BrokenResourceError):
        raise await _explained(host, context.ssl_context, context.options.verb) from None
    except ERRORS as error:
        text = f"{host} does not answer: {reason(error, patience)}; check --hosts or PYZK_HOSTS"
        raise Failure(Status.UNAVAILABLE, text) from None


async def _explained(host: Host, ssl_context: ssl.SSLContext | None, verb: str) -> Failure:
    """Return the reason why a server has closed an HTTP connection."""
    version = await four_letter_words.version(host, ssl_context)
    if four_letter_words.OURS in version:
        text = f"{host} has closed the connection: it has ended, or has httpOnClientPort=false"
    else:
        number = version.partition(",")[0]
        other = f"Apache ZooKeeper {number}" if number else "another server"
        text = f"{verb} needs a pyzk-server; {host} is {other}"
    return Failure(Status.REFUSED, text)

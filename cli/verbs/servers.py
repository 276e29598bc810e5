"""``sessions`` and ``health``: the answers of servers to four-letter words."""

from __future__ import annotations

import errno
import os
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs
import trio

from ...client import Host
from .. import four_letter_words
from ..api import clients
from ..context import Context, hosts_of
from ..parser import PROG
from ..show import brief, table
from ..status import Failure, Status, say
from ..units import age

_REFUSED = os.strerror(errno.ECONNREFUSED)
"""The last words of the reason if no server listens at the address. In this case no client is started,
because a client would repeat its attempts for a long time."""
_AGAIN = 0.5
"""Seconds between two checks of servers that do not serve yet."""


# --- sessions ----------------------------------------------------------------------------------------------


@attrs.define
class Session:
    """A session, with the details that the servers report.

    :ivar client: the address of the session's client; empty if the client is not connected to any of the
        asked servers.
    :ivar program: the client program of the session, if a server has found it.
    :ivar state: the fault that a test has begun for the session, such as ``paused``; empty for none.
    :ivar timeout: the session timeout in ms; 0 if it is unknown.
    :ivar since: when the connection was made, in ms since the epoch; 0 if it is unknown.
    """

    id: str
    client: str = ""
    program: str = ""
    server: str = ""
    timeout: int = 0
    since: int = 0
    last: str = ""
    ephemerals: list[str] = attrs.field(factory=list)
    state: str = ""

    @property
    def address(self) -> str:
        """The address of the client, with the state of the session."""
        address = self.client or "not connected"
        return f"{address} ({self.state})" if self.state else address

    def add(self, known: Mapping[str, Any]) -> None:
        """Add to this session the description that a pyzk-server gives. Each server of an ensemble lists the
        connections of all servers."""
        self.program = known["program"] or ""
        if not self.client and known["peer"]:
            self.client, self.server = known["peer"], f"server {known.get('server')}"
            self.timeout = known["timeout_ms"]
        states = ["paused"] if known["paused"] else []
        if (endpoint := known.get("endpoint")) and (state := endpoint_state(endpoint)):
            states.append(f"endpoint {endpoint['endpoint']}: {state}")
        self.state = ", ".join(states)


def endpoint_state(endpoint: Mapping[str, Any]) -> str:
    """Return the fault that a test has begun for the clients of an endpoint; empty without a fault."""
    states = [name for name in ("cut", "paused") if endpoint[name]]
    states += [f"slow by {endpoint['delay']:g} s"] if endpoint["delay"] else []
    return ", ".join(states)


async def sessions(context: Context) -> int:
    """Show sessions, their clients and ephemerals."""
    found: dict[str, Session] = {}
    failures: list[Failure] = []
    hosts = await hosts_of(context.options)
    for host in hosts:
        try:
            read_dump(await four_letter_words.ask(host, "dump", context.ssl_context), found)
            read_connections(await four_letter_words.ask(host, "cons", context.ssl_context), str(host), found)
        except Failure as failure:
            failures.append(failure)
    if len(failures) == len(hosts):
        raise failures[0]
    for down in failures:
        say(PROG, str(down))
    for id, known in (await clients(context)).items():
        if id in found:
            found[id].add(known)
    now = time.time()
    rows = [("SESSION", "CLIENT", "STATE", "PROGRAM", "SERVER", "TIMEOUT", "CONNECTED", "LAST", "EPHEMERALS")]
    for session in sorted(found.values(), key=lambda session: int(session.id, 16)):
        if context.options.json:
            await context.out("", attrs.asdict(session))
        first, *others = sorted(session.ephemerals) or [""]
        shown = brief(first.encode()) + (f" and {len(others)} more" if others else "")
        rows.append(
            (
                session.id,
                session.client or "not connected",
                session.state,
                session.program,
                session.server or "-",
                f"{session.timeout / 1000:g} s" if session.timeout else "-",
                age(now - session.since / 1000) if session.since else "-",
                session.last or "-",
                f"{len(session.ephemerals)}: {shown}" if session.ephemerals else "0",
            )
        )
    if not context.options.json:
        await context.out(table(rows), {})
    return 0


async def connected_sessions(context: Context) -> dict[str, Session]:
    """Return the sessions, if the servers show the addresses and the programs of clients."""
    found: dict[str, Session] = {}
    for host in await hosts_of(context.options):
        with suppress(Failure):
            answer = await four_letter_words.ask(
                host, "cons", context.ssl_context, context.options.connect_timeout
            )
            read_connections(answer, str(host), found)
    for id, known in (await clients(context)).items():
        found.setdefault(id, Session(id)).add(known)
    return found


def read_dump(answer: str, found: dict[str, Session]) -> None:
    """Read the answer to ``dump``: all sessions, and their ephemerals."""
    tracked, _, rest = answer.partition("ephemeral nodes dump:")
    for id, timeout in re.findall(r"^\s*(0x[0-9a-f]+)\b(?:\s+(\d+)ms)?", tracked, re.MULTILINE):
        session = found.setdefault(id, Session(id))
        session.timeout = int(timeout or session.timeout)  # followers tell it
    owner = None
    for line in rest.partition("Connections dump:")[0].splitlines():
        if match := re.fullmatch(r"(0x[0-9a-f]+):", line):
            owner = found.setdefault(match[1], Session(match[1]))
        elif owner is not None and line.startswith("\t") and line[1:] not in owner.ephemerals:
            owner.ephemerals.append(line[1:])


_CONNECTION = re.compile(r"^ /(?P<client>\S+?)\[[0-9a-f]+\]\((?P<fields>.*)\)$", re.MULTILINE)


def read_connections(answer: str, server: str, found: dict[str, Session]) -> None:
    """Read the answer to ``cons``: the connections of a server."""
    for match in _CONNECTION.finditer(answer):
        fields = dict(part.partition("=")[::2] for part in match["fields"].split(","))
        if "sid" in fields:
            session = found.setdefault(fields["sid"], Session(fields["sid"]))
            session.client, session.server = match["client"], server
            session.timeout, session.since = int(fields.get("to", 0)), int(fields.get("est", 0))
            session.last = fields.get("lop", "")


# --- health ------------------------------------------------------------------------------------------------


async def health(context: Context) -> int:
    """Return the exit status 0 if a server serves."""
    options = context.options
    give_up_at = trio.current_time() + options.wait
    while True:
        reports = [await _look_at(host, context.ssl_context) for host in await hosts_of(options)]
        refused = all(str(report.get("problem", "")).endswith(_REFUSED) for report in reports)
        nobody = f"nobody listens at {options.hosts}; check --hosts or PYZK_HOSTS"
        problem = nobody if refused else await _problem(context)
        down = [report["server"] for report in reports if not report["serves"]]
        if options.all and down and not problem:
            problem = f"{', '.join(down)} does not serve"
        if not problem or trio.current_time() + _AGAIN >= give_up_at:
            break
        await trio.sleep(_AGAIN)
    if options.json:
        for report in reports:
            await context.out("", report)
    else:
        rows = [("SERVER", "STATE", "MODE", "VERSION", "LATENCY", "CONNECTIONS", "ZNODES")]
        for report in reports:
            known = [
                str(report.get(key) or "-") for key in ("mode", "version", "latency", "connections", "znodes")
            ]
            rows.append((report["server"], "serves" if report["serves"] else report["problem"], *known))
        await context.out(table(rows), {})
    if problem:
        raise Failure(Status.NO, f"not healthy: {problem}")
    return 0


async def _look_at(host: Host, ssl_context: ssl.SSLContext | None) -> dict[str, Any]:
    """Return the report about one server, from its answer to ``srvr``."""
    report: dict[str, Any] = {"server": str(host), "serves": False}
    try:
        told = four_letter_words.fields(await four_letter_words.ask(host, "srvr", ssl_context))
    except Failure as failure:
        return report | {"problem": str(failure)}
    if "Mode" not in told:
        return report | {"problem": "it runs, but does not serve: it has no quorum, or is starting"}
    version = told.get("Zookeeper version", "").partition(",")[0]
    return report | {
        "serves": True,
        "mode": told["Mode"],
        "version": version,
        "ours": four_letter_words.OURS in version,
        "latency": f"{told.get('Latency min/avg/max', '')} ms",
        "connections": int(told.get("Connections", 0)),
        "znodes": int(told.get("Node count", 0)),
    }


async def _problem(context: Context) -> str:
    """Return the reason why the servers do not serve a client; empty if the servers serve a client."""
    try:
        async with context.connect() as zk:
            with trio.fail_after(context.options.connect_timeout):
                await zk.sync("/")
                await zk.exists("/")
    except Failure as failure:
        return str(failure)
    except trio.TooSlowError:
        return f"a session was opened, but sync was not answered within {context.options.connect_timeout:g} s"
    return ""

"""One client floods the server; how long does a polite one wait?

    python -m benchmarks.fairness
    python -m benchmarks.fairness --flooders 3

The polite client has one request in flight. It is measured alone, then while others keep thousands of
requests in flight, and, to tell the server's part from that of the machine's busy cores, while those others
flood a second server beside it. The same with others that speak HTTP on the port of clients, over 32
connections. The exit status is 1 if a flood of requests makes its p99 more than three times what it was, or
one of HTTP makes it more than 5 ms longer: then it has waited for more than one HTTP request.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs

from . import servers, tables, workloads
from .load import WARM_UP, Outcome, converse, in_processes
from .wire import Address

WINDOW = 2000
CONNECTIONS = 32
"""Of each process that floods by HTTP: two of them take all that the server allows."""
LIMIT = 3.0
HTTP_LIMIT = 5000.0  # µs: a turn of the server
_ASKED = b"GET /commands/monitor HTTP/1.1\r\nhost: localhost\r\n\r\n"
"""An answer of some kB, all of which is made anew each time."""
_LENGTH = re.compile(rb"content-length: (\d+)\r\n")
Flood = Callable[[Address, float, Callable[[], Any]], Outcome]
"""Asks a server as often as it answers, for some seconds."""


@attrs.define
class Case:
    """
    :ivar flooded: which server the others flood: the polite client's, another, or none.
    :ivar how: they do so.
    """

    name: str
    flooded: Address | None
    how: Flood
    p50: list[float] = attrs.field(factory=list)
    p99: list[float] = attrs.field(factory=list)
    flood: list[float] = attrs.field(factory=list)


def by_requests(address: Address, seconds: float, ready: Callable[[], Any]) -> Outcome:
    return Outcome(converse([(address, workloads.get(1))], WINDOW, seconds, ready).rate)


def by_http(address: Address, seconds: float, ready: Callable[[], Any]) -> Outcome:
    with contextlib.ExitStack() as open_ones:
        clients = [open_ones.enter_context(socket.create_connection(address)) for _ in range(CONNECTIONS)]
        found = {client.fileno(): (client, bytearray()) for client in clients}
        poller = open_ones.enter_context(select.epoll())
        ready()
        for client in clients:
            client.sendall(_ASKED)
            poller.register(client, select.EPOLLIN)
        answers, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + seconds:
            for fd, _ in poller.poll(1.0):
                client, received = found[fd]
                received += client.recv(1 << 16)
                head, blank, body = received.partition(b"\r\n\r\n")
                length = _LENGTH.search(head + b"\r\n")
                if blank and length and len(body) >= int(length[1]):
                    received.clear()
                    client.sendall(_ASKED)
                    answers += 1
        return Outcome(answers / (time.perf_counter() - begin))


def polite(address: Address, case: Case, flooders: int, seconds: float) -> Outcome:
    """The latencies of the polite client, and the rate of the others."""

    def job(index: int, count: int, ready: Callable[[], Any]) -> Outcome:
        if index:
            assert case.flooded is not None
            return case.how(case.flooded, seconds * (1 + WARM_UP), ready)
        return Outcome(0.0, converse([(address, workloads.get(0))], 1, seconds, ready).latencies)

    return in_processes(job, 1 + (flooders if case.flooded else 0))


def measure(flooders: int, rounds: int, seconds: float) -> list[Case]:
    with contextlib.ExitStack() as running:
        ours, other = (running.enter_context(servers.ours()).address for _ in range(2))
        for address in (ours, other):
            workloads.prepare(address)
        cases = [
            Case("nobody else", None, by_requests),
            Case("another server", other, by_requests),
            Case("the same server", ours, by_requests),
            Case("another server, by HTTP", other, by_http),
            Case("the same server, by HTTP", ours, by_http),
        ]
        for _ in range(rounds):
            for case in cases:
                found = polite(ours, case, flooders, seconds)
                case.p50.append(found.percentile(0.5))
                case.p99.append(found.percentile(0.99))
                case.flood.append(found.rate)
    return cases


HEAD = ["flooded is", "p50, µs", "p99, µs", "p99 to quiet", "flood, per second"]


def rows_of(cases: list[Case]) -> list[list[str]]:
    return [
        [
            case.name,
            tables.number(statistics.median(case.p50)),
            tables.number(statistics.median(case.p99)),
            f"{ratio(case, cases[0]):.2f}",
            tables.number(statistics.median(case.flood)),
        ]
        for case in cases
    ]


def ratio(case: Case, quiet: Case) -> float:
    """How many times longer the polite client waits, the median of the rounds."""
    return statistics.median(a / b for a, b in zip(case.p99, quiet.p99, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fairness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--flooders", type=int, default=1, help="clients that flood, each in its own process (default: 1)")
    add("--rounds", type=int, default=5, help="(default: 5)")
    add("--seconds", type=float, default=2.0, help="of each measurement (default: 2)")
    arguments = parser.parse_args()
    print(tables.machine_line(servers.machine()), flush=True)
    cases = measure(arguments.flooders, arguments.rounds, arguments.seconds)
    print(tables.text(HEAD, rows_of(cases)))
    longer = statistics.median(a - b for a, b in zip(cases[4].p99, cases[0].p99, strict=True))
    return int(ratio(cases[2], cases[0]) > LIMIT or longer > HTTP_LIMIT)


if __name__ == "__main__":
    sys.exit(main())

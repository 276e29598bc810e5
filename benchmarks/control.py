"""What control over HTTP costs: a test that uses it, a server that has it, a request that is traced.

    python -m benchmarks.control
    python -m benchmarks.control --rounds 200

``expire`` and ``POST /servers`` are asked over one kept connection, each with what it needs before and after
(a session; the end of the server), which is not measured. The memory is that of servers that nobody else
uses. The cost of the trace is measured through a memory stream, so that no socket hides it, and in turns:
traced and not traced see the same machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import time
from collections import deque
from typing import Any

import trio

from pyzk.server.testing import open_server
from pyzk.server.testing.trace import Selection, Tracer

from . import servers, tables, wire
from .embedded import HELLO
from .wire import Address, Client

_BATCH = 50
"""Requests that are sent at once."""


class Api:
    """One kept connection."""

    def __init__(self, address: Address) -> None:
        self._connection = http.client.HTTPConnection(*address)

    def ask(self, method: str, path: str, **fields: Any) -> Any:
        body = json.dumps(fields) if method == "POST" else None
        self._connection.request(method, f"/api/v1{path}", body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise wire.BenchmarkError(found["detail"])
        return found

    def close(self) -> None:
        self._connection.close()


def expiry(api: Api, address: Address, rounds: int) -> list[float]:
    """Seconds from the request to the answer, when the session and its ephemeral are gone."""
    found = []
    for n in range(rounds):
        client = Client(address)
        client.ask(wire.create(f"/expire-{n}", mode=wire.CreateMode.EPHEMERAL))
        [session] = api.ask("GET", "/sessions")["sessions"]
        begin = time.perf_counter()
        gone = api.ask("POST", f"/sessions/{session['id']}/expire")
        found.append(time.perf_counter() - begin)
        assert gone["ephemerals"] == [f"/expire-{n}"]
        client.drop()
    return found


def starts(api: Api, rounds: int) -> list[float]:
    """Seconds from the request to the answer, when the new server listens."""
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        started = api.ask("POST", "/servers")
        found.append(time.perf_counter() - begin)
        api.ask("DELETE", f"/servers/{started['server']}")
    return found


def traced(rounds: int) -> dict[str, float]:
    """Seconds of a request that is not traced, traced as text, and as JSON; medians."""

    async def main() -> dict[str, float]:
        found: dict[str, list[float]] = {"off": [], "text": [], "json": []}
        batch = b"".join(wire.exists("/", xid=n) for n in range(_BATCH))
        async with open_server(record=False) as server:
            stream = server.open_stream()
            await stream.send_all(HELLO)
            await stream.receive_some()
            lines: deque[str] = deque(maxlen=1000)
            for _ in range(rounds):
                for style, times in found.items():
                    tracer = None
                    if style != "off":
                        tracer = Tracer(
                            server.running,
                            Selection(),
                            lambda told, style=style: lines.append(told.as_line(style)),
                        )
                    begin = time.perf_counter()
                    await stream.send_all(batch)
                    await stream.receive_some()
                    times.append((time.perf_counter() - begin) / _BATCH)
                    if tracer is not None:
                        tracer.stop()
        return {style: statistics.median(times) for style, times in found.items()}

    return trio.run(main)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.control",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=500, help="of each measurement (default: 500)")
    rounds = parser.parse_args().rounds
    print(tables.machine_line(servers.machine()), flush=True)
    with servers.ours() as server:
        idle = server.memory()
        api = Api(server.address)
        api.ask("GET", "/server")
        used = server.memory()
        rows = []
        for name, times in (
            ("expire a session", expiry(api, server.address, rounds)),
            ("POST /servers", starts(api, rounds)),
        ):
            ms = [1000 * seconds for seconds in times]
            rows.append([name, f"{statistics.median(ms):.2f}"])
        api.close()
    print(tables.text(["over one kept connection", "p50, ms"], rows))
    print(f"\nidle: {idle / 2**20:.1f} MiB, once HTTP was used {used / 2**20:.1f} MiB")
    costs = traced(rounds)
    told = ", ".join(
        f"{style} {1e6 * cost:.1f} µs ({cost / costs['off']:.1f} times)" for style, cost in costs.items()
    )
    print(f"\none `exists` through a memory stream, traced: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

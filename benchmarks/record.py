"""What the history costs that the command records from its start (``--record``).

    python -m benchmarks.record
    python -m benchmarks.record --rounds 40 --seconds 2
    python -m benchmarks.record --ensemble 3

Servers with ``--record none``, ``recent`` and ``all`` stay up and take turns, as in :mod:`.server`: while one
works, the others rest. Measured is the processor time of the server for each request of a client that has 64
in flight; and of each server, before it has a client, the processor time and the memory of its start.
Compared are the medians of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence

from . import servers, tables, workloads
from .servers import OURS, Server
from .wire import Client, get, set_data

KINDS = ("none", "recent", "all")
_WINDOW = 64
"""Requests in flight: with one, the wake-ups of a busy machine are all that is seen."""
_FEW = 400
"""Requests in a second that ``recent`` records."""
_ROWS = {"get": get(workloads.HOT), "set": set_data(workloads.HOT)}


def _turn(server: Server, client: Client, request: bytes, seconds: float) -> float:
    """Return the µs of processor time of a request."""
    before, count, end = server.cpu(), 0, time.perf_counter() + seconds
    batch = [request] * _WINDOW
    while time.perf_counter() < end:
        client.ask(*batch)
        count += _WINDOW
    return 1e6 * (server.cpu() - before) / count


def _seldom(server: Server, client: Client, request: bytes, seconds: float) -> float:
    """Return the processor time in µs of a second with a few requests, of which all are recorded."""
    before, count = server.cpu(), int(_FEW * seconds)
    begun = time.perf_counter()
    for number in range(count):
        client.ask(request)
        time.sleep(max(0.0, begun + number / _FEW - time.perf_counter()))
    return 1e6 * (server.cpu() - before) / (time.perf_counter() - begun)


def starts(command: Sequence[str], rounds: int) -> list[list[str]]:
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS[:2]}
    for _ in range(rounds):
        for kind, figures in found.items():
            with servers.ours([*command, "--record", kind]) as server:
                figures.append((1000 * server.cpu(), server.memory() / 1e6))
    rows = []
    for index, name in enumerate(("start, ms of processor time", "memory without a client, MB")):
        values = {kind: [each[index] for each in figures] for kind, figures in found.items()}
        rows.append(_row(name, {**values, "all": []}))
    return rows


def _row(name: str, values: dict[str, list[float]]) -> list[str]:
    found = [f"{statistics.median(values[kind]):.2f}" if values[kind] else "" for kind in KINDS]
    cells = [name, *found]
    for kind in KINDS[1:]:
        ratios = [mine / none for mine, none in zip(values[kind], values["none"], strict=False)]
        cells.append(f"{statistics.median(ratios) - 1:+.1%}" if ratios else "")
    return cells


def costs(command: Sequence[str], rounds: int, seconds: float) -> list[list[str]]:
    rows = []
    with contextlib.ExitStack() as stack:
        running = {kind: stack.enter_context(servers.ours([*command, "--record", kind])) for kind in KINDS}
        clients = {kind: Client(server.address) for kind, server in running.items()}
        for server in running.values():
            workloads.prepare(server.address)
        for name, request in _ROWS.items():
            values: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for number in range(rounds + 1):
                for kind, server in running.items():
                    found = _turn(server, clients[kind], request, seconds)
                    if number:  # the first one makes it warm
                        values[kind].append(found)
            rows.append(_row(f"{name}, {_WINDOW} in flight, µs of a request", values))
        values = {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind, server in running.items():
                values[kind].append(_seldom(server, clients[kind], _ROWS["get"], seconds))
        rows.append(_row(f"get, {_FEW} in a second, µs of a second", values))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=20, help="(default: 20)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn (default: 1)")
    parser.add_argument("--ensemble", metavar="N", help="of a pretend ensemble of N servers")
    arguments = parser.parse_args()
    command = OURS if arguments.ensemble is None else [*OURS, "--ensemble", arguments.ensemble]
    head = ["", *KINDS, *(f"more with {kind}" for kind in KINDS[1:])]
    rows = [*starts(command, arguments.rounds), *costs(command, arguments.rounds, arguments.seconds)]
    print(tables.text(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

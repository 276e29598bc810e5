"""How the cost of things grows with their number: a table, a picture, and the exponent of each curve.

    python -m benchmarks.growth                      # a minute or two
    python -m benchmarks.growth --plot growth --largest 1000

All curves but the first are measured in the process, bytes in to bytes out, where time is an argument:
sockets would only add noise. The exponent is the slope of the curve where both axes are logarithmic: 0 does
not grow, 1 is linear. A curve that grows by more than it may is flagged, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from pyzk.protocol.constants import CreateMode

from . import servers, tables, wire, workloads
from .core import Core, best_seconds, seconds_of

TOLERANCE = 0.25
"""Caches that no longer hold everything, and noise, bend a flat curve by about this much."""
_FILES_TO_SPARE = 200


@attrs.define
class Curve:
    """
    :ivar unit: what ``measure`` returns.
    :ivar allowed: the exponent that is right: 0 for the cost of one thing among many, 1 for that of all.
    :ivar measure: the cost at one size, in seconds; None if the machine does not allow it.
    """

    name: str
    sizes: Sequence[int]
    allowed: int
    measure: Callable[[int], float | None]
    points: list[tuple[int, float]] = attrs.field(factory=list)

    @property
    def exponent(self) -> float:
        """The slope of the line through all points, by least squares."""
        return slope(self.points)

    @property
    def last(self) -> float:
        """The slope between the two largest sizes."""
        return slope(self.points[-2:])

    @property
    def verdict(self) -> str:
        if len(self.points) < 2:
            return "not measured"
        return "TOO STEEP" if self.exponent > self.allowed + TOLERANCE else "good"


def slope(points: Sequence[tuple[int, float]]) -> float:
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    if len(logs) < 2:
        return math.nan
    middle_x, middle_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    upper: float = sum((x - middle_x) * (y - middle_y) for x, y in logs)
    return upper / float(sum((x - middle_x) ** 2 for x, _ in logs))


# --- over the network ------------------------------------------------------------------------------------


def request_at_connections(seconds: float, connections: int) -> float | None:
    """The server's time per request, all clients with one request in flight."""
    processes = min(2, os.cpu_count() or 1)
    limit = servers.raise_file_limit(connections + _FILES_TO_SPARE)
    if limit < connections + _FILES_TO_SPARE:
        print(f"  not measured: {connections:,} connections need more files than {limit:,} (ulimit -Hn)")
        return None
    work = workloads.Workload("", workloads.get, connections)
    with servers.ours() as server:
        workloads.prepare(server.address)
        return 1 / workloads.run(work, server.addresses, seconds, processes).rate


# --- in the process: the cost of one among many ----------------------------------------------------------


def _filled(count: int, path: str = "/p") -> tuple[Core, Any]:
    """A core with that many children of one znode, and a connection to it."""
    core = Core()
    client = core.connect()
    core.ask_all(client, [wire.create(path)])
    core.ask_all(client, (wire.create(f"{path}/k{number:07}", b"x") for number in range(count)))
    return core, client


def _per_request(core: Core, client: Any, requests: list[bytes]) -> float:
    return best_seconds(lambda: core.ask_all(client, requests)) / len(requests)


def get_among(znodes: int) -> float:
    core, client = _filled(znodes)
    step = max(1, znodes // 1000)
    return _per_request(core, client, [wire.get(f"/p/k{n:07}") for n in range(0, znodes, step)] * 3)


def create_delete_among(children: int) -> float:
    core, client = _filled(children)
    pairs = [part(f"/p/new{n}") for n in range(500) for part in (wire.create, wire.delete)]
    return _per_request(core, client, pairs)


def sequential_among(children: int) -> float:
    """Create a sequential ephemeral and delete it: what each contender for a lock does."""
    core, client = _filled(children)
    creation = wire.create("/p/lock-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)

    def both() -> None:
        for _ in range(500):
            reply = core.ask(client, creation)
            core.ask(client, wire.deletion_of(reply[4:]))

    return best_seconds(both) / 1000


def set_among_watches(watches: int) -> float:
    """Change a znode that nobody watches while others are watched."""
    core, client = _filled(watches)
    core.ask_all(client, [wire.create("/quiet")])
    core.ask_all(client, (wire.get(f"/p/k{n:07}", watch=True) for n in range(watches)))
    return _per_request(core, client, [wire.set_data("/quiet")] * 1000)


def touch_among_sessions(sessions: int) -> float:
    """A sign of life that moves a session's deadline, and the question when the next one expires."""
    core = Core()
    clients = [core.connect() for _ in range(sessions)]
    ping = wire.request(11, xid=-2)
    chosen = clients[:: max(1, sessions // 100)]

    def round_of_pings() -> None:
        core.now += 2.0
        for client in chosen:
            core.ask(client, ping)
            core.service.next_deadline()

    return best_seconds(round_of_pings) / len(chosen)


# --- in the process: the cost of all ---------------------------------------------------------------------


def list_changed(children: int) -> float:
    """List the children after a change among them."""
    core, client = _filled(children)
    change = wire.create("/p/new") + wire.delete("/p/new")
    listing = wire.children("/p")

    def once() -> float:
        core.ask(client, change)
        return seconds_of(lambda: core.ask(client, listing))

    return min(once() for _ in range(5))


def list_unchanged(children: int) -> float:
    core, client = _filled(children)
    return _per_request(core, client, [wire.children("/p")] * 3)


def drain(children: int) -> float:
    """Delete all children of one znode, the first first."""
    core, client = _filled(children)
    requests = [wire.delete(f"/p/k{n:07}") for n in range(children)]
    return seconds_of(lambda: core.ask_all(client, requests))


def arm_watches(watches: int) -> float:
    core, client = _filled(watches)
    requests = [wire.get(f"/p/k{n:07}", watch=True) for n in range(watches)]
    return seconds_of(lambda: core.ask_all(client, requests))


def fire_watches(watches: int) -> float:
    """One client changes that many znodes, and another hears of each."""
    core, writer = _filled(watches)
    watcher = core.connect()
    core.ask_all(watcher, (wire.get(f"/p/k{n:07}", watch=True) for n in range(watches)))
    requests = [wire.set_data(f"/p/k{n:07}", b"y") for n in range(watches)]
    taken = seconds_of(lambda: core.ask_all(writer, requests))
    assert watcher.stats.sent > 2 * watches, "not all watches have fired"
    return taken


def tell_watchers(watchers: int) -> float:
    """One znode changes, and that many connections hear of it."""
    core, writer = _filled(1)
    arm = wire.get("/p/k0000000", watch=True)
    clients = [core.connect() for _ in range(watchers)]
    for client in clients:
        core.ask(client, arm)

    def change() -> None:
        core.ask(writer, wire.set_data("/p/k0000000"))
        for client in clients:
            client.data_to_send()

    return seconds_of(change)


def forget_watches(watches: int) -> float:
    """A connection ends that watches that many znodes."""
    core, _ = _filled(watches)
    watcher = core.connect()
    core.ask_all(watcher, (wire.get(f"/p/k{n:07}", watch=True) for n in range(watches)))
    return seconds_of(watcher.receive_eof)


def expire_sessions(sessions: int) -> float:
    """That many sessions expire in one tick, each with an ephemeral."""
    core = Core()
    for number in range(sessions):
        client = core.connect()
        core.ask(client, wire.create(f"/e{number}", b"", CreateMode.EPHEMERAL))
    core.now += 60.0
    taken = seconds_of(lambda: core.service.advance(core.now))
    assert not core.service.connections
    assert not core.service.engine.tree.ephemerals
    return taken


def end_session(ephemerals: int) -> float:
    """One session closes that owns that many ephemerals."""
    core, client = _filled(0)
    for number in range(ephemerals):
        core.ask(client, wire.create(f"/p/e{number}", b"", CreateMode.EPHEMERAL))
    return seconds_of(lambda: core.ask(client, wire.CLOSE_SESSION))


def big_multi(operations: int) -> float:
    core, client = _filled(operations)
    request = wire.multi_set([f"/p/k{n:07}" for n in range(operations)], b"x")
    return best_seconds(lambda: core.ask(client, request))


def burst(requests: int) -> float:
    """That many requests arrive at once."""
    core, client = _filled(1)
    data = wire.get("/p/k0000000") * requests
    return best_seconds(lambda: core.ask(client, data))


def trickle(size: int) -> float:
    """A request of that many bytes arrives in pieces of 1,000."""
    core, client = _filled(1)
    request = wire.set_data("/p/k0000000", b"x" * size)
    pieces = [request[start : start + 1000] for start in range(0, len(request), 1000)]
    return best_seconds(lambda: core.ask_all(client, pieces))


# --- the table -------------------------------------------------------------------------------------------


def decades(first: int, last: int) -> list[int]:
    return [10**power for power in range(first, last + 1)]


def all_curves(seconds: float) -> list[Curve]:
    """:param seconds: how long a measurement over the network takes."""
    return [
        Curve(
            "request, by connections (sockets)", decades(1, 4), 0, partial(request_at_connections, seconds)
        ),
        Curve("get, by znodes", decades(3, 6), 0, get_among),
        Curve("create or delete, by siblings", decades(2, 5), 0, create_delete_among),
        Curve("create or delete sequential, by siblings", decades(2, 5), 0, sequential_among),
        Curve("set, by watches armed elsewhere", decades(2, 5), 0, set_among_watches),
        Curve("ping that moves a deadline, by sessions", decades(2, 5), 0, touch_among_sessions),
        Curve("list children after a change", decades(2, 5), 1, list_changed),
        Curve("list children again", decades(2, 5), 1, list_unchanged),
        Curve("delete all children", decades(2, 5), 1, drain),
        Curve("arm watches", decades(2, 5), 1, arm_watches),
        Curve("fire watches, one znode each", decades(2, 5), 1, fire_watches),
        Curve("fire watches, all on one znode", decades(2, 5), 1, tell_watchers),
        Curve("forget the watches of a connection", decades(2, 5), 1, forget_watches),
        Curve("expire sessions in one tick", decades(2, 5), 1, expire_sessions),
        Curve("close a session with ephemerals", decades(2, 5), 1, end_session),
        Curve("multi, by operations", decades(1, 4), 1, big_multi),
        Curve("requests in one burst", decades(2, 5), 1, burst),
        Curve("bytes of a request in pieces", [10**4, 10**5, 10**6], 1, trickle),
    ]


HEAD = ["", "from", "to", "cost there", "exponent", "at the end", "may be", "verdict"]


def measure(largest: int, only: str, seconds: float) -> Iterator[Curve]:
    """Measure the curves whose name contains ``only``, up to a size, and print them as they come."""
    print(_line(HEAD))
    for curve in all_curves(seconds):
        if only not in curve.name:
            continue
        for size in curve.sizes:
            cost = curve.measure(size) if size <= largest else None
            if cost is not None:
                curve.points.append((size, cost))
        print(_line(cells(curve)), flush=True)
        yield curve


def cells(curve: Curve) -> list[str]:
    if len(curve.points) < 2:
        return [curve.name, "", "", "", "", "", str(curve.allowed), curve.verdict]
    (first, low), (last, high) = curve.points[0], curve.points[-1]
    return [
        curve.name,
        f"{first:,}",
        f"{last:,}",
        f"{_duration(low)} – {_duration(high)}",
        f"{curve.exponent:.2f}",
        f"{curve.last:.2f}",
        str(curve.allowed),
        curve.verdict,
    ]


def page(curves: list[Curve]) -> str:
    """Return the table in Markdown: the exponent of the whole curve, and a verdict only if it is bad."""
    rows = []
    for curve in curves:
        *shown, _, allowed, verdict = cells(curve)
        rows.append([*shown, allowed if verdict == "good" else f"{allowed}: {verdict}"])
    return tables.markdown([*HEAD[:5], "allowed"], rows)


def _duration(seconds: float) -> str:
    factor, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{tables.number(seconds * factor)} {unit}"


def _line(row: list[str]) -> str:
    name, first, last, cost, *others = row
    return f"{name:42} {first:>7} {last:>10}  {cost:>18} " + " ".join(f"{cell:>10}" for cell in others)


def as_json(curves: list[Curve], machine: dict[str, str]) -> dict[str, Any]:
    found = [
        {
            "name": c.name,
            "points": c.points,
            "exponent": c.exponent,
            "allowed": c.allowed,
            "verdict": c.verdict,
        }
        for c in curves
    ]
    return {"machine": machine, "curves": found}


def draw(curves: list[Curve], machine: dict[str, str], stem: Path) -> None:
    """One small picture per curve, with the line of the exponent that is right."""
    plt = tables.pyplot()
    curves = [curve for curve in curves if curve.points]
    if plt is None or not curves:
        return
    columns = min(4, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.4 * rows), squeeze=False)
    for axes in grid.flat[len(curves) :]:
        axes.set_visible(False)
    for axes, curve in zip(grid.flat, curves, strict=False):
        sizes, costs = zip(*curve.points, strict=True)
        ideal = [costs[0] * (size / sizes[0]) ** curve.allowed for size in sizes]
        axes.loglog(sizes, [1e6 * cost for cost in ideal], "--", color="grey", linewidth=0.8)
        color = "#2a78b5" if curve.verdict == "good" else "#c0504d"
        axes.loglog(sizes, [1e6 * cost for cost in costs], "o-", color=color, markersize=4)
        axes.set_title(f"{curve.name}\nexponent {curve.exponent:.2f}", fontsize=8)
        axes.set_ylabel("µs", fontsize=7)
        axes.tick_params(labelsize=7, which="both")
        if not curve.allowed:
            axes.set_ylim(min(costs) * 1e5, max(costs) * 1e7)
    figure.text(0.01, 0.0, f"{tables.machine_line(machine)}; dashed: what is right", fontsize=7, va="top")
    figure.tight_layout()
    tables.save_picture(figure, stem)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--largest", type=int, default=10**6, help="leave out larger sizes")
    parser.add_argument("--only", default="", metavar="PART", help="only curves whose name contains this")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each size over the network")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the curves here too")
    parser.add_argument("--plot", type=Path, metavar="STEM", help="draw STEM.png and STEM.svg")
    arguments = parser.parse_args()
    machine = servers.machine()
    print(tables.machine_line(machine))
    curves = list(measure(arguments.largest, arguments.only, arguments.seconds))
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(curves, machine), indent=1) + "\n")
    if arguments.plot:
        draw(curves, machine, arguments.plot)
    return int(any(curve.verdict == "TOO STEEP" for curve in curves))


if __name__ == "__main__":
    sys.exit(main())

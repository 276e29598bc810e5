"""Measure the processor time that the server takes for a request, beside a bare echo.

    python -m benchmarks.cost                                   # each Python that is installed
    python -m benchmarks.cost --python .venv313/bin/python --only get --requests 100000

Processor time is split in two: "own" is what the process spends in Python and its libraries, "kernel" what
the system spends for it. The load's time counts for nothing. A bare echo (:mod:`.echo`) is the least that
any server in Python takes for the same bytes of requests. Server and echo take turns, A B A B, and each
figure is the sum of all turns, divided by their requests.

A Python is measured if it is at least 3.11 and has the packages that the server needs: the one that runs
this, those of the environments ``.venv*`` here, and ``python3.*`` on the PATH, one of each version.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from pyzk.protocol.framing import FrameBuffer

from . import servers, tables, wire, workloads
from .load import Script
from .servers import Server
from .wire import Address, BenchmarkError, Client

_ROOT = Path(__file__).parents[1]
_ECHO = Path(__file__).with_name("echo.py")
_PROBE = "import sys, trio, attrs, sortedcontainers; print('%d.%d.%d' % sys.version_info[:3])"
_OLDEST = 11
_NEWEST = 19
"""Minor versions of Python 3 that are looked for."""
_PATIENCE = 60.0
"""Seconds."""
_READ_SIZE = 1 << 16
"""Bytes."""


@attrs.frozen
class Case:
    """A row.

    :ivar script: what a client says; its number is the argument.
    :ivar window: requests of each client in flight.
    """

    operation: str
    script: Callable[[int], Script]
    clients: int
    window: int = 1

    @property
    def depth(self) -> str:
        if self.window > 1:
            return f"one client, {self.window} in flight"
        return "one client" if self.clients == 1 else f"{self.clients} clients"


_DEPTHS = ((1, 1), (50, 1), (1, 64))
_OPERATIONS = {
    "get": workloads.get,
    "set": workloads.set_data,
    "create + delete": workloads.create_delete,
    "multi of ten sets": workloads.multi,
}
CASES = [
    Case(operation, script, clients, window)
    for operation, script in _OPERATIONS.items()
    for clients, window in _DEPTHS
]


@attrs.define
class Cost:
    """What a process has taken for requests.

    :ivar processor: seconds, to the microsecond.
    :ivar ticks: own and the kernel's, as the system has sampled them.
    """

    requests: int = 0
    processor: float = 0.0
    ticks: tuple[int, int] = (0, 0)

    def add(self, requests: int, processor: float, own: int, kernel: int) -> None:
        self.requests += requests
        self.processor += processor
        self.ticks = self.ticks[0] + own, self.ticks[1] + kernel

    @property
    def total(self) -> float:
        """Microseconds per request."""
        return 1e6 * self.processor / self.requests

    @property
    def own(self) -> float:
        """Microseconds per request; 0 where the system has sampled nothing, after very few requests."""
        return self._share(0)

    @property
    def kernel(self) -> float:
        """Microseconds per request, as :attr:`own`."""
        return self._share(1)

    def _share(self, which: int) -> float:
        return self.total * self.ticks[which] / (sum(self.ticks) or 1)


# --- the load ----------------------------------------------------------------------------------------------


def drive(sockets: Sequence[socket.socket], case: Case, count: int, *, checks: bool) -> int:
    """Have clients send requests, each the next one when an answer has come; returns how many were sent.

    :param count: how many at least.
    :param checks: whether the answers are replies. Each client may get one error: its last turn may have
        left behind what this one creates.
    :raises BenchmarkError: more errors; or a connection is lost.
    """
    talks: dict[int, tuple[socket.socket, Script, FrameBuffer]] = {}
    errors = 0
    poller = select.epoll()
    for number, sock in enumerate(sockets):
        talks[sock.fileno()] = sock, case.script(number), FrameBuffer(2**31 - 1)
        poller.register(sock.fileno(), select.EPOLLIN)
    for sock, script, _ in talks.values():
        sock.sendall(b"".join([next(script) for _ in range(case.window)]))
    sent = waiting = len(talks) * case.window
    while waiting:
        for fd, _ in poller.poll(_PATIENCE):
            sock, script, buffer = talks[fd]
            data = sock.recv(_READ_SIZE)
            if not data:
                raise BenchmarkError("a server has closed a connection")
            buffer.feed(data)
            payloads = buffer.take(case.window)
            answered = len(payloads)
            if checks:
                errors += sum(wire.REPLY.unpack_from(payload)[2] != 0 for payload in payloads)
            waiting -= answered
            if answered and sent < count:
                sock.sendall(b"".join([next(script) for _ in range(answered)]))
                sent += answered
                waiting += answered
    poller.close()
    if errors > len(talks):
        raise BenchmarkError(f"{errors} of {sent} requests of {case.operation!r} failed")
    return sent


@contextlib.contextmanager
def _sessions(address: Address, count: int) -> Iterator[list[socket.socket]]:
    clients = [Client(address) for _ in range(count)]
    yield [client.socket for client in clients]
    for client in clients:
        client.leave()


@contextlib.contextmanager
def _connections(address: Address, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(socket.create_connection(address, timeout=_PATIENCE)))
            for _ in range(count)
        ]


# --- what is measured --------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Rival:
    """A process that is measured.

    :ivar is_echo: whether it only sends back what it has received.
    """

    python: str
    server: Server
    is_echo: bool
    costs: dict[Case, Cost] = attrs.field(factory=dict)

    def measure(self, case: Case, requests: int) -> None:
        connect = _connections if self.is_echo else _sessions
        with connect(self.server.address, case.clients) as sockets:
            drive(sockets, case, requests // 10, checks=not self.is_echo)  # what is done once only
            processor, ticks = self.server.cpu(), _ticks_of(self.server.pid)
            sent = drive(sockets, case, requests, checks=not self.is_echo)
            after = _ticks_of(self.server.pid)
            spent = self.server.cpu() - processor
        cost = self.costs.setdefault(case, Cost())
        cost.add(sent, spent, after[0] - ticks[0], after[1] - ticks[1])


def _ticks_of(pid: int) -> tuple[int, int]:
    """What a process has spent itself, and what the kernel has spent for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


@contextlib.contextmanager
def _echo(python: str) -> Iterator[Server]:
    with subprocess.Popen(
        [python, str(_ECHO)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Server("echo", ("127.0.0.1", int(process.stdout.readline())), process)
        finally:
            process.kill()


def pythons(paths: Sequence[str]) -> dict[str, str]:
    """Return the Pythons that can run the server, by their versions.

    :param paths: those to take; empty: those that are installed.
    """
    minors = range(_OLDEST, _NEWEST + 1)
    found = [shutil.which(f"python3.{minor}") for minor in minors]
    environments = sorted(map(str, _ROOT.glob(".venv*/bin/python")))
    versions: dict[str, str] = {}
    for path in paths or [sys.executable, *environments, *filter(None, found)]:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        if not done.returncode and int(version.split(".")[1]) >= _OLDEST:
            if paths or version.rpartition(".")[0] not in {known.rpartition(".")[0] for known in versions}:
                versions.setdefault(version, path)
        elif paths:
            raise BenchmarkError(f"{path} lacks what the server needs: {done.stderr.strip()[-200:]}")
    return versions


def measure(versions: dict[str, str], cases: Sequence[Case], requests: int, rounds: int) -> list[list[Rival]]:
    """Measure the server and the echo on each Python; returns the two of each."""
    with contextlib.ExitStack() as stack:
        pairs = []
        for version, python in versions.items():
            ours = stack.enter_context(servers.ours((python, "-m", "pyzk.server")))
            workloads.prepare(ours.address)
            echo = stack.enter_context(_echo(python))
            pairs.append([Rival(version, ours, is_echo=False), Rival(version, echo, is_echo=True)])
        for _ in range(rounds):
            for case in cases:
                for pair in pairs:
                    for rival in pair:
                        rival.measure(case, requests)
        return pairs


# --- what is printed ---------------------------------------------------------------------------------------

HEAD = ["operation", "depth", "Python", "own, µs", "kernel, µs", "echo: own", "echo: kernel", "own / echo"]


def rows_of(pairs: list[list[Rival]]) -> list[dict[str, Any]]:
    return [
        {
            "operation": case.operation,
            "depth": case.depth,
            "python": ours.python,
            "requests": ours.costs[case].requests,
            "total": ours.costs[case].total,
            "own": ours.costs[case].own,
            "kernel": ours.costs[case].kernel,
            "echo_total": echo.costs[case].total,
            "echo_own": echo.costs[case].own,
            "echo_kernel": echo.costs[case].kernel,
        }
        for case in (pairs[0][0].costs if pairs else ())
        for ours, echo in pairs
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    figures = [f"{row[name]:.1f}" for name in ("own", "kernel", "echo_own", "echo_kernel")]
    ratio = f"{row['own'] / row['echo_own']:.1f}" if row["echo_own"] else ""
    return [row["operation"], row["depth"], row["python"], *figures, ratio]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="any number of them")
    parser.add_argument("--only", default="", metavar="PART", help="operations whose name has this part")
    parser.add_argument("--requests", type=int, default=30_000, help="of a turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    versions = pythons(arguments.python)
    cases = [case for case in CASES if arguments.only in case.operation]
    machine = servers.machine()
    print(tables.machine_line({name: machine[name] for name in ("processor", "cores", "system")}))
    print(
        f"Processor time per request, in µs: {arguments.rounds} turns of {arguments.requests:,} requests.",
        flush=True,
    )
    rows = rows_of(measure(versions, cases, arguments.requests, arguments.rounds))
    print(tables.text(HEAD, map(_cells, rows)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

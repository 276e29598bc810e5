"""Find the rows that the load bounds, and not the server: the same requests from Python and from C.

    python -m benchmarks.sender
    python -m benchmarks.sender --rounds 1 --seconds 0.3 --only get

The load of the other benchmarks is written in Python. The load in C (``sender.c``) sends requests that were
encoded before, and only counts the replies. Both take turns at one server, A B A B, and each is one process.
For each row the table shows the processor time of the server and of both loads for a reply. The busier of
two processes bounds the rate: a row is bounded by the load if the load in Python takes more processor time
than the server. Two kinds of rows are left out: requests that depend on replies, and 1,000 clients, which
take longer to connect than to send. A C compiler is needed (``cc``).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

from . import servers, tables, workloads
from .load import part
from .wire import BenchmarkError, Client
from .workloads import WORKLOADS, Workload

_SOURCE = Path(__file__).with_name("sender.c")
_FRAMES = 200
"""The number of requests that a client repeats."""
_DEPENDENT = (workloads.ephemeral_sequential, workloads.lock)
_MANY = 1000
ROWS = [work for work in WORKLOADS if work.script not in _DEPENDENT and work.clients < _MANY]
"""The rows that are measured."""


@attrs.frozen
class Sent:
    """The result of one run of the load in C.

    :ivar errors: the number of replies with an error.
    :ivar seconds: the duration of the run.
    :ivar processor: the processor time of the load in seconds.
    """

    replies: int
    errors: int
    seconds: float
    processor: float


def compile_sender(folder: Path) -> Path:
    """Compile the load into a folder, and return the program.

    :raises BenchmarkError: there is no C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchmarkError("there is no C compiler: install gcc or clang")
    program = folder / "sender"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", str(program), str(_SOURCE)], check=True)
    return program


def send(program: Path, work: Workload, addresses: Sequence[tuple[str, int]], seconds: float) -> Sent:
    """Run one row with the load in C.

    :raises BenchmarkError: more than one error for each client, or a lost connection. Each client may get
        one error, because an earlier run may have left the znode behind that this run creates.
    """
    with contextlib.ExitStack() as stack:
        requests = bytearray()
        clients = []
        for number in range(work.clients):
            clients.append(client := Client(addresses[number % len(addresses)]))
            stack.callback(client.drop)
            client.socket.setblocking(True)
            requests += _FRAMES.to_bytes(4)
            requests += b"".join(itertools.islice(work.script(number), _FRAMES))
        fds = [client.socket.fileno() for client in clients]
        command = [str(program), str(seconds), str(work.window), *map(str, fds)]
        done = subprocess.run(command, input=requests, stdout=subprocess.PIPE, pass_fds=fds, check=False)
        if done.returncode:
            raise BenchmarkError(f"the load of {work.name!r} has failed")
        replies, errors, took, processor = done.stdout.split()
        sent = Sent(int(replies), int(errors), float(took), float(processor))
        if sent.errors > work.clients:
            raise BenchmarkError(f"{sent.errors} of {sent.replies} requests of {work.name!r} failed")
        part(clients)
        return sent


@attrs.define
class Row:
    """The sums of all turns of one row.

    :ivar replies: the numbers of replies, with the load in Python and in C.
    :ivar seconds: the durations, with the load in Python and in C.
    :ivar loads: the processor times of the load in Python and in C, in seconds.
    :ivar server: the processor time of the server in seconds, with both loads.
    """

    work: Workload
    replies: list[float] = attrs.field(factory=lambda: [0, 0])
    seconds: list[float] = attrs.field(factory=lambda: [0, 0])
    loads: list[float] = attrs.field(factory=lambda: [0, 0])
    server: float = 0.0

    def measure(self, program: Path, server: servers.Server, seconds: float) -> None:
        """Add a turn of the load in Python, and a turn of the load in C."""
        begun, children = server.cpu(), _children()
        rate = workloads.run(self.work, server.addresses, seconds, 1).rate
        self._add(0, rate * seconds, seconds, _children() - children)
        sent = send(program, self.work, server.addresses, seconds)
        self._add(1, sent.replies, sent.seconds, sent.processor)
        self.server += server.cpu() - begun

    def _add(self, which: int, replies: float, seconds: float, processor: float) -> None:
        self.replies[which] += replies
        self.seconds[which] += seconds
        self.loads[which] += processor

    def cells(self) -> list[str]:
        """Return the cells of the table, as :data:`HEAD` names them."""
        rates = [replies / seconds for replies, seconds in zip(self.replies, self.seconds, strict=True)]
        costs = [1e6 * load / replies for load, replies in zip(self.loads, self.replies, strict=True)]
        server = 1e6 * self.server / sum(self.replies)
        bound = "load" if costs[0] > server else "server"
        figures = [f"{cost:.1f}" for cost in (server, *costs)]
        return [self.work.name, *map(tables.number, rates), *figures, bound]


HEAD = [
    "",
    "replies/s, Python",
    "replies/s, C",
    "server, µs",
    "load in Python, µs",
    "load in C, µs",
    "Python is bounded by the",
]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sender",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each row is measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each time (default: 1)")
    parser.add_argument("--only", default="", metavar="PART", help="rows whose name has this part")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, servers.ours() as server:
        program = compile_sender(Path(folder))
        workloads.prepare(server.address)
        rows = [Row(work) for work in ROWS if arguments.only in work.name]
        for _ in range(arguments.rounds):
            for row in rows:
                row.measure(program, server, arguments.seconds)
    print(tables.text(HEAD, [row.cells() for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

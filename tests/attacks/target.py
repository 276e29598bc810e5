"""A server as a process of its own that is attacked, and what must hold afterwards.

Costs are counted in the CPU time of the server's process, not in wall time: that hardly depends on what else
the machine does. No bound is a number of seconds, which a slower machine would exceed: the unit is what a get
costs the same server in the same run. Sizes are small, and larger where HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from benchmarks import servers, wire
from benchmarks.servers import Server
from benchmarks.stalls.scene import LONG, Scene
from benchmarks.wire import BenchmarkError, Client
from pyzk.protocol.constants import CreateMode

from ..support.waiting import PATIENCE

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
MB = 1_000_000


def size(ci: int, nightly: int) -> int:
    return nightly if NIGHTLY else ci


def under(script: str, *arguments: object) -> tuple[str, ...]:
    """The server's command, run by a shell after ``script``, which has the arguments as $1, $2 ..."""
    shift = f"shift {len(arguments)}; " if arguments else ""
    return ("sh", "-c", f'{script}; {shift}exec "$@"', "sh", *map(str, arguments), *servers.OURS)


class Target(Scene):
    """The server, and a bystander with a session, an ephemeral znode and a watch."""

    def __init__(self, server: Server, log: IO[str]) -> None:
        super().__init__(server, log, PATIENCE, quick=True)
        self.bystander = self.client()
        self.bystander.ask(
            wire.create("/bystander", b""),
            wire.create("/bystander/here", b"", CreateMode.EPHEMERAL),
            wire.get("/bystander", watch=True),
        )
        self.get = self.cost_of_a_get()
        self.descriptors_before = self.descriptors()
        self.memory_before = server.memory()
        server.forget_peak()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def cpu_at_rest(self) -> float:
        """The CPU time that the server has consumed, in seconds, once it waits: the system counts the time of
        a process that runs in ticks."""
        stat = Path(f"/proc/{self.server.pid}/stat")
        self.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "the server does not rest")
        return self.server.cpu()

    def cost_of(self, action: Callable[[], object]) -> float:
        """What an action costs the server, in seconds of CPU time."""
        before = self.cpu_at_rest()
        action()
        return self.cpu_at_rest() - before

    def cost_of_a_get(self) -> float:
        """What a get in flight with 999 others costs the server: the unit of the bounds below."""
        gets = [wire.get("/bystander")] * 1000
        return min(self.cost_of(lambda: self.bystander.ask(*gets)) for _ in range(4)) / len(gets)

    @contextlib.contextmanager
    def costs_at_most(self, gets: int) -> Iterator[None]:
        """What happens inside costs the server no more CPU time than so many gets."""
        before = self.cpu_at_rest()
        yield
        spent = self.cpu_at_rest() - before
        _within(spent / max(self.get, self.cost_of_a_get()), gets, "it cost the server as much")

    def bystander_waits_at_most(self, gets: int) -> None:
        """While the bystander waits for an answer the server spends no more CPU time on others than so many
        gets cost. It asks more than once: when the first answer comes the attack may not have arrived."""
        worst = 0.0
        for _ in range(20):
            before = self.server.cpu()
            self.bystander.ask(wire.get("/bystander"))
            worst = max(worst, self.server.cpu() - before)
        _within(worst / self.get, gets, "the bystander waited for as much")

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.01)

    def lets_in(self) -> bool:
        """Whether a client gets a session now. All who came before it are let in, or refused, by then."""
        try:
            self.client().leave()
        except (OSError, BenchmarkError):
            return False
        return True

    def check(self, tracebacks: int = 0) -> None:
        """The server lives; the bystander has its session, znode and watch; nothing else is left."""
        process = self.server.process
        assert process is not None
        assert process.poll() is None, (
            f"the server has ended with status {process.poll()}:\n{self.log()[-3000:]}"
        )
        before = self.bystander.events
        self.bystander.ask(wire.set_data("/bystander"), wire.exists("/bystander/here"))
        assert self.bystander.events == before + 1
        fresh = Client(self.server.address, timeout=LONG, patience=PATIENCE)
        fresh.ask(wire.exists("/bystander/here"))
        fresh.leave()
        for sock in self._sockets:
            if sock is not self.bystander.socket:
                sock.close()
        allowed = self.descriptors_before + 2  # what is opened once, on demand
        self.until(lambda: self.descriptors() <= allowed, f"{self.descriptors()} descriptors are left")
        assert self.tracebacks() <= tracebacks, self.log()[-3000:]

    def peak(self) -> int:
        """The most memory that was resident at once since the start, in bytes beyond that of the start."""
        return self.server.memory("VmHWM") - self.memory_before


def _within(spent: float, bound: int, what: str) -> None:
    assert spent <= bound, f"{what} as {spent:,.0f} gets, more than {bound:,}"


@contextlib.contextmanager
def attacked(
    command: Sequence[str] = servers.OURS, *, tracebacks: int = 0, log: int | None = None, **config: object
) -> Iterator[Target]:
    """A server to attack; at the end of the block all is checked, and that it obeys SIGTERM.

    :param tracebacks: how many there may be in its log.
    :param log: where its log goes instead of to a file, as for :class:`subprocess.Popen`.
    :param config: keys of zoo.cfg.
    """
    settings = {"maxSessionTimeout": LONG, "4lw.commands.whitelist": "*", **config}
    with (
        tempfile.TemporaryFile("w+") as file,
        servers.ours(command, stderr=log or file, **settings) as server,
    ):
        target = Target(server, file)
        try:
            yield target
            target.check(tracebacks)
            assert server.process is not None
            server.process.send_signal(signal.SIGTERM)
            try:
                assert server.process.wait(10) == 0
            except subprocess.TimeoutExpired:
                raise AssertionError("the server does not obey SIGTERM") from None
        finally:
            target.drop()

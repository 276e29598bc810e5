"""A process with one session that asks for one small znode every few ms, and notes what answers cost.

The wall time of an answer depends on what else the machine does. The CPU time that the server consumes
between a request and its answer does not: it is what the server did for others first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection, wait
from typing import Any

import attrs

from .. import wire
from ..servers import Server, cpu_of
from ..wire import BenchmarkError, Client

PATH = "/bystander"
_PAUSE = 0.003  # seconds between an answer and the next request


@attrs.frozen
class Gaps:
    """
    :ivar normal: seconds to a usual answer: the median.
    :ivar worst: seconds to the slowest answer beyond that; an answer that has not come counts until now.
    :ivar cpu: the most CPU seconds that the server consumed between one request and its answer.
    :ivar answers: how many there were.
    :ivar lost: why there will be no more, if the session or the server is gone.
    """

    normal: float
    worst: float
    cpu: float
    answers: int
    lost: str = ""


class Bystander:
    """Use it with ``with``; it asks until the block ends."""

    def __init__(self, server: Server) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_ask, args=(server, other), daemon=True)
        self._process.start()
        other.close()

    def __enter__(self) -> Bystander:
        self._command("begin")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def begin(self) -> None:
        """Forget what was noted so far."""
        self._command("begin")

    def end(self) -> Gaps:
        """What was noted since :meth:`begin`."""
        found: Gaps = self._command("end")
        return found

    def _command(self, word: str) -> Any:
        self._pipe.send(word)
        if not self._pipe.poll(30):
            raise BenchmarkError("the bystander does not answer")
        return self._pipe.recv()


def _ask(server: Server, pipe: Connection) -> None:
    client = Client(server.address, timeout=600_000, patience=600)
    client.make(PATH)
    request = wire.get(PATH)
    begins = time.perf_counter()
    cpu = cpu_of(server.pid)
    waits: list[float] = []
    worst_cpu, lost, waiting = 0.0, "", False

    def note() -> float:
        nonlocal worst_cpu
        with contextlib.suppress(OSError):  # the server has ended
            worst_cpu = max(worst_cpu, cpu_of(server.pid) - cpu)
        return time.perf_counter() - begins

    while True:
        readable = wait([pipe, *([client.socket] if waiting else [])], _PAUSE)
        if pipe in readable:
            if pipe.recv() == "begin":
                waits, worst_cpu = [], 0.0
                pipe.send(None)
            else:
                answers = len(waits)
                gaps = [*waits, note()] if waiting or not waits else waits
                normal = statistics.median(waits or gaps)
                pipe.send(Gaps(normal, max(gaps) - normal, worst_cpu, answers, lost))
        if lost:
            time.sleep(_PAUSE)  # until it is told to end
            continue
        try:
            if waiting and client.socket in readable:
                client.take_replies(1)
                waits.append(note())
                waiting = False
            elif not waiting and not readable:
                begins, cpu, waiting = time.perf_counter(), cpu_of(server.pid), True
                client.socket.sendall(request)
        except (OSError, BenchmarkError) as error:
            lost, waiting = str(error), False

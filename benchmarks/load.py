"""The load: many clients in a few processes, each process one loop over an epoll object.

What a client says is a script: a generator that yields the next request and is sent the reply, or, while it
waits for a watch event and yields nothing (b""), the event. With one request in flight that is a dialogue;
with a window of 64 the first 64 requests go out at once, and each reply brings the next.
"""

from __future__ import annotations

import gc
import multiprocessing
import select
import struct
import time
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import attrs

from . import wire
from .wire import Address, BenchmarkError, Client

Script = Generator[bytes, bytes, None]

_HEADER = struct.Struct(">iiqi").unpack_from  # a frame length, then records.ReplyHeader
WARM_UP = 0.25  # of the measured time: it comes first and does not count


@attrs.define
class Outcome:
    """
    :ivar rate: things done per second.
    :ivar latencies: how long they took, in µs.
    """

    rate: float = 0.0
    latencies: array[float] = attrs.field(factory=lambda: array("d"))

    def percentile(self, share: float) -> float:
        return percentile(self.latencies, share)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class _Talk:
    """A client in the middle of its script."""

    __slots__ = ("client", "rest", "script", "sent")

    def __init__(self, address: Address, script: Script) -> None:
        self.client = Client(address)
        self.script = script
        self.sent: deque[float] = deque()  # when those in flight were sent
        self.rest = b""


def converse(
    scripts: Iterable[tuple[Address, Script]], window: int, seconds: float, ready: Callable[[], Any]
) -> Outcome:
    """Follow scripts, one connection each, to the address beside it, and measure."""
    talks = {}
    poller = select.epoll()
    for address, script in scripts:
        talk = _Talk(address, script)
        fd = talk.client.socket.fileno()
        talks[fd] = talk, talk.client.socket.recv, talk.client.socket.sendall
        poller.register(fd, select.EPOLLIN)
    gc.freeze()
    ready()
    clock = time.perf_counter
    latencies = array("d")
    note = latencies.append
    for talk, _, send in talks.values():
        talk.sent.extend([clock()] * window)
        send(b"".join([next(talk.script) for _ in range(window)]))
    begin = clock() + seconds * WARM_UP
    stop = begin + seconds
    before = 0
    while (now := clock()) < stop:
        if not before and now >= begin:
            before, begin = len(latencies), now
        for fd, _ in poller.poll(1.0):
            talk, receive, send = talks[fd]
            data = receive(1 << 16)
            if not data:
                raise BenchmarkError("the server has closed a connection")
            if talk.rest:
                data = talk.rest + data
            pos, size = 0, len(data)
            proceed, sent = talk.script.send, talk.sent
            now = clock()
            requests = []
            while size - pos >= 20:
                length, xid, _, err = _HEADER(data, pos)
                end = pos + 4 + length
                if end > size:
                    break
                if xid != wire.EVENT:
                    since = sent.popleft()
                    if xid == wire.COUNTED:
                        note(now - since)
                        if err:
                            raise BenchmarkError(f"the server answered with error {err}")
                following = proceed(data[pos + 4 : end])
                if following:
                    requests.append(following)
                pos = end
            talk.rest = data[pos:]
            if requests:
                now = clock()
                for _ in requests:
                    sent.append(now)
                send(b"".join(requests))
    elapsed = clock() - begin
    part([talk.client for talk, _, _ in talks.values()])
    counted = latencies[before:]
    return Outcome(len(counted) / elapsed, array("d", (1e6 * value for value in counted)))


def part(clients: Sequence[Client]) -> None:
    """Close sessions: those that are left to expire would burden what is measured next."""
    for client in clients:
        client.socket.sendall(wire.CLOSE_SESSION)
    for client in clients:
        while client.socket.recv(1 << 16):
            pass
        client.drop()


# --- many processes --------------------------------------------------------------------------------------

Job = Callable[[int, int, Callable[[], Any]], Outcome]
"""Does its part as process i of n; calls the third argument once, when it is ready to begin."""


def in_processes(job: Job, processes: int) -> Outcome:
    """Have a job done by several processes at once, and put together what they found."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    running = []
    for index in range(processes):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_do, args=(job, index, processes, barrier, writer), daemon=True)
        process.start()
        writer.close()
        running.append((process, reader))
    total = Outcome()
    failure = ""
    for process, reader in running:
        try:
            found = reader.recv()
        except EOFError:
            found = "a process of the load has died"
        process.join()
        if isinstance(found, str):
            failure = found
        else:
            total.rate += found.rate
            total.latencies.extend(found.latencies)
    if failure:
        raise BenchmarkError(failure)
    return total


def _do(job: Job, index: int, processes: int, barrier: Any, writer: Any) -> None:
    try:
        writer.send(job(index, processes, barrier.wait))
    except Exception as error:
        barrier.abort()  # the others need not wait for this one
        writer.send(f"{type(error).__name__}: {error}")
    finally:
        writer.close()


def share(total: int, index: int, processes: int) -> range:
    """Which of ``total`` clients belong to process ``index``."""
    return range(index, total, processes)

"""What a wait for a lock says when it is cut short: what it waited for, how long, and who holds that."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.protocol.text import session_text
from pyzk.recipes import LeaderElection, Lock, MultiLock, RWLock, Semaphore, SingleNodeLock
from pyzk.recipes.base import tracebacks

from ...support.lab import Lab

PATH = "/lock"
Make = Callable[[ZooKeeper], Any]


@contextmanager
def cut_after(seconds: float) -> Iterator[list[trio.Cancelled]]:
    """Cut the block after some time; the value then holds the error that has ended it."""
    cut: list[trio.Cancelled] = []
    with pytest.raises(trio.TooSlowError) as failure, trio.fail_after(seconds):
        yield cut
    error = failure.value.__context__
    assert isinstance(error, trio.Cancelled)
    cut.append(error)


def words(cut: list[trio.Cancelled]) -> str:
    (note,) = cut[0].__notes__
    return note


async def test_the_holder_its_session_and_the_time_are_named(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Lock(zk, PATH, data=b"first") as grant:
        with cut_after(3) as cut:
            await Lock(other, PATH).acquire()
    name = grant.path.rpartition("/")[2]
    session = session_text(zk.session.id)
    assert words(cut) == f"waited 3.00 s for {PATH}, held by 'first' (session {session}, znode {name})"


async def test_a_holder_whom_nobody_read_before_is_named(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """The third in the queue watches the second, and names the first."""
    other, third = await lab.client(), await lab.client()
    async with Lock(zk, PATH, data=b"first"), trio.open_nursery() as nursery:
        nursery.start_soon(Lock(other, PATH, data=b"second").acquire)
        await trio.sleep(1)
        with cut_after(3) as cut:
            await Lock(third, PATH).acquire()
        nursery.cancel_scope.cancel()
    assert "held by 'first' (session " + session_text(zk.session.id) in words(cut)
    await third.cleanup.idle()
    assert third.watch_count == 0


async def test_the_present_holder_is_named(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The first two of the queue have gone since this one came, and it was not woken by that."""
    clients = [zk] + [await lab.client() for _ in range(3)]
    end = [trio.Event() for _ in clients]

    async def contend(number: int) -> None:
        async with Lock(clients[number], PATH, data=b"%d" % number):
            await end[number].wait()

    async def go(seconds: float) -> None:
        await trio.sleep(seconds)
        end[0].set()
        end[1].set()

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(contend, number)
            await trio.sleep(0.1)
        with cut_after(3) as cut:
            nursery.start_soon(go, 1)
            await Lock(clients[3], PATH).acquire()
        assert "held by '2'" in words(cut)
        end[2].set()


async def test_a_wait_without_a_connection(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.refuse_connections()
    lab.server.disconnect_all()
    await trio.sleep(0.1)
    with cut_after(2) as cut:
        await Lock(zk, PATH).acquire()
    assert words(cut) == f"waited 2.00 s for {PATH}, without a connection to a server"


@pytest.mark.parametrize(
    ("holds", "waits", "expected"),
    [
        (lambda zk: RWLock(zk, PATH, data=b"w").write(), lambda zk: RWLock(zk, PATH).read(), "behind 'w' "),
        (lambda zk: RWLock(zk, PATH, data=b"r").read(), lambda zk: RWLock(zk, PATH).write(), "held by 'r' "),
        (lambda zk: LeaderElection(zk, PATH).lead(), lambda zk: LeaderElection(zk, PATH).lead(), "held by "),
        (lambda zk: Lock(zk, PATH), lambda zk: MultiLock([Lock(zk, PATH)]), "held by session "),
        (lambda zk: Semaphore(zk, PATH, 1), lambda zk: Semaphore(zk, PATH, 1), "of 1 leases 1 are taken"),
        (
            lambda zk: SingleNodeLock(zk, "/lock/node"),
            lambda zk: SingleNodeLock(zk, "/lock/node"),
            "which is the znode of another",
        ),
    ],
    ids=["reader", "writer", "election", "several", "semaphore", "single-znode"],
)
async def test_every_kind_of_lock(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, holds: Make, waits: Make, expected: str
) -> None:
    other = await lab.client()
    async with holds(zk):
        with cut_after(2) as cut:
            async with waits(other):
                pass
    assert words(cut).startswith(f"waited 2.00 s for {PATH}")
    assert expected in words(cut)


@pytest.mark.parametrize("kind", ["queue", "turn"])
async def test_behind_a_task_of_this_process(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, kind: str
) -> None:
    lock: Any = Lock(zk, PATH, local_queue=True) if kind == "queue" else SingleNodeLock(zk, "/lock/node")
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            async with lock:
                await trio.sleep(60)

        nursery.start_soon(hold)
        await trio.sleep(1)
        with cut_after(2) as cut:
            async with lock:
                pass
        nursery.cancel_scope.cancel()
    assert words(cut) == f"waited 2.00 s for {lock.path}, behind another task of this process"


@pytest.mark.parametrize("way", ["block", "acquire"])
@pytest.mark.parametrize("kind", [Lock, SingleNodeLock, Semaphore])
async def test_the_traceback_is_short(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, kind: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await lab.client()
    arguments = ("/lock/node", 1) if kind is Semaphore else ("/lock/node",)

    async def waits() -> int:
        with cut_after(2) as cut:
            if way == "acquire":
                await kind(other, *arguments).acquire()
            else:
                async with kind(other, *arguments):
                    pass
        frames = traceback.extract_tb(cut[0].__traceback__)
        return len([frame for frame in frames if frame.filename != __file__ and "trio" not in frame.filename])

    async with kind(zk, *arguments):
        assert await waits() <= 2
        monkeypatch.setattr(tracebacks, "full", True)
        assert await waits() > 3

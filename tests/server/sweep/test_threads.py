"""Sweeps of clients in threads: of kazoo, unmodified, and of ours."""

from __future__ import annotations

import asyncio
import importlib.util
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyzk import aio, blocking
from pyzk.server.sweep import NotControlled, SweepFailed, selfcheck, sweep
from pyzk.server.sweep.model import Cell, Outcome
from pyzk.server.sweep.orders import Order, Random, Rounds
from pyzk.server.sweep.run import run
from pyzk.server.sweep.selfcheck import planted_race_of_threads
from pyzk.server.sweep.threads import driver, turns
from pyzk.server.sweep.threads import lab as lab_module
from pyzk.server.sweep.threads.lab import ThreadLab


def counter(lab: ThreadLab) -> None:
    """kazoo's own: it adds again after a lost reply."""
    first, second = lab.client("a"), lab.client("b")
    first.ensure_path("/n")

    def add(zk: KazooClient) -> None:
        number = zk.Counter("/n")
        number += 1

    lab.together(partial(add, first), partial(add, second))
    assert first.Counter("/n").value == 2, "two were added"


def lock(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")

    def work(zk: KazooClient) -> None:
        with zk.Lock("/lock"), lab.inside("lock"):
            pass

    lab.together(partial(work, first), partial(work, second))


def crossed_locks(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")

    def work(zk: KazooClient, one: str, other: str) -> None:
        with zk.Lock(one), zk.Lock(other):
            pass

    lab.together(partial(work, first, "/x", "/y"), partial(work, second, "/y", "/x"))


def alone(work: Any) -> Any:
    """A scenario of one client, whose function also gets the lab."""

    def scenario(lab: ThreadLab) -> None:
        zk = lab.client("a")
        lab.together(lambda: work(lab, zk))

    return scenario


def steps(outcome: Outcome) -> list[tuple[str, str]]:
    return [(step.actor, step.text) for step in outcome.steps]


def repeated(scenario: Any, order: Callable[[], Order] = Rounds, cell: Cell | None = None) -> Outcome:
    """The outcome of a run, which is the same when it is repeated."""
    outcome = run(scenario, order(), cell)
    again = run(scenario, order(), cell)
    assert steps(again) == steps(outcome)
    assert (again.verdict, again.detail, again.waiting) == (outcome.verdict, outcome.detail, outcome.waiting)
    return outcome


def test_the_planted_race_is_found() -> None:
    assert repeated(planted_race_of_threads).verdict == "wrong"


def test_a_lost_reply_that_kazoo_s_counter_counts_twice() -> None:
    with pytest.raises(SweepFailed, match="two were added") as failure:
        sweep(counter, faults=["reply-lost"], orders=None, budget=60)
    report = failure.value.report
    assert {str(cell) for cell in report.results.bad} == {"a3-reply-lost", "b5-reply-lost"}
    for token in report.tokens:
        with pytest.raises(SweepFailed, match="two were added"):
            sweep(counter, replay=token)


def test_a_deadlock_is_seen_and_its_threads_are_ended() -> None:
    outcome = repeated(crossed_locks)
    assert (outcome.verdict, outcome.detail) == ("hang", "no client acts any more")
    assert set(outcome.waiting) == {"a", "b"}
    assert all("test_threads.py" in where and "lock.py" in where for where in outcome.waiting.values())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("client ")]


def test_kazoo_s_lock_holds() -> None:
    report = sweep(lock, faults=["reply-lost", "gone-after"], budget=60)
    assert (report.results.cells, report.results.bad) == (report.results.all_cells, {})


@pytest.mark.parametrize("scenario", [lock, counter])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_order_makes_the_same_steps(scenario: Any, seed: int) -> None:
    repeated(scenario, partial(Random, seed))


def test_a_new_session_has_the_name_of_the_old_one() -> None:
    outcome = repeated(lock, cell=Cell("a", 4, "gone-mid"))
    assert outcome.verdict == "ok"
    assert {step.client for step in outcome.steps} == {"a", "b"}
    assert outcome.steps[-1].client == "a", "it has the lock after b, with its second session"


def test_waits_for_a_time_take_none() -> None:
    found: list[Any] = []

    def work(lab: ThreadLab, zk: KazooClient) -> None:
        before, date = time.monotonic(), time.time()
        time.sleep(50)
        found.append(threading.Event().wait(40))
        for empty in queue.Queue[int](), queue.SimpleQueue[int]():
            with pytest.raises(queue.Empty):
                empty.get(timeout=10)
        found.append((time.monotonic() - before, time.time() - date))
        zk.exists("/")

    outcome = run(alone(work), Rounds())
    assert (outcome.verdict, outcome.detail, found) == ("ok", "", [False, (110, 110)])


def test_an_error_of_a_client_is_one_of_the_run() -> None:
    outcome = repeated(alone(lambda lab, zk: zk.delete("/missing")))
    assert (outcome.verdict, outcome.detail.split(":")[0]) == ("error", NoNodeError.__name__)


def test_two_may_not_be_inside() -> None:
    def scenario(lab: ThreadLab) -> None:
        lab.client("a"), lab.client("b")

        def work() -> None:
            with lab.inside("it"):
                pass

        lab.together(work, work)

    outcome = repeated(scenario)
    assert (outcome.verdict, outcome.detail) == ("wrong", "a and b are inside of 'it' at once")


def test_inside_needs_a_client() -> None:
    outcome = run(lambda lab: lab.point(), Rounds())
    assert outcome.detail.startswith("RuntimeError: point() and inside() are for the functions")


def test_threads_of_the_scenario_take_turns() -> None:
    seen: list[object] = []

    def work(lab: ThreadLab, zk: KazooClient) -> None:
        lock, done = threading.RLock(), threading.Event()

        def other() -> None:
            with lock:
                done.wait()
            seen.append(zk.exists("/nothing"))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(3)
        seen.append((thread.is_alive(), lock.acquire(timeout=3)))
        done.set()
        thread.join()
        seen.append((thread.is_alive(), lock.acquire(timeout=3)))

    outcome = run(alone(work), Rounds())
    assert (outcome.verdict, outcome.detail) == ("ok", "")
    assert seen == [(True, False), None, (False, True)]


def test_an_error_of_a_thread_beside_the_clients() -> None:
    def work(lab: ThreadLab, zk: KazooClient) -> None:
        thread = threading.Thread(target=lambda: [][0])
        thread.start()
        thread.join()

    outcome = run(alone(work), Rounds())
    assert (outcome.verdict, outcome.detail) == ("error", "IndexError: list index out of range")


def test_who_waits_for_a_lock_of_elsewhere_is_not_controlled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(turns, "_SILENCE", 0.2)
    monkeypatch.setattr(turns, "_PATIENCE", 10)
    lock = threading.Lock()

    def scenario(lab: ThreadLab) -> None:
        first, second = lab.client("a"), lab.client("b")

        def work(zk: KazooClient) -> None:
            with lock:
                zk.exists("/")

        lab.together(partial(work, first), partial(work, second))

    where = f"test_threads.py:{work_line()}"
    with pytest.raises(NotControlled, match=rf"{where} does not end its turn. Does it wait in"):
        run(scenario, Rounds())
    assert f"sweep: waits for the thread b at {Path(__file__)}:{work_line()}\n" in capsys.readouterr().err


def work_line() -> int:
    """The line of this file that waits for the lock of elsewhere."""
    lines = Path(__file__).read_text().splitlines()
    return lines.index("            with lock:", lines.index("    lock = threading.Lock()")) + 1


def test_nothing_is_left_replaced() -> None:
    def now() -> list[object]:
        return [
            threading.Lock,
            threading.RLock,
            threading.Thread.start,
            time.sleep,
            time.monotonic,
            queue.SimpleQueue,
        ]

    before = now()
    run(counter, Rounds())
    assert now() == before


def threads_of_ours(lab: ThreadLab) -> None:
    first, second = lab.blocking("a"), lab.blocking("b")

    def work(zk: blocking.ZooKeeper) -> None:
        with blocking.Lock(zk, "/lock"), lab.inside("lock"):
            pass

    lab.together(partial(work, first), partial(work, second))


def event_loops(lab: ThreadLab) -> None:
    async def work(hosts: str) -> None:
        async with aio.connect(hosts, session_timeout=10.0) as zk, aio.Lock(zk, "/lock"):
            with lab.inside("lock"):
                await asyncio.sleep(1)

    hosts = lab.hosts("a"), lab.hosts("b")
    lab.together(*(partial(asyncio.run, work(each)) for each in hosts))


@pytest.mark.parametrize("scenario", [threads_of_ours, event_loops])
def test_clients_of_ours_in_threads_and_event_loops(scenario: Any) -> None:
    for seed in range(3):
        assert repeated(scenario, partial(Random, seed)).verdict == "ok"
    assert repeated(scenario, cell=Cell("a", 3, "reply-lost")).verdict == "ok"


@pytest.mark.parametrize("scenario", [threads_of_ours, event_loops])
def test_a_hang_of_clients_of_ours(scenario: Any) -> None:
    def never(lab: ThreadLab) -> None:
        def together(*functions: Callable[[], object]) -> None:
            lab.hosts("c")
            ThreadLab.together(lab, *functions, threading.Event().wait)

        lab.together = together  # type: ignore[method-assign]
        scenario(lab)

    outcome = run(never, Rounds())
    assert (outcome.verdict, list(outcome.waiting)) == ("hang", ["c"])


def test_greenlets_are_refused_with_a_word_of_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class SequentialGeventHandler:
        """As that of kazoo."""

    def scenario(lab: ThreadLab) -> None:
        lab.client("a", handler=SequentialGeventHandler())

    with pytest.raises(
        NotControlled, match=r"SequentialGeventHandler switches between greenlets.*pyzk-sweep"
    ):
        sweep(scenario)
    patched: Any = SimpleNamespace(
        is_module_patched=lambda name: name == "threading", is_monkey_patched=lambda name: name == "thread"
    )
    for module in "gevent.monkey", "eventlet.patcher":
        with monkeypatch.context() as patches:
            patches.setitem(sys.modules, module, patched)
            with pytest.raises(NotControlled, match="this process is patched so that it switches between"):
                sweep(lock)


def test_without_kazoo_the_planted_race_is_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for module in selfcheck, lab_module, driver:
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    report = sweep(threads_of_ours, faults=None, orders=None)
    assert not report.failed

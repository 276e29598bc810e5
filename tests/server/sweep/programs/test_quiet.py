"""Whether all threads of all programs wait: told by the kernel."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from pyzk.server.sweep.programs import quiet
from pyzk.server.sweep.programs.command import main
from pyzk.server.sweep.programs.processes import Running, start
from pyzk.server.sweep.programs.quiet import ByProc, ByTime

from .sweeping import ADD, Sweep, Write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it by /proc")


@asynccontextmanager
async def running(program: str) -> AsyncIterator[Running]:
    async with trio.open_nursery() as nursery:
        found = await start([sys.executable, "-c", program], {}, nursery)
        try:
            yield found
        finally:
            await found.kill()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.001)


async def test_a_program_that_waits_is_quiet() -> None:
    async with running("import threading; threading.Event().wait()") as program:
        detector = ByProc(lambda: [program.leader])
        await detector.settle(lambda: 0)
        detector.close()


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import threading; threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()",
        "import os\nif os.fork():\n os.wait()\nwhile True: pass",
    ],
    ids=["itself", "a thread", "a child"],
)
async def test_a_program_that_runs_is_not(program: str) -> None:
    settled = trio.Event()

    async def settle(detector: ByProc) -> None:
        await detector.settle(lambda: 0)
        settled.set()

    async with running(program) as process, trio.open_nursery() as nursery:
        detector = ByProc(lambda: [process.leader])
        looks = 0
        look = detector._look

        def counted() -> object:
            nonlocal looks
            looks += 1
            return look()

        detector._look = counted  # type: ignore[method-assign, assignment]
        nursery.start_soon(settle, detector)
        await until(lambda: looks > 50)
        assert not settled.is_set()
        nursery.cancel_scope.cancel()
    detector.close()


async def test_what_arrives_meanwhile_counts() -> None:
    looks = [1, 2, 3]
    async with running("import threading; threading.Event().wait()") as program:
        detector = ByProc(lambda: [program.leader])
        await detector.settle(lambda: looks.pop(0) if len(looks) > 1 else looks[0])
        assert looks == [3], "it has looked until nothing came"
        detector.close()


async def test_a_program_that_is_being_started_is_not_quiet() -> None:
    answers: list[list[int] | None] = [None, None, []]
    detector = ByProc(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    await detector.settle(lambda: 0)
    assert answers == [[]]


def test_where_the_kernel_does_not_tell_it_is_guessed(
    sweep: Sweep, program: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "_tells_of_threads", lambda: False)
    monkeypatch.setattr(quiet, "_GUESS", 0.1)  # a busy machine lets nothing arrive for 20 ms too
    assert isinstance(quiet.detector(list), ByTime)
    assert sweep("--faults", "none", program(ADD)) == 1
    said = capsys.readouterr()
    assert "the number is b'1'" in said.out
    assert "no message arrives for 20 ms (this platform does not show which threads sleep)" in said.err


def test_on_other_systems_it_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyzk.server.sweep.programs.command.HAS_GROUPS", False)
    with pytest.raises(SystemExit):
        main(["--", "true"])
    assert "has no process groups" in capsys.readouterr().err

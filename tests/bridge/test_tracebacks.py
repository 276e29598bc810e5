"""A wait that was cut short shows the line of the user, one of ours and the error, which names the lock, its
holder and the time."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

import pyzk
from pyzk import aio, blocking
from pyzk.client import NoNodeError
from pyzk.recipes import RecipeError, WouldBlock
from pyzk.recipes.base import tracebacks
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until

RUNS = [asyncio.run, __import__("uvloop").run]
Run = Callable[[Coroutine[Any, Any, object]], object]
PACKAGE = str(Path(pyzk.__file__).parent)
LONG = 60.0
"""Seconds: the limit of a wait before it is moved to now."""
WATCHES = 2
"""Of a contender that waits: on its own znode, and on that of the holder."""
HELD = r"waited \d+\.\d\d s for /lock, held by 'first' \(session 0x[0-9a-f]+, znode _c_\S+-lock-\d{10}\)"


def frames(error: BaseException) -> list[str]:
    """The files of the frames, the outermost first."""
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def is_short(error: BaseException) -> bool:
    """The line of the user, and one of ours: the last one. (Frames of anyio may be above them.)"""
    ours = [PACKAGE in name for name in frames(error)]
    return ours.count(True) == 1 and ours[-1] and frames(error)[-2] == __file__


def last_of_ours(error: BaseException) -> tuple[str, str]:
    """The file and the method of the last frame: what the user has called."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Path(frame.filename).name, frame.name


# --- threads -----------------------------------------------------------------------------------------------


def by_block(zk: Any, limit: Any) -> None:
    with limit, blocking.Lock(zk, "/lock"):
        pass


def by_acquire(zk: Any, limit: Any) -> None:
    with limit:
        blocking.Lock(zk, "/lock").acquire()


def inside_of_another_lock(zk: Any, limit: Any) -> None:
    with limit, blocking.Lock(zk, "/other"), blocking.Lock(zk, "/lock"):
        pass


def cut_in_a_thread(server: EmbeddedServer, use: Callable[[Any, Any], object]) -> list[BaseException]:
    """Errors of a use whose limit is moved to now when it waits."""
    failures: list[BaseException] = []
    limit = blocking.timeout(LONG)
    first = blocking.connect(server.hosts)
    with first as zk, blocking.Lock(zk, "/lock", data=b"first"), blocking.connect(server.hosts) as other:

        def run() -> None:
            try:
                use(other, limit)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: waits(server, "/lock"))
        limit.reschedule(0)
        thread.join()
    return failures


def waits(server: EmbeddedServer, path: str) -> bool:
    """Whether a contender watches another one."""
    watched = [path for session in server.sessions() for path in session.watches]
    znodes = [each for each in watched if each.startswith(f"{path}/")]
    return len(znodes) > len(set(znodes))


@pytest.mark.parametrize("use", [by_block, by_acquire, inside_of_another_lock])
def test_a_thread(server: EmbeddedServer, use: Callable[[Any, Any], object]) -> None:
    (error,) = cut_in_a_thread(server, use)
    assert isinstance(error, TimeoutError)
    assert re.fullmatch(f"the calls took more than 0 s: {HELD}", str(error))
    assert is_short(error)
    assert "".join(traceback.format_exception(error)).count("File ") == len(frames(error))


def test_all_frames_if_they_are_wanted(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracebacks, "full", True)
    (error,) = cut_in_a_thread(server, by_block)
    assert len(frames(error)) > 5


@pytest.mark.parametrize(("value", "full"), [("1", True), ("0", False), ("", False)])
def test_the_environment_says_so(value: str, full: bool) -> None:
    program = "from pyzk.recipes.base import tracebacks; print(tracebacks.full)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYZK_FULL_TRACEBACKS": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == str(full)


def test_other_calls_of_threads(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk:
        with pytest.raises(NoNodeError) as failure:
            zk.get("/nothing")
        assert is_short(failure.value)
        assert last_of_ours(failure.value) == ("client.py", "get")
        with blocking.Lock(zk, "/lock"), blocking.connect(server.hosts) as other:
            with pytest.raises(WouldBlock) as held, blocking.Lock(other, "/lock").nowait():
                pass
            assert is_short(held.value)
        with pytest.raises(NoNodeError) as retried:
            blocking.retry(zk, lambda client: client.get("/nothing"))
        assert frames(retried.value)[-1] != __file__


# --- asyncio -----------------------------------------------------------------------------------------------


async def cut_in_a_task(
    server: EmbeddedServer, use: Callable[[Any], Coroutine[Any, Any, None]]
) -> BaseException:
    first, second = aio.connect(server.hosts), aio.connect(server.hosts)
    async with first as zk, aio.Lock(zk, "/lock", data=b"first"), second as other:
        task = asyncio.create_task(use(other))
        while other.watch_count < WATCHES:
            await asyncio.sleep(0)
        limits[task.get_name()]()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(error, BaseException)
        return error


limits: dict[str, Callable[[], object]] = {}


async def within_asyncio_timeout(zk: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    async with asyncio.timeout(LONG) as limit:
        limits[task.get_name()] = lambda: limit.reschedule(asyncio.get_running_loop().time())
        async with aio.Lock(zk, "/lock"):
            pass


async def within_fail_after(zk: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    with anyio.fail_after(LONG) as scope:
        limits[task.get_name()] = lambda: setattr(scope, "deadline", anyio.current_time())
        await aio.Lock(zk, "/lock").acquire()


@pytest.mark.parametrize("run", RUNS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("use", [within_asyncio_timeout, within_fail_after])
def test_a_task(server: EmbeddedServer, run: Run, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        error = await cut_in_a_task(server, use)
        assert isinstance(error, TimeoutError)
        cut = error.__cause__ or error.__context__
        assert isinstance(cut, asyncio.CancelledError)
        (words,) = cut.__notes__
        assert re.fullmatch(HELD, words)
        assert is_short(cut)
        assert cut.__cause__ is None
        assert cut.__suppress_context__
        assert words in "".join(traceback.format_exception(error))

    run(main())


@pytest.mark.parametrize("run", RUNS, ids=["asyncio", "uvloop"])
def test_other_calls_of_tasks(server: EmbeddedServer, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            with pytest.raises(NoNodeError) as failure:
                await zk.get("/nothing")
            assert is_short(failure.value)
            assert last_of_ours(failure.value) == ("client.py", "get")
            async with aio.Lock(zk, "/lock"), aio.connect(server.hosts) as other:
                with pytest.raises(WouldBlock) as held:
                    async with aio.Lock(other, "/lock").nowait():
                        pass
                assert is_short(held.value)

    run(main())


# --- what keeps its frames ---------------------------------------------------------------------------------


class Mistake(RecipeError):
    pass


def mistaken(*arguments: object) -> None:
    raise Mistake


async def async_mistaken(*arguments: object) -> None:
    raise Mistake


def test_an_error_of_the_users_own_function_keeps_its_frames(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk, pytest.raises(Mistake) as failure:
        blocking.LeaderElection(zk, "/leader").run(mistaken)
    assert traceback.extract_tb(failure.value.__traceback__)[-1].name == "mistaken"

    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            await aio.LeaderElection(zk, "/leader").run(async_mistaken)

    with pytest.raises(Mistake) as failure:
        asyncio.run(main())
    assert traceback.extract_tb(failure.value.__traceback__)[-1].name == "async_mistaken"


def test_an_error_of_a_body_keeps_its_frames(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk, pytest.raises(Mistake) as failure, blocking.Lock(zk, "/lock"):
        mistaken()
    assert traceback.extract_tb(failure.value.__traceback__)[-1].name == "mistaken"


def test_a_bug_keeps_its_frames(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object, **options: object) -> None:
        raise AssertionError("a bug")

    with blocking.connect(server.hosts) as zk:
        monkeypatch.setattr("pyzk.recipes.locks.lock.contend", broken)
        with pytest.raises(AssertionError) as failure:
            blocking.Lock(zk, "/lock").acquire()
        assert len(frames(failure.value)) > 5

"""A test that hangs explains itself: at Ctrl-C, SIGUSR1 and pytest-timeout, and in virtual time."""

from __future__ import annotations

import re

import pytest
import trio
import trio.testing

import pyzk.blocking
import pyzk.client
from pyzk.recipes import Lock
from pyzk.server import open_server
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, NotInTime
from pyzk.server.testing.shown import sections

pytest_plugins = "pytester"

THREADS = """
    import threading, time
    import pyzk.blocking
    from pyzk.blocking import connect
    from pyzk.blocking import Lock

    def test_it(zk_server):
        with connect(zk_server.hosts) as one, connect(zk_server.hosts) as two:
            zk_server.name_session("first", one)
            zk_server.name_session("second", two)
            lock = Lock(one, "/l", data=b"job 7")
            grant = lock.acquire()
            thread = threading.Thread(target=Lock(two, "/l").acquire, daemon=True)
            thread.start()
            zk_server.wait_for("/l", children=2)
            {then}
"""
TRIO = """
    import os, signal
    import pytest, trio
    import pyzk.client
    from pyzk.recipes import Lock
    from pyzk.server import open_server

    @pytest.mark.trio
    async def test_it():
        async with open_server() as server:
            async with pyzk.client.connect(server.hosts) as one, pyzk.client.connect(server.hosts) as two:
                server.name_session("first", one)
                server.name_session("second", two)
                async with Lock(one, "/l", data=b"job 7"), trio.open_nursery() as nursery:
                    nursery.start_soon(Lock(two, "/l").acquire)
                    await server.wait_for("/l", children=2)
                    os.kill(os.getpid(), signal.SIGINT)
                    await trio.sleep(60)
"""
AIO = """
    import asyncio, os, signal
    import pytest
    from pyzk.aio import Lock
    from pyzk.server.testing import clients

    zk_other = clients.zk_aio({plugin})

    @pytest.mark.{mark}
    async def test_it(zk_server, zk_aio, zk_other):
        zk_server.name_session("first", zk_aio)
        zk_server.name_session("second", zk_other)
        async with Lock(zk_aio, "/l", data=b"job 7"):
            waiting = asyncio.create_task(Lock(zk_other, "/l").acquire())
            await zk_server.wait_for("/l", children=2)
            os.kill(os.getpid(), signal.SIGINT)
            await waiting
"""
EXPLAINED = ["*== the test ended here", "*who waits:", "*/l: second waits ?.??? s for first ('job 7')"]
QUICK = ("-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:asyncio")


def run(
    pytester: pytest.Pytester, code: str, *arguments: str, quick: tuple[str, ...] = QUICK
) -> pytest.RunResult:
    pytester.makepyfile(code)
    return pytester.runpytest_subprocess(*quick, *arguments, timeout=100)


@pytest.mark.parametrize("code", [THREADS.format(then="signal_me()"), TRIO])
def test_ctrl_c(pytester: pytest.Pytester, code: str) -> None:
    code = code.replace(
        "signal_me()", "import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    )
    result = run(pytester, code)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(EXPLAINED)
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])


@pytest.mark.parametrize("mark", ["asyncio", "anyio"])
def test_ctrl_c_in_asyncio(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    """The picture is taken before the loop cancels the test: afterwards nobody waits."""
    plugin = "plugin='asyncio'" if mark == "asyncio" else ""
    quick = (*QUICK[:-2], "-p", "no:trio") if mark == "asyncio" else QUICK
    monkeypatch.delenv("PYTEST_ADDOPTS")
    result = run(pytester, AIO.format(mark=mark, plugin=plugin), "-k", "not trio", quick=quick)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(EXPLAINED)
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])


# A timer that ends by itself would do so before all is ready, on a slow machine
SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGALRM); time.sleep(60)"
TIMER = (
    "timer = next(each for each in threading.enumerate() if isinstance(each, threading.Timer)); "
    "threading.Thread(target=timer.function, args=timer.args, kwargs=timer.kwargs).start(); time.sleep(60)"
)


def test_the_signal_of_a_timeout(pytester: pytest.Pytester) -> None:
    result = run(pytester, THREADS.format(then=SIGNAL), "--timeout=90", "--timeout-method=signal")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(EXPLAINED)


def test_the_thread_of_a_timeout(pytester: pytest.Pytester) -> None:
    result = run(pytester, THREADS.format(then=TIMER), "--timeout=90", "--timeout-method=thread")
    assert result.ret == 1
    result.stderr.fnmatch_lines(EXPLAINED)


def test_a_signal_looks_and_lets_the_test_go_on(pytester: pytest.Pytester) -> None:
    then = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1); grant.release(); thread.join()"
    result = run(pytester, THREADS.format(then=then))
    result.assert_outcomes(passed=1)
    result.stderr.fnmatch_lines(["*== the test is here", *EXPLAINED[1:]])


@pytest.mark.parametrize(("when", "shown"), [("always", 2), ("failed", 1), ("never", 0)])
def test_which_tests_show_the_timeline(pytester: pytest.Pytester, when: str, shown: int) -> None:
    code = """
        def test_good(zk_server):
            pass

        def test_bad(zk_server):
            assert False
    """
    pytester.makepyfile(code)
    result = pytester.runpytest(f"--zk-timeline={when}", "-rP")
    result.assert_outcomes(passed=1, failed=1)
    assert result.stdout.str().count("zk_server: timeline -") == shown


def test_a_wrong_time_of_timelines(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzk_timeline = sometimes\n")
    result = pytester.runpytest()
    result.stderr.fnmatch_lines(["*zk_timeline is one of always, failed, never*"])


async def test_a_test_in_virtual_time_ends(autojump_clock: trio.testing.MockClock) -> None:
    async def wait_for_ever() -> None:
        async with (
            open_server(patience=300) as server,
            pyzk.client.connect(server.hosts) as zk,
            pyzk.client.connect(server.hosts) as other,
        ):
            await zk.exists("/never")
            async with Lock(zk, "/l"):
                await trio.sleep(100)
                async with Lock(other, "/l"):
                    pass

    with pytest.raises(NotInTime) as caught:
        await wait_for_ever()
    assert 400 < trio.current_time() < 500
    text = str(caught.value)
    assert text.startswith("waited in vain: for 300 s of virtual time clients have done nothing but ping")
    assert "/l: B waits 30" in text
    assert re.search(r"^ +[2-4]\d\d\.\d+ .*sync", text, re.MULTILINE) is None
    assert "the test ended here" in text


async def test_signs_of_life_do_not_push_the_story_out_of_the_timeline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The history keeps the last entries: after some hours these are pings and syncs alone."""
    with pytest.raises(NotInTime) as caught:
        async with (
            open_server(patience=3000, history_limit=2000) as server,
            pyzk.client.connect(server.hosts) as zk,
            pyzk.client.connect(server.hosts) as other,
            Lock(zk, "/l"),
            Lock(other, "/l"),
        ):
            pass
    assert server.running.told is not None
    assert server.running.told.dropped > 0
    text = str(caught.value)
    assert "waited in vain: for 3000 s" in text
    assert "create /l" in text
    assert "== the clients have done nothing but ping for 600 s" in text
    assert "/l: B waits 60" in text
    assert text.count("sync / -> ok") <= 4


async def test_patience_has_no_end_if_one_likes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server(patience=float("inf")) as server, pyzk.client.connect(server.hosts):
        assert server.running.gate.observers == []
        await trio.sleep(600)


def test_who_waits_and_what_has_not_fired() -> None:
    with (
        EmbeddedServer() as server,
        pyzk.blocking.connect(server.hosts) as one,
        pyzk.blocking.connect(server.hosts) as two,
    ):
        for zk in (one, two):
            zk.ensure_path("/a")
            zk.ensure_path("/b")
        for n, (zk, path) in enumerate([(one, "a"), (two, "b"), (one, "b"), (two, "a")]):
            zk.create(f"/{path}/_c_{'0' * 31}{n}-lock-", ephemeral=True, sequential=True)
        with two.watch("/a"):
            timeline = dict(sections("server", server))["server: timeline"]
        lines = timeline.splitlines()
        at = next(n for n, line in enumerate(lines) if line.endswith("== the test ended here"))
        assert lines[at + 1 : at + 3] == ["watches that have not fired:", "  B: /a"]
        assert lines[at + 3] == "who waits:"
        who_waits = sorted((line.split(" waits ")[0], line[-2:]) for line in lines[at + 4 : at + 6])
        assert who_waits == [("  /a: B", " A"), ("  /b: A", " B")]
        assert lines[at + 6] in (
            "  deadlock: A waits at /b for B waits at /a for A",
            "  deadlock: B waits at /a for A waits at /b for B",
        )


def test_events_that_a_pause_keeps_back_are_told() -> None:
    with EmbeddedServer() as server, pyzk.blocking.connect(server.hosts) as zk, zk.watch("/x"):
        server.pause(zk)
        server.load({"/x": "1"})
        shown = sections("server", server)[0][1]
        assert "events that wait because the connection is stopped:\n  A: [created /x]" in shown
        server.resume(zk)
        assert "events that wait" not in sections("server", server)[0][1]


def test_an_ensemble_says_it_too() -> None:
    with EmbeddedEnsemble(3) as ensemble, pyzk.blocking.connect(ensemble[2].hosts) as zk, zk.watch("/a"):
        assert "watches that have not fired:\n  A: /a" in sections("ensemble", ensemble)[0][1]

"""The pytest plugin, as its users have it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request

import pytest

from pyzk.server.testing import EmbeddedServer

pytest_plugins = "pytester"

LEAN = ("-p", "no:hypothesispytest", "-p", "no:trio")
"""Subprocesses start in a fifth of the time without these."""

FAILING = """
    def test_it(zk_server, zk_client):
        zk_client.create("/a", b"found")
        assert zk_client.get("/a")[0] == b"expected"
"""


@pytest.fixture(autouse=True)
def strict(pytester: pytest.Pytester) -> None:
    """Everything below runs with warnings as errors."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")


def test_each_test_has_a_fresh_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_it(zk_server, zk_client, n):
            assert zk_server.dump() == {}
            zk_client.create("/a")
            assert zk_server.dump() == {"/a": b""}

        def test_no_client(zk_server):
            assert zk_server.sessions() == []
        """
    )
    pytester.runpytest().assert_outcomes(passed=4)


def test_a_failure_shows_timeline_and_tree(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- zk_server: timeline -*",
            "Timeline of 127.0.0.1:*",
            "*new session, timeout 10 s*",
            "*create /a 'found' -> ok*",
            "*get_data /a -> 'found' version 0*",
            "*- zk_server: tree -*",
            "/a  'found'",
        ]
    )


def test_a_wait_in_vain_shows_the_timeline_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(zk_server):
            zk_server.load({"/a": "x"})
            zk_server.wait_for("/b", timeout=0.01)
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert text.count("Timeline of 127.0.0.1:") == 1
    result.stdout.fnmatch_lines(["E *NotInTime: waited 0.01 s for /b to exist*", "*zk_server: tree*"])
    assert "in_thread.py" not in text


def test_a_failure_shows_the_lines_of_the_test_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, open_server

        def test_tree(zk_server):
            zk_server.assert_tree({"/a": "1"})

        def test_session(zk_server):
            zk_server.expire(7)

        def test_ensemble(zk_ensemble):
            zk_ensemble.expire(7)

        def test_fault(zk_server):
            with zk_server.fault("create", required=True):
                pass

        async def in_trio():
            async with open_server() as server:
                server.assert_tree({"/a": "1"})

        def test_trio():
            import trio
            trio.run(in_trio)

        @pytest.mark.parametrize("kind", [EmbeddedServer, EmbeddedEnsemble])
        @pytest.mark.parametrize("setting", [{"ticktime": 1}, {"tick_time": "1"}])
        def test_setting(kind, setting):
            kind(**setting)
        """
    )
    result = pytester.runpytest("--zk-timeline=never", "--tb=short")
    result.assert_outcomes(failed=9)
    text = result.stdout.str()
    for shown in ("in_thread.py", "_base.py", "controls", "faults.py", "embedded"):
        assert f"{shown}:" not in text
        assert f"/{shown}/" not in text
    assert "- /a  is missing, expected '1'" in text
    assert "there is no session 0x7" in text
    assert "there is no setting 'ticktime'; perhaps tick_time" in text
    assert "tick_time must be a whole number, not '1'" in text


def test_an_ensemble_shows_its_timeline(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(zk_ensemble):
            zk_ensemble.load({"/a": "found"})
            zk_ensemble.kill(3)
            assert zk_ensemble.leader() == 3
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- zk_ensemble: timeline -*",
            "*== kill server 3",
            "*3* is down",
            "*- zk_ensemble: tree -*",
            "/a  'found'",
        ]
    )


def test_works_with_xdist(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(
        FAILING
        + """
    import pytest

    @pytest.mark.parametrize("n", range(3))
    def test_more(zk_server, zk_client, zk_proc, n):
        zk_client.create(f"/{n}")
        assert zk_proc.port != zk_server.port
"""
    )
    result = pytester.runpytest_subprocess("-n2", *LEAN)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*- zk_server: timeline -*"])


def test_factories(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pyzk.server.testing import factories

        quick = factories.zk_server(tick_time=100, clock="frozen")  # so that no session expires
        quick_client = factories.zk_client("quick", timeout=2.0)
        second = factories.zk_client()
        shared = factories.zk_server(scope="module")

        def test_settings(quick, quick_client):
            [session] = quick.sessions()
            assert session.timeout_ms == 2000

        def test_two_sessions(zk_server, zk_client, second):
            assert len(zk_server.sessions()) == 2

        def test_write(shared):
            shared.load({"a": ""})

        def test_read(shared):
            assert shared.dump() == {"/a": b""}

        def test_fails(shared, quick):
            assert not shared
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*- shared: timeline -*", "*- quick: timeline -*"])


@pytest.mark.parametrize("how", ["option", "ini"])
def test_a_hostile_server_for_all_tests(pytester: pytest.Pytester, how: str) -> None:
    pytester.makepyfile(
        """
        from pyzk.server.testing import factories

        friendly = factories.zk_server(hostile=None)

        def test_hostile(zk_server):
            assert type(zk_server.running.gate).__name__ == "HostileGate"

        def test_friendly(friendly):
            assert type(friendly.running.gate).__name__ == "MessageGate"
        """
    )
    if how == "ini":
        pytester.makeini("[pytest]\nzk_hostile = 0\n")
    pytester.runpytest(*(["--zk-hostile", "0"] if how == "option" else [])).assert_outcomes(passed=2)


LEAKING = """
    import socket
    from pyzk.protocol.framing import frame
    from pyzk.protocol.records import ConnectRequest

    def test_leak(zk_server):
        with socket.create_connection((zk_server.host, zk_server.port)) as sock:
            sock.sendall(frame(ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode()))
            assert sock.recv(1000)

    def test_tidy(zk_server, zk_client):
        zk_client.create("/e", ephemeral=True)
"""


@pytest.mark.parametrize("how", ["option", "ini"])
def test_leaks_are_an_error_for_those_who_ask(pytester: pytest.Pytester, how: str) -> None:
    pytester.makepyfile(LEAKING)
    pytester.runpytest().assert_outcomes(passed=2)
    if how == "ini":
        pytester.makeini("[pytest]\nzk_check_leaks = true\n")
    result = pytester.runpytest(*(["--zk-check-leaks"] if how == "option" else []))
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "the test has left behind: session 0x* was never closed",
            "Timeline of *",
            "*new session*",
        ]
    )


def test_zk_proc(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        from pyzk.server.testing import factories

        client = factories.zk_client("zk_proc")

        def test_it(zk_proc, client):
            os.kill(zk_proc.pid, 0)
            assert zk_proc.hosts == f"{zk_proc.host}:{zk_proc.port}"
            client.create("/a")

        def test_again(zk_proc, client):
            assert client.exists("/a")
        """
    )
    pytester.runpytest("--zk-args", "--tick-time 500").assert_outcomes(passed=2)


def test_a_zk_proc_that_does_not_start(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(zk_proc): pass")
    result = pytester.runpytest("--zk-args=--tick-time 0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has ended with status 2*", "*pyzk-server: *--tick-time*"])
    result = pytester.runpytest(
        "--zk-exec", f"{sys.executable} -c 'import time; time.sleep(60)'", "--zk-timeout=0.1"
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*is not ready in time*"])


NOPROC = """
    def test_one(zk_client):
        assert not zk_client.exists("/a")
        zk_client.create("/a", ephemeral=True)

    def test_two(zk_client, zk_noproc):
        assert not zk_client.exists("/a")
        zk_client.create("/a")

    def test_in_process(zk_client, zk_server):
        assert len(zk_server.sessions()) == 1
"""


def test_the_same_tests_against_a_running_server(pytester: pytest.Pytester) -> None:
    """Each client has a chroot of its own there, and nothing is left of it."""
    pytester.makepyfile(NOPROC)
    with EmbeddedServer() as elsewhere:
        pytester.runpytest("--zk-hosts", elsewhere.hosts).assert_outcomes(passed=3)
        created = elsewhere.history(op="create", kind="request")
        assert len([entry for entry in created if entry.path and entry.path.endswith("/a")]) == 2
        assert elsewhere.dump() == {}
        pytester.makeini(f"[pytest]\nzk_hosts = {elsewhere.hosts}\n")
        pytester.runpytest().assert_outcomes(passed=3)
        hosts = elsewhere.hosts
    result = pytester.runpytest("--zk-hosts", hosts, "--zk-timeout=0.1", "-k", "test_one")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no ZooKeeper server answers at*"])
    result = pytester.runpytest("--zk-hosts", "localhost")
    result.stdout.fnmatch_lines(["*'localhost' is not HOST:PORT*"])


def test_without_a_running_server_its_tests_are_skipped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(NOPROC)
    result = pytester.runpytest("-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*no running server is named: give --zk-hosts*"])


def test_without_kazoo(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys; sys.modules['kazoo'] = None; sys.modules['kazoo.client'] = None")
    pytester.makepyfile(
        """
        def test_client(zk_client): pass

        def test_server(zk_server): assert zk_server.port
        """
    )
    result = pytester.runpytest_subprocess("-rs", *LEAN)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*kazoo is not installed*"])


def test_a_server_that_died_says_so_in_the_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(zk_server):
            async def bug(deadline): raise ZeroDivisionError
            def plant():
                clock = zk_server.running.clock
                clock.sleep_until = bug
                clock.wake()
            zk_server.run(plant)
            while True:
                zk_server.sessions()
        """
    )
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["*zk_server: the server has died*", "*ZeroDivisionError*"])


def test_importing_the_plugin_costs_nothing() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import pyzk.server.testing.plugin; "
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('pyzk')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"trio", "attrs", "attr", "sortedcontainers", "kazoo", "ssl", "asyncio"}
    assert not heavy & set(run.stdout.replace("'", "").strip("[]\n").split(", ")), run.stdout


def test_importing_the_server_package_is_cheap() -> None:
    look = "print('trio' in sys.modules)"
    code = f"import sys, pyzk.server; {look}; pyzk.server.open_server; {look}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_a_failed_test_is_held_with_its_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    command = [sys.executable, "-m", "pytest", *LEAN, "-q", "--zk-hold-on-failure"]
    process = pytester.popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if "is held" in line:
            break
    url = line.split("zk_server at ")[1].strip()
    with urllib.request.urlopen(f"{url}api/v1/znode?path=/a", timeout=20) as answer:
        assert json.load(answer)["base64"] == base64.b64encode(b"found").decode()
    process.stdin.write("\n")
    process.stdin.flush()
    rest = process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    assert process.wait(20) == 1
    assert "1 failed" in rest
    assert "zk_server: timeline" in rest


def test_where_nobody_can_press_enter_nothing_is_held(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    command = [sys.executable, "-m", "pytest", *LEAN, "-q", "--zk-hold-on-failure"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "it is not held: standard input is neither terminal nor pipe" in done.stdout
    assert "it is held" not in done.stdout
    ended = subprocess.run(command, input="", capture_output=True, text=True, timeout=60)
    assert "The test is not held any longer: standard input has ended." in ended.stdout


def test_workers_of_xdist_hold_nothing_and_that_is_said(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess("-n2", *LEAN, "--zk-hold-on-failure")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--zk-hold-on-failure: nobody can press Enter for pytest-xdist; add -n 0*"])


OWN = {
    "open_server": """
        import pytest
        from pyzk.client import connect
        from pyzk.server import open_server

        @pytest.mark.trio
        async def test_it():
            async with open_server() as server, connect(server.hosts) as zk:
                await zk.create("/a", b"found")
                assert (await zk.get("/a"))[0] == b"expected"
    """,
    "a fixture of pytest-trio": """
        import pytest
        from pyzk.client import connect
        from pyzk.server import open_server

        @pytest.fixture
        async def server():
            async with open_server() as server:
                yield server

        @pytest.mark.trio
        async def test_it(server):
            async with connect(server.hosts) as zk:
                await zk.create("/a", b"found")
                assert (await zk.get("/a"))[0] == b"expected"
    """,
    "open_ensemble": """
        import pytest
        from pyzk.client import connect
        from pyzk.server.testing import open_ensemble

        @pytest.mark.trio
        async def test_it():
            async with open_ensemble(3) as ensemble, connect(ensemble.hosts) as zk:
                await zk.create("/a", b"found")
                assert (await zk.get("/a"))[0] == b"expected"
    """,
    "EmbeddedServer": """
        import pyzk.blocking
        from pyzk.server.testing import EmbeddedServer

        def test_it():
            with EmbeddedServer() as server, pyzk.blocking.connect(server.hosts) as zk:
                zk.create("/a", b"found")
                assert zk.get("/a")[0] == b"expected"
    """,
    "EmbeddedEnsemble": """
        import pyzk.blocking
        from pyzk.server.testing import EmbeddedEnsemble

        def test_it():
            with EmbeddedEnsemble(3) as server, pyzk.blocking.connect(server.hosts) as zk:
                zk.create("/a", b"found")
                assert zk.get("/a")[0] == b"expected"
    """,
    "a fixture whose server runs": """
        import pytest
        import pyzk.blocking
        from pyzk.server.testing import EmbeddedServer

        @pytest.fixture
        def server():
            with EmbeddedServer() as server:
                yield server

        def test_it(server):
            with pyzk.blocking.connect(server.hosts) as zk:
                zk.create("/a", b"found")
                assert zk.get("/a")[0] == b"expected"
    """,
}


@pytest.mark.parametrize("how", OWN)
def test_a_failure_shows_the_servers_that_the_test_has_started_itself(
    pytester: pytest.Pytester, how: str
) -> None:
    pytester.makepyfile(OWN[how] + PASSING)
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*- server at 127.0.0.1:*: timeline -*",
            "*create /a 'found' -> ok*",
            "*- server at 127.0.0.1:*: tree -*",
            "/a  'found'",
        ]
    )
    assert result.stdout.str().count(": timeline -") == 1
    assert "of_another_test" not in result.stdout.str()


PASSING = """
        def test_another():
            from pyzk.server.testing import EmbeddedServer
            with EmbeddedServer() as server:
                server.load({"/of_another_test": ""})
"""


def test_the_last_servers_of_a_test_are_shown_and_those_of_fixtures_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pyzk.server.testing import EmbeddedServer

        def test_it(zk_server):
            for n in range(6):
                with EmbeddedServer() as server:
                    server.load({f"/number{n}": ""})
            assert False
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert text.count("zk_server: timeline -") == 1
    shown = [n for n in range(6) if any(line.startswith(f"/number{n}") for line in text.splitlines())]
    assert shown == [2, 3, 4, 5]

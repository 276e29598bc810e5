"""Fixtures of clients, for every kind of test: connected, named in timelines, shown when a test fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.server.testing.test_plugin import LEAN

pytest_plugins = "pytester"

SYNC = """
    from pyzk.server.testing import clients

    zk_other = clients.zk_blocking(session_timeout=20)

    def test_it(zk_server, zk_blocking, zk_other, zk_client):
        zk_blocking.create("/a")
        assert zk_other.exists("/a")
        assert zk_client.exists("/a")
        assert False
"""
TRIO = """
    import pytest, trio
    from pyzk.server.testing import clients

    slow_server = clients.zk_trio_server(tick_time=4000)
    slow_client = clients.zk_trio_client("slow_server")
    zk_other = clients.zk_trio_client()

    @pytest.mark.trio
    async def test_it(autojump_clock, zk_trio_server, zk_trio_client, zk_other, slow_server, slow_client):
        await zk_trio_client.create("/a")
        await zk_other.exists("/a")
        await slow_client.create("/b")
        zk_trio_server.pause(zk_other)
        await trio.sleep(60)
        assert len(zk_trio_server.sessions()) == 1
        assert list(slow_server.dump()) == ["/b"]
        assert False
"""
ANYIO = """
    import pytest

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    async def test_it(zk_server, zk_aio):
        await zk_aio.create("/a")
        await zk_server.wait_for("/a")
        assert False
"""
ASYNCIO = """
    import pytest
    from pyzk.server.testing import clients

    zk_other = clients.zk_aio(plugin="asyncio")

    @pytest.mark.asyncio
    async def test_it(zk_server, zk_aio, zk_other):
        await zk_aio.create("/a")
        await zk_other.exists("/a")
        await zk_server.wait_for("/a")
        assert False
"""
AIOZK = """
    import pytest
    from pyzk.server.testing import clients

    zk_theirs = clients.zk_aiozk(plugin="asyncio")

    @pytest.mark.asyncio
    async def test_it(zk_server, zk_theirs, zk_aio):
        await zk_theirs.create("/a")
        await zk_server.wait_for("/a")
        assert await zk_aio.exists("/a")
        assert False
"""
CASES = """
    import unittest
    from kazoo.client import KazooClient
    from pyzk.aio import connect
    from pyzk.server.testing import ServerCase

    class TestIt(ServerCase):
        settings = {"tick_time": 100}

        def test_it(self):
            self.server.load({"/a": ""})
            self.assertEqual(self.server.dump(), {})

        def test_good(self):
            self.assertEqual(self.server.dump(), {})

        def test_left_out(self):
            self.skipTest("not now")

    class TestLoop(ServerCase, unittest.IsolatedAsyncioTestCase):
        async def test_it(self):
            async with connect(self.server.hosts) as zk:
                await zk.create("/b")
                await self.server.wait_for("/b")
            self.fail()

    if __name__ == "__main__":
        unittest.main()
"""


@pytest.mark.parametrize(
    ("code", "options", "names", "created"),
    [
        (SYNC, ["-p", "no:trio", "-p", "no:asyncio"], ["zk_blocking", "zk_other", "zk_client"], ["/a"]),
        (TRIO, ["-p", "no:asyncio"], ["zk_trio_client", "zk_other", "slow_client"], ["/a", "/b"]),
        (ANYIO, ["-p", "no:asyncio", "-p", "no:trio"], ["zk_aio"], ["/a"]),
        (
            ASYNCIO,
            ["-p", "no:trio", "-o", "asyncio_default_fixture_loop_scope=function"],
            ["zk_aio", "zk_other"],
            ["/a"],
        ),
        (
            AIOZK,
            ["-p", "no:trio", "-o", "asyncio_default_fixture_loop_scope=function"],
            ["zk_theirs", "zk_aio"],
            ["/a"],
        ),
    ],
    ids=["threads", "trio", "anyio", "asyncio", "aiozk"],
)
def test_a_failure_names_its_clients(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    options: list[str],
    names: list[str],
    created: list[str],
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-W", "error", *options, timeout=100)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    for name in names:
        assert f"  {name}  session 0x" in text
    for path in created:
        assert f"create {path} -> ok" in text
    assert "the test ended here" in text


@pytest.mark.parametrize("by_pytest", [True, False])
def test_cases_of_unittest(pytester: pytest.Pytester, by_pytest: bool) -> None:
    file = pytester.makepyfile(CASES)
    if by_pytest:
        result = pytester.runpytest_subprocess(*LEAN, timeout=100)
        result.assert_outcomes(failed=2, passed=1, skipped=1)
        text = result.stdout.str()
    else:
        done = subprocess.run([sys.executable, file], stderr=subprocess.PIPE, text=True, check=False)
        text = done.stderr
        assert "FAILED (failures=2, skipped=1)" in text
    assert text.count("Timeline of 127.0.0.1:") == 2
    assert "== load [/a]" in text
    assert "create /b -> ok" in text


def test_fixtures_say_what_they_are(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--fixtures", *LEAN)
    text = result.stdout.str()
    ours = text[text.index("zk_") :]
    assert "no docstring available" not in ours.split("pyzk")[0]
    for name in ("zk_server", "zk_client", "zk_aio", "zk_trio_client", "zk_blocking", "zk_ensemble"):
        assert f"\n{name}" in text

"""A test fails when its client needs more than it may."""

from __future__ import annotations

from typing import Any

import pytest

import pyzk.blocking
import pyzk.client
from pyzk.server import open_server
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, LimitExceeded, limits
from tests.server.testing.test_plugin import LEAN

# ruff: noqa: PT012 - the blocks are those of the limits

pytest_plugins = "pytester"


def test_who_needs_more_and_where() -> None:
    with (
        EmbeddedServer() as server,
        pyzk.blocking.connect(server.hosts) as one,
        pyzk.blocking.connect(server.hosts) as two,
    ):
        server.name_session("busy", one)

        def work() -> None:
            for n in range(3):
                one.create(f"/n{n}")
            two.exists("/n0")

        with limits(server, requests=3, znodes=3, watches=0):
            work()
        with pytest.raises(LimitExceeded) as caught, limits(server, requests=2, znodes=3):
            for _ in range(4):
                one.exists("/n1")
            two.exists("/n2")
        [line] = str(caught.value).splitlines()
        assert line.startswith("busy 0x")
        assert " needs more than 2 requests: exceeded by exists /n1 at " in line
        assert line.endswith("; it sent 4 in all")
        with (
            pytest.raises(LimitExceeded, match="needs more than 1 znodes: exceeded by create /m2"),
            limits(server, znodes=1),
        ):
            two.create("/m1")
            two.create("/m2")
            two.delete("/m2")
        with (
            pytest.raises(
                LimitExceeded, match=r"busy .* needs more than 1 watches: exceeded by add_watch /b"
            ),
            limits(server, watches=1),
            one.watch("/a"),
            one.watch("/b"),
        ):
            pass
        assert server.running.gate.observers == []


def test_an_error_of_the_block_comes_out() -> None:
    with EmbeddedServer() as server, pyzk.blocking.connect(server.hosts) as zk:
        with pytest.raises(KeyError), limits(server, requests=0):
            zk.exists("/")
            raise KeyError
        assert server.running.gate.observers == []


async def test_in_a_trio_test() -> None:
    async with open_server() as server, pyzk.client.connect(server.hosts) as zk:
        with pytest.raises(LimitExceeded), limits(server, requests=1):
            await zk.exists("/")
            await zk.exists("/")


def test_at_an_ensemble() -> None:
    with EmbeddedEnsemble(3) as ensemble, pyzk.blocking.connect(ensemble[2].hosts) as zk:
        with limits(ensemble, requests=1):
            zk.exists("/")
        with pytest.raises(LimitExceeded), limits(ensemble, requests=0):
            zk.exists("/")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ValueError),
        ({"watches": -1}, ValueError),
        ({"requests": "9"}, TypeError),
        ({"znodes": True}, TypeError),
    ],
)
def test_wrong_limits(given: dict[str, Any], error: type[Exception]) -> None:
    with EmbeddedServer() as server, pytest.raises(error), limits(server, **given):
        pass


def test_the_marker_and_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.zk_limits(requests=1)
        def test_bad(zk_server, zk_blocking):
            zk_blocking.exists("/")
            zk_blocking.exists("/a")

        @pytest.mark.zk_limits(requests=1)
        def test_good(zk_server, zk_blocking):
            zk_blocking.exists("/")

        @pytest.mark.zk_limits(requests=1)
        def test_without():
            pass

        def test_part(zk_limits, zk_blocking):
            zk_blocking.exists("/")
            with zk_limits(requests=0):
                zk_blocking.exists("/b")
        """
    )
    result = pytester.runpytest(*LEAN, "--strict-markers")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "zk_blocking 0x* needs more than 1 requests: exceeded by exists /a at *; it sent 2 in all",
            "zk_limits is for tests with a fixture that is a server, such as zk_server",
            "*LimitExceeded: zk_blocking 0x* needs more than 0 requests: exceeded by exists /b*",
        ]
    )
    result.stdout.no_fnmatch_line("During handling of the above exception*")

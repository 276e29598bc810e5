"""A client that has seen more than a server has is refused: the server's log and the client's error agree."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ConnectionLossError, connect
from pyzk.server.testing import open_ensemble, open_server
from pyzk.server.testing.host import LocalServer


def refused(caplog: pytest.LogCaptureFixture, main: Any) -> tuple[str, str]:
    """The error of a client, and the lines of the servers about it."""
    with caplog.at_level(logging.INFO):
        error = trio.run(main, clock=MockClock(autojump_threshold=0))
    lines = [each.getMessage() for each in caplog.records if "it has seen zxid" in each.getMessage()]
    assert lines
    return str(error), lines[0]


def test_a_follower_without_a_transaction_of_the_epoch(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> ConnectionLossError:
        async with open_ensemble(3) as ensemble:
            target = 3

            async def connector(host: str, port: int) -> trio.abc.Stream:
                return ensemble[target].open_stream()

            async with connect("any:1", session_timeout=6, connector=connector) as zk:
                ensemble.elect(to=3)
                await zk.exists("/")
                target = 1
                ensemble.disconnect(zk)
                with pytest.raises(ConnectionLossError) as caught:
                    await zk.exists("/")
                ensemble.load({"/x": None})  # so that the client finds its session, and can close it
                return caught.value

    error, line = refused(caplog, main)
    assert "this server lags behind, or has no transaction of the last epoch yet" in line
    zxid = line.partition("it has seen zxid ")[2].partition(",")[0]
    assert f"it lags behind zxid {zxid}, which this client has seen" in error


def test_a_server_that_has_lost_its_data(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> ConnectionLossError:
        async with open_server() as one, open_server(initial_zxid=1) as other:
            target: LocalServer = one

            async def connector(host: str, port: int) -> trio.abc.Stream:
                return target.open_stream()

            options: dict[str, Any] = {"connector": connector, "on_expired": "new_session"}
            async with connect("any:1", session_timeout=6, **options) as zk:
                for _ in range(3):
                    await zk.create("/x", sequential=True)
                target = other
                one.disconnect(zk)
                with pytest.raises(ConnectionLossError) as caught, trio.fail_after(60):
                    await zk.exists("/x")
                return caught.value

    error, line = refused(caplog, main)
    assert "it belongs to another server, or to this one before it lost its data" in line
    assert "which this client has seen" in error

"""The first HTTP request of a server's life, for which very much is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyzk.server import control

from ...support.network import served, talk

REQUEST = b"GET /api/v1/server HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"

# Prints how many rounds the loop has made until the answer came, and what was loaded before
SCRIPT = f"""
import sys, time, trio
from pyzk.server.config.settings import Settings
from pyzk.server.net.clock import Clock
from pyzk.server.app.serve import make_server

async def count():
    global rounds
    while True:
        await trio.lowlevel.checkpoint()
        rounds += 1

async def main():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(make_server(Settings(port=0), Clock()).run)
        print("pyzk.server.control.port" in sys.modules, "h11" in sys.modules)
        nursery.start_soon(count)
        streams = [await trio.open_tcp_stream(*server.address) for _ in range(2)]
        before = rounds
        for stream in streams:
            await stream.send_all({REQUEST!r})
        answers = [await stream.receive_some() for stream in streams]
        print(rounds - before, [answer.split()[1] for answer in answers])
        nursery.cancel_scope.cancel()

rounds = 0
trio.run(main)
"""


def test_it_does_not_stop_the_loop() -> None:
    """Until 0.1 the loop stood still for some 300 ms. An idle server has nothing of HTTP loaded."""
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    loaded, answered = out.splitlines()
    assert loaded == "False False"
    rounds, _, statuses = answered.partition(" ")
    assert int(rounds) > 100, "a dozen rounds are made with one answer"
    assert statuses == "[b'200', b'200']"


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("no new thread")])
async def test_an_import_that_fails_ends_one_connection(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tracebacks: list[str]
) -> None:
    async def fail(name: str) -> None:
        raise error

    async with served() as server:
        with monkeypatch.context() as patched:
            patched.setattr(control, "load", fail)
            assert await talk(server.address, REQUEST) == b""
        assert tracebacks == ["an HTTP client was closed; this is a bug of the server: please report it"]
        assert (await talk(server.address, REQUEST)).startswith(b"HTTP/1.1 200")
        assert await talk(server.address, b"ruok") == b"imok"

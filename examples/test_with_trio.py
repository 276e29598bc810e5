"""Testing in trio: the server runs in the test itself, on the test's own clock.

pip install . pytest pytest-trio    # in a clone of pyzk-server
pytest examples/test_with_trio.py
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.records import ConnectRequest, ConnectResponse
from pyzk.server import open_server


@pytest.mark.trio
async def test_an_hour_takes_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """Under ``autojump_clock`` the server's sessions expire as soon as nobody has anything else to do."""
    async with open_server() as server:
        stream = server.open_stream()  # a connection without a socket; server.hosts has one for real clients
        await stream.send_all(frame(ConnectRequest(0, 0, 10_000, 0, None).encode()))
        buffer = FrameBuffer(1024)
        buffer.feed(bytes(await stream.receive_some()))
        session = ConnectResponse.decode(buffer.take(1)[0]).sessionId
        assert [info.id for info in server.sessions()] == [session]

        await trio.sleep(3600)

        assert server.sessions() == []
        assert await stream.receive_some() == b""
        print(server.format_timeline())

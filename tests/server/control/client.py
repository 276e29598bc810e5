"""Clients of the control API: without HTTP, and with it."""

from __future__ import annotations

import json
from typing import Any

import h11
import trio
import trio.testing

from pyzk.server.control.api import PREFIX, answer
from pyzk.server.control.control import Control
from pyzk.server.net.http import Request
from pyzk.server.testing import Controls
from pyzk.server.testing.host import LocalServer
from tests.support.wire import StreamClient


class Api:
    """Requests as a client would send them."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.control = Control(server)

    async def ask(self, method: str, path: str, /, **fields: Any) -> tuple[int, Any]:
        headers = {"content-type": "application/json"} if method in ("POST", "PUT") else {}
        body = json.dumps(fields).encode() if headers else b""
        response = await answer(self.control, Request(method, PREFIX + path, headers, body))
        if response.stream is not None:
            lines: list[bytes] = []

            async def send(data: bytes) -> None:
                lines.append(data)

            if "ndjson" in response.headers["content-type"]:  # others have no end
                await response.stream(send)
            return response.status, [json.loads(line) for line in b"".join(lines).splitlines()]
        if response.headers["content-type"].startswith("text/plain"):
            return response.status, response.body.decode()
        return response.status, json.loads(response.body)

    async def get(self, path: str) -> Any:
        status, answer = await self.ask("GET", path)
        assert status == 200, answer
        return answer

    async def post(self, path: str, /, **fields: Any) -> Any:
        status, answer = await self.ask("POST", path, **fields)
        assert status == 200, answer
        return answer

    async def refused(self, method: str, path: str, /, **fields: Any) -> tuple[int, str]:
        status, answer = await self.ask(method, path, **fields)
        assert status >= 400
        assert answer["status"] == status
        return status, answer["detail"]

    async def client(self) -> StreamClient:
        return await StreamClient(self.server.open_stream()).connect()


JSON = {"content-type": "application/json"}


async def ask(
    server: Controls,
    method: str,
    target: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    stream: trio.abc.Stream | None = None,
    pieces: int = 2**20,
) -> tuple[int, str]:
    """The status and the body of the answer.

    :param pieces: bytes that are sent at a time.
    """
    given = {"host": f"127.0.0.1:{server.port}", "content-length": str(len(body)), **(headers or {})}
    http = h11.Connection(h11.CLIENT)
    request = h11.Request(method=method, target=target, headers=list(given.items()))
    data = b"".join(http.send(event) or b"" for event in (request, h11.Data(data=body), h11.EndOfMessage()))
    own = stream is None
    stream = stream or await trio.open_tcp_stream("127.0.0.1", server.port)
    try:
        for start in range(0, len(data), pieces):
            await stream.send_all(data[start : start + pieces])
            await trio.testing.wait_all_tasks_blocked()
        status, answer = 0, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(65536)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                answer += event.data
            else:
                return status, answer.decode()
    finally:
        if own:
            await trio.aclose_forcefully(stream)

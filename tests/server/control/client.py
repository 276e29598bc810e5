"""A client of the control API, without HTTP."""

from __future__ import annotations

import json
from typing import Any

from pyzk.server.control.api import PREFIX, Control
from pyzk.server.net.http import Request
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
        response = await self.control.answer(Request(method, PREFIX + path, headers, body))
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

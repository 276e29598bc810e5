"""The examples of docs/http.md, in their order, as curl would send them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import trio

from pyzk.protocol.constants import CreateMode
from pyzk.server.control import serve_http
from pyzk.server.control.api import ROUTES, answer
from pyzk.server.control.control import Control
from pyzk.server.control.guard import check_control, check_page
from pyzk.server.control.servers import Servers
from pyzk.server.net.http import Request
from pyzk.server.testing import open_ensemble
from tests.server.control.client import Api
from tests.support.wire import StreamClient

PAGE = Path(__file__).parents[3] / "docs" / "http.md"


def requests() -> Iterator[Request]:
    curl = argparse.ArgumentParser()
    curl.add_argument("--json")
    curl.add_argument("-X", dest="method")
    curl.add_argument("-N", action="store_true")
    curl.add_argument("url")
    for line in PAGE.read_text().splitlines():
        if line.startswith("curl "):
            given = curl.parse_args(shlex.split(line)[1:])
            url = urlsplit(given.url)
            headers = {"host": url.netloc, "user-agent": "curl/8.5.0", "accept": "*/*"}
            if given.json is not None:
                headers["content-type"] = "application/json"
            method = given.method or ("GET" if given.json is None else "POST")
            target = f"{url.path}?{url.query}" if url.query else url.path
            yield Request(method, target, headers, (given.json or "").encode())


async def test_the_examples(api: Api) -> None:
    async with trio.open_nursery() as nursery:
        api.control.servers = Servers(nursery, serve_http)
        found = list(requests())
        for request in found:
            if "/ensemble" in request.path:
                continue
            check_page(request, ["127.0.0.1"])
            check_control(request, ["127.0.0.1"], None)
            with trio.fail_after(60):
                response = await answer(api.control, request)
            assert response.status == 200, (request, response.body)
            if request.path.endswith("/names"):
                client = await api.client()
                await client.create("/locks")
                await client.create("/locks/1", flags=CreateMode.EPHEMERAL)
        nursery.cancel_scope.cancel()
    groups = {route.path.split("/")[1] for route in ROUTES} - {"connections"}
    assert {request.path.split("/")[3] for request in found if "/api/" in request.path} == groups


async def test_the_examples_with_an_ensemble() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        worker = await StreamClient(ensemble[1].open_stream()).connect()
        ensemble[1].name_session("worker", worker.session_id)
        control = Control(ensemble[2])
        found = [request for request in requests() if "/ensemble" in request.path]
        for request in found:
            response = await answer(control, request)
            assert response.status == 200, (request, response.body)
        assert {request.path.split("/")[-1] for request in found} >= {"ensemble", "move", "trace"}
        assert ensemble.troubles(1) == []
        assert not ensemble[1].sessions()[0].connected

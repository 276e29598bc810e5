"""The files of the page, as they are served."""

from __future__ import annotations

import re
from pathlib import Path

import h11
import pytest
import trio

from pyzk.server import open_server
from pyzk.server.control import files
from pyzk.server.control.routes import ApiError
from pyzk.server.net.http import Request
from pyzk.server.testing.host import LocalServer
from tests.server.control.client import ask

FOLDER = Path(files.__file__).parent / "page"
NAMES = sorted(path.name for path in FOLDER.iterdir())
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "sec-fetch-site": "none"}


async def headers_of(server: LocalServer, target: str, accept: str) -> dict[str, str]:
    http = h11.Connection(h11.CLIENT)
    headers = [("host", f"127.0.0.1:{server.port}"), ("accept", accept)]
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(http.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
        await stream.send_all(http.send(h11.EndOfMessage()) or b"")
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(65536)))
        assert isinstance(event, h11.Response)
        return {name.decode(): value.decode() for name, value in event.headers}


async def test_browsers_get_the_page_and_programs_what_they_got() -> None:
    async with open_server() as server:
        status, page = await ask(server, "GET", "/", BROWSER)
        assert (status, page.startswith("<!doctype html>")) == (200, True)
        for headers in ({}, {"accept": "*/*"}, {"accept": "text/plain"}):
            status, text = await ask(server, "GET", "/", headers)
            assert (status, "control API" in text) == (200, True)
        assert (await ask(server, "POST", "/", BROWSER))[0] == 405
        assert (await ask(server, "GET", "/page/main.js"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/../files.py",
        "/page/%2e%2e/files.py",
        "/page/nothing.js",
        "/page/files.py",
        "/page//etc/passwd",
        "/page/main.js/",
        "/page/main.js\x00",
        "/page/MAIN.JS",
        "/page/index.html%00",
    ],
)
def test_no_other_file_is_served(path: str) -> None:
    with pytest.raises(ApiError) as refusal:
        files.answer(Request("GET", path))
    assert refusal.value.status == 404


async def test_a_browser_runs_nothing_but_the_files() -> None:
    async with open_server() as server:
        headers = await headers_of(server, "/", "text/html")
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        for target in ("/", "/page/main.js", "/api/v1/children", "/commands/ruok", "/nothing"):
            headers = await headers_of(server, target, "text/html")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["referrer-policy"] == "same-origin"
            assert "access-control-allow-origin" not in headers


def test_the_page_is_small_and_whole() -> None:
    assert sum((FOLDER / name).stat().st_size for name in NAMES) <= 130_000
    for name in NAMES:
        response = files.answer(Request("GET", f"/page/{name}"))
        assert response.body == (FOLDER / name).read_bytes(), "each file has a name that is served"
        text = response.body.decode()
        for found in re.findall(
            r"""(?:from|import\() ?["'`](\./[a-z$].*?)["'`]|(?:src|href)="(/.*?)\"""", text
        ):
            target = "".join(found).removeprefix("./").removeprefix("/page/")
            assert target in (*NAMES, "${id}.js"), (name, target)


def test_it_refers_to_no_other_site_and_writes_no_markup() -> None:
    for name in NAMES:
        text = (FOLDER / name).read_text()
        found = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert found <= {"http://www.w3.org/2000/svg"}, name
        if name.endswith(".js"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(", text
            )
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", text)


async def test_a_server_for_other_machines_shows_the_page_and_asks_for_the_token() -> None:
    async with open_server(host="0.0.0.0", control_token="secret") as server:
        assert (await ask(server, "GET", "/", BROWSER))[0] == 200
        assert (await ask(server, "GET", "/api/v1/children", BROWSER))[0] == 401
        given = {**BROWSER, "authorization": "Bearer secret"}
        assert (await ask(server, "GET", "/api/v1/children", given))[0] == 200
    async with open_server(host="0.0.0.0") as server:
        assert (await ask(server, "GET", "/", BROWSER))[0] == 200
        assert (await ask(server, "GET", "/api/v1/live", BROWSER))[0] == 403

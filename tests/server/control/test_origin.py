"""By whom a control was asked for: each line about one that came over HTTP says so, and no other line."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL, CreateRequest, ExistsRequest
from pyzk.server import open_server
from pyzk.server.control.api import ROUTES
from tests.server.control.client import Api
from tests.support.wire import ClosedError, StreamClient

MARK = "(over HTTP)"
KINDS = ("control", "fault", "hold")
CREATE = OpCode.CREATE, CreateRequest("/b", b"", OPEN_ACL, 0)

CONTROLS: dict[str, tuple[dict[str, Any], str]] = {
    "POST /server/restart": ({"keep_data": True}, "restart, data kept"),
    "POST /server/pause": ({}, "pause"),
    "POST /server/resume": ({}, "resume"),
    "POST /connections/refuse": ({}, "refuse connections"),
    "POST /connections/accept": ({}, "accept connections"),
    "POST /connections/disconnect": ({}, "disconnect all"),
    "POST /clock/advance": ({"seconds": 1}, "clock advanced by 1 s"),
    "POST /clock/freeze": ({}, "clock frozen"),
    "POST /clock/unfreeze": ({}, "clock running"),
    "POST /sessions/worker/expire": ({}, "expire"),
    "POST /sessions/worker/disconnect": ({}, "disconnect"),
    "POST /sessions/worker/ghost": ({}, "ghost"),
    "POST /sessions/worker/pause": ({}, "pause"),
    "POST /sessions/worker/resume": ({}, "resume"),
    "POST /holds": ({}, "hold "),
    "POST /endpoints": ({"name": "worker-2"}, "endpoint worker-2 at 127.0.0.1:"),
    "POST /endpoints/worker-1/cut": ({}, "endpoint worker-1 is cut"),
    "POST /endpoints/worker-1/pause": ({}, "endpoint worker-1 pauses"),
    "POST /endpoints/worker-1/delay": ({"seconds": 2}, "endpoint worker-1 is slow by 2 s"),
    "POST /endpoints/worker-1/resume": ({}, "endpoint worker-1 resumes"),
    "POST /held/release": ({}, "release everything"),
    "POST /chaos": ({"seed": 7, "expire": 0.1}, "chaos 7: expire=0.1"),
    "POST /tree": ({"znodes": {"/a": ""}}, "load [/a]"),
    "POST /znode": ({"path": "/new", "data": ""}, "create /new"),
    "PUT /znode": ({"path": "/there", "data": ""}, "set_data /there"),
    "DELETE /znode?path=/there": ({}, "delete /there"),
    "POST /import": ({"path": "/", "lines": ['{"path": "/x", "data": ""}']}, "import 1 znodes"),
    "POST /snapshots/1/restore": ({}, "restore"),
    "DELETE /holds": ({}, "stop hold"),
    "DELETE /holds/1": ({}, "stop hold 1"),
}
"""By request: its body, and what the line begins with."""
LATER = {"POST /faults", "POST /held/lose"}
"""What these do has a line, in the tests below."""
SILENT = {
    *("DELETE /faults/{fault}", "DELETE /chaos/{chaos}", "POST /names", "POST /wait"),
    *("POST /tree/diff", "POST /snapshots", "DELETE /snapshots/{snapshot}"),
    *("POST /servers", "DELETE /servers/{server}"),
    "POST /reset",  # of the history, too
    "POST /notes",  # the words of whoever writes them
}


NAMES = {
    "worker-1": "{endpoint}",
    "worker": "{session}",
    "snapshots/1": "snapshots/{snapshot}",
    "/holds/1": "/holds/{hold}",
}


def asked(route: str) -> str:
    for given, name in NAMES.items():
        route = route.replace(given, name)
    return route.partition("?")[0]


def test_no_route_is_left_out() -> None:
    routes = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"}
    of_one_server = {route for route in routes if "/ensemble/" not in route}
    assert {asked(route) for route in CONTROLS} | LATER | SILENT == of_one_server


def lines(api: Api) -> list[str]:
    return [entry.text for entry in api.server.history(kind=KINDS)]


@pytest.mark.parametrize("route", CONTROLS)
async def test_a_control_says_that_it_came_over_http(api: Api, route: str) -> None:
    body, begin = CONTROLS[route]
    client = await api.client()
    api.server.load({"/there": b""})
    api.server.name_session("worker", client.session_id)
    if "/endpoints/" in route:
        api.server.endpoint("worker-1")
    if "/snapshots/1" in route:
        assert (await api.post("/snapshots"))["snapshot"] == 1
    if route.startswith("DELETE /holds"):
        assert api.server.hold() == 1
    before = len(lines(api))
    status, answer = await api.ask(*route.split(" "), **body)
    assert status == 200, answer
    (line,) = lines(api)[before:]
    assert line.startswith(begin)
    assert line.endswith(MARK)
    assert not [line for line in lines(api)[:before] if MARK in line]


async def spoiled(client: StreamClient) -> None:
    with pytest.raises(ClosedError):
        await client.create("/b")


async def test_what_faults_and_chaos_do_says_who_asked_for_it(api: Api) -> None:
    await api.post("/faults", op="create", path="/b")
    await spoiled(await api.client())
    with api.server.fault("create", "/b"):
        await spoiled(await api.client())
    chaos = await api.post("/chaos", seed=1, disconnect=1, op="create")
    await spoiled(await api.client())
    await api.ask("DELETE", f"/chaos/{chaos['chaos']}")
    with api.server.chaos(2, disconnect=1, op="create"):
        await spoiled(await api.client())
    lost = "NOT APPLIED: the request is lost, the connection cut"
    assert lines(api) == [
        f"{lost} {MARK}",
        lost,
        f"chaos 1: disconnect=1 {MARK}",
        f"chaos 1: {lost} {MARK}",
        "chaos 2: disconnect=1",
        f"chaos 2: {lost}",
    ]
    ends = [entry.text for entry in api.server.history(kind="connection") if entry.facts.step == "over"]
    assert [end.removeprefix("disconnected: a fault") for end in ends] == [
        f" {MARK}",
        "",
        f" of chaos 1 {MARK}",
        " of chaos 2",
    ]
    assert "disconnected:" not in api.server.format_timeline(), "the line of the fault says it"


async def test_chaos_in_handshakes_and_events_says_so_too(api: Api) -> None:
    client = await api.client()
    await client.send(OpCode.EXISTS, ExistsRequest("/b", True))
    await client.next()
    chaos = await api.post("/chaos", seed=1, refuse=1, delay_event=1)
    api.server.load({"/b": b""})
    with pytest.raises(ClosedError):
        await api.client()
    await api.ask("DELETE", f"/chaos/{chaos['chaos']}")
    begun, loaded, event, refused = lines(api)
    assert (begun.endswith(MARK), loaded) == (True, "load [/b]")
    assert event.startswith("chaos 1: the event comes in")
    assert refused.startswith("chaos 1: a handshake is lost")
    assert event.endswith(MARK)
    assert refused.endswith(MARK)


async def test_what_is_held_and_lost_says_who_asked_for_it(api: Api) -> None:
    client, other = await api.client(), await api.client()
    await api.post("/holds", op="create", session=f"0x{client.session_id:x}")
    api.server.hold(op="create", session=other.session_id)
    await client.send(*CREATE)
    await other.send(*CREATE)
    first, second = api.server.held()
    api.server.lose(first.number)
    await api.post("/held/lose", messages=[second.number])
    assert lines(api)[2:] == [
        f"HELD as {first.number}: request {first.text} {MARK}",
        f"HELD as {second.number}: request {second.text}",
        f"LOST {first.number}: request {first.text}",
        f"LOST {second.number}: request {second.text} {MARK}",
    ]


async def test_a_connection_that_is_closed_says_who_asked_for_it(api: Api) -> None:
    first, second, _ = [await api.client() for _ in range(3)]
    api.server.disconnect(first.session_id)
    await api.post(f"/sessions/0x{second.session_id:x}/disconnect")
    await api.post("/connections/disconnect")
    ends = [entry.text for entry in api.server.history(kind="connection") if entry.facts.step == "over"]
    assert ends == [
        "disconnected: a control has disconnected it",
        f"disconnected: a control has disconnected it {MARK}",
        f"disconnected: a control has disconnected everybody {MARK}",
    ]


async def test_refused_connections_say_who_asked_for_it(api: Api) -> None:
    await api.post("/connections/refuse")
    await api.post("/connections/accept")
    assert lines(api) == [f"refuse connections {MARK}", f"accept connections {MARK}"]


async def test_notes_stay_as_they_are(api: Api) -> None:
    await api.post("/notes", text="here")
    assert [entry.text for entry in api.server.history(kind="note")] == ["here"]


async def test_what_is_armed_says_who_asked_for_it(api: Api) -> None:
    await api.post("/faults", op="create")
    begun = await api.post("/chaos", seed=1, expire=0.5)
    await api.post("/holds", op="create")
    with api.server.fault("delete", required=False), api.server.chaos(2, expire=0.5):
        api.server.hold(op="delete")
        found = await api.get("/armed")
    assert [each["by"] for each in found["faults"]] == ["over HTTP"]
    text = "<Chaos seed=1 expire=0.5: 0 injected>"
    assert found["chaos"] == [{"chaos": begun["chaos"], "text": text, "by": "over HTTP"}]
    assert [each["by"] for each in found["others"]] == ["by the test", "by the test"]
    assert [each["by"] for each in found["holds"]] == ["over HTTP", "by the test"]


async def test_what_a_hostile_server_does_is_its_own() -> None:
    async with open_server(clock="frozen", hostile=7) as server:
        api = Api(server)
        await api.post("/reset")
        found = (await api.get("/armed"))["others"]
        assert [(each["by"], each["text"].split()[0]) for each in found] == [("by the server", "<Misfortune")]

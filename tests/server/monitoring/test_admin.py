"""What the admin server answers, request by request (operator-surface.md section 2)."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import pytest

from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.records import ACL, Id
from pyzk.server.monitoring import commands
from pyzk.server.monitoring.admin import answer
from pyzk.server.net.http import Request

from ...support.requests import acl, digest_id
from ...support.world import START, World
from .asking import OPERATORS, ask, operated


def command(world: World, name: str) -> dict[str, Any]:
    """The answer to a command that succeeds, without what every answer has."""
    response = ask(world, f"/commands/{name}")
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    data: dict[str, Any] = json.loads(response.body)
    assert data.pop("error") is None
    assert commands.BY_NAME[data.pop("command")].names.split()[0]
    return data


# --- URLs and methods (section 2.2) ---------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/commands", "/commands/", "/commands?x", "http://host:1/commands/"])
def test_the_list_of_commands(target: str) -> None:
    response = ask(World(), target)
    assert (response.status, response.headers) == (200, {})
    lines = response.body.decode().splitlines()
    assert lines[0] == '<a href="/commands/configuration">configuration</a>'
    assert lines[1] == "<br/>"
    assert len(lines) == 2 * 29
    assert lines[::2] == sorted(lines[::2])


@pytest.mark.parametrize("target", ["/", "/commandsx", "/metrics", "*", "http://host", ""])
def test_another_url_is_not_found(target: str) -> None:
    assert ask(World(), target).status == 404


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("HEAD", "/commands/ruok", 200),
        ("HEAD", "/commands", 200),
        ("POST", "/commands", 200),
        ("POST", "/commands/nonsense", 200),
        ("POST", "/commands/ruok", 500),
        ("PUT", "/commands/ruok", 405),
        ("DELETE", "/commands", 405),
        ("OPTIONS", "/commands", 405),
        ("TRACE", "/commands/ruok", 403),
    ],
)
def test_methods(method: str, target: str, status: int) -> None:
    response = ask(World(), target, method)
    assert response.status == status
    assert (response.headers.get("allow") == "GET, HEAD, POST") == (status == 405)


def test_the_format() -> None:
    world = World()
    world.connect().exists("/a", watch=True)
    assert ask(world, "/commands/wchs").body.decode() == (
        '{"num_connections": 1, "num_paths": 1, "num_total_watches": 1, '
        '"command": "watch_summary", "error": null}'
    )


def test_whatever_a_command_finds_becomes_json(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    found = {"a": [{"b": [1, 2]}, {}], "c": [], "d": {"e": 1e-4, "f": float("nan")}, "é": iter("xy")}
    monkeypatch.setattr(type(world.service), "commands", {"ruok": lambda ask: found})
    assert json.loads(ask(world, "/commands/ruok").body) == {
        "a": [{"b": [1, 2]}, {}],
        "c": [],
        "d": {"e": 1e-4, "f": "NaN"},
        "é": ["x", "y"],
        "command": "ruok",
        "error": None,
    }


@pytest.mark.parametrize("name", ["nonsense", "ruok/", "RUOK", "a/b", "caf%C3%A9"])
def test_an_unknown_command_is_200_with_an_error(name: str) -> None:
    response = ask(World(), f"/commands/{name}")
    assert response.status == 200
    name = name.replace("%C3%A9", "é")
    assert json.loads(response.body) == {"command": name, "error": f"Unknown command: {name}"}


def test_an_error_of_the_commands_own_comes_first() -> None:
    response = ask(World(), "/commands/lead")
    assert response.status == 200
    assert list(json.loads(response.body).items()) == [
        ("error", "server is not initialized"),
        ("command", "leader"),
    ]


def test_another_command_url() -> None:
    world = World(admin_url="/zk/")
    assert ask(world, "/zk/ruok").status == 200
    assert ask(world, "/commands/ruok").status == 404
    assert b'"/zk/ruok"' in ask(world, "/zk").body


@pytest.mark.parametrize("primary", sorted(c.names.split()[0] for c in commands.COMMANDS if not c.guarded))
def test_every_command_is_answered_under_all_its_names(primary: str) -> None:
    world = World()
    world.connect().create("/a", flags=1)
    for name in commands.BY_NAME[primary].names.split():
        response = ask(world, f"/commands/{name}")
        assert response.status == 200
        assert json.loads(response.body)["command"] == primary


# --- what they say (section 2.4) ------------------------------------------------------------------------


def test_configuration() -> None:
    world = World(tick_time=100, port=4711)
    assert command(world, "conf") == {
        "client_port": 4711,
        "data_dir": "",
        "data_log_dir": "",
        "tick_time": 100,
        "max_client_cnxns": 60,
        "min_session_timeout": 200,
        "max_session_timeout": 2000,
        "server_id": 0,
        "client_port_listen_backlog": -1,
    }


def test_no_secret_is_shown() -> None:
    text = "tickTime=100\nDigestAuthenticationProvider.superDigest=super:s3cret\n"
    world = World(
        config_text=text, super_digest="super:s3cret", extra={"my.password": "s3cret", "made.up": "x"}
    )
    shown = command(world, "icfg")["initial_configuration"]
    assert shown == "tickTime=100\nDigestAuthenticationProvider.superDigest=***\n"
    properties = command(world, "sysp")
    assert list(properties) == sorted(properties)
    assert properties["made.up"] == "x"
    assert properties["my.password"] == "***"
    assert properties["4lw.commands.whitelist"] == "*"
    assert properties["skipACL"] == "false"
    for name in {*commands.BY_NAME} - {"shed", "restore", "snapshot"}:
        assert b"s3cret" not in ask(world, f"/commands/{name}").body


def test_connections() -> None:
    world = World()
    peer = world.connect()
    peer.create("/a")
    world.service.accept(("::1", 5), world.now, lambda: None, secure=True)
    found = command(world, "cons")
    (plain,), (secure,) = found["connections"], found["secure_connections"]
    assert plain == {
        "remote_socket_address": "127.0.0.1:40000",
        "interest_ops": 1,
        "outstanding_requests": 0,
        "packets_received": 2,
        "packets_sent": 2,
        "session_id": peer.session_id,
        "last_operation": "CREA",
        "established": world.epoch_ms,
        "session_timeout": 10_000,
        "last_cxid": 1,
        "last_zxid": 2,
        "last_response_time": int(START * 1000),
        "last_latency": 0,
        "min_latency": 0,
        "avg_latency": 0,
        "max_latency": 0,
    }
    assert secure["remote_socket_address"] == "[0:0:0:0:0:0:0:1]:5"
    assert (secure["session_id"], secure["session_timeout"]) == (0, 10_000)
    assert (secure["last_operation"], secure["last_cxid"]) == (None, 0)
    brief = command(world, "stat")
    assert list(brief["connections"][0]) == list(plain)[:5]
    assert len(brief["secure_connections"]) == 1


def test_a_closed_connection_is_no_longer_shown() -> None:
    world = World()
    connection = world.service.accept(("::1", 5), world.now, lambda: None, secure=True)
    assert connection is not None
    connection.abort("it has gone away")
    assert command(world, "cons") == {"connections": [], "secure_connections": []}
    assert not world.service.secure


def test_server_stats() -> None:
    world = World()
    world.connect().create("/a")
    world.pass_time(1.5)
    found = command(world, "srvr")
    assert found["version"].startswith("3.9")
    assert found["node_count"] == 6
    stats = found["server_stats"]
    assert (stats["last_processed_zxid"], stats["uptime"], stats["avg_latency"]) == (2, 1500, 0.0)
    assert stats["server_state"] == "standalone"
    assert stats["client_response_stats"] == found["client_response"]
    command(world, "srst")
    assert command(world, "srvr")["server_stats"]["packets_received"] == 0


def test_monitor_has_the_keys_of_mntr_without_their_prefix() -> None:
    found = command(World(), "mntr")
    assert list(found)[:2] == ["version", "server_state"]
    assert found["znode_count"] == 5
    assert found["avg_latency"] == 0.0


def test_dump() -> None:
    world = World()
    peer = world.connect()
    peer.create("/e", flags=1)
    found = command(world, "dump")
    ((expiry, sessions),) = found["expiry_time_to_session_ids"].items()
    assert int(expiry) > START * 1000
    assert sessions == [peer.session_id]
    assert found["session_id_to_ephemeral_paths"] == {str(peer.session_id): ["/e"]}


def test_watches_show_the_data_registry_only() -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.add_watch("/r", AddWatchMode.PERSISTENT_RECURSIVE)
    peer.exists("/a", watch=True)
    other.exists("/a", watch=True)
    other.children("/", watch=True)
    one, two = peer.session_id, other.session_id
    assert command(world, "wchc") == {
        "session_id_to_watched_paths": {str(one): ["/r", "/a"], str(two): ["/a"]}
    }
    assert command(world, "wchp") == {"path_to_session_ids": {"/r": [one], "/a": [one, two]}}
    assert command(world, "wchs") == {"num_connections": 2, "num_paths": 2, "num_total_watches": 3}


def test_the_trace_mask() -> None:
    world = World()
    assert command(world, "gtmk") == {"tracemask": 306}
    assert command(world, "stmk?traceMask=-7&traceMask=1") == {"tracemask": -7}
    assert command(world, "gtmk") == {"tracemask": -7}


@pytest.mark.parametrize("value", ["", "x", "1_0", "%201", "99999999999999999999", "9223372036854775808"])
def test_a_trace_mask_that_is_no_long(value: str) -> None:
    world = World()
    error = "setTraceMask requires long traceMask argument"
    assert json.loads(ask(world, "/commands/stmk").body)["error"] == error
    assert json.loads(ask(world, f"/commands/stmk?traceMask={value}").body)["error"].startswith(
        f"{error}, got"
    )
    assert world.service.trace_mask == 306


def test_connection_stats_can_be_reset() -> None:
    world = World()
    world.connect().ping()
    command(world, "crst")
    assert command(world, "cons")["connections"][0]["packets_received"] == 0


# --- who may do what (section 2.3) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "status", "error"),
    [
        (None, 401, "Auth info is missing for the command"),
        ("", 401, "Not authenticated"),
        ("nonsense a:b", 401, "Not authenticated"),
        ("digest", 401, "Not authenticated"),
        ("digest a:b c", 401, "Not authenticated"),
        ("x509", 401, "Not authenticated"),
        ("ip", 200, None),
        ("digest root:test", 200, None),
        ("digest any:body", 403, "Not authorized"),
    ],
)
def test_authentication(auth: str | None, status: int, error: str | None) -> None:
    world = World()
    world.connect().set_acl("/", [*OPERATORS, acl(31, "digest", digest_id("root:test"))])
    response = ask(world, "/commands/shed", "POST", b'{"percentage": 0}', auth)
    assert response.status == status
    data = json.loads(response.body)
    assert (data["error"], data["command"]) == (error, "shed" if error else "shed_connections")


@pytest.mark.parametrize("auth", ["ip", "digest any:body"])
@pytest.mark.parametrize("settings", [{}, {"skip_acl": True}])
def test_a_root_that_is_open_to_everybody_makes_nobody_an_operator(
    auth: str, settings: dict[str, Any]
) -> None:
    world = World(super_digest=digest_id("super:test"), **settings)
    body = b'{"percentage": 0}'
    assert ask(world, "/commands/shed", "POST", body, auth).status == 403
    assert ask(world, "/commands/shed", "POST", body, "digest super:test").status == 200


def test_every_single_permission_on_the_root_is_needed() -> None:
    world = World()
    peer = world.connect()
    for perms, status in ((30, 403), (31, 200)):
        peer.set_acl("/", [ACL(31, Id("ip", "10.0.0.1")), ACL(perms, Id("ip", "127.0.0.1"))])
        response = ask(world, "/commands/shed", "POST", b'{"percentage": 0}', "ip")
        assert response.status == status
    assert (
        json.loads(ask(world, "/commands/shed", "POST", b"", "digest a:b").body)["error"] == "Not authorized"
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "Missing required field: percentage"),
        (b"[1]", "Missing required field: percentage"),
        (b'{"percent": 1}', "Missing required field: percentage"),
        (b'{"percentage": 101}', "Percentage must be between 0 and 100"),
        (b'{"percentage": -1}', "Percentage must be between 0 and 100"),
        (b'{"percentage": "all"}', "Percentage must be between 0 and 100"),
        (b'{"percentage": NaN}', "Percentage must be between 0 and 100"),
        (b"{", "Invalid JSON or failed to read request body: "),
        (b"\xff", "Invalid JSON or failed to read request body: "),
        (b"[" * 60_000, "Invalid JSON or failed to read request body: "),
        (b"1" * 60_000, "Invalid JSON or failed to read request body: "),
    ],
)
def test_connections_are_not_shed_for_nonsense(body: bytes, error: str) -> None:
    world = operated()
    world.connect()
    response = ask(world, "/commands/shed", "POST", body, "ip")
    assert response.status == 400
    assert json.loads(response.body)["error"].startswith(error)
    assert len(world.service.connections) == 1


@pytest.mark.parametrize(("percentage", "left"), [(0, 4), (100, 0), (50, 2)])
def test_connections_are_shed(percentage: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = operated()
    for _ in range(4):
        world.connect()
    draws = iter([0.1, 0.6, 0.4, 0.9])
    monkeypatch.setattr(random, "random", lambda: next(draws))
    response = ask(world, "/commands/shed", "POST", b'{"percentage": %d}' % percentage, "ip")
    assert json.loads(response.body) == {
        "connections_shed": 4 - left,
        "percentage_requested": percentage,
        "command": "shed_connections",
        "error": None,
    }
    assert len(world.service.connections) == left
    assert len(world.engine.sessions) == 4  # their clients may come back to them


# --- large state -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["watches", "watches_by_path", "watch_summary", "dump", "connections", "stats", "ruok"]
)
def test_a_long_answer_is_made_piece_by_piece(name: str) -> None:
    world = World(max_client_connections=0)
    for i in range(400):
        client = world.connect()
        client.create(f"/e{i}", flags=1)
        client.exists(f"/{'x' * 100}{i}", watch=True)
        client.exists("/common", watch=True)
    response = answer(Request("GET", f"/commands/{name}"), world.service, world.now)
    first = next(response.rest, None)
    assert (first is None) == (name == "ruok")
    client.create("/common")  # whatever goes and comes meanwhile
    next(iter(world.service.connections)).abort("no reason")
    world.connect().exists("/late", watch=True)
    pieces = [response.body, first or b"", *response.rest]
    assert all(len(piece) < 100_000 for piece in pieces)
    found = json.loads(b"".join(pieces))
    assert commands.BY_NAME[name].names.split()[0] == found["command"]
    assert found["error"] is None


# --- web pages -------------------------------------------------------------------------------------------

CURL = {"host": "127.0.0.1:8080", "user-agent": "curl/8.5.0", "accept": "*/*"}
BROWSER = {**CURL, "user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}
READ, CHANGE = "/commands/cons", "/commands/crst"


@pytest.mark.parametrize(
    ("headers", "read", "change"),
    [
        ({}, 200, 200),
        (CURL, 200, 200),
        (CURL | {"host": "LOCALHOST"}, 200, 200),
        (CURL | {"host": "localhost.:8080"}, 200, 200),
        (CURL | {"host": "[::1]:8080"}, 200, 200),
        (CURL | {"host": "zk1.example:8080"}, 200, 200),  # admin.serverAddress
        (CURL | {"host": "zk2.example:8080"}, 200, 200),  # admin.allowedHosts
        (CURL | {"host": socket.gethostname()}, 200, 200),
        (CURL | {"host": "rebound.example:8080"}, 403, 403),
        (CURL | {"host": "127.0.0.1.rebound.example"}, 403, 403),
        (CURL | {"host": "["}, 403, 403),
        (BROWSER | {"sec-fetch-site": "none"}, 200, 200),  # its address was typed
        (BROWSER | {"sec-fetch-site": "same-origin"}, 200, 200),  # a link of our own list
        (BROWSER | {"sec-fetch-site": "same-site"}, 403, 403),
        (BROWSER | {"sec-fetch-site": "cross-site"}, 403, 403),
        (BROWSER | {"referer": "http://127.0.0.1:8080/commands"}, 200, 200),
        (BROWSER | {"referer": "http://127.0.0.1:3000/"}, 403, 403),
        (BROWSER | {"origin": "http://127.0.0.1:8080"}, 200, 200),
        (BROWSER | {"origin": "http://127.0.0.1"}, 403, 403),
        (BROWSER | {"origin": "null"}, 403, 403),
        (BROWSER | {"origin": "http://["}, 403, 403),
        (BROWSER, 200, 403),  # an <img> that sends no referrer
    ],
)
def test_no_web_page_reads_or_changes_anything(headers: dict[str, str], read: int, change: int) -> None:
    world = World(admin_host="zk1.example", admin_allowed_hosts=frozenset(["ZK2.example"]))
    client = world.connect()
    client.ping()
    for target, status in ((READ, read), (CHANGE, change)):
        assert answer(Request("GET", target, headers), world.service, world.now).status == status
    assert (client.connection.stats.received == 0) == (change == 200)


def test_any_name_may_be_allowed() -> None:
    world = World(admin_allowed_hosts=frozenset("*"))
    assert answer(Request("GET", READ, {"host": "any.example"}), world.service, world.now).status == 200


@pytest.mark.parametrize("target", ["/commands", "/commands/nonsense", "/commands/shed"])
def test_what_is_refused_to_a_web_page_says_nothing(target: str, caplog: pytest.LogCaptureFixture) -> None:
    host = "rebound.example" + "x" * 10_000
    response = answer(Request("POST", target, {"host": host}), World().service, START)
    assert (response.status, response.body) == (403, b"403 Forbidden\n")
    [record] = caplog.records
    assert "admin.allowedHosts adds names of this machine" in record.message
    assert len(record.message) < 400

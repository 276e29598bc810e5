"""A subtree as a file and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyzk.protocol import dump
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.records import ACL, Id
from pyzk.server import open_server
from pyzk.server.control.views import tree_export, turns
from pyzk.server.testing import open_ensemble
from pyzk.server.testing.tree_io import Node
from tests.server.control.client import Api

NAMES = ("plain", 'quote"\\', "line 2", "é\u202e<script>", "a b&c=d%2F", "__proto__")
VALUES: tuple[bytes | None, ...] = (
    b"",
    None,
    b"text\n{}",
    bytes(range(256)),
    "\u2028é".encode(),
    b"</script>",
)


async def exported(api: Api, path: str) -> list[str]:
    status, rows = await api.ask("GET", f"/export?path={path}")
    assert status == 200, rows
    return [json.dumps(row) for row in rows]


async def imported(api: Api, path: str, lines: list[str], **fields: Any) -> Any:
    return await api.ask("POST", "/import", path=path, lines=lines, **fields)


async def test_what_was_exported_is_imported_elsewhere() -> None:
    acl = (ACL(31, Id("digest", "bob:aGFzaA==")), ACL(1, Id("world", "anyone")))
    async with open_server(clock="frozen", extended_types=True) as server:
        api = Api(server)
        nodes = {f"/a/{name}": Node(data=value) for name, value in zip(NAMES, VALUES, strict=True)}
        nodes |= {"/a/deep/er/still": Node(acl=acl), "/a/box": Node(kind="container")}
        nodes |= {"/a/short": Node(kind="ttl", ttl=1500)}
        server.load(nodes)
        lines = await exported(api, "/a")
        assert next(dump.node_of(line).path for line in lines) == "/"
        answer = await imported(api, "/b/c", lines)
        assert answer == (200, {"written": len(nodes) + 3, "same": 0, "left_out": 0})
        before, after = server.dump("/a", form="nodes"), server.dump("/b/c", form="nodes")
        assert {f"/b/c{path[2:]}": node for path, node in before.items()} == after
        assert await imported(api, "/b/c", lines) == (200, {"written": 0, "same": len(lines), "left_out": 0})


async def test_the_whole_tree_without_what_belongs_to_others(api: Api) -> None:
    client = await api.client()
    await client.create("/a", b"1")
    await client.create("/a/mine", flags=CreateMode.EPHEMERAL)
    lines = await exported(api, "/")
    assert [dump.node_of(line).path for line in lines] == ["/", "/a", "/a/mine"]
    answer = await imported(api, "/", [*lines, '{"path": "/zookeeper/x", "data": ""}'])
    assert answer == (200, {"written": 0, "same": 2, "left_out": 2})
    answer = await imported(api, "/copy", lines)
    assert answer == (200, {"written": 2, "same": 0, "left_out": 1})
    assert api.server.dump("/copy") == {"/copy": b"", "/copy/a": b"1"}


async def test_other_data_is_replaced_only_if_that_is_asked_for(api: Api) -> None:
    api.server.load({"/a": "old", "/b": ""})
    lines = ['{"path": "/a", "data": "new"}']
    status, problem = await imported(api, "/", lines)
    assert (status, problem["code"]) == (409, -110)
    assert "other data" in problem["detail"]
    assert api.server.dump("/a") == {"/a": b"old"}
    assert await imported(api, "/", lines, overwrite=True) == (200, {"written": 1, "same": 0, "left_out": 0})
    assert api.server.dump("/a") == {"/a": b"new"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "line 2"),
        ("[1]", "line 2"),
        ('{"path": "/x"}', "'data'"),
        ('{"data": ""}', "'path'"),
        ('{"path": "x", "data": ""}', "path"),
        ('{"path": "/a/../b", "data": ""}', "path"),
        ('{"path": "/x", "data": 7}', "data is text"),
        ('{"path": "/x", "hex": "zz"}', "hex"),
        ('{"path": "/x", "data": "", "kind": "best"}', "kind"),
        ('{"path": "/x", "data": "", "kind": "ttl", "ttl": -1}', "ttl"),
        ('{"path": "/x", "data": "", "acl": [{"scheme": "world"}]}', "'perms'"),
        ("[" * 50_000, "line 2"),
    ],
)
async def test_a_bad_line_writes_nothing(api: Api, line: str, said: str) -> None:
    status, problem = await imported(api, "/top", ['{"path": "/", "data": ""}', line])
    assert (status, said in problem["detail"]) == (400, True), problem
    assert "line 2" in problem["detail"]
    assert api.server.dump() == {}


async def test_what_the_server_refuses_is_said(api: Api) -> None:
    status, problem = await imported(api, "/", ['{"path": "/t", "data": "", "kind": "ttl", "ttl": 1}'])
    assert (status, "extended_types" in problem["detail"]) == (409, True)
    assert (await imported(api, "top", []))[0] == 409
    assert (await imported(api, "/", [7]))[0] == 400  # type: ignore[list-item]


async def test_an_export_is_bounded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.server.load({"/a": {str(n): "12345" for n in range(10)}})
    for name, bound in (("_MOST", 11), ("_LARGEST", 50)):
        monkeypatch.setattr(tree_export, name, bound)
        assert len(await exported(api, "/a")) == 11
        monkeypatch.setattr(tree_export, name, bound - 1)
        status, problem = await api.ask("GET", "/export?path=/a")
        assert (status, "pyzk dump" in problem["detail"]) == (409, True)
        monkeypatch.undo()
    assert (await api.ask("GET", "/export?path=/none"))[0] == 409


async def test_both_are_done_in_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.server.load({"/a": {f"{n:03d}": "" for n in range(200)}})
    pauses = 0

    async def pause(self: turns.Turns) -> None:
        nonlocal pauses
        pauses += 1

    monkeypatch.setattr(turns.Turns, "pause", pause)
    lines = await exported(api, "/a")
    assert pauses == 402
    await imported(api, "/b", lines)
    assert pauses == 402 + 201 + 5, "50 are written at once"


async def test_nobody_leads() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        api = Api(ensemble[1])  # type: ignore[arg-type]
        ensemble.kill(3)
        status, problem = await imported(api, "/", ['{"path": "/a", "data": ""}'])
        assert (status, "lead" in problem["detail"]) == (409, True)

"""The tree on the page: what it shows is what the server holds."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from pyzk.server.core.znode import Children, Znode
from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.tree_io import Node
from tests.support.browser import Page

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]
ROWS = ".row:not(.more) .name"
DATA = "pre.data"


def row(name: str) -> str:
    is_it = f"e.querySelector('.name')?.textContent === {json.dumps(name)}"
    return f"[...document.querySelectorAll('.row')].find(e => {is_it})"


def open_row(page: Page, name: str) -> None:
    page.until(row(name))
    page.evaluate(f"{row(name)}.querySelector('.twist').click()")


def test_it_opens_step_by_step(server: EmbeddedServer, visit: Visit) -> None:
    server.load({"app": {"config": {"db": "1", "log": "2"}, "items": {f"i{n}": "" for n in range(30)}}})
    page = visit()
    page.until(row("app"))
    assert page.texts(ROWS) == ["/", "app", "zookeeper"]
    open_row(page, "app")
    open_row(page, "items")
    page.until("document.querySelectorAll('.row').length === 35")
    assert page.texts(ROWS) == [
        "/",
        "app",
        "config",
        "items",
        *sorted(f"i{n}" for n in range(30)),
        "zookeeper",
    ]
    asked = [url.partition("?")[2] for url in page.requests if "/children?" in url]
    assert not any("config" in query for query in asked), "what is closed is not read"
    open_row(page, "items")
    page.until("document.querySelectorAll('.row').length === 5")


def test_what_clients_do_appears_by_itself(connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    client.create("/a")
    page = visit("#tree?path=/a")
    page.see("persistent", ".detail")
    client.create("/a/mine", b"hello", ephemeral=True)
    page.until(row("a") + "?.getAttribute('aria-expanded') === 'false'")
    open_row(page, "a")
    page.until(row("mine"))
    assert "ephemeral" in page.evaluate(f"{row('mine')}.textContent")
    page.evaluate(f"{row('mine')}.click()")
    page.see("hello", DATA)
    assert page.text(".detail .facts a[href^='#sessions']") == "worker"
    client.set("/a/mine", b"changed")
    page.until(row("mine") + "?.classList.contains('fresh')")
    page.see("changed", DATA)
    page.see("1", ".facts")
    client.delete("/a/mine")
    page.see("no such znode", ".detail")
    page.until(f"!{row('mine')}")


def test_data_in_every_form(server: EmbeddedServer, visit: Visit) -> None:
    packed = gzip.compress(b'{"inside": [1, 2]}')
    server.load(
        {
            "json": '{"big":12345678901234567890,"list":[],"text":"a, b: {c}"}',
            "text": "line 1\nline 2 \u202e é",
            "bytes": bytes(range(256)),
            "packed": packed,
            "null": None,
            "empty": "",
            "long": "x" * 200_000,
        }
    )
    page = visit("#tree?path=/json")
    page.see('"list": []', DATA)
    assert page.text(DATA) == '{\n  "big": 12345678901234567890,\n  "list": [],\n  "text": "a, b: {c}"\n}'
    page.click("Text")
    page.see('{"big":12345678901234567890,', DATA)
    page.click("Hex")
    page.see("00000000  7b 22 62 69", DATA)
    for path, shown in (
        ("text", "line 1\nline 2 \\u{202e} é"),
        ("bytes", "00000010  10 11 12 13 14 15 16 17  18 19"),
        ("packed", '"inside": ['),
    ):
        page.evaluate(f"location.hash = '#tree?path=/{path}'")
        page.see(shown, DATA)
    page.see(f"gzip, {len(gzip.decompress(packed))} B unpacked", ".detail")
    page.evaluate("location.hash = '#tree?path=/null'")
    page.see("null: it was created without data", ".detail")
    page.evaluate("location.hash = '#tree?path=/long'")
    page.see("The first 64.0 KiB of 195.3 KiB", ".detail")
    page.click("Show more", ".detail button")
    page.until("document.querySelector('pre.data').textContent.length === 200000")


def test_stat_and_acl_in_words(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    client.add_auth("digest", "bob:secret")
    acl = [make_digest_acl("bob", "secret", all=True), make_acl("world", "anyone", read=True, create=True)]
    client.create("/a", b"12", acl=acl)
    client.set("/a", b"34")
    page = visit("#tree?path=/a")
    page.see("Who has the password of bob may do everything", ".detail")
    page.see("Everybody may read and create", ".detail")
    _, stat = client.get("/a")
    shown = page.text(".detail")
    assert f"zxid 0x{stat.mzxid:x}" in shown
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(stat.mtime / 1000)) in shown
    assert "=" not in shown.split("bob:", 1)[1][:40], "no digest"


def test_create_edit_and_delete(server: EmbeddedServer, visit: Visit) -> None:
    page = visit()
    page.click("Create child")
    page.fill("dialog [name=name]", "new")
    page.fill("dialog [name=data]", "first\nline")
    page.click("Create", "dialog button")
    page.see("first", DATA)
    assert server.dump() == {"/new": b"first\nline"}
    page.click("Edit")
    page.until("document.querySelector('dialog textarea')?.value === 'first\\nline'")
    page.fill("dialog [name=data]", "second")
    server.load({"new": "of somebody else"})
    page.click("Save", "dialog button")
    page.see("Somebody has changed it meanwhile: the version is 1, not 0", "dialog")
    assert server.dump() == {"/new": b"of somebody else"}
    page.evaluate("document.querySelector('dialog input[type=checkbox]').click()")
    page.click("Save", "dialog button")
    page.see("second", DATA)
    assert server.dump() == {"/new": b"second"}
    page.click("Delete")
    page.click("Delete", "dialog button")
    page.until("document.querySelector('.path').textContent === '/'")
    assert server.dump() == {}
    page.until(f"!{row('new')}")


def test_other_kinds_are_created(server: EmbeddedServer, connect: Connect, visit: Visit) -> None:
    connect("worker")
    page = visit()
    for kind, fields in (("ttl", {"ttl": "90"}), ("container", {}), ("ephemeral", {"session": "worker"})):
        page.evaluate("location.hash = '#tree?path=/'")
        page.until("document.querySelector('.path')?.textContent === '/'")
        page.click("Create child")
        page.fill("dialog [name=name]", f"{kind}-")
        page.fill("dialog [name=kind]", kind)
        for name, value in fields.items():
            page.fill(f"dialog [name={name}]", value)
        page.click("Create", "dialog button")
        page.until("!document.querySelector('dialog')")
        page.until(f"document.querySelector('.path').textContent === '/{kind}-'")
    nodes: Any = server.dump(form="nodes")
    assert {path: (node.kind, node.ttl) for path, node in nodes.items()} == {
        "/container-": ("container", 0),
        "/ephemeral-": ("ephemeral", 0),
        "/ttl-": ("ttl", 90_000),
    }


def test_search(server: EmbeddedServer, visit: Visit) -> None:
    server.load({"a": {"needle-1": "x"}, "b": {"c": {"needle-2": "y"}}, "d": "a needle in it"})
    page = visit()
    page.fill("[type=search]", "NEEDLE")
    page.see("2 found among", ".hint")
    assert page.texts(ROWS) == ["/a/needle-1", "/b/c/needle-2"]
    page.fill("[aria-label='Where to search']", "data")
    page.fill("[type=search]", "")
    page.until(row("zookeeper"))


def test_the_keyboard(server: EmbeddedServer, visit: Visit) -> None:
    server.load({"a": {"b": "deep"}, "c": ""})
    page = visit()
    page.until(row("a"))
    page.evaluate("document.querySelector('.row[tabindex=\"0\"]').focus()")
    focused = "document.activeElement.querySelector?.('.name')?.textContent"
    for key, code, name in (
        ("ArrowDown", 40, "a"),
        ("ArrowRight", 39, "a"),
        ("ArrowRight", 39, "b"),
        ("ArrowLeft", 37, "a"),
        ("End", 35, "zookeeper"),
        ("Home", 36, "/"),
        ("ArrowDown", 40, "a"),
        ("ArrowDown", 40, "b"),
    ):
        page.key(key, code)
        if (key, name) == ("ArrowRight", "a"):
            page.until(row("b"))
        page.until(f"{focused} === {json.dumps(name)}")
    page.key("Enter", 13)
    page.see("deep", DATA)


def test_300_000_children(server: EmbeddedServer, visit: Visit) -> None:
    def fill() -> None:
        node = server.running.engine.tree.nodes["/big"]
        node.children = Children(0)
        for n in range(300_000):
            node.children[f"n{n:06d}"] = Znode(b"", (), 1, 1)

    server.load({"big": ""})
    server.run(fill)
    page = visit()
    open_row(page, "big")
    page.until("document.querySelectorAll('.row').length === 204")
    assert page.texts(".row.more") == ["Show more (299,800 left)"]
    page.evaluate("document.querySelector('.row.more').click()")
    page.until("document.querySelectorAll('.row').length === 404")
    assert page.texts(ROWS)[2:402] == [f"n{n:06d}" for n in range(400)]
    entries = "performance.getEntriesByType('resource').filter(e => e.name.includes('/children?path=%2Fbig'))"
    largest = page.evaluate(f"Math.max(...{entries}.map(e => e.encodedBodySize))")
    assert 0 < largest < 100_000, "nothing is ever sent whole"


def test_a_znode_that_is_a_link_away(server: EmbeddedServer, visit: Visit) -> None:
    server.load({"a": {"b": {"c": Node(data="deep")}}})
    page = visit("#tree?path=%2Fa%2Fb%2Fc")
    page.see("deep", DATA)
    assert page.evaluate(f"{row('c')}.getAttribute('aria-selected')") == "true"
    page.evaluate("[...document.querySelectorAll('.path a')].find(e => e.textContent === 'a').click()")
    page.until(f"{row('a')}.getAttribute('aria-selected') === 'true'")


def test_a_subtree_is_exported_and_imported(server: EmbeddedServer, visit: Visit) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    server.load(
        {"a": {hostile: hostile, "bytes": bytes(range(256)), **{f"{n}": "x" * 9000 for n in range(99)}}}
    )
    page = visit("#tree?path=/a")
    page.evaluate(
        "URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text }); return '#' }"
    )
    page.click("Export")
    page.until("window.saved")
    assert len(page.evaluate("window.saved").splitlines()) == 102
    page.click("Import")
    page.fill("dialog [name=path]", "/copies/b")
    page.evaluate(
        "{ const given = new DataTransfer(); given.items.add(new File([window.saved], 'a.jsonl'));"
        " document.querySelector('dialog [type=file]').files = given.files; }"
    )
    page.click("Import", "dialog button")
    page.see("102 znodes written, 0 were the same", "#toasts")
    sent = [url for url in page.requests if url.endswith("/import")]
    assert len(sent) == 2, "a request has 500 kB at most"
    original, copied = server.dump("/a"), server.dump("/copies/b")
    assert {f"/copies/b{path[2:]}": data for path, data in original.items()} == copied
    server.load({"/copies/b/bytes": "other"})
    page.click("Import")
    page.fill("dialog [name=path]", "/copies/b")
    page.evaluate(
        "{ const given = new DataTransfer(); given.items.add(new File(['{}'], 'bad'));"
        " document.querySelector('dialog [type=file]').files = given.files; }"
    )
    page.click("Import", "dialog button")
    page.see("line 1: no 'path'", "dialog [role=alert]")

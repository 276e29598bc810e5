"""What is shown of a server behind a failed test."""

from __future__ import annotations

from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.shown import sections


def test_no_terminal_obeys_what_clients_have_named() -> None:
    with EmbeddedServer() as server:
        client = KazooClient(server.hosts)
        client.start()
        client.exists("/x\x1b[31m")
        client.create("/a\u202eb", b"\x1b[2J", ephemeral=True)
        server.note("here \x1b[2J")
        shown = dict(sections("server", server))
        leaks = server.leaks()
        client.stop()
        client.close()
    assert "exists /x\\x1b[31m" in shown["server: timeline"]
    assert "here \\x1b[2J" in shown["server: timeline"]
    assert "/a\\u202eb" in leaks[0]
    for text in (*shown.values(), *leaks):
        assert all(line.isprintable() for line in text.split("\n"))

"""The read operations (semantics.md section 5)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, children_op, get_op
from ..support.wire import WireClient
from .known_differences import differs
from .servers import Server

UNREADABLE = [acl(30 & ~16, "world", "anyone")]


@pytest.fixture
def tree(client: WireClient, top: str) -> str:
    client.create(f"{top}/a", b"data of a")
    client.create(f"{top}/a/1")
    client.create(f"{top}/a/2")
    client.create(f"{top}/a/2/3")
    client.create(f"{top}/secret", acl=UNREADABLE)
    return top


READS = ["get", "children", "children2", "get_acl", "count_descendants"]


@pytest.mark.parametrize("path", ["/none", "/a/", "//a", "/a/none", "/\0", "/.", "/\ud7ff\uffff"], ids=ascii)
@pytest.mark.parametrize("call", READS)
def test_reads_never_validate_paths(client: WireClient, tree: str, call: str, path: str) -> None:
    # semantics.md 3: an odd path is one that no node has
    assert getattr(client, call)(tree + path).err == -101


@pytest.mark.parametrize("path", ["nosl", "x/y"])
@pytest.mark.parametrize("call", [*READS, "exists"])
def test_a_path_without_a_leading_slash_is_no_node(client: WireClient, call: str, path: str) -> None:
    assert getattr(client, call)(path).err == -101


@pytest.mark.parametrize(
    ("path", "err"), [("/a", 0), ("/none", -101), ("/a/", -101), ("/\0", -8), ("/.", -101)], ids=ascii
)
def test_exists_looks_for_nul_only(client: WireClient, tree: str, path: str, err: int) -> None:
    assert client.exists(tree + path).err == err


@pytest.mark.parametrize("call", READS)
def test_reads_need_permission(client: WireClient, tree: str, call: str) -> None:
    reply = getattr(client, call)(f"{tree}/secret")
    assert (reply.err, reply.body) == (-102, b"")


def test_exists_needs_permission(server: Server, client: WireClient, tree: str) -> None:
    expected = 0 if differs("exists-read-check", server) else -102
    assert client.exists(f"{tree}/secret").err == expected


@pytest.mark.parametrize("call", ["exists", "get", "children", "children2"])
def test_the_empty_path_is_the_root(client: WireClient, call: str) -> None:
    # wire.md 19, trap 12: the root has two keys
    assert getattr(client, call)("").err == 0


def test_a_watch_on_the_empty_path_never_fires(client: WireClient, top: str) -> None:
    # wire.md 19, trap 12
    client.children("", watch=True)
    client.create(f"{top}-x")
    client.delete(f"{top}-x")
    assert client.take_events() == []


def test_get_data(client: WireClient, tree: str) -> None:
    reply = client.get(f"{tree}/a")
    assert reply.record.data == b"data of a"
    assert reply.record.stat == client.exists(f"{tree}/a").record.stat
    assert reply.record.stat.dataLength == 9


def test_get_children(client: WireClient, tree: str) -> None:
    assert sorted(client.children(f"{tree}/a").record.children) == ["1", "2"]
    reply = client.children2(f"{tree}/a")
    assert sorted(reply.record.children) == ["1", "2"]
    assert reply.record.stat == client.exists(f"{tree}/a").record.stat
    assert list(client.children(f"{tree}/a/1").record.children) == []


def test_the_children_of_the_root(client: WireClient, top: str) -> None:
    names = client.children("/").record.children
    assert {"zookeeper", top[1:]} <= set(names)
    assert set(client.children("/zookeeper").record.children) == {"config", "quota"}


@pytest.mark.parametrize(("path", "number"), [("", 5), ("/a", 3), ("/a/2", 1), ("/a/1", 0), ("/a/2/3", 0)])
def test_all_children_number_counts_descendants(
    client: WireClient, tree: str, path: str, number: int
) -> None:
    # ACLs below are ignored
    assert client.count_descendants(tree + path).record.totalNumber == number


def test_all_children_number_is_no_string_prefix(client: WireClient, tree: str) -> None:
    client.create(f"{tree}/ab")
    assert client.count_descendants(f"{tree}/a").record.totalNumber == 3


def test_all_children_number_of_the_root(client: WireClient, tree: str) -> None:
    before = client.count_descendants("/").record.totalNumber
    client.create(f"{tree}/another")
    assert client.count_descendants("/").record.totalNumber == before + 1


@pytest.mark.parametrize("path", ["/none/at/all", "no slash", "", None], ids=ascii)
def test_sync_echoes_any_path(client: WireClient, path: str | None) -> None:
    # semantics.md 5
    assert client.sync(path).body == r.SyncResponse(path).encode()


def test_sync_writes_astral_characters_as_surrogates(client: WireClient) -> None:
    # wire.md section 2: UTF-8 comes in, CESU-8 goes out
    path = "/😀".encode()
    reply = client.request(OpCode.SYNC, len(path).to_bytes(4, "big") + path)
    assert reply.body == bytes.fromhex("00000007 2f eda0bd edb880")


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        (None, {"a/e", "ab1", "b"}),
        ("", {"a/e", "ab1", "b"}),
        ("  ", {"a/e", "ab1", "b"}),
        ("\0\n", {"a/e", "ab1", "b"}),
        (" /\t", {"a/e", "ab1", "b"}),
        ("\u2003", set()),
        ("/", {"a/e", "ab1", "b"}),
        ("{top}/a", {"a/e", "ab1"}),
        ("{top}/a/", {"a/e"}),
        ("{top}/none", set()),
        ("{top}", {"a/e", "ab1", "b"}),
    ],
)
def test_get_ephemerals_matches_by_string_prefix(
    client: WireClient, tree: str, prefix: str | None, names: set[str]
) -> None:
    for name in ("a/e", "ab1", "b"):
        client.create(f"{tree}/{name}", flags=1)
    reply = client.ephemerals(prefix and prefix.format(top=tree))
    assert set(reply.record.ephemerals) == {f"{tree}/{name}" for name in names}


def test_get_ephemerals_is_about_the_own_session(connect, client: WireClient, top: str) -> None:  # type: ignore[no-untyped-def]
    connect().create(f"{top}/other", flags=1)
    assert list(client.ephemerals().record.ephemerals) == []


def test_get_config_is_empty(client: WireClient) -> None:
    # semantics.md 8.7
    reply = client.get("/zookeeper/config")
    assert reply.record.data in (b"", None)
    assert client.set("/zookeeper/config", b"").err == -102


def test_multi_read(client: WireClient, tree: str) -> None:
    # semantics.md 5: each part has its own result
    reply = client.multi_read(
        get_op(f"{tree}/a"),
        children_op(f"{tree}/a"),
        get_op(f"{tree}/none"),
        get_op(f"{tree}/secret"),
        children_op(f"{tree}/none"),
        get_op(f"{tree}/a/1"),
    )
    results = reply.results
    assert [(result.type, result.err) for result in results] == [
        (4, 0),
        (8, 0),
        (-1, -101),
        (-1, -102),
        (-1, -101),
        (4, 0),
    ]
    assert results[0].response == r.GetDataResponse(b"data of a", client.exists(f"{tree}/a").record.stat)
    assert sorted(results[1].response.children) == ["1", "2"]  # type: ignore[union-attr]
    assert results[2].response == r.ErrorResponse(-101)


def test_multi_read_sets_no_watches(client: WireClient, tree: str) -> None:
    client.multi_read(get_op(f"{tree}/a", watch=True), children_op(f"{tree}/a", watch=True))
    client.set(f"{tree}/a", b"new")
    client.create(f"{tree}/a/new")
    assert client.take_events() == []


def test_booleans_are_true_when_not_zero(client: WireClient, top: str) -> None:
    # wire.md section 2
    client.request(OpCode.GET_DATA, r.GetDataRequest(top, False).encode()[:-1] + b"\x02")
    client.set(top, b"")
    assert len(client.take_events()) == 1


def test_bytes_behind_the_last_field_are_ignored(client: WireClient, top: str) -> None:
    # wire.md section 2
    assert client.request(OpCode.EXISTS, r.ExistsRequest(top, False).encode() + b"rest").err == 0
    assert client.request(OpCode.DELETE, r.DeleteRequest(f"{top}/no", -1).encode() + b"rest").err == -101

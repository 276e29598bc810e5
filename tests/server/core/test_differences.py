"""From one tree to another: what its watchers are told."""

from __future__ import annotations

from pyzk.protocol.records import ACL, Id
from pyzk.server.core.differences import differences
from pyzk.server.core.tree import DataTree
from pyzk.server.core.txn import Create, Delete, SetData

from ...support.world import creation, deletion

READ = (ACL(1, Id("world", "anyone")),)


def tree(*paths: str) -> DataTree:
    made = DataTree()
    for zxid, path in enumerate(paths, 1):
        made.apply(creation(path, b"x"), zxid, zxid)
    return made


def test_nothing_differs() -> None:
    one = tree("/a", "/a/b")
    assert list(differences(one.nodes["/"], tree("/a", "/a/b").nodes["/"])) == []
    assert list(differences(one.nodes["/"], one.nodes["/"])) == []


def test_deletes_come_from_below_and_creates_from_above() -> None:
    before, after = tree("/a", "/a/b", "/a/b/c", "/k"), tree("/k", "/n", "/n/m", "/b")
    after.apply(creation("/n/e", b"e", 77, READ), 9, 9)
    found = list(differences(before.nodes["/"], after.nodes["/"]))
    told = [(type(effect), effect.path) for effect, _, _ in found]
    assert told[:3] == [(Delete, "/a/b/c"), (Delete, "/a/b"), (Delete, "/a")]
    assert told[3:7] == [(Create, "/b"), (Create, "/n"), (Create, "/n/e"), (Create, "/n/m")]
    assert told[7:] == [(SetData, "/k")], "it is another one: its mzxid is"
    for effect, node, at in found[:3]:
        assert isinstance(effect, Delete)
        assert effect.name == effect.path.rpartition("/")[2]
        assert node is before.nodes[effect.path]
        assert at is before.nodes[effect.parent]
    for effect, node, at in found[3:7]:
        assert isinstance(effect, Create)
        assert node is after.nodes[effect.path]
        assert at is after.nodes[effect.parent]
        assert (effect.data, effect.acl, effect.owner) == (node.data, node.acl, node.owner)
        assert effect.name == effect.path.rpartition("/")[2]


def test_other_data_and_a_later_change_are_told() -> None:
    before, after = tree("/a", "/b", "/c"), tree("/a", "/b", "/c")
    after.apply(SetData("/a", b"y", 1), 8, 8)  # other data, other mzxid
    after.nodes["/b"].data = b"z"  # other data alone
    after.nodes["/c"].mzxid = 99  # the same bytes, written again
    after.apply(SetData("/", b"root", 1), 9, 9)
    found = list(differences(before.nodes["/"], after.nodes["/"]))
    assert {(effect.path, node.data) for effect, node, _ in found} == {
        ("/a", b"y"),
        ("/b", b"z"),
        ("/c", b"x"),
        ("/", b"root"),
    }
    for effect, node, at in found:
        assert isinstance(effect, SetData)
        assert node is at is after.nodes[effect.path]
        assert (effect.data, effect.version) == (node.data, node.version)


def test_what_is_deleted_is_told_once() -> None:
    before = tree("/a", "/a/b")
    after = tree("/a", "/a/b")
    after.apply(deletion("/a/b"), 9, 9)
    found = [effect.path for effect, _, _ in differences(before.nodes["/"], after.nodes["/"])]
    assert found == ["/a/b"]

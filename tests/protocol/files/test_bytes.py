"""What single bytes and fields of snapshots and logs mean: files made by hand (files.md sections 2 and 3)."""

from __future__ import annotations

import io
import struct
import zlib

import attrs
import pytest

from pyzk.protocol.constants import INT_MAX
from pyzk.protocol.files.digest import VERSION
from pyzk.protocol.files.image import CONTAINER, Image, ImageNode
from pyzk.protocol.files.restoring import Damaged, Restorer, read_image
from pyzk.protocol.files.snapshot import STAT, NodeEncoder, SnapshotReader, tail
from pyzk.protocol.files.streams import FileError, begins_snapshot, compressing, uncompressed
from pyzk.protocol.files.txnlog import (
    FILE_HEADER,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    LogReader,
    SetACLTxn,
    SetDataTxn,
    decode,
    encode,
)
from pyzk.protocol.records import ACL, OPEN_ACL, Id

from .sample import READ_ONLY, SESSION, Folder, entries, history, log, state, written

OTHER_ACL = (ACL(31, Id("ip", "10.0.0.1")),)


def stat_of(image: Image, path: str) -> tuple[int, ...]:
    return STAT.unpack(image.nodes[path].stat)


def entry(type_: int, txn: object, zxid: int = 1, **more: object) -> Entry:
    made = Entry(0, SESSION, 7, zxid, 1000 + zxid, type_, txn, None)  # type: ignore[arg-type]
    return attrs.evolve(made, **more)  # type: ignore[arg-type]


def applied(*made: Entry, image: Image | None = None) -> Image:
    image = image or Image.fresh()
    for each in made:
        image.apply(each)
    return image


def create(path: str, zxid: int, created: int, **more: object) -> Entry:
    return entry(1, CreateTxn(path, b"x", OPEN_ACL, False, created), zxid, **more)


# --- logs --------------------------------------------------------------------------------------------------


def test_the_bytes_of_a_log() -> None:
    data = log([entry(2, DeleteTxn("/ab"), 0x0102, digest=2**64 - 2)])
    payload = struct.pack(">qiqqi", SESSION, 7, 0x0102, 1000 + 0x0102, 2) + b"\0\0\0\3/ab"
    payload += struct.pack(">iq", 2, -2)
    assert data[:16] == b"ZKLG\0\0\0\2" + bytes(8)
    assert data[16:] == struct.pack(">qi", zlib.adler32(payload), len(payload)) + payload + b"B"


def test_a_digest_counts_in_its_own_version_alone() -> None:
    payload = encode(entry(2, DeleteTxn("/ab")))[12:-1]
    assert decode(payload).digest is None
    assert decode(payload + struct.pack(">iq", VERSION, -1)).digest == 2**64 - 1
    assert decode(payload + struct.pack(">iq", VERSION, 5)).digest == 5
    assert decode(payload + struct.pack(">iq", VERSION + 1, 5)).digest is None
    assert decode(payload + struct.pack(">iq", VERSION, 5)[:-1]).digest is None


def test_a_close_session_may_have_no_record() -> None:
    head = struct.pack(">qiqqi", SESSION, 0, 3, 1003, -11)
    assert decode(head).txn == CloseSessionTxn(None)
    digest = struct.pack(">iq", VERSION, 77)
    found = decode(head + digest)
    assert (found.txn, found.digest) == (CloseSessionTxn(None), 77)
    record = CloseSessionTxn(("/e",)).encode()
    found = decode(head + record + digest)
    assert (found.txn, found.digest) == (CloseSessionTxn(("/e",)), 77)


@pytest.mark.parametrize("size", [-1, 11, 1000])
def test_a_part_of_a_multi_has_its_own_bytes(size: int) -> None:
    """It is the path and a delete: 10 bytes, and the entry has no others."""
    record = DeleteTxn("/abcde").encode()
    assert len(record) == 10
    head = struct.pack(">qiqqi", SESSION, 1, 2, 1002, 14)
    whole = head + struct.pack(">iii", 1, 2, len(record)) + record
    assert decode(whole).txn.parts == [(2, DeleteTxn("/abcde"))]  # type: ignore[union-attr]
    wrong = head + struct.pack(">iii", 1, 2, size) + record
    data = struct.pack(">qi", zlib.adler32(wrong), len(wrong)) + wrong + b"B"
    with pytest.raises(FileError, match=r"byte 16: an entry cannot be read: a part of a multi goes beyond"):
        list(LogReader(io.BytesIO(log([]) + data)).entries())


def test_an_unknown_type_is_told() -> None:
    wrong = struct.pack(">qiqqi", SESSION, 1, 2, 1002, 99)
    data = struct.pack(">qi", zlib.adler32(wrong), len(wrong)) + wrong + b"B"
    with pytest.raises(FileError, match="byte 16: an entry cannot be read: the type 99 is unknown"):
        list(LogReader(io.BytesIO(log([]) + data)).entries())


@pytest.mark.parametrize("change", [1, 2, 40, -1, -2])
@pytest.mark.parametrize("padding", [0, 3, 70_000, 3_000_000])
def test_the_length_of_the_last_entry_is_wrong(change: int, padding: int) -> None:
    """It ends with its mark and has its checksum, so it was whole: nobody may take it for a torn one."""
    good = log([entry(2, DeleteTxn("/ab"))])
    last = encode(entry(5, SetDataTxn("/ab", b"\0" * 30, 1), 2))
    size = struct.unpack_from(">i", last, 8)[0]
    wrong = last[:8] + struct.pack(">i", size + change) + last[12:]
    reader = LogReader(io.BytesIO(good + wrong + bytes(padding)))
    with pytest.raises(FileError) as caught:
        list(reader.entries())
    assert caught.value.offset in {len(good), len(good) + 8}


@pytest.mark.parametrize("content", [b"data", b"BBBB"])
def test_a_torn_entry_is_told_where_it_begins(content: bytes) -> None:
    """Also where its last byte looks like the mark of an end."""
    good = log([entry(2, DeleteTxn("/ab"))])
    last = encode(entry(5, SetDataTxn("/ab", content, 1), 2))
    for size in range(1, len(last)):
        if not last[:size].strip(b"\0"):
            continue
        for padding in (0, 5, 2_000_000 * (size == 20)):
            reader = LogReader(io.BytesIO(good + last[:size] + bytes(padding)))
            assert [each.zxid for each in reader.entries()] == [1]
            assert reader.torn == len(good), (size, padding)


@pytest.mark.parametrize("size", [20, 21, 22, 23])
def test_what_follows_a_damaged_entry_makes_it_damage(size: int) -> None:
    """Wherever it begins."""
    made = [entry(5, SetDataTxn("/ab", bytes([n]) * size, n), n) for n in range(1, 4)]
    whole = log(made)
    first = len(log(made[:1]))
    second = len(log(made[:2]))
    cut = whole[:first] + whole[first : first + 9] + b"\xff" * (second - first - 9) + whole[second:]
    reader = LogReader(io.BytesIO(cut))
    with pytest.raises(FileError, match="an entry is damaged, and whole entries follow") as caught:
        list(reader.entries())
    assert caught.value.offset == first


@pytest.mark.parametrize("behind", [b"", b"\xff", b"\xff" * 40])
@pytest.mark.parametrize("size", [0, 1, 100, 200, 5000])
def test_a_whole_entry_behind_a_damaged_one_is_found_whatever_follows(size: int, behind: bytes) -> None:
    good = log([entry(2, DeleteTxn("/ab"))])
    damaged = b"\xff" * 60
    whole = encode(entry(5, SetDataTxn("/ab", b"\xf0" * size, 1), 2))
    if size == 200:
        assert int.from_bytes(whole[:8]) >= 2**31, "a checksum may be as large"
    reader = LogReader(io.BytesIO(good + damaged + whole + behind))
    with pytest.raises(FileError, match="an entry is damaged, and whole entries follow") as caught:
        list(reader.entries())
    assert caught.value.offset == len(good)


@pytest.mark.parametrize(
    ("data", "torn"),
    [
        (b"Z", True),
        (b"ZKLG\0\0", True),
        (b"ZK\0\0" + bytes(20), True),
        (b"", False),
        (FILE_HEADER, False),
        (b"XKLG\0\0\0\2", None),
        (b"ZKx\0" + bytes(20), None),
        (b"ZKLX", None),
    ],
)
def test_the_beginning_of_a_log(data: bytes, torn: bool | None) -> None:
    if torn is None:
        with pytest.raises(FileError, match="it is not a log"):
            LogReader(io.BytesIO(data))
    else:
        reader = LogReader(io.BytesIO(data))
        assert list(reader.entries()) == []
        assert reader.torn == (0 if torn else None)


def test_a_reader_says_how_far_it_has_read() -> None:
    data = log([entry(2, DeleteTxn("/ab"), n) for n in (1, 2)])
    reader = LogReader(io.BytesIO(data))
    assert reader.offset == 16
    steps = reader.entries()
    next(steps)
    assert reader.offset == (16 + len(data)) // 2
    assert list(steps)
    assert reader.offset == len(data)


# --- applying ----------------------------------------------------------------------------------------------


def test_each_entry_changes_its_fields_of_the_stat() -> None:
    image = applied(create("/a", 1, 1), create("/a/b", 2, 1), entry(5, SetDataTxn("/a", b"new", 4), 3))
    assert image.nodes["/a"].data == b"new"
    assert stat_of(image, "/a") == (1, 3, 1001, 1003, 4, 1, 0, 0, 2)
    applied(entry(7, SetACLTxn("/a", OTHER_ACL, 6), 4), image=image)
    assert image.nodes["/a"].acl == OTHER_ACL
    assert stat_of(image, "/a") == (1, 3, 1001, 1003, 4, 1, 6, 0, 2)
    applied(entry(2, DeleteTxn("/a/b"), 5), image=image)
    assert stat_of(image, "/a") == (1, 3, 1001, 1003, 4, 1, 6, 0, 5)
    assert image.zxid == 5


def test_a_fresh_tree_has_the_acls_of_the_real_server() -> None:
    acls = {path: node.acl for path, node in Image.fresh().nodes.items()}
    assert acls.pop("/zookeeper/config") == READ_ONLY
    assert set(acls.values()) == {OPEN_ACL}


@pytest.mark.parametrize("path", ["/", "/zookeeper/config"])
def test_the_root_and_the_configuration_change_too(path: str) -> None:
    """A fresh znode of the configuration has aversion -1, as the real server makes it."""
    image = Image.fresh()
    stored = "" if path == "/" else path
    assert stat_of(image, stored)[6] == (0 if path == "/" else -1)
    applied(entry(5, SetDataTxn(path, b"d", 1)), entry(7, SetACLTxn(path, OTHER_ACL, 2), 2), image=image)
    assert (image.nodes[stored].data, image.nodes[stored].acl) == (b"d", OTHER_ACL)
    assert stat_of(image, stored)[4] == 1


def test_an_entry_that_was_applied_before_moves_no_counter_back() -> None:
    """A snapshot that was written while the tree changed holds later results already."""
    made = [create("/a", 1, 1), create("/b", 2, 2), entry(2, DeleteTxn("/b"), 3), create("/c", 4, 3)]
    image = applied(*made, entry(2, DeleteTxn("/c"), 5))
    before = stat_of(image, "")
    assert (before[5], before[8]) == (3, 5)
    for each in (made[0], made[2]):
        applied(each, image=image)
        assert stat_of(image, "") == before
    repeated = attrs.evolve(
        create("/a", 4, 3)
    )  # the counter is known; the delete behind it stays the last change
    applied(repeated, image=image)
    assert stat_of(image, "") == before


def test_a_create_without_its_parent_is_left_out() -> None:
    image = applied(create("/a/b", 3, 1))
    assert "/a/b" not in image.nodes
    assert image.zxid == 3


@pytest.mark.parametrize(("known", "then"), [(0, 1), (7, 8), (INT_MAX, INT_MAX)])
def test_a_log_of_long_ago_does_not_say_how_many_children_there_were(known: int, then: int) -> None:
    image = applied(create("/a", 1, 1))
    image.nodes["/a"].stat = STAT.pack(1, 1, 1, 1, 0, known, 0, 0, 1)
    applied(create("/a/b", 9, -1), image=image)
    assert stat_of(image, "/a")[5] == then
    applied(create("/a/b", 9, -1), image=image)  # it is there already
    assert stat_of(image, "/a")[5] == then


def test_the_ephemerals_of_a_session_go_whatever_its_entry_names() -> None:
    image = applied(entry(-10, CreateSessionTxn(4000)))
    ephemeral = [
        entry(1, CreateTxn(path, b"", OPEN_ACL, True, n), n + 1)
        for n, path in enumerate(("/e", "/f", "/g"), 1)
    ]
    applied(ephemeral[0], image=image)
    assert image.drop_orphans() == []  # who owns what is looked up from now on
    applied(*ephemeral[1:], entry(2, DeleteTxn("/g"), 5), create("/g", 6, 4), image=image)
    assert image.nodes["/f"].owner == SESSION
    applied(entry(-11, CloseSessionTxn(("/e",)), 7), image=image)
    assert set(image.nodes) & {"/e", "/f", "/g"} == {"/g"}
    assert image.sessions == {}


def test_orphans_are_those_of_sessions_that_are_over() -> None:
    image = Image.fresh()
    for path, owner in (("/one", 1), ("/two", 2), ("/minus", -5), ("/c", CONTAINER), ("/p", 0)):
        image.nodes[path] = ImageNode(b"", OPEN_ACL, STAT.pack(1, 1, 1, 1, 0, 0, 0, owner, 1))
    image.sessions = {2: 4000}
    image.count_digest()
    assert sorted(image.drop_orphans()) == ["/minus", "/one"]
    kept = image.digest
    assert kept == image.count_digest()
    assert image.drop_orphans() == []


# --- snapshots ---------------------------------------------------------------------------------------------


def test_the_bytes_of_a_snapshot() -> None:
    encoder = NodeEncoder()
    stat = STAT.pack(*range(1, 10))
    nodes = [
        encoder.encode("", None, OPEN_ACL, stat),
        encoder.encode("/a", b"xy", READ_ONLY, stat),
        encoder.encode("/b", b"", OTHER_ACL, stat),
        encoder.encode("/c", b"", tuple(READ_ONLY), stat),
    ]
    assert nodes[0] == bytes(4) + b"\xff" * 4 + b"\xff" * 8 + stat
    assert nodes[1] == b"\0\0\0\2/a\0\0\0\2xy" + struct.pack(">q", 1) + stat
    assert nodes[2] == b"\0\0\0\2/b\0\0\0\0" + struct.pack(">q", 2) + stat
    assert nodes[3] == b"\0\0\0\2/c\0\0\0\0" + struct.pack(">q", 1) + stat
    head = encoder.head({5: 4000})
    assert head[:16] == b"ZKSN\0\0\0\2" + b"\xff" * 8
    assert head[16:32] == struct.pack(">iqi", 1, 5, 4000)
    assert head[32:36] == struct.pack(">i", 2)
    found = tail(77, None, 9)
    assert found[:5] == b"\0\0\0\1/"
    first = zlib.adler32(found[:5], 77)
    assert found[5:18] == struct.pack(">qi1s", first, 1, b"/")
    assert found[18:38] == struct.pack(">qiq", 0, VERSION, 0)
    assert found[38:51] == struct.pack(">qi1s", zlib.adler32(found[5:38], first), 1, b"/")
    assert found[51:59] == struct.pack(">q", 9)
    assert len(found) == 72


def made(*nodes: bytes, sessions: bytes = bytes(4), acls: bytes = bytes(4), end: bool = True) -> bytes:
    """A snapshot by hand."""
    data = b"ZKSN\0\0\0\2" + b"\xff" * 8 + sessions + acls + b"".join(nodes)
    return data + tail(zlib.adler32(data), None, 3) if end else data


ROOT = NodeEncoder().encode("", b"", OPEN_ACL, bytes(60))


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b"ZKSN", 0, "too short"),
        (b"ZKSX" + bytes(12), 0, "begins with"),
        (made(ROOT, sessions=b"\xff" * 4), 16, "a count is negative, in the list of sessions"),
        (made(ROOT, acls=b"\xff" * 4), 20, "a count is negative, in the map of ACLs"),
        (made(ROOT, end=False), 24 + len(ROOT), "the end of the tree is missing"),
        (made(ROOT, ROOT[:-1], end=False), 24 + len(ROOT), "goes beyond the end of the file"),
        (made(b"\xff\xff\xff\xfe" + bytes(80), end=False), 24, "goes beyond the end of the file"),
        (made(bytes(4) + b"\xff\xff\xff\xfe" + bytes(90)), 24, "a length is negative, in a znode"),
        (made(bytes(4) + b"\0\1\0\0" + bytes(90)), 24, "a znode of 65,536 bytes goes beyond"),
        (made(b"\0\0\0\1\xff" + ROOT[4:]), 24, "a path is not UTF-8"),
        (made(ROOT[:8] + bytes(7) + b"\3" + ROOT[16:]), 24, "the ACL 3, which is not in the file"),
        (made(acls=struct.pack(">iq", 1, 1) + b"\0\0\0\1\0"), 32, "an ACL cannot be read"),
        (made(ROOT) + b"x", 24 + len(ROOT) + 72, "there are bytes after the end"),
        (made(NodeEncoder().encode("/a", b"", OPEN_ACL, bytes(60))), None, "the tree has no root"),
    ],
)
def test_what_is_wrong_with_a_snapshot_is_told_with_its_place(
    data: bytes, offset: int | None, reason: str
) -> None:
    with pytest.raises(FileError, match=reason) as caught:
        read_image(io.BytesIO(data), 1)
    if offset is not None:
        assert caught.value.offset == offset


def test_a_list_of_many_entries_is_read() -> None:
    """How long the list of an ACL is shows only when it is read."""
    many = tuple(ACL(1, Id("ip", f"10.0.{n // 256}.{n % 256}")) for n in range(3000))
    encoder = NodeEncoder()
    nodes = [
        encoder.encode("", b"x", many, bytes(60)),
        encoder.encode("/\ud800", b"y" * 3_000_000, many, bytes(60)),
    ]
    head = encoder.head({1: 2, -3: 4})
    data = head + b"".join(nodes)
    reader = SnapshotReader(io.BytesIO(data + tail(zlib.adler32(data), None, 3)))
    assert reader.sessions == {1: 2, -3: 4}
    found = list(reader.nodes())
    assert [(node.path, len(node.data or b""), node.acl) for node in found] == [
        ("", 1, many),
        ("/\ud800", 3_000_000, many),
    ]
    assert reader.digest is None, "zxid 0: the tree changed while it was written"
    assert reader.last_zxid == 3
    assert reader.offset == len(data) + 72


def test_the_zxid_of_a_snapshot_without_a_name_is_that_in_the_file() -> None:
    image = Image.fresh()
    image.zxid = 9
    data = written(image)
    assert read_image(io.BytesIO(data), -1)[0].zxid == 9
    assert read_image(io.BytesIO(data), 0)[0].zxid == 0
    assert read_image(io.BytesIO(data), 4)[0].zxid == 4
    end = len(data) - 21
    assert read_image(io.BytesIO(data[:end]), -1)[0].zxid == 9, "of the digest"
    plain = data[: end - 33]
    assert read_image(io.BytesIO(plain), -1)[0].zxid == 0


# --- compression -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"),
    [(b"ZKSN", True), (b"\x1f\x8b\x08\x00", True), (b"\x82SNA", True), (b"ZKLG", False), (b'{"pa', False)],
)
def test_the_first_bytes_of_a_snapshot(start: bytes, expected: bool) -> None:
    assert begins_snapshot(start) is expected
    assert begins_snapshot(start + b"more") is expected


@pytest.mark.parametrize("compression", ["", "gz", "snappy"])
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 200_000])
def test_what_is_compressed_comes_back(compression: str, size: int) -> None:
    if compression == "snappy":
        pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    data = bytes(n * n % 251 for n in range(size))
    out = io.BytesIO()
    with compressing(out, compression) as stream:
        for at in range(0, size, 50_000):
            stream.write(data[at : at + 50_000])
    packed = out.getvalue()
    assert uncompressed(io.BytesIO(packed)).read() == data
    if not compression:
        assert packed == data


def test_the_parts_of_a_snappy_file() -> None:
    """The head, then chunks of at most 32 KiB, each behind its length; where a wrong one begins is told."""
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    out = io.BytesIO()
    with compressing(out, "snappy") as stream:
        stream.write(bytes(40_000))
    data = out.getvalue()
    assert data[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    (size,) = struct.unpack_from(">i", data, 16)
    (rest,) = struct.unpack_from(">i", data, 20 + size)
    assert len(data) == 24 + size + rest
    second = 20 + size
    for wrong in (
        data[: second + 2],  # the length is cut
        data[: second + 4],
        data[:-1],
        data[:second] + b"\xff\xff\xff\xfd" + data[second + 4 :],
        data[:second] + b"\x01\0\0\1" + bytes(2**24 + 1),  # longer than any
        data[:second] + struct.pack(">i", rest) + b"\xff" * rest,
    ):
        with pytest.raises(FileError, match="compressed") as caught:
            uncompressed(io.BytesIO(wrong)).read()
        assert caught.value.offset == second


# --- restoring ---------------------------------------------------------------------------------------------


def test_what_was_restored_is_counted() -> None:
    files = history()
    found = files.restore()
    assert (found.snapshot, found.entries, found.aside) == ("snapshot.0", len(entries()), [])
    files.files["snapshot.3"] = written(applied(*entries()[:3]))
    found = files.restore()
    assert (found.snapshot, found.entries) == ("snapshot.3", len(entries()) - 3)


def test_who_does_not_ask_for_a_repair_gets_none() -> None:
    files = history()
    files.files["log.1"] = files.files["log.1"][:-1] + b"x"
    with pytest.raises(Damaged):
        Restorer(files.files, files.open).restore()


def test_entries_must_come_in_their_order() -> None:
    files = Folder({"snapshot.0": written(Image.fresh())})
    files.files["log.1"] = log([create("/a", 1, 1), create("/b", 2, 2), create("/c", 2, 3)])
    with pytest.raises(Damaged, match=r"zxid 0x2 comes behind 0x2"):
        files.restore()
    files.files["log.1"] = log([create("/a", 1, 1), create("/b", 2, 2)])
    files.files["log.2"] = log([create("/c", 2, 3), create("/d", 3, 4)])
    with pytest.raises(Damaged, match=r"log\.2, byte 16: zxid 0x2 comes behind 0x2"):
        files.restore()
    found = files.restore(repair=True)
    assert (found.entries, found.aside) == (2, ["log.2"])


def test_damage_names_how_many_logs_follow() -> None:
    files = Folder({"snapshot.0": written(Image.fresh())})
    for number in (1, 2, 3):
        files.files[f"log.{number}"] = log([create(f"/{number}", number, number)])
    files.files["log.2"] = files.files["log.2"][:-1] + b"x"
    with pytest.raises(Damaged, match=r"^log\.2, byte 16: .*; 1 later logs are there$"):
        files.restore()
    found = files.restore(repair=True)
    assert (found.entries, found.aside, found.image.zxid) == (1, ["log.2", "log.3"], 1)
    files.files["log.3"] = files.files["log.3"][:-1] + b"x"
    files.files["log.2"] = log([create("/2", 2, 2)])
    with pytest.raises(Damaged) as caught:
        files.restore()
    assert "later logs" not in str(caught.value)


def test_a_time_that_was_changed_is_damage() -> None:
    files = Folder({"snapshot.0": written(Image.fresh())})
    files.files["log.1"] = log([create("/a", 1, 1), entry(5, SetDataTxn("/a", b"", 1), 2)])
    data = files.files["log.1"]
    assert files.restore().entries == 2
    wrong = data.replace(struct.pack(">q", 1002), struct.pack(">q", 7))
    assert wrong != data
    files.files["log.1"] = wrong
    with pytest.raises(Damaged, match=r"log\.1, byte \d+: the checksum"):
        files.restore()


def test_a_ttl_is_cut_to_its_bits() -> None:
    image = applied(entry(21, CreateTTLTxn("/t", b"", OPEN_ACL, 1, -1)))
    assert image.nodes["/t"].owner == (0xFF << 56 | 2**40 - 1) - 2**64


@pytest.mark.parametrize("path", ["/\u00e4", "/a"])
def test_a_wrong_digest_counts_less_where_servers_count_in_different_ways(path: str) -> None:
    """Paths beyond ASCII: a server on a Java before 18 may count them in another way (files.md section 6)."""
    image = Image.fresh()
    applied(create(path, 1, 1), image=image)
    files = Folder({"snapshot.1": written(image), "log.2": log([create("/b", 2, 2, digest=5)])})
    if path == "/a":
        with pytest.raises(Damaged, match=r"^log\.2: the tree at 0x2 does not match its digest: a part of"):
            files.restore()
    else:
        files.restore()
        assert len(files.told) == 1
        assert "does not match its digest; it has paths beyond ASCII" in files.told[0]


def test_a_digest_that_becomes_right_again_is_right() -> None:
    """A snapshot that was written while the tree changed."""
    first, second = entries()[:2]
    files = history()
    files.files["log.1"] = log([attrs.evolve(first, digest=5), second])
    found = files.restore()
    assert (found.entries, files.told) == (2, [])
    files.files["log.1"] = log([first, attrs.evolve(second, digest=5)])
    with pytest.raises(Damaged, match=r"log\.1: the tree at 0x2 does"):
        files.restore()


def test_a_snapshot_is_held_against_its_digest() -> None:
    image = applied(*entries()[:3])
    image.zxid = 3
    data = bytearray(written(image, with_digest=False))
    cut = len(data) - 54
    seal = zlib.adler32(data[:cut])
    digest = struct.pack(">qiq", 3, VERSION, 12345)
    whole = bytes(data[:cut]) + digest + struct.pack(">qi1s", zlib.adler32(digest, seal), 1, b"/")
    files = Folder({"snapshot.3": whole})
    with pytest.raises(Damaged, match=r"^the snapshot: the tree at 0x3 does not match its digest"):
        files.restore()
    assert state(files.restore(repair=True).image) == state(image)


def test_progress_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyzk.protocol.files import restoring

    monkeypatch.setattr(restoring, "_REPORT_EVERY", 4)
    told: list[tuple[str, int]] = []
    files = history()
    Restorer(files.files, files.open, progress=lambda what, count: told.append((what, count))).restore()
    assert told == [("znodes", 4), ("entries", 4), ("entries", 8), ("entries", 12)]


def test_the_digests_that_are_listed() -> None:
    """Every 128th (files.md section 6)."""
    made_ = [create(f"/{n}", n, n) for n in range(1, 300)]
    image = Image.fresh()
    image.count_digest()
    with_digests = []
    for each in made_:
        image.apply(each)
        with_digests.append(attrs.evolve(each, digest=image.digest))
    files = Folder({"snapshot.0": written(Image.fresh()), "log.1": log(with_digests)})
    found = files.restore()
    assert list(found.digests) == [(n, with_digests[n - 1].digest) for n in (128, 256)]

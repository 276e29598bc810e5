"""Snapshots and logs at their edges: the least and the most that is read, and what is one too much."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zlib
from pathlib import Path

import pytest

from pyzk.protocol.files import streams
from pyzk.protocol.files.digest import VERSION, add, signed
from pyzk.protocol.files.image import MAX_TTL, TTL_MARK, Image, ImageNode, is_session, ttl_of
from pyzk.protocol.files.places import open_regular, write_image
from pyzk.protocol.files.restoring import Damaged, Restored, Restorer
from pyzk.protocol.files.snapshot import STAT, UNBOUNDED, Bounds, NodeEncoder, SnapshotReader, tail
from pyzk.protocol.files.streams import FileError, Input, _expanded_size, compressing, uncompressed
from pyzk.protocol.files.txnlog import (
    FILE_HEADER,
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    LogReader,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    decode,
    encode,
)
from pyzk.protocol.records import ACL, OPEN_ACL, Id

from .sample import SESSION, Folder, entries, history, log, state, written

# --- digests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("digest", "stored"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)]
)
def test_a_digest_is_stored_as_a_signed_number(digest: int, stored: int) -> None:
    assert signed(digest) == stored
    payload = encode(Entry(0, SESSION, 1, 2, 3, 2, DeleteTxn("/a"), digest))[12:-1]
    assert payload[-8:] == struct.pack(">q", stored)
    assert decode(payload).digest == digest


def test_digests_wrap_around() -> None:
    assert add(2**64 - 1, 1) == 0
    assert add(0, -1) == 2**64 - 1
    assert add(5, 2**32) == 5 + 2**32


# --- compression -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"", 0),
        (b"\x00", 0),
        (b"\x7f\xff", 127),
        (b"\x80\x01", 128),
        (b"\xff\x7f\xff", 2**14 - 1),
        (b"\x80\x80\x01", 2**14),
        (b"\x80\x80\x80\x08", 2**24),
        (b"\xff\xff\xff\xff\x0f", 2**32 - 1),
        (b"\x80\x80\x80\x80\x80\x01", 0),
    ],
)
def test_seven_bits_of_the_size_are_in_each_of_five_bytes(data: bytes, size: int) -> None:
    assert _expanded_size(data) == size


def chunks(*parts: bytes) -> bytes:
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(part)) + part for part in parts)


@pytest.mark.parametrize("more", [0, 1])
def test_a_part_expands_to_16_mib_at_most(more: int) -> None:
    cramjam = pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    data = bytes(2**24 + more)
    reader = uncompressed(io.BytesIO(chunks(bytes(cramjam.snappy.compress_raw(data)))))
    if more:
        with pytest.raises(
            FileError, match="byte 16: a compressed part is longer than the longest part of any writer"
        ):
            reader.read()
    else:
        assert reader.read() == data


@pytest.mark.parametrize("size", [-1, -2, 2**24 + 1, 2**31 - 1])
def test_a_part_of_a_wrong_length_is_not_read(size: int) -> None:
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    file = io.BytesIO(chunks() + struct.pack(">i", size) + bytes(2**24 + 100))
    with pytest.raises(FileError, match="byte 16: the length of a compressed part is wrong"):
        uncompressed(file).read()
    assert file.tell() == 20


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_length_that_is_cut_is_told(size: int) -> None:
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    reader = uncompressed(io.BytesIO(chunks() + bytes(size)))
    with pytest.raises(
        FileError, match="byte 16: the length of a compressed part is wrong, or the file was cut"
    ):
        reader.read()


def test_a_part_of_the_greatest_length_is_read() -> None:
    """What is in it is another matter."""
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    file = io.BytesIO(chunks(b"\x01" + bytes(2**24 - 1)))
    with pytest.raises(FileError, match="byte 16: a compressed part cannot be expanded"):
        uncompressed(file).read()
    assert file.tell() == 20 + 2**24


def test_what_is_read_of_a_compressed_file_may_be_less_than_a_part() -> None:
    cramjam = pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    parts = [bytes(range(256)) * 10, b"", b"end"]
    raw = streams._Snappy(io.BytesIO(chunks(*(bytes(cramjam.snappy.compress_raw(part)) for part in parts))))
    assert raw.readable()
    found, buffer = [], bytearray(1000)
    while size := raw.readinto(buffer):
        found.append(bytes(buffer[:size]))
    assert [len(piece) for piece in found] == [1000, 1000, 560, 3]
    assert b"".join(found) == b"".join(parts)


def test_a_snappy_file_has_parts_of_32_kib() -> None:
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    out = io.BytesIO()
    with compressing(out, "snappy") as stream:
        stream.write(bytes(80_000))
        stream.write(bytes(20_000))
    data, at, sizes = out.getvalue(), 16, []
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        sizes.append(_expanded_size(data[at + 4 : at + 9]))
        at += 4 + size
    assert sum(sizes) == 100_000
    assert max(sizes) == sizes[0] == 32_768


def test_a_gzip_file_has_the_level_of_java() -> None:
    draw = random.Random(7)
    data = b"".join(draw.choice([b"abra", b"cadabra", b"a", b"brac", b"dabr"]) for _ in range(30_000))
    out = io.BytesIO()
    with compressing(out, "gz") as stream:
        stream.write(data)
    bodies = {level: gzip.compress(data, level)[10:] for level in (5, 6, 7)}
    assert len(set(bodies.values())) == 3
    assert out.getvalue()[10:] == bodies[6]


# --- reading piece by piece --------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "fits"), [(100, True), (99, False)])
def test_a_stream_may_have_so_many_bytes(most: int, fits: bool) -> None:
    source = Input(io.BytesIO(bytes(100)), most)
    if fits:
        assert source.has(100)
        assert not source.has(101)
        assert source.take(100) == bytes(100)
    else:
        with pytest.raises(FileError, match="byte 0: more than 99 bytes: it is compressed too well"):
            source.has(1)


def test_what_lies_before_counts_for_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PIECE", 10)
    source = Input(io.BytesIO(bytes(100)), 95)
    assert source.take(85) == bytes(85)
    assert source.has(5)
    with pytest.raises(FileError, match="byte 85: more than 95 bytes"):
        source.has(6)


def test_a_file_that_cannot_be_uncompressed_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PIECE", 10)
    packed = gzip.compress(bytes(range(100)))
    source = Input(uncompressed(io.BytesIO(packed[:-8])))
    assert source.take(30) == bytes(range(30))
    with pytest.raises(FileError, match="byte 30: it cannot be uncompressed"):
        source.take(1000)
    assert (source.offset, source.data[source.pos :]) == (30, bytes(range(30, 100)))
    assert source.checksum() == zlib.adler32(bytes(range(30)))


def test_no_more_is_read_than_was_asked_for() -> None:
    file = io.BytesIO(bytes(2**21))
    source = Input(file)
    for size in (2**20, 1):
        assert source.has(size)
        assert file.tell() == 2**20
    assert source.has(2**20 + 1)
    assert file.tell() == 2**21


def test_a_file_is_read_1_mib_at_a_time() -> None:
    """Never more at once than there may be: a length may be anything."""
    asked: list[int] = []

    class Asked(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    source = Input(Asked(bytes(2**21 + 5)))
    assert not source.has(2**40)
    assert asked == [2**20] * 4


def test_the_checksum_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PIECE", 10)
    data = bytes(range(200))
    source = Input(io.BytesIO(data))
    for size in (3, 7, 10, 0, 25, 1, 154):
        assert source.take(size) == data[source.offset - size : source.offset]
        for _ in range(2):
            assert source.checksum() == zlib.adler32(data[: source.offset])
    with pytest.raises(FileError, match="byte 200: the end ends too early: 1 bytes should follow"):
        source.take(1, "the end")


# --- snapshots ---------------------------------------------------------------------------------------------


def snapshot(*nodes: bytes) -> bytes:
    data = b"ZKSN\0\0\0\2" + b"\xff" * 8 + bytes(8) + b"".join(nodes)
    return data + tail(zlib.adler32(data), None, 3)


ROOT = NodeEncoder().encode("", b"", OPEN_ACL, bytes(60))


@pytest.mark.parametrize("behind", [1, 4, 5, 6, 100])
def test_nothing_may_stand_behind_the_end(behind: int) -> None:
    data = snapshot(ROOT)
    reader = SnapshotReader(io.BytesIO(data + b"x" * behind))
    with pytest.raises(FileError, match=f"byte {len(data):,}: there are bytes after the end"):
        list(reader.nodes())


@pytest.mark.parametrize(("largest", "fits"), [(10, True), (9, False)])
def test_paths_and_data_have_so_many_bytes(largest: int, fits: bool) -> None:
    bounds = UNBOUNDED._replace(largest=largest)
    for node in (
        NodeEncoder().encode("/" + "x" * 9, b"", OPEN_ACL, bytes(60)),
        NodeEncoder().encode("/a", b"x" * 10, OPEN_ACL, bytes(60)),
    ):
        reader = SnapshotReader(io.BytesIO(snapshot(ROOT, node)), bounds)
        if fits:
            assert len(list(reader.nodes())) == 2
        else:
            with pytest.raises(FileError, match=r"of 10 bytes is too large: set jute\.maxbuffer=5 or"):
                list(reader.nodes())


@pytest.mark.parametrize("piece", [10, 64, 100, 2000])
def test_a_list_of_access_may_lie_in_several_pieces(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """How long it is shows only when it is read."""
    monkeypatch.setattr(streams, "_PIECE", piece)
    acl = tuple(ACL(1, Id("ip", f"10.0.0.{number}")) for number in range(100))
    encoder = NodeEncoder()
    node = encoder.encode("", b"", acl, bytes(60))
    data = encoder.head({}) + node
    reader = SnapshotReader(io.BytesIO(data + tail(zlib.adler32(data), None, 3)))
    assert [each.acl for each in reader.nodes()] == [acl]
    with pytest.raises(FileError, match="byte 32: an ACL cannot be read"):
        SnapshotReader(io.BytesIO(data[:1000]))


def test_the_bounds_of_a_packet() -> None:
    assert Bounds.of(1000) == (2000, float("inf"))
    assert Bounds.of(1000, 7) == (2000, 7)
    assert tuple(UNBOUNDED) == (float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("zxid", "version", "known"), [(1, VERSION, True), (0, VERSION, False), (1, VERSION + 1, False)]
)
def test_a_digest_of_a_snapshot_counts_in_its_own_version(zxid: int, version: int, known: bool) -> None:
    data = b"ZKSN\0\0\0\2" + b"\xff" * 8 + bytes(8) + ROOT
    for part in (b"\0\0\0\1/", struct.pack(">qiq", zxid, version, -2), struct.pack(">q", 3)):
        data += part
        data += struct.pack(">qi1s", zlib.adler32(data), 1, b"/")
    reader = SnapshotReader(io.BytesIO(data))
    assert len(list(reader.nodes())) == 1
    assert reader.digest == ((1, 2**64 - 2) if known else None)
    assert reader.last_zxid == 3


def test_an_end_of_a_checksum_that_is_missing_is_told() -> None:
    data = b"ZKSN\0\0\0\2" + b"\xff" * 8 + bytes(8) + ROOT + b"\0\0\0\1/"
    for end in (struct.pack(">i1s", 2, b"/"), struct.pack(">i1s", 1, b"x")):
        reader = SnapshotReader(io.BytesIO(data + struct.pack(">q", zlib.adler32(data)) + end))
        with pytest.raises(FileError, match="the end of the checksum of the tree is missing") as caught:
            list(reader.nodes())
        assert caught.value.offset == len(data) + 8


# --- logs --------------------------------------------------------------------------------------------------


def framed(payload: bytes) -> bytes:
    return struct.pack(">qi", zlib.adler32(payload), len(payload)) + payload + b"B"


@pytest.mark.parametrize("piece", [1, 7, 16, 40])
@pytest.mark.parametrize("size", [-1, 5, 10_000])
@pytest.mark.parametrize("padding", [0, 3, 50])
def test_a_damaged_end_is_put_together_of_its_pieces(
    monkeypatch: pytest.MonkeyPatch, piece: int, size: int, padding: int
) -> None:
    """Zeros may stand anywhere in it; those at its end were only made longer."""
    monkeypatch.setattr(streams, "_PIECE", piece)
    good = log([Entry(0, SESSION, 1, 1, 1, 2, DeleteTxn("/a"), None)])
    data = b"\0" * 20 + b"xy" + b"\0" * 33 + b"z" + b"\0" * 9
    last = encode(Entry(0, SESSION, 1, 2, 1, 5, SetDataTxn("/a", data, 1), None))
    wrong = last[:8] + struct.pack(">i", size) + last[12:]
    reader = LogReader(io.BytesIO(good + wrong + bytes(padding)))
    with pytest.raises(FileError, match="the length of an entry is wrong") as caught:
        list(reader.entries())
    assert caught.value.offset == len(good) + 8
    reader = LogReader(io.BytesIO(good + wrong[:-1] + bytes(padding)))
    assert len(list(reader.entries())) == 1
    assert reader.torn == len(good)


@pytest.mark.parametrize("zeros", range(9))
@pytest.mark.parametrize("fill", [b"", b"\xff", b"\xff\0\xff"])
def test_a_whole_entry_is_found_behind_any_number_of_zeros(zeros: int, fill: bytes) -> None:
    good = log([Entry(0, SESSION, 1, 1, 1, 2, DeleteTxn("/a"), None)])
    whole = encode(Entry(0, SESSION, 1, 2, 1, 2, DeleteTxn("/b"), None))
    reader = LogReader(io.BytesIO(good + b"\xff" * 40 + fill + bytes(zeros) + whole))
    with pytest.raises(FileError, match="an entry is damaged, and whole entries follow") as caught:
        list(reader.entries())
    assert caught.value.offset == len(good)


def test_the_smallest_entry_is_read() -> None:
    """A closeSession without a record is its header alone."""
    payload = struct.pack(">qiqqi", SESSION, 0, 3, 1003, -11)
    reader = LogReader(io.BytesIO(FILE_HEADER + framed(payload)))
    assert [entry.txn for entry in reader.entries()] == [CloseSessionTxn(None)]
    assert reader.torn is None
    assert decode(payload).offset == 0
    assert decode(payload, 7).offset == 7
    with pytest.raises(FileError):
        list(LogReader(io.BytesIO(FILE_HEADER + framed(payload[:-1]))).entries())


@pytest.mark.parametrize(
    ("type_", "txn"),
    [
        (1, CreateTxn(None, b"", OPEN_ACL, False, 1)),
        (2, DeleteTxn(None)),
        (5, SetDataTxn(None, b"", 1)),
        (7, SetACLTxn(None, OPEN_ACL, 1)),
        (14, MultiTxn([(2, DeleteTxn(None))])),
    ],
)
def test_a_null_path_is_damage(type_: int, txn: object) -> None:
    """No server writes one: an entry with one cannot be applied."""
    files = Folder({"snapshot.0": written(Image.fresh())})
    files.files["log.1"] = log([Entry(0, SESSION, 1, 1, 1, type_, txn, None)])  # type: ignore[arg-type]
    with pytest.raises(Damaged, match=r"^log\.1, byte 16: an entry cannot be read: .*null"):
        files.restore()
    assert files.restore(repair=True).entries == 0


def test_a_log_in_a_later_epoch_may_begin_anywhere() -> None:
    """The zxid in a new epoch need not be its first one."""
    files = Folder({"snapshot.0": written(Image.fresh())})
    first, second = 1, (1 << 32) + 5
    made = [
        Entry(0, SESSION, 1, zxid, 1, 1, CreateTxn(f"/{n}", b"", OPEN_ACL, False, n), None)
        for n, zxid in enumerate((first, second, second + 1), 1)
    ]
    files.files["log.1"] = log(made)
    found = files.restore()
    assert (found.entries, found.image.zxid) == (3, second + 1)
    made[2] = Entry(0, SESSION, 1, second + 2, 1, 1, CreateTxn("/3", b"", OPEN_ACL, False, 3), None)
    files.files["log.1"] = log(made)
    with pytest.raises(Damaged, match="the transactions from 0x100000006 to 0x100000006 are missing"):
        files.restore()


def test_what_lies_before_the_snapshot_is_passed_over() -> None:
    made = entries()
    image = Image.fresh()
    for entry in made[:4]:
        image.apply(entry)
    files = Folder({"snapshot.4": written(image), "log.1": log(made)})
    found = files.restore()
    assert (found.entries, found.image.zxid) == (len(made) - 4, made[-1].zxid)
    assert state(found.image) == state(history().restore().image)


def test_a_snapshot_that_was_never_finished_counts_by_its_zxid() -> None:
    """The logs make up for it if they go as far, and not if they end before."""
    files = history()
    last = files.restore().image.zxid
    for zxid, damage in ((last, False), (last + 1, True)):
        files.files = {**history().files, f"snapshot.{zxid:x}": b"ZKSN"}
        if damage:
            with pytest.raises(Damaged, match="the logs end earlier"):
                files.restore()
        else:
            files.restore()
            assert [line for line in files.told if "an older snapshot and the logs replace it" in line]


def test_a_file_is_named_once_among_those_to_set_aside() -> None:
    files = history()
    data = files.files["log.1"]
    files.files["log.1"] = data[:-1] + b"x"
    files.files["log.ff"] = data
    files.files["snapshot.ff"] = b"ZKSN"
    found = files.restore(repair=True)
    assert found.aside == ["log.1", "log.ff", "snapshot.ff"]
    assert [line.endswith("; left out by the repair") for line in files.told] == [True, True]


def test_what_is_found_of_nothing() -> None:
    found = Restored(Image.fresh())
    assert (found.snapshot, found.entries, found.aside, list(found.digests)) == (None, 0, [], [])
    assert found.digests.maxlen == 1024


def test_progress_is_told_every_20000_entries() -> None:
    made = [Entry(0, SESSION, 1, n, 1, 2, DeleteTxn("/none"), None) for n in range(1, 20_010)]
    files = {"snapshot.0": written(Image.fresh()), "log.1": log(made)}
    told: list[tuple[str, int]] = []
    Restorer(
        files, lambda name: io.BytesIO(files[name]), progress=lambda what, count: told.append((what, count))
    ).restore()
    assert told == [("entries", 20_000)]


# --- owners ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "ttl", "session"),
    [
        (0, None, False),
        (1, None, True),
        (-(2**63), None, False),
        (-(2**63) + 1, None, True),
        (TTL_MARK - 2**64, None, True),
        (TTL_MARK - 2**64 + 1, 1, False),
        (TTL_MARK - 2**64 + MAX_TTL, MAX_TTL, False),
        (TTL_MARK - 2**64 + MAX_TTL + 1, None, True),
        (TTL_MARK - 2**64 - 1, None, True),
    ],
)
def test_the_marks_of_an_owner(owner: int, ttl: int | None, session: bool) -> None:
    assert (ttl_of(owner), is_session(owner)) == (ttl, session)
    assert MAX_TTL == 2**40 - 1


def test_the_ephemerals_of_each_session_go_with_it_alone() -> None:
    image = Image.fresh()
    for path, owner in (("/a", 5), ("/b", 6), ("/c", 5), ("/p", 0)):
        image.nodes[path] = ImageNode(b"", OPEN_ACL, STAT.pack(1, 1, 1, 1, 0, 0, 0, owner, 1))
    image.sessions = {5: 4000, 6: 4000}
    image.apply(Entry(0, 5, 1, 9, 1, -11, CloseSessionTxn(None), None))
    assert set(image.nodes) & {"/a", "/b", "/c", "/p"} == {"/b", "/p"}
    assert image.sessions == {6: 4000}
    image.apply(Entry(0, 7, 1, 10, 1, -11, CloseSessionTxn(None), None))
    assert image.sessions == {6: 4000}
    assert image.zxid == 10


def test_equal_lists_that_are_open_to_everybody_are_one_object() -> None:
    image = Image.fresh()
    acl = (*OPEN_ACL,)
    image.apply(Entry(0, 5, 1, 1, 1, 1, CreateTxn("/a", b"", acl, False, 1), None))
    assert image.nodes["/a"].acl is OPEN_ACL


# --- places ------------------------------------------------------------------------------------------------


def test_a_device_is_no_file() -> None:
    with pytest.raises(OSError, match="it is not a regular file") as caught:
        open_regular("/dev/null")
    assert caught.value.filename == "/dev/null"
    assert caught.value.errno == 22


def test_a_directory_that_holds_logs_alone_holds_data(tmp_path: Path) -> None:
    folder = tmp_path / "version-2"
    folder.mkdir()
    (folder / "log.1").touch()
    with pytest.raises(FileExistsError, match="already contains data; name another directory"):
        write_image(Image.fresh(), tmp_path)
    (folder / "log.1").unlink()
    (folder / "other").touch()
    assert write_image(Image.fresh(), tmp_path) == folder / "snapshot.0"

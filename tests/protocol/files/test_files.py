"""Snapshots and logs as bytes: round trips, and what damage becomes of (files.md sections 2, 3, 4 and 6)."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from contextlib import suppress

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.files.digest import signed, value_of
from pyzk.protocol.files.image import CONTAINER, MAX_TTL, Image, is_session, ttl_of
from pyzk.protocol.files.names import Listing, log_name, snapshot_name
from pyzk.protocol.files.restoring import Damaged, read_image
from pyzk.protocol.files.snapshot import STAT, SnapshotReader
from pyzk.protocol.files.streams import FileError, Input, uncompressed
from pyzk.protocol.files.txnlog import FILE_HEADER, LogReader, encode

from .sample import SESSION, Folder, entries, history, log, prefixes, state, written

MADE = entries()
STATES = prefixes(MADE)
LOG = log(MADE)
ENDS = [len(log(MADE[:count])) for count in range(len(MADE) + 1)]
"""Where each entry of the log ends; first, where the header does."""


# --- names -------------------------------------------------------------------------------------------------


def test_a_name_is_a_kind_and_a_zxid_and_may_go_on() -> None:
    names = "log.1f snapshot.0 snapshot.5.gz snapshot.5.bak snapshot.x log x.log.1 log.1-2"
    found = Listing.of(names.split())
    assert [(name.zxid, name.text) for name in found.snapshots] == [
        (0, "snapshot.0"),
        (5, "snapshot.5.bak"),
        (5, "snapshot.5.gz"),
    ]
    assert found.logs == [(0x1F, "log.1f")]
    assert (snapshot_name(0x1F), log_name(0)) == ("snapshot.1f", "log.0")


@pytest.mark.parametrize(("zxid", "first"), [(0, 1), (3, 1), (4, 1), (5, 5), (6, 5), (8, 5), (9, 9), (99, 9)])
def test_replay_begins_with_the_last_log_that_is_not_younger(zxid: int, first: int) -> None:
    """The log before that of the next zxid may hold what was not applied yet (files.md section 4.1)."""
    logs = Listing.of(["log.1", "log.5", "log.9"]).logs_from(zxid)
    assert [name.zxid for name in logs] == [at for at in (1, 5, 9) if at >= first]


# --- round trips -------------------------------------------------------------------------------------------


def test_a_log_is_read_as_it_was_written() -> None:
    read = list(LogReader(io.BytesIO(LOG)).entries())
    assert [encode(entry) for entry in read] == [encode(entry) for entry in MADE]
    assert [entry.offset for entry in read] == ENDS[:-1]
    assert [entry.txn for entry in read] == [entry.txn for entry in MADE]


def test_a_log_that_was_made_longer_ends_at_its_zeros() -> None:
    reader = LogReader(io.BytesIO(LOG + bytes(70_000)))
    assert len(list(reader.entries())) == len(MADE)
    assert reader.torn is None


@pytest.mark.parametrize("data", [b"", bytes(100), FILE_HEADER, FILE_HEADER + bytes(50)])
def test_a_log_may_be_empty(data: bytes) -> None:
    assert list(LogReader(io.BytesIO(data)).entries()) == []


def a_tree() -> Image:
    image = Image.fresh()
    for entry in MADE[:-1]:
        image.apply(entry)
    return image


def test_a_snapshot_is_read_as_it_was_written() -> None:
    image = a_tree()
    found, digest = read_image(io.BytesIO(written(image)), image.zxid)
    assert state(found) == state(image)
    assert digest == (image.zxid, image.digest)


@pytest.mark.parametrize("compress", [gzip.compress, lambda data: snappy(data)])
def test_compressed_snapshots_are_told_by_their_first_bytes(compress: object) -> None:
    assert callable(compress)
    image = a_tree()
    found, _ = read_image(io.BytesIO(compress(written(image))), image.zxid)
    assert state(found) == state(image)


def snappy(data: bytes) -> bytes:
    """As snappy-java writes it: the head, then chunks of 32 KiB."""
    cramjam = pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    out = bytes.fromhex("82534e41505059000000000100000001")
    for at in range(0, len(data), 100):
        chunk = bytes(cramjam.snappy.compress_raw(data[at : at + 100]))
        out += struct.pack(">i", len(chunk)) + chunk
    return out


def test_a_damaged_part_of_a_snappy_file_is_told() -> None:
    data = bytearray(snappy(written(a_tree())))
    with pytest.raises(FileError, match="compressed"):
        read_image(io.BytesIO(bytes(data[:-3])), 1)
    data[20:24] = b"\xff\xff\xff\xff"
    with pytest.raises(FileError):
        read_image(io.BytesIO(bytes(data)), 1)


def test_what_is_cut_off_a_gzip_file_is_told() -> None:
    data = gzip.compress(written(a_tree()))
    with pytest.raises(FileError, match="cannot be uncompressed"):
        read_image(io.BytesIO(data[:-20]), 1)


def test_snappy_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    with pytest.raises(FileError, match="pip install cramjam"):
        uncompressed(io.BytesIO(b"\x82SNAPPY\0" + bytes(20)))


@pytest.mark.parametrize(("digest", "last"), [(True, True), (True, False), (False, True), (False, False)])
def test_each_part_behind_the_tree_may_be_missing(digest: bool, last: bool) -> None:
    """Which parts there are depends on the release and its options (files.md section 2.1)."""
    image = a_tree()
    data = written(image)
    end = len(data) - 33 - 21
    parts = []
    if digest:
        parts.append(data[end : end + 20])
    if last:
        parts.append(data[end + 33 : end + 41])
    made = data[:end]
    for part in parts:
        made += part
        made += struct.pack(">qi1s", zlib.adler32(made), 1, b"/")
    reader = SnapshotReader(io.BytesIO(made))
    assert len(list(reader.nodes())) == len(image.nodes)
    assert reader.digest == ((image.zxid, image.digest) if digest else None)
    assert reader.last_zxid == (image.zxid if last else None)


# --- the digest --------------------------------------------------------------------------------------------


def test_a_part_that_says_it_expands_to_very_much_is_not_expanded() -> None:
    pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    part = b"\xff\xff\xff\xff\x07" + bytes(100)  # 2 GiB, seven bits in each byte
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    with pytest.raises(FileError, match="longer than the longest part of any writer"):
        SnapshotReader(io.BytesIO(head + struct.pack(">i", len(part)) + part))


def test_the_digest_before_the_first_transaction() -> None:
    assert Image.fresh().count_digest() == 0x51C6D660


def test_a_digest_that_is_kept_is_that_of_the_whole_tree() -> None:
    image = Image.fresh()
    image.count_digest()
    for entry in MADE:
        image.apply(entry)
        kept = image.digest
        assert kept == image.count_digest() == entry.digest


def test_what_enters_the_digest() -> None:
    stat = STAT.pack(1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert value_of("/zookeeper/quota", b"x", stat) == 0
    assert value_of("/zookeeper", b"x", stat) != 0
    assert value_of("/a", None, stat) == value_of("/a", b"", stat) != value_of("/a", b"x", stat)
    stats = [STAT.pack(*(9 if at == field else 0 for at in range(9))) for field in range(9)]
    assert len({value_of("/a", b"", stat) for stat in stats}) == 9
    assert signed(2**64 - 1) == -1
    assert signed(5) == 5


# --- replaying ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", range(len(MADE)))
def test_entries_that_were_applied_before_change_nothing(again: int) -> None:
    """A snapshot that was written while the tree changed holds results of later entries."""
    image = a_tree()
    image.apply(MADE[-1])
    expected = state(image)
    for entry in MADE[again:]:
        image.apply(entry)
    assert state(image) == expected


def test_orphans_are_dropped_and_marks_are_no_sessions() -> None:
    image = a_tree()
    assert image.drop_orphans() == []
    image.sessions.clear()
    assert image.drop_orphans() == ["/a/e"]
    assert {"/t", "/a"} <= set(image.nodes)
    assert (is_session(SESSION), is_session(0), is_session(CONTAINER)) == (True, False, False)
    assert ttl_of((0xFF << 56 | MAX_TTL) - 2**64) == MAX_TTL
    assert ttl_of(CONTAINER) is ttl_of(5) is None
    assert is_session((0xFE << 56) - 2**64)


# --- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", [0, 200])
def test_a_log_that_is_cut_anywhere_gives_what_is_whole_before_the_cut(padding: int) -> None:
    files = history()
    for size in range(len(LOG)):
        files.files["log.1"] = LOG[:size] + bytes(padding)
        found = files.restore()
        whole = max((count for count, end in enumerate(ENDS) if end <= size), default=0)
        assert state(found.image) == STATES[whole], size
        told = [line for line in files.told if "incomplete" in line]
        cut = LOG[: ENDS[whole]].ljust(size, b"\0") if size >= 16 else LOG[:0]
        is_torn = size not in (0, *ENDS) and LOG[:size].rstrip(b"\0") != cut.rstrip(b"\0")
        assert bool(told) == is_torn or size < 16, (size, told)
        if told and size > 16:
            assert told == [
                f"log.1, byte {ENDS[whole]:,}: the last entry is incomplete and is left out: the server "
                "stopped while it wrote the entry"
            ]


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("with_digests", [True, False])
def test_each_wrong_byte_of_a_log_is_noticed_or_does_not_matter(mask: int, with_digests: bool) -> None:
    files = history(with_digests=with_digests)
    data = files.files["log.1"]
    last = len(log(entries(with_digests=with_digests)[:-1]))
    for at in range(len(data)):
        wrong = bytearray(data)
        wrong[at] ^= mask
        files.files["log.1"] = bytes(wrong)
        damage = ""
        try:
            found = files.restore()
        except Damaged as error:
            damage = str(error)
        assert not damage or "log.1, byte " in damage
        if not damage:  # version and id of the header, which nobody looks at; or the last entry looks torn
            assert 4 <= at < 16 or at >= last, at
            assert state(found.image) == (STATES[-1] if at < 16 else STATES[-2])
            assert bool(files.told) == (at >= last)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_each_byte_of_a_snapshot_that_is_wrong_is_noticed(mask: int) -> None:
    image = a_tree()
    data = written(image)
    for at in range(len(data)):
        wrong = bytearray(data)
        wrong[at] ^= mask
        with pytest.raises(FileError):
            read_image(io.BytesIO(bytes(wrong)), image.zxid)
    for size in range(len(data) - 33 - 21 - 1):
        with pytest.raises(FileError):
            read_image(io.BytesIO(data[:size]), image.zxid)


def test_zeros_in_the_middle_of_a_log_are_no_end() -> None:
    files = history()
    data = bytearray(LOG)
    data[ENDS[4] : ENDS[5]] = bytes(ENDS[5] - ENDS[4])
    files.files["log.1"] = bytes(data)
    with pytest.raises(Damaged, match=f"log.1, byte {ENDS[4]:,}: zeros, and after them"):
        files.restore()
    found = files.restore(repair=True)
    assert state(found.image) == STATES[4]
    assert found.aside == ["log.1"]


def test_a_log_that_is_missing_is_noticed() -> None:
    files = history()
    files.files |= {"log.4": log(MADE[3:6]), "log.7": log(MADE[6:]), "log.1": log(MADE[:3])}
    assert state(files.restore().image) == STATES[-1]
    del files.files["log.4"]
    with pytest.raises(Damaged, match=r"log\.7, byte 16: the transactions from 0x4 to 0x6 are missing"):
        files.restore()
    found = files.restore(repair=True)
    assert state(found.image) == STATES[3]
    assert found.aside == ["log.7"]


def test_a_new_epoch_is_no_gap() -> None:
    first = (5 << 32) + 1
    files = history(first)
    image = Image.fresh()
    image.zxid = (4 << 32) + 77
    del files.files[f"snapshot.{first - 1:x}"]
    files.files[f"snapshot.{image.zxid:x}"] = written(image)
    assert files.restore().image.zxid == first + len(MADE) - 1


def test_a_snapshot_that_cannot_be_read_matters_if_nothing_makes_up_for_it() -> None:
    files = history()
    whole = files.files["log.1"]
    files.files["snapshot.5"] = b"ZKSN" + bytes(40)
    assert state(files.restore().image) == STATES[-1]
    assert [line for line in files.told if line.startswith("snapshot.5, byte ")]
    files.files["log.1"] = log(MADE[:3])
    with pytest.raises(Damaged, match=r"snapshot\.5, .*the logs end earlier"):
        files.restore()
    found = files.restore(repair=True)
    assert (state(found.image), found.aside) == (STATES[3], ["snapshot.5"])
    files.files = {"log.1": whole}
    with pytest.raises(Damaged, match=r"^there are logs and no snapshot: the tree at their beginning"):
        files.restore()
    assert state(files.restore(repair=True).image) == STATES[-1]


def test_a_digest_that_does_not_match_is_noticed() -> None:
    wrong = [*MADE]
    wrong[-1] = attrs.evolve(MADE[-1], digest=5)
    files = history()
    files.files["log.1"] = log(wrong)
    with pytest.raises(Damaged, match="does not match its digest"):
        files.restore()
    assert state(files.restore(repair=True).image) == STATES[-1]


def test_no_files_are_a_fresh_server() -> None:
    found = Folder({}).restore()
    assert (found.snapshot, found.entries, state(found.image)) == (None, 0, STATES[0])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for start in (b"", b"ZKSN\0\0\0\2" + b"\xff" * 8):
        with pytest.raises(FileError):
            read_image(io.BytesIO(start + data), 0)
    with suppress(FileError):
        assert list(LogReader(io.BytesIO(FILE_HEADER + data)).entries()) == []


def test_an_input_counts_the_checksum_piece_by_piece() -> None:
    data = bytes(range(256)) * 20_000
    source = Input(io.BytesIO(data))
    for size in (1, 4095, 3_000_000, 17):
        source.take(size)
        assert source.checksum() == zlib.adler32(data[: source.offset])
    with pytest.raises(FileError, match="negative"):
        source.take(-1)
    with pytest.raises(FileError, match="ends too early"):
        source.take(len(data))

"""The bodies of ops 14 and 22 (wire.md section 10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyzk.protocol import records as r
from pyzk.protocol.jute import JuteError, Record
from pyzk.protocol.multi import (
    READ_OPS,
    TRANSACTION_OPS,
    MultiOp,
    MultiResult,
    decode_multi,
    decode_results,
    encode_multi,
    encode_results,
)
from pyzk.protocol.operations import OpCode

TERMINATOR = bytes.fromhex("ffffffff 01 ffffffff")
STAT = r.Stat(*range(11))


def create(flags: int) -> r.CreateRequest:
    return r.CreateRequest("/p", b"d", r.OPEN_ACL, flags)


def create_ttl(flags: int) -> r.CreateTTLRequest:
    return r.CreateTTLRequest("/p", b"d", r.OPEN_ACL, flags, 5)


DELETE, SET = r.DeleteRequest("/p", 3), r.SetDataRequest("/p", None, -1)
CHECK = r.CheckVersionRequest("/p", 1)
CHILDREN, GET = r.GetChildrenRequest("/p", True), r.GetDataRequest("/p", False)


@pytest.mark.parametrize(
    "ops",
    [
        [],
        [
            (1, create(0)),
            (15, create(3)),
            (19, create(4)),
            (21, create_ttl(5)),
            (2, DELETE),
            (5, SET),
            (13, CHECK),
        ],
        [(8, CHILDREN), (4, GET), (8, CHILDREN)],
    ],
    ids=["empty", "transaction", "reads"],
)
def test_a_round_trip_keeps_the_operations(ops: list[tuple[int, Record]]) -> None:
    items = [MultiOp(op, request) for op, request in ops]
    encoded = encode_multi(items)
    assert decode_multi(b"12345678" + encoded + b"rest", 8) == items
    assert encoded.endswith(TERMINATOR)


def test_the_bytes_of_a_body() -> None:
    assert encode_multi([MultiOp(2, DELETE)]) == (
        bytes.fromhex("00000002 00 ffffffff  00000002 2f70 00000003") + TERMINATOR
    )


# How the decoder changes creates before anything validates them: header type, record, what it becomes (None:
# the whole multi is undecodable).
QUIRKS: list[tuple[int, Any, tuple[int, Any] | None]] = [
    *((op, create(flags), (op, create(flags))) for op in (1, 15) for flags in range(4)),
    *((op, create(4), (19, create(4))) for op in (1, 15)),
    *((19, create(flags), (19, create(flags))) for flags in range(5)),
    *((op, create(flags), None) for op in (1, 15, 19) for flags in (5, 6, 7, -1, 2**31 - 1)),
    *((21, create_ttl(flags), (21, create_ttl(flags))) for flags in (5, 6)),
    *((21, create_ttl(flags), (1, create(flags))) for flags in (0, 1, 2, 3, 7, -1)),
    (21, create_ttl(4), (19, create(4))),
]


@pytest.mark.parametrize(
    ("op", "request_", "becomes"), QUIRKS, ids=[f"op{op}-flags{request.flags}" for op, request, _ in QUIRKS]
)
def test_the_decoders_own_reading_of_creates(op: int, request_: Record, becomes: Any) -> None:
    encoded = encode_multi([MultiOp(op, request_), MultiOp(2, DELETE)])
    if becomes is None:
        with pytest.raises(JuteError):
            decode_multi(encoded)
    else:
        assert decode_multi(encoded) == [MultiOp(*becomes), MultiOp(2, DELETE)]


DECODABLE = {1, 15, 19, 21, 2, 5, 13, 8, 4}


def test_which_operations_can_be_part_of_a_multi() -> None:
    assert set(TRANSACTION_OPS) | set(READ_OPS) == DECODABLE


@pytest.mark.parametrize("op", [*(op for op in OpCode if op not in DECODABLE), 999])
def test_any_other_operation_is_undecodable(op: int) -> None:
    body = r.MultiHeader(op, False, -1).encode() + create(0).encode() + TERMINATOR
    with pytest.raises(JuteError):
        decode_multi(body)


@pytest.mark.parametrize(
    "order", [[(4, GET), (2, DELETE)], [(2, DELETE), (8, CHILDREN)]], ids=["read first", "last"]
)
def test_reads_and_transaction_operations_do_not_mix(order: list[tuple[int, Record]]) -> None:
    with pytest.raises(JuteError):
        decode_multi(encode_multi([MultiOp(*item) for item in order]))


@pytest.mark.parametrize(
    "terminator", ["ffffffff 01 ffffffff", "00000001 02 00000000", "7fffffff ff 00000007"]
)
def test_nothing_of_the_terminator_is_looked_at_but_its_done(terminator: str) -> None:
    body = r.MultiHeader(2, False, 77).encode() + DELETE.encode() + bytes.fromhex(terminator)
    assert decode_multi(body) == [MultiOp(2, DELETE)]


@given(st.data())
def test_a_truncated_body_is_malformed(data: st.DataObject) -> None:
    encoded = encode_multi([MultiOp(1, create(0)), MultiOp(5, SET)])
    with pytest.raises(JuteError):
        decode_multi(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=100), st.sampled_from([decode_multi, decode_results]))
def test_noise_is_malformed_or_decodes(noise: bytes, decode: Any) -> None:
    try:
        decode(noise)
    except JuteError:
        return
    assert any(noise), "not even a terminator is in there"


def plainly(data: bytes, pos: int) -> list[MultiOp]:
    """What :func:`decode_multi` does, one record after the other."""
    ops: list[MultiOp] = []
    while not (header := r.MultiHeader.read(data, pos))[0].done:
        op, pos = header[0].type, header[1]
        cls = (READ_OPS | TRANSACTION_OPS).get(op)
        if cls is None or (op in READ_OPS) != ((ops[0].op if ops else op) in READ_OPS):
            raise JuteError
        request: Any
        request, pos = cls.read(data, pos)
        if op in (1, 15, 19, 21):
            becomes = [row[2] for row in QUIRKS if (row[0], row[1].flags) == (op, request.flags)]
            if becomes == [None] or (op != 21 and (request.acl is None or not 0 <= request.flags <= 6)):
                raise JuteError
            became = becomes[0] if becomes else (1, None)
            if op == 21 and became[0] != 21:
                request = r.CreateRequest(request.path, request.data, request.acl, request.flags)
            op = became[0]
        ops.append(MultiOp(op, request))
    return ops


_small = st.sampled_from(["/a", "", None])
_data = st.sampled_from([b"", b"data", None])
_acl = st.sampled_from([r.OPEN_ACL, r.READ_ACL, (), None])
_flags = st.integers(-1, 7)
_version = st.integers(-1, 300)
_creates = st.builds(r.CreateRequest, _small, _data, _acl, _flags)
_items: list[st.SearchStrategy[MultiOp]] = [
    st.builds(MultiOp, st.just(5), st.builds(r.SetDataRequest, _small, _data, _version)),
    st.builds(MultiOp, st.just(2), st.builds(r.DeleteRequest, _small, _version)),
    st.builds(MultiOp, st.just(13), st.builds(r.CheckVersionRequest, _small, _version)),
    st.builds(MultiOp, st.sampled_from([1, 15, 19]), _creates),
    st.builds(MultiOp, st.just(21), st.builds(r.CreateTTLRequest, _small, _data, _acl, _flags, _version)),
    st.builds(MultiOp, st.just(4), st.builds(r.GetDataRequest, _small, st.booleans())),
    st.builds(MultiOp, st.just(8), st.builds(r.GetChildrenRequest, _small, st.booleans())),
]


@settings(max_examples=settings().max_examples * 5)
@given(
    ops=st.lists(st.one_of(_items), max_size=4) | st.lists(st.one_of(_items[:5]), max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 5, 127, 255])), max_size=2),
    cut=st.just(200) | st.integers(0, 200),
)
def test_a_body_is_decoded_as_its_records_one_by_one(
    ops: list[MultiOp], damage: list[tuple[int, int]], cut: int
) -> None:
    encoded = bytearray(encode_multi(ops))
    for place, byte in damage:
        encoded[place % len(encoded)] = byte
    body = b"12345678" + encoded[:cut]
    try:
        expected = plainly(body, 8)
    except JuteError:
        with pytest.raises(JuteError):
            decode_multi(body, 8)
    else:
        assert decode_multi(body, 8) == expected


# --- results -----------------------------------------------------------------------------------------------

RESULTS = [
    MultiResult(1, 0, r.CreateResponse("/p")),
    MultiResult(15, 0, r.Create2Response("/p", STAT)),
    MultiResult(2, 0, None),
    MultiResult(5, 0, r.SetDataResponse(STAT)),
    MultiResult(13, 0, None),
    MultiResult(8, 0, r.GetChildrenResponse(("a", "b"))),
    MultiResult(4, 0, r.GetDataResponse(None, STAT)),
    MultiResult(-1, -101, r.ErrorResponse(-101)),
]


@pytest.mark.parametrize("results", [[], RESULTS, RESULTS[:1]], ids=["empty", "all", "one"])
def test_a_round_trip_keeps_the_results(results: list[MultiResult]) -> None:
    encoded = encode_results(results)
    assert decode_results(b"12" + encoded + b"rest", 2) == results
    assert encoded.endswith(TERMINATOR)


@pytest.mark.parametrize("kind", [3, 14, 19, 21, 100])
def test_a_result_of_an_unknown_type_is_malformed(kind: int) -> None:
    # wire.md, trap 30: container and TTL creates answer with type 15
    with pytest.raises(JuteError):
        decode_results(r.MultiHeader(kind, False, 0).encode() + TERMINATOR)


def test_the_example_of_the_specification() -> None:
    # wire.md section 10: create /f, check /a version 7 (wrong), delete /a
    codes = [0, -103, -2]
    assert encode_results(MultiResult(-1, code, r.ErrorResponse(code)) for code in codes) == bytes.fromhex(
        "ffffffff 00 00000000 00000000  ffffffff 00 ffffff99 ffffff99  ffffffff 00 fffffffe fffffffe"
        "ffffffff 01 ffffffff"
    )

"""Frames (wire.md sections 1 and 15): any split of the stream gives the same payloads."""

from __future__ import annotations

import struct
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.framing import FrameBuffer, FrameLengthError, frame

ALL = 10**9


def lengths(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def test_a_frame_is_a_length_and_a_payload() -> None:
    assert frame(b"abc") == b"\0\0\0\x03abc"
    assert frame(b"") == b"\0\0\0\0"


@given(
    payloads=st.lists(st.binary(max_size=40), max_size=12),
    cuts=st.lists(st.integers(0, 400), max_size=20),
    most=st.integers(1, 5),
)
def test_any_split_gives_the_same_payloads(payloads: list[bytes], cuts: list[int], most: int) -> None:
    stream = b"".join(map(frame, payloads))
    buffer, taken, start = FrameBuffer(40), list[bytes](), 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        buffer.feed(stream[start:end])
        start = end
        while some := buffer.take(most):
            assert len(some) <= most
            taken += some
            assert len(buffer) == len(stream[:end]) - sum(len(payload) + 4 for payload in taken)
    assert taken == payloads
    assert len(buffer) == 0


@given(payloads=st.lists(st.binary(max_size=10), min_size=1, max_size=8), most=st.integers(1, 3))
def test_what_is_left_over_stays_in_order_while_more_arrives(payloads: list[bytes], most: int) -> None:
    buffer, taken = FrameBuffer(10), list[bytes]()
    for payload in payloads:
        buffer.feed(frame(payload) * 2)
        taken += buffer.take(most)
    while some := buffer.take(most):
        taken += some
    assert taken == [payload for payload in payloads for _ in range(2)]


@given(payloads=st.lists(st.binary(max_size=10), max_size=8), rest=st.integers(0, 9), most=st.integers(1, 4))
def test_more_tells_whether_another_take_would_give_something(
    payloads: list[bytes], rest: int, most: int
) -> None:
    buffer = FrameBuffer(10)
    buffer.feed(b"".join(map(frame, payloads)) + frame(b"123456")[:rest])
    left = len(payloads)
    while left:
        assert len(buffer.take(most)) == min(most, left)
        left -= min(most, left)
        assert buffer.more == (left > 0)
    assert buffer.take(most) == []
    assert not buffer.more


@given(pieces=st.lists(st.binary(max_size=6) | st.binary(max_size=8).map(frame)))
def test_it_knows_whether_anything_waits(pieces: list[bytes]) -> None:
    buffer = FrameBuffer(8)
    assert buffer.empty
    for piece in pieces:
        buffer.feed(piece)
        assert buffer.empty == (len(buffer) == 0)
        with suppress(FrameLengthError):
            buffer.take(1)
        assert buffer.empty == (len(buffer) == 0)


def test_what_was_taken_is_let_go() -> None:
    buffer, data = FrameBuffer(100), frame(b"a")
    references = sys.getrefcount(data)
    buffer.feed(data)
    assert buffer.take(ALL) == [b"a"]
    assert sys.getrefcount(data) == references


def test_a_large_frame_may_trickle_in() -> None:
    payload = bytes(range(256)) * 4
    buffer = FrameBuffer(len(payload))
    for byte in (frame(payload) + b"\0\0")[:-3]:
        buffer.feed(bytes([byte]))
        assert buffer.take(ALL) == []
        assert not buffer.more
    buffer.feed(payload[-1:] + b"\0\0")
    assert buffer.take(ALL) == [payload]
    assert (len(buffer), buffer.peek(9)) == (2, b"\0\0")


@pytest.mark.parametrize("length", [0, 1, 99, 100])
def test_a_length_up_to_the_limit_is_fine(length: int) -> None:
    buffer = FrameBuffer(100)
    buffer.feed(frame(bytes(length)))
    assert buffer.take(ALL) == [bytes(length)]


@pytest.mark.parametrize("length", [-(2**31), -1, 101, 2**31 - 1])
def test_a_length_outside_of_the_limits_is_an_error_at_once(length: int) -> None:
    # without waiting for the payload that it announces
    buffer = FrameBuffer(100)
    buffer.feed(lengths(length))
    with pytest.raises(FrameLengthError) as caught:
        buffer.take(ALL)
    assert (caught.value.length, caught.value.limit) == (length, 100)


@pytest.mark.parametrize("length", [-1, 101])
def test_what_came_before_a_bad_length_is_still_handed_out(length: int) -> None:
    buffer = FrameBuffer(100)
    buffer.feed(frame(b"a") + frame(b"b") + lengths(length) + frame(b"never"))
    assert (buffer.take(1), buffer.more) == ([b"a"], True)
    assert (buffer.take(ALL), buffer.more) == ([b"b"], True)
    for _ in range(2):
        with pytest.raises(FrameLengthError):
            buffer.take(ALL)


@pytest.mark.parametrize("length", [-1, 101])
def test_a_bad_length_may_trickle_in(length: int) -> None:
    buffer = FrameBuffer(100)
    for byte in lengths(length)[:3]:
        buffer.feed(bytes([byte]))
        assert buffer.take(ALL) == []
    buffer.feed(lengths(length)[3:])
    with pytest.raises(FrameLengthError):
        buffer.take(ALL)


def test_messages_name_size_and_limit() -> None:
    assert "1,048,576 bytes exceeds jute.maxbuffer 1,048,575" in str(FrameLengthError(1048576, 1048575))
    assert "-5 is negative" in str(FrameLengthError(-5, 1048575))


def test_peek_takes_nothing() -> None:
    buffer = FrameBuffer(100)
    assert buffer.peek(4) == b""
    buffer.feed(b"ru")
    assert buffer.peek(4) == b"ru"
    buffer.feed(b"ok" + b"\n")
    assert (buffer.peek(4), len(buffer)) == (b"ruok", 5)

"""The reserve of memory, with a system that has as many bytes as a test says (server/core/memory.py)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from pyzk.protocol.operations import OpCode
from pyzk.server.core import failures, memory
from pyzk.server.core.memory import Reserve
from pyzk.server.core.operations import OPERATIONS, look_up

MIB = 2**20


class System:
    """A system with some free bytes.

    :ivar free: those that can be mapped.
    :ivar heap: those that malloc has in pieces.
    :ivar objects: how many are allocated.
    :ivar resident: bytes that the process has.
    :ivar mapped: what was asked for, in its order.
    """

    def __init__(self) -> None:
        self.free = 100 * MIB
        self.heap = 0
        self.objects = 1000
        self.resident = 10 * MIB
        self.mapped: list[int] = []

    def map(self, size: int) -> object | None:
        self.mapped.append(size)
        return object() if size <= self.free else None

    def take(self, size: int) -> bool:
        return size <= self.heap


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(memory, "_map", made.map)
    monkeypatch.setattr(memory, "_take", made.take)
    monkeypatch.setattr(memory, "_resident", lambda: made.resident)
    monkeypatch.setattr(memory.sys, "getallocatedblocks", lambda: made.objects)
    return made


@pytest.fixture
def held(system: System) -> Iterator[Reserve]:
    gc.disable()
    reserve = Reserve()
    try:
        with reserve.held():
            yield reserve
    finally:
        gc.enable()


def test_a_reserve_is_4_mib_and_held_while_its_block_lasts(system: System) -> None:
    reserve = Reserve()
    callbacks = list(gc.callbacks)
    system.free = 0
    assert not reserve.look(), "nobody watches"
    assert not reserve.is_held
    system.free = 100 * MIB
    with reserve.held():
        assert reserve.is_held
        assert system.mapped == [4 * MIB]
        assert len(gc.callbacks) == len(callbacks) + 1
        system.free = 0
        assert reserve.look()
    assert (reserve.is_held, reserve.short) == (False, False)
    assert gc.callbacks == callbacks
    assert not reserve.look()


def test_memory_is_short_when_the_system_would_not_give_as_much_again(
    system: System, held: Reserve, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    held.when_short(lambda: calls.append("one"))
    held.when_short(lambda: calls.append("two"))
    system.free = 4 * MIB
    assert not held.look()
    assert calls == []
    assert held.has_room()
    system.free -= 1
    assert held.look()
    assert held.short
    assert calls == ["one", "two"]
    assert held.look()
    assert calls == ["one", "two"], "once each time that it becomes short"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith("memory is short")
    assert caplog.records[0].levelno == logging.ERROR


def test_the_shortage_ends_when_there_is_room_for_two_reserves_and_more(
    system: System, held: Reserve, caplog: pytest.LogCaptureFixture
) -> None:
    system.free = 0
    assert held.look()
    system.free = 10 * MIB - 1
    assert held.look()
    assert held.is_still_short()
    system.free = 10 * MIB
    system.mapped.clear()
    assert not held.is_still_short()
    assert not held.short
    assert system.mapped[-2:] == [8 * MIB, 4 * MIB], "the reserve is set aside again"
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    system.mapped.clear()
    assert not held.look()
    assert system.mapped == [4 * MIB], "it has its reserve"
    system.free = 0
    assert held.look()


def test_who_asks_whether_it_is_still_short_does_not_search(system: System, held: Reserve) -> None:
    system.free = 0
    held.look()
    system.heap = 100 * MIB  # found at the next tick
    assert held.is_still_short()
    assert not held.look()


def test_what_malloc_has_counts(system: System, held: Reserve) -> None:
    system.free, system.heap = 0, 4 * MIB
    assert not held.look()
    system.heap -= 1
    assert held.look()
    system.heap = 10 * MIB - 1
    assert held.look()
    system.heap = 10 * MIB
    assert not held.look()


def test_objects_that_were_freed_leave_room(system: System, held: Reserve) -> None:
    """Each counts with the average size of all since the start."""
    system.objects, system.resident = 1000 + 10_000, 10 * MIB + 10_000 * 2000
    system.free = 0
    assert held.look()
    system.objects -= 10 * MIB // 2000
    assert held.look(), "not more than is needed"
    system.objects -= 1
    assert not held.look()
    system.free = 100 * MIB
    held.look()
    system.free = 0
    assert held.look(), "what was freed then counts no more"


def test_more_objects_than_ever_are_where_it_is_full(system: System, held: Reserve) -> None:
    system.objects, system.resident = 11_000, 10 * MIB + 10_000 * 2000
    system.free = 0
    assert held.look()
    system.objects, system.resident = 21_000, 10 * MIB + 20_000 * 2000
    assert held.look()
    system.objects -= 10 * MIB // 2000 + 1
    assert not held.look()


def test_a_new_connection_needs_half_of_the_reserve(system: System, held: Reserve) -> None:
    system.free = 0
    held.look()
    assert not held.has_room()
    system.free = 2 * MIB - 1
    assert not held.has_room()
    system.free = 2 * MIB
    assert held.has_room()
    assert held.short


def test_the_collector_looks_and_leaves_the_log_to_others(
    system: System, held: Reserve, caplog: pytest.LogCaptureFixture
) -> None:
    held._collecting("stop", None)
    system.free = 0
    held._collecting("stop", None)
    assert not held.short
    held._collecting("start", None)
    assert held.short
    assert caplog.records == []
    held.ran_out()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("is_held", [True, False])
def test_a_memory_error_looks_at_once(
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tracebacks: list[str],
    is_held: bool,
) -> None:
    reserve = Reserve()
    monkeypatch.setattr(failures, "reserve", reserve)
    system.free = 0

    def fail(error: Exception) -> None:
        caplog.clear()
        try:
            raise error
        except Exception:
            failures.report("the client %s is disconnected", "x")

    if is_held:
        with reserve.held():
            fail(MemoryError())
            assert reserve.short
            shortage, line = caplog.records
            assert shortage.getMessage().startswith("memory is short")
            assert line.getMessage() == "the client x is disconnected; memory ran out"
            assert line.exc_info is None
    else:
        fail(MemoryError())
        assert not reserve.short
        (line,) = caplog.records
        assert line.exc_info is not None
    fail(ValueError())
    (line,) = caplog.records
    text = "the client x is disconnected; this is a bug of the server: please report it"
    assert (line.getMessage(), line.levelno) == (text, logging.ERROR)
    assert line.exc_info is not None
    assert line.funcName == "fail", "the line names who reported it"
    assert len(tracebacks) == (1 if is_held else 2)


def test_what_cannot_be_reported_ends_nothing() -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise MemoryError

    failures.report("%s", Unspeakable())


def test_each_request_is_looked_up_anew_when_memory_becomes_short(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that was found before would pass the check of what makes the server grow."""
    look_up(OpCode.PING)
    assert OPERATIONS
    with memory.reserve.held():
        system.free = 0
        memory.reserve.look()
        assert not OPERATIONS
        look_up(OpCode.PING)
        assert not OPERATIONS
    memory.reserve._told = False


# --- the real system ---------------------------------------------------------------------------------------


def test_bytes_are_mapped_or_not() -> None:
    block = memory._map(4 * MIB)
    assert block is not None
    assert len(block) == 4 * MIB
    block.close()
    assert memory._map(2**60) is None


def test_bytes_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def small(size: int) -> bytes:
        taken.append(size)
        if len(taken) > 10:
            raise MemoryError
        return b""

    monkeypatch.setattr(memory, "bytes", small, raising=False)
    assert memory._take(10 * 64 * 1024) is True
    assert taken == [64 * 1024] * 10
    assert memory._take(64 * 1024) is False


def test_resident_bytes_are_those_of_the_process() -> None:
    before = memory._resident()
    if not before:
        pytest.skip("this system does not say so in Linux's way")
    more = bytearray(64 * MIB)
    more[::4096] = b"x" * len(more[::4096])
    assert memory._resident() - before > 32 * MIB
    assert before > 5 * MIB


def test_a_system_that_does_not_say_how_much_a_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(memory, "open", fail, raising=False)
    assert memory._resident() == 0

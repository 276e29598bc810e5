"""What a request costs on the hot path, counted and not timed: the same on every machine, in every run.

Counted are the calls of Python functions and the bytecode instructions between the bytes of a request and
those of its reply. Calls are nearly the same in every version of Python, instructions are not: theirs are
asserted for the versions in the table only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import attrs
import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode

from ..support.counting import count_calls, count_instructions
from ..support.requests import set_op
from ..support.world import Peer, World

MARGIN = 1.10
DATA = b"x" * 100
BATCH = 30  # less than what a connection handles in one turn
GET = wire.request(OpCode.GET_DATA, r.GetDataRequest("/node", False), 1)
SET = wire.request(OpCode.SET_DATA, r.SetDataRequest("/node", DATA, -1), 1)
CREATE = wire.request(OpCode.CREATE, r.CreateRequest("/new", DATA, r.OPEN_ACL, 0), 1)
DELETE = wire.request(OpCode.DELETE, r.DeleteRequest("/new", -1), 1)
MULTI = wire.request(OpCode.MULTI, encode_multi([set_op("/node", DATA)] * 10), 1)
CYCLES = {"get": [GET], "set": [SET], "create + delete": [CREATE, DELETE], "multi of ten sets": [MULTI]}


@attrs.frozen
class Cost:
    """
    :ivar calls: Python-level calls.
    :ivar instructions: bytecode instructions, by version of Python.
    """

    calls: float
    instructions: dict[tuple[int, int], float]


# Per cycle. "alone": its requests arrive one by one, as from clients with one request in flight; "in a
# batch": many arrive at once, as from clients that pipeline.
COSTS = {
    ("get", "alone"): Cost(4, {(3, 11): 267, (3, 12): 265, (3, 13): 253}),
    ("get", "in a batch"): Cost(3.4, {(3, 11): 239, (3, 12): 223, (3, 13): 216}),
    ("set", "alone"): Cost(7, {(3, 11): 516, (3, 12): 506, (3, 13): 490}),
    ("set", "in a batch"): Cost(5.3, {(3, 11): 471, (3, 12): 441, (3, 13): 423}),
    ("create + delete", "alone"): Cost(17, {(3, 11): 1127, (3, 12): 1103, (3, 13): 1064}),
    ("create + delete", "in a batch"): Cost(13.7, {(3, 11): 1057, (3, 12): 989, (3, 13): 944}),
    ("multi of ten sets", "alone"): Cost(43, {(3, 11): 3637, (3, 12): 3447, (3, 13): 3304}),
}


@pytest.fixture
def client() -> Peer:
    world = World()
    peer = world.connect()
    peer.create("/node", DATA)
    world.engine.on_txn = None  # nobody records the history, as in the command
    return peer


def exchange(client: Peer, data: bytes) -> bytes:
    """What a transport does with what it has received."""
    connection = client.connection
    return connection.exchange(data, client.world.now) or connection.data_to_send()


def deliveries(cycle: list[bytes], manner: str) -> tuple[list[bytes], int]:
    """What arrives at once, one after the other, and how many cycles that is."""
    return (
        (cycle, 1) if manner == "alone" else ([b"".join(cycle * (BATCH // len(cycle)))], BATCH // len(cycle))
    )


def check(what: str, kind: str, found: float, expected: float) -> None:
    change = f"{what}: {found:g} {kind}, and the table says {expected:g}."
    assert found <= expected * MARGIN, (
        f"{change} The request path has become longer, for every request of every client. Look for what was "
        "added to it first: work that can be done once per turn, per change or never. Only if the price is "
        "right, put the new number into COSTS, and say in the commit what it buys."
    )
    assert found >= expected / MARGIN, f"{change} Well done: put the new number into COSTS, so that it stays."


@pytest.mark.parametrize(("operation", "manner"), COSTS)
def test_a_request_costs_what_it_did(client: Peer, operation: str, manner: str) -> None:
    cost = COSTS[operation, manner]
    data, cycles = deliveries(CYCLES[operation], manner)

    def action() -> None:
        for piece in data:
            exchange(client, piece)

    action()  # what happens only once
    calls = count_calls(action) / cycles
    instructions = count_instructions(action) / cycles
    version = sys.version_info[:2]
    print(f'("{operation}", "{manner}"): Cost({calls:g}, {{{version}: {instructions:g}}}),')
    check(f"{operation}, {manner}", "calls", calls, cost.calls)
    if version in cost.instructions:
        check(f"{operation}, {manner}", "instructions", instructions, cost.instructions[version])


@pytest.mark.parametrize("count", [count_calls, count_instructions])
@pytest.mark.parametrize("operation", CYCLES)
def test_the_count_is_the_same_every_time(
    client: Peer, operation: str, count: Callable[[Callable[[], object]], int]
) -> None:
    def action() -> None:
        for piece in CYCLES[operation]:
            exchange(client, piece)

    action()
    assert len({count(action) for _ in range(3)}) == 1


def test_what_is_counted_are_calls_of_python_functions() -> None:
    def one() -> int:
        return len("")

    def two() -> int:
        return one() + sum([one() for _ in range(2)])

    assert count_calls(two) == 3


def test_what_is_counted_are_instructions() -> None:
    def short() -> None:
        pass

    def long() -> None:
        short()
        short()

    assert 0 < count_instructions(short) < count_instructions(long)


def test_the_replies_are_what_was_asked_for(client: Peer) -> None:
    """Nothing is counted that ends in an error."""
    for cycle in CYCLES.values():
        for piece in cycle:
            assert r.ReplyHeader.read(exchange(client, piece), 4)[0].err == 0

"""Faults by chance: what each of them does, and that a seed brings the same ones again."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.testing import Chaos, Injected, LocalServer
from pyzk.server.testing.chaos import FAULTS, draw

from ...support.wire import ClosedError, Event, Reply, StreamClient

LONGEST = 0.1
ALL: dict[str, Any] = dict.fromkeys(FAULTS, 0.06) | {"longest": LONGEST}
DRAWN = 0.1505708978044611
"""What a seed has brought since the first release with it."""


@attrs.define(eq=False)
class Worker:
    """A client that asks what its script says, and connects again when it must."""

    server: LocalServer
    number: int
    name: str | None
    client: StreamClient | None = None
    session: tuple[int, bytes] = (0, b"\0" * 16)

    def script(self) -> list[tuple[int, Any]]:
        """The same requests in each run."""
        own = f"/{self.number}"
        asks: list[tuple[int, Any]] = [(OpCode.CREATE, r.CreateRequest(own, b"", r.OPEN_ACL, 0))]
        for n in range(10):
            path = f"{own}/{n % 2}"
            asks += [
                (OpCode.GET_CHILDREN, r.GetChildrenRequest(own, True)),
                (OpCode.CREATE, r.CreateRequest(path, b"", r.OPEN_ACL, CreateMode.EPHEMERAL)),
                (OpCode.SET_DATA, r.SetDataRequest("/shared", b"%d" % n, -1)),
                (OpCode.DELETE, r.DeleteRequest(path, -1)),
            ]
        return asks

    async def connect(self) -> StreamClient:
        while True:
            session_id, password = self.session
            try:
                client = await StreamClient(self.server.open_stream()).connect(
                    session_id=session_id, password=password
                )
            except (ClosedError, trio.BrokenResourceError):
                continue
            if client.session_id:
                if self.name is not None and client.session_id != session_id:
                    self.server.name_session(self.name, client.session_id)
                self.session = client.session_id, client.password
                return client
            self.session = 0, b"\0" * 16  # it has expired

    async def ask(self, op: int, request: Any) -> None:
        """Send a request once, and wait for what becomes of it."""
        if self.client is None:
            self.client = await self.connect()
        try:
            await self.client.send(op, request)
            if self.client.stream.connection.frozen:  # type: ignore[attr-defined]
                for _ in range(4):  # its request, its reply and its events may be late
                    self.server.clock.advance(LONGEST, keep_alive=True)
            if self.client.stream.connection.frozen:  # type: ignore[attr-defined]
                raise ClosedError("it is silent for good")
            while not isinstance(found := await self.client.next(), Reply):
                assert isinstance(found, Event)
        except (ClosedError, trio.BrokenResourceError):
            self.client = None


async def run(
    seed: int, order: random.Random, names: Sequence[str | None], **faults: Any
) -> tuple[list[Injected], list[int]]:
    """Let clients connect in turn, and then do the same things at the same time, each as fast as it happens.

    :returns: the faults, those of each client together; and the numbers of the clients, by request.
    """
    turns: list[int] = []

    async def work(worker: Worker) -> None:
        for op, request in worker.script():
            for _ in range(order.randrange(4)):
                await trio.lowlevel.checkpoint()
            turns.append(worker.number)
            await worker.ask(op, request)

    async with open_server(clock="frozen") as server:
        server.load({"/shared": b""})
        with server.chaos(seed, **faults) as chaos:
            workers = [Worker(server, number, name) for number, name in enumerate(names)]
            for worker in workers:
                worker.client = await worker.connect()
            async with trio.open_nursery() as nursery:
                for worker in workers:
                    nursery.start_soon(work, worker)
            assert chaos.counts == Counter(each.fault for each in chaos.injected)
            return sorted(chaos.injected, key=lambda each: each.who), turns


async def same(runs: int, seed: int, names: Sequence[str | None], **faults: Any) -> list[Injected]:
    """The faults that so many runs all bring, although the clients are served in other orders."""
    first, turns = await run(seed, random.Random(0), names, **faults)
    orders = {tuple(turns)}
    for n in range(1, runs):
        found, turns = await run(seed, random.Random(n), names, **faults)
        assert found == first, f"run {n} is another"
        orders.add(tuple(turns))
    assert len(orders) > runs * 0.9
    return first


async def test_the_same_seed_and_requests_give_the_same_faults_100_times() -> None:
    found = await same(100, 7, [None] * 4, **ALL | {"expire": 0.0})
    assert {each.fault for each in found} == set(FAULTS) - {"expire"}
    assert {each.who for each in found} >= {"1", "2", "3", "4"}


async def test_names_tell_sessions_apart_whose_order_is_their_own() -> None:
    """Clients whose sessions have expired come back in any order, but for their names."""
    names = ["ann", "bob", "cid", "dee"]
    found = await same(30, 3, names, expire=0.1, disconnect=0.05, delay_request=0.05, longest=LONGEST)
    assert {each.who for each in found if each.fault == "expire"} == set(names)


async def test_another_seed_gives_other_faults() -> None:
    found = [(await run(seed, random.Random(0), [None] * 3, **ALL))[0] for seed in range(5)]
    assert all(found.count(each) == 1 for each in found)


async def test_a_probability_that_is_changed_does_not_move_the_other_faults() -> None:
    few, _ = await run(5, random.Random(0), [None], disconnect=0.05, delay_reply=0.2, longest=LONGEST)
    more, _ = await run(5, random.Random(0), [None], disconnect=0.5, delay_reply=0.2, longest=LONGEST)
    cut = {each.number for each in more if each.fault == "disconnect"}
    assert {each.number for each in few if each.fault == "disconnect"} < cut
    late = {each.number for each in few if each.fault == "delay_reply"}
    assert {each.number for each in more if each.fault == "delay_reply"} == late - cut


def test_draws_are_spread_evenly_and_never_change() -> None:
    draws = [draw(seed, "disconnect", "a", number) for seed in range(20) for number in range(500)]
    assert all(0 <= each < 1 for each in draws)
    for tenth in range(10):
        assert 900 < sum(tenth <= each * 10 < tenth + 1 for each in draws) < 1100
    assert draw(1, "disconnect", "worker", 2) == DRAWN, "a seed from an old report brings other faults"
    assert draw(1, "ab", "c") != draw(1, "a", "bc")


# --- one by one --------------------------------------------------------------------------------------------


async def join(server: LocalServer) -> StreamClient:
    return await StreamClient(server.open_stream()).connect()


async def create(client: StreamClient, path: str) -> bool:
    """Create a znode; returns whether that was answered."""
    await client.send(OpCode.CREATE, r.CreateRequest(path, b"", r.OPEN_ACL, 0))
    try:
        return not await client.is_silent()
    except ClosedError:
        return False


@pytest.mark.parametrize(
    ("fault", "applied", "connected", "answered"),
    [
        ("disconnect", False, False, False),
        ("lose_reply", True, False, False),
        ("silence", True, True, False),
        ("delay_request", True, True, True),
        ("delay_reply", True, True, True),
    ],
)
async def test_what_happens_to_a_request(fault: str, applied: bool, connected: bool, answered: bool) -> None:
    async with open_server(clock="frozen") as server:
        client = await join(server)
        chaos = server.chaos(1, **{fault: 1.0})  # type: ignore[arg-type]
        assert not await create(client, "/a")
        assert ("/a" in server.dump()) == (applied and fault != "delay_request")
        server.clock.advance(0.1, keep_alive=True)
        assert ("/a" in server.dump()) == applied
        assert [session.connected for session in server.sessions()] == [connected]
        if answered:
            assert (await client.next()).err == 0
        [injected] = chaos.injected
        assert injected == Injected(fault, "1", 1, 0, "create", "/a")
        assert injected.session == server.sessions()[0].id
        assert "!! chaos 1: " in server.format_timeline(width=400)


async def test_a_session_ends() -> None:
    async with open_server(clock="frozen") as server:
        client = await join(server)
        await client.create("/own", flags=CreateMode.EPHEMERAL)
        server.chaos(1, expire=1.0)
        assert not await create(client, "/a")
        assert server.dump() == {}
        assert server.sessions() == []


async def test_an_event_is_late_and_so_is_what_follows() -> None:
    async with open_server(clock="frozen") as server:
        client, other = await join(server), await join(server)
        await client.exists("/a", watch=True)
        with server.chaos(1, delay_event=1.0, longest=5.0) as chaos:
            await other.create("/a")
            await client.send(OpCode.EXISTS, r.ExistsRequest("/a", False))
            assert await client.is_silent()
            server.clock.advance(5, keep_alive=True)
            assert isinstance(await client.next(), Event), "an event comes before a reply that tells of it"
            assert isinstance(await client.next(), Reply)
        assert chaos.counts == {"delay_event": 1}
        assert "chaos 1: the event comes in" in server.format_timeline(width=400)


@pytest.mark.parametrize(("fault", "sessions"), [("refuse", 0), ("lose_session", 1)])
async def test_a_handshake_is_lost(fault: str, sessions: int) -> None:
    async with open_server(clock="frozen") as server:
        with server.chaos(1, **{fault: 1.0}) as chaos:  # type: ignore[arg-type]
            with pytest.raises(ClosedError):
                await join(server)
            assert len(server.sessions()) == sessions
        assert chaos.counts == {fault: 1}
        assert "chaos 1: " in server.format_timeline(width=400)
        await join(server)


def test_the_documentation_lists_every_fault() -> None:
    text = (Path(__file__).parents[3] / "docs" / "testing-faults.md").read_text()
    section = text.partition("\n## Chaos\n")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", section) == list(FAULTS)


# --- the handle --------------------------------------------------------------------------------------------


async def test_it_ends_when_it_is_told_to_and_with_reset() -> None:
    async with open_server(clock="frozen") as server:
        client = await join(server)
        chaos = server.chaos(1, disconnect=1.0)
        chaos.end()
        chaos.end()
        assert await create(client, "/a")
        server.chaos(1, disconnect=1.0)
        server.restart(keep_data=True)
        client = await join(server)
        assert not await create(client, "/b")
        server.reset()
        client = await join(server)
        assert await create(client, "/c")
        assert chaos.injected == []
        assert repr(chaos) == "<Chaos seed=1 disconnect=1: 0 injected>"


async def test_it_spoils_what_was_selected_and_counts_nothing_else() -> None:
    async with open_server(clock="frozen") as server:
        client, other = await join(server), await join(server)
        chaos = server.chaos(1, lose_reply=1.0, op="create", path="/a/*", session=client.session_id)
        for path in ("/a", "/b"):
            assert await create(client, path)
        await client.ping()
        assert (await client.get("/a")).err == 0
        assert await create(other, "/a/other")
        assert not await create(client, "/a/own")
        assert chaos.injected == [Injected("lose_reply", "1", 1, 0, "create", "/a/own")]


async def test_a_fault_and_chaos_both_count_and_one_of_them_acts() -> None:
    async with open_server(clock="frozen") as server:
        client = await join(server)
        chaos = server.chaos(1, disconnect=1.0)
        planned = server.fault("exists", action="error", error=-101, required=False)
        with planned as fault, pytest.raises(ClosedError):
            await client.exists("/")
        assert (fault.seen, fault.fired, chaos.counts) == (1, 0, {"disconnect": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "at least one fault"),
        ({"disconnect": 1.5}, "disconnect must be a probability from 0 to 1, not 1.5"),
        ({"refuse": -0.1}, "refuse must be a probability"),
        ({"silence": float("nan")}, "silence must be a probability"),
        ({"disconnect": 0.5, "longest": -1.0}, "longest"),
        ({"disconnect": 0.5, "op": "nonsense"}, "nonsense"),
    ],
)
async def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    async with open_server(clock="frozen") as server:
        with pytest.raises(ValueError, match=words):
            server.chaos(1, **given)
        assert isinstance(server.chaos(1, disconnect=0.1), Chaos)

"""Elections, latches and partitioners on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from collections import Counter as Tally
from contextlib import suppress

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import LeaderElection, LeaderLatch, LockLost, LossReason, Partitioner, Rebalance, Term

from ...support.waiting import until
from .scene import Clients, in_line, stay


@pytest.mark.parametrize("layout", ["curator-latch", "curator-selector", "kazoo"])
async def test_an_election(clients: Clients, layout: str) -> None:
    a, b, looker = (
        LeaderElection(zk, "/leader", id=name, layout=layout)  # type: ignore[arg-type]
        for zk, name in zip(clients, ["a", "b", ""], strict=True)
    )
    async with trio.open_nursery() as nursery:
        seen = looker.observe()
        assert await anext(seen) is None
        first = stay(nursery, a.lead())
        one = await first.entered()
        leader = await anext(seen)
        assert leader is not None
        assert (leader.data, leader.stat.czxid) == (b"a", one.token)
        second = stay(nursery, b.lead())

        async def both() -> bool:
            return [each.data for each in await looker.contenders()] == [b"a", b"b"]

        await until(both)
        assert not second.inside
        await first.leave()
        two = await second.entered()
        assert (two.token > one.token, one.number, two.number) == (True, 1, 1)
        leader = await anext(seen)
        assert leader is not None
        assert leader.data == b"b"
        await second.leave()
        assert await anext(seen) is None


async def test_terms_follow_each_other(clients: Clients) -> None:
    """Candidates that stand again and again take turns."""
    terms: list[tuple[int, int]] = []
    enough = trio.Event()

    async def all_stand() -> bool:
        return len(await LeaderElection(clients[0], "/leader").contenders()) == 3

    async def lead(number: int, term: Term) -> None:
        if not terms:  # the server of one may be slower than the others
            await until(all_stand)
        terms.append((number, term.token))
        if len(terms) == 9:
            enough.set()
        await term.verify()

    async with trio.open_nursery() as nursery:

        async def stand(number: int) -> None:
            async def lead_here(term: Term) -> None:
                await lead(number, term)

            await LeaderElection(clients[number], "/leader").run(lead_here)

        for number in range(3):
            nursery.start_soon(stand, number)
        with trio.fail_after(30):
            await enough.wait()
        nursery.cancel_scope.cancel()
    tokens = [token for _, token in terms]
    assert tokens == sorted(set(tokens))
    assert {number for number, _ in terms[:3]} == {0, 1, 2}, "somebody did not have his turn"


async def test_leader_latches(clients: Clients) -> None:
    a, b, _ = clients
    async with trio.open_nursery() as nursery:
        first = stay(nursery, LeaderLatch(a, "/leader", id="a"))
        latch = await first.entered()
        one = await latch.wait_leader()
        async with LeaderLatch(b, "/leader", id="b") as other:
            await in_line(b, "/leader", 0)  # latches are no locks
            await until(lambda: b.watch_count)
            assert (latch.is_leader, other.is_leader) == (True, False)
            with pytest.raises(LockLost) as lost:
                async with latch.term() as term:
                    assert term is one
                    await first.leave()
                    await trio.sleep_forever()
            assert lost.value.reason is LossReason.RELEASED
            async with other.term() as two:
                assert other.is_leader
                assert two.token > one.token
                leader = await other.election.leader()
                assert leader is not None
                assert leader.data == b"b"


async def test_items_are_divided(clients: Clients) -> None:
    items = ["1", "2", "3", "4", "5"]
    shares: dict[str, list[str]] = {}
    owned: Tally[str] = Tally()

    async def work(zk: ZooKeeper, id: str, leave: trio.Event) -> None:
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_after, leave, scope)
            async with Partitioner(zk, "/work", items, id, settle=0.05) as partitioner:
                while True:
                    with suppress(Rebalance):
                        async with partitioner.share() as share:
                            owned.update(share.keys())
                            assert set(owned.values()) <= {0, 1}
                            shares[id] = list(share)
                            try:
                                await trio.sleep_forever()
                            finally:
                                del shares[id]
                                owned.subtract(share.keys())

    async def cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
        await event.wait()
        scope.cancel()

    async with trio.open_nursery() as nursery:
        leaves = {id: trio.Event() for id in "abc"}
        nursery.start_soon(work, clients[0], "a", leaves["a"])
        await until(lambda: shares == {"a": items})
        for id, zk in zip("bc", clients[1:], strict=True):
            nursery.start_soon(work, zk, id, leaves[id])
        await until(lambda: shares == {"a": ["1", "4"], "b": ["2", "5"], "c": ["3"]})
        leaves["a"].set()
        await until(lambda: shares == {"b": ["1", "3", "5"], "c": ["2", "4"]})
        for event in leaves.values():
            event.set()

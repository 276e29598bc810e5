"""The history is complete: a second tree to which only the Txns are applied is equal after each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.operations import OpCode
from pyzk.server.core.tree import DataTree

from ...support.histories import (
    SETTINGS,
    START,
    Action,
    Run,
    action,
    restore,
    set_up_quota,
    take_snapshot,
)
from ...support.invariants import check_tree_invariants, check_world_invariants
from ...support.requests import check_op, create_op, delete_op
from ...support.tree import contents
from ...support.world import World


class Followed(Run):
    """With a tree that follows the history."""

    def __init__(self) -> None:
        super().__init__(World(**SETTINGS))
        self.follower = DataTree()
        self._replayed = 0

    def follow(self) -> None:
        """Replay what is new, one Txn after the other."""
        for txn in self.world.txns[self._replayed :]:
            self.follower.replay(txn)
        self._replayed = len(self.world.txns)
        assert contents(self.follower) == contents(self.world.tree)


@given(st.lists(action, max_size=30))
def test_a_tree_that_replays_the_history_is_equal(actions: list[Action]) -> None:
    run = Followed()
    for act in [*START, *actions]:
        act(run)
        run.follow()
    check_tree_invariants(run.follower)
    check_world_invariants(run.world)


def test_a_refused_multi_leaves_nothing_to_replay() -> None:
    run = Followed()
    client = run.peer(0)
    client.create("/a", flags=1)
    assert client.multi(delete_op("/a"), create_op("/b"), check_op("/none")).err == 0
    run.follow()
    assert set(run.follower.nodes) == set(run.world.tree.nodes)


def test_sequences_go_on_where_they_were() -> None:
    """A follower that becomes the leader gives the names that the leader would have given."""
    run = Followed()
    for _ in range(3):
        run.peer(0).create("/s-", flags=2)
    run.peer(0).delete("/s-0000000002")
    run.follow()
    assert run.follower.nodes["/"].children_created == run.world.tree.nodes["/"].children_created == 3


def test_everything_that_can_happen_to_a_tree_happens_here() -> None:
    run = Followed()
    client = run.peer(0)
    client.create("/q")
    set_up_quota("/q", b"countHardLimit=3")(run)
    assert client.create("/q/x", b"12345").err == 0
    assert client.multi(create_op("/q/y"), create_op("/q/z"), create_op("/q/zz")).err == 0
    client.create("/c", op=OpCode.CREATE_CONTAINER)
    client.create("/c/x")
    client.delete("/c/x")
    client.create("/t", flags=5, ttl=1)
    client.create("/e", flags=1)
    take_snapshot(run)
    run.follow()
    run.world.pass_time(12)
    run.follow()
    assert not {"/c", "/t", "/e"} & set(run.follower.nodes)
    restore(run)
    run.follow()
    assert {"/c", "/t"} <= set(run.follower.nodes)
    assert "/e" not in run.follower.nodes
    run.peer(1).set("/q/x", b"1")
    run.follow()

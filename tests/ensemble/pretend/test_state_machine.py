"""Clients and all controls of an ensemble in any order break none of its rules (ensemble.md 15.2)."""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyzk.server.ensemble.ensemble import EnsembleError

from ...support.ensemble_clients import Run

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SETTINGS = settings(
    max_examples=3000 if NIGHTLY else 40,
    stateful_step_count=100 if NIGHTLY else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
servers = st.sampled_from([1, 2, 3, 4])
"""The last one observes."""


class Controls(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.run = Run(0, clients=3)
        self.world = self.run.world
        self.world.ensemble.nemesis = None

    def teardown(self) -> None:
        self.run.finish()

    @invariant()
    def no_rule_is_broken(self) -> None:
        self.run.check()

    # --- clients -----------------------------------------------------------------------------------------

    @rule(who=st.integers(0, 2), chance=st.randoms(use_true_random=False), count=st.integers(1, 8))
    def clients_act(self, who: int, chance: random.Random, count: int) -> None:
        self.run.random = chance
        for _ in range(count):
            self.run.clients[who].act()

    @rule(who=st.integers(0, 2), server=servers)
    def a_client_moves(self, who: int, server: int) -> None:
        self.run.clients[who].attach(server)

    @rule(who=st.integers(0, 2))
    def a_connection_is_lost(self, who: int) -> None:
        if (peer := self.run.clients[who].peer) is not None:
            peer.connection.receive_eof()
            self.run.clients[who].peer = None

    # --- time --------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.2, 0.5, 1.0, 2.6, 8.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # --- controls ----------------------------------------------------------------------------------------

    @rule(server=servers, further=st.sampled_from([None, 0, 2]), delay=st.sampled_from([0, 0, 1, 300, 3000]))
    def lag(self, server: int, further: int | None, delay: int) -> None:
        """At once, or some transactions later; or by so many ms."""
        upto = None if further is None else self.world.zxid(server) + further
        self.world.lag(server, upto=upto, delay=delay)

    @rule(some=st.lists(servers, min_size=1, unique=True))
    def release(self, some: list[int]) -> None:
        self.world.catch_up(some)

    @rule(groups=st.lists(servers, min_size=4, max_size=4), silent=st.booleans())
    def partition(self, groups: list[int], silent: bool) -> None:
        """The number of each server's group."""
        members = self.world.ensemble.members
        parts = [[members[s] for s, at in enumerate(groups, 1) if at == group] for group in set(groups)]
        self.world.ensemble.now = int(self.world.now * 1000)
        self.world.ensemble.partition(parts, silent)

    @rule(server=servers, silent=st.booleans())
    def isolate(self, server: int, silent: bool) -> None:
        self.partition([server == each for each in self.world.servers], silent)

    @rule(some=st.lists(servers, min_size=1, unique=True))
    def heal(self, some: list[int]) -> None:
        self.world.heal(some)

    @rule(server=servers)
    def hold_up_or_release(self, server: int) -> None:
        member = self.world.ensemble.members[server]
        self.world.ensemble.now = int(self.world.now * 1000)
        if member.is_held_up:
            self.world.ensemble.release_up([member])
        elif not member.leads:
            self.world.ensemble.hold_up(member)

    @rule(server=servers)
    def freeze_or_thaw(self, server: int) -> None:
        member = self.world.ensemble.members[server]
        if member.frozen:
            self.world.thaw(server)
        elif member.up:
            self.world.freeze(server)

    @rule(server=servers)
    def kill_or_start(self, server: int) -> None:
        if self.world.ensemble.members[server].up:
            self.world.kill(server)
        else:
            self.world.start(server)

    def leads(self) -> bool:
        return bool(self.world.ensemble.leaders())

    @precondition(leads)
    @rule(pending=st.sampled_from([None, "lost", "applied"]))
    def kill_the_leader(self, pending: str | None) -> None:
        self.world.kill(self.world.ensemble.leaders()[0].member.number, pending=pending)

    @rule(to=st.none() | servers)
    def elect(self, to: int | None) -> None:
        try:
            self.world.elect(to) if to else self.world.elect()
        except EnsembleError:
            assert to is not None or not self.world.ensemble.can_elect()

    @rule(what=st.sampled_from(["proposals", "acks"]))
    def hold(self, what: str) -> None:
        if any(leader.number == self.world.ensemble.epoch for leader in self.world.ensemble.leaders()):
            self.world.hold(what)

    @rule()
    def release_acks(self) -> None:
        self.world.release_acks()

    @rule(who=st.integers(0, 2))
    def expire(self, who: int) -> None:
        session, _ = self.run.clients[who].session
        leaders = [x for x in self.world.ensemble.leaders() if x.number == self.world.ensemble.epoch]
        if leaders and leaders[0].sessions.get(session) is not None:
            self.world.ensemble.expire(session, int(self.world.now * 1000))


def test_no_order_of_controls_breaks_a_rule() -> None:
    run_state_machine_as_test(Controls, settings=SETTINGS)

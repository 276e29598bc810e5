"""No schedule of trouble breaks the rules of ensemble.md section 15.2 while the members change, or while
sessions are local first."""

from __future__ import annotations

import pytest

from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ReconfigRequest
from pyzk.server.testing.tree_io import Loader

from ...support.ensemble_clients import Run

STEPS = 150


def change(run: Run) -> int:
    """Ask the leader for a change of the members by chance; returns its version, or 0."""
    chance, ensemble = run.random, run.world.ensemble
    leader = next((each for each in ensemble.leaders() if each.number == ensemble.epoch), None)
    if leader is None or leader.member.frozen:
        return 0
    number = chance.choice(list(ensemble.members))
    role = chance.choice(["participant", "participant", "observer"])
    line = f"server.{number}=127.0.0.1:{2887 + number}:{3887 + number}:{role};{2180 + number}"
    joining, leaving = chance.choice([(line, None), (None, str(number))])
    frame = bytes(8) + ReconfigRequest(joining, leaving, None, -1).encode()
    zxid, err, _ = leader.handle(Loader(0), OpCode.RECONFIG, frame, ensemble.now)
    return 0 if err else zxid


@pytest.mark.parametrize("seed", range(40))
def test_while_the_members_change(seed: int) -> None:
    run = Run(
        seed,
        participants=4 if seed % 2 else 3,
        observers=1 + seed % 3,
        rate=(0.3, 1, 3)[seed % 3],
        reconfig_enabled=True,
    )
    changes = 0
    for _ in range(STEPS):
        run.step(run.random.choice([0, 0, 0.01, 0.1, 0.3]))
        if run.random.random() < 0.15:
            changes += bool(change(run))
    run.finish()
    assert changes
    assert all(member.config == run.world.ensemble.config for member in run.world.ensemble.members.values())


@pytest.mark.parametrize("seed", range(20))
def test_while_sessions_are_local_first(seed: int) -> None:
    run = Run(seed, rate=(0.3, 1, 3)[seed % 3], local_sessions=True, local_sessions_upgrading=seed % 4 > 0)
    for _ in range(STEPS):
        run.step(run.random.choice([0, 0, 0.01, 0.1, 0.3]))
    run.finish()

"""What waiting costs, counted by the server: the formulas of recipe-rules.md A.1 and A.2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

SIZES = [1, 2, 5, 10, 20]


@attrs.frozen
class Cost:
    """For all acquisitions together."""

    contenders: int
    requests: int
    events: int
    bytes: int


Costs = dict[tuple[str, int], Cost]


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Costs:
    """What the tool for users counts."""
    file = tmp_path_factory.mktemp("costs") / "costs.json"
    command = [sys.executable, "-m", "benchmarks.lock_strategies", "--largest", "20", "--json", str(file)]
    subprocess.run(command, cwd=Path(__file__).parents[3], check=True, stdout=subprocess.DEVNULL)
    return {
        (name, cost["contenders"]): Cost(**cost)
        for name, measured in json.loads(file.read_text()).items()
        for cost in measured
    }


@pytest.mark.parametrize("n", SIZES)
def test_watching_the_predecessor_is_linear_to_the_request(costs: Costs, n: int) -> None:
    cost = costs["predecessor", n]
    assert (cost.requests, cost.events) == (5 * n - 2, n - 1)


@pytest.mark.parametrize("n", SIZES)
def test_watching_the_parent_is_a_herd(costs: Costs, n: int) -> None:
    cost = costs["parent", n]
    assert cost.requests <= 3 * n + n * (n - 1)
    assert cost.events <= n * (n - 1) + 1, "one more: the first comes to an empty directory"
    if n > 2:
        assert cost.requests > 5 * n - 2
        assert cost.events > n - 1


@pytest.mark.parametrize("ratio", [1, 2, 5, 10])
@pytest.mark.parametrize("n", SIZES)
def test_polling_costs_a_list_for_each_waiter_and_period(costs: Costs, n: int, ratio: int) -> None:
    cost = costs[f"polling, H/T = {ratio}", n]
    assert cost.events == 0
    # Waiters look in phase with the releases, and see one of them now before, now after.
    assert cost.requests == pytest.approx(3 * n + ratio * n * (n - 1) / 2, abs=n * (n - 1) / 2)


@pytest.mark.parametrize("n", SIZES)
def test_a_single_znode_is_fought_for_by_writes(costs: Costs, n: int) -> None:
    cost = costs["single znode", n]
    creates, lists, deletes = n + n * (n - 1) // 2, n - 1 + n * (n - 1) // 2, n
    own = n  # watched while it is held, which the deletion ends
    looks = 2 * n  # before it is deleted: it might be another's by now
    assert cost.requests <= creates + lists + deletes + own + looks
    assert cost.events <= n * (n - 1) + own


def test_the_claim_that_polling_is_worst_holds_for_long_holds_only(costs: Costs) -> None:
    """Of seeds that measured with H/T = 2: there it costs less than watching the parent."""
    parent = costs["parent", 20]
    packets = {ratio: 2 * costs[f"polling, H/T = {ratio}", 20].requests for ratio in (1, 2, 5, 10)}
    both = 2 * parent.requests + parent.events
    assert packets[1] < packets[2] < both < packets[5] < packets[10]

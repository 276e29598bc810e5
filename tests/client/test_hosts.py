from __future__ import annotations

import random
from itertools import pairwise

import pytest

from pyzk.client.hosts import ConnectString, Host, HostCycle
from pyzk.protocol.errors import BadArgumentsError


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("localhost", [("localhost", 2181)], ""),
        ("a:1,b:2", [("a", 1), ("b", 2)], ""),
        (" a:1 , b ,/app/x", [("a", 1), ("b", 2181)], "/app/x"),
        ("[::1]:2182,[fe80::1]/", [("::1", 2182), ("fe80::1", 2181)], ""),
        ("a:1/app/", [("a", 1)], "/app"),
    ],
)
def test_connect_strings(text: str, hosts: list[tuple[str, int]], chroot: str) -> None:
    parsed = ConnectString.parse(text)
    assert parsed.hosts == tuple(Host(*host) for host in hosts)
    assert parsed.chroot == chroot


@pytest.mark.parametrize("text", ["", "/app", "a:", ":1", "a:b", "a:0", "a:65536", "::1", "a:1:2", "a:²"])
def test_malformed_connect_strings(text: str) -> None:
    if text == "a:":
        assert ConnectString.parse(text).hosts == (Host("a", 2181),)
        return
    with pytest.raises(ValueError, match=r"."):
        ConnectString.parse(text)


def test_a_malformed_chroot() -> None:
    with pytest.raises(BadArgumentsError):
        ConnectString.parse("a:1/app//x")


def test_hosts_print_as_they_are_written() -> None:
    assert [str(host) for host in ConnectString.parse("a:1,[::1]:2").hosts] == ["a:1", "[::1]:2"]


HOSTS = [Host(name, 1) for name in "abcde"]


def test_every_host_has_its_turn_in_an_order_of_chance() -> None:
    orders = set()
    for seed in range(20):
        cycle = HostCycle(HOSTS, random.Random(seed))
        order = [cycle.next()[0] for _ in range(10)]
        assert set(order[:5]) == set(HOSTS)
        assert order[:5] == order[5:]
        orders.add(tuple(order))
    assert len(orders) > 10


def test_pauses_grow_by_rounds_up_to_a_second_and_differ() -> None:
    cycles = [HostCycle(HOSTS, random.Random(seed)) for seed in range(300)]
    pauses = [[cycle.next()[1] for _ in range(40)] for cycle in cycles]
    assert all(row[0] == 0 for row in pauses), "the very first attempt is immediate"
    longest = [max(row[i] for row in pauses) for i in range(1, 40)]
    assert all(pause <= HostCycle.LONGEST_PAUSE for pause in longest)
    assert all(pause <= HostCycle.FIRST_PAUSE for pause in longest[:4]), "the first round hardly waits"
    rounds = [max(longest[i : i + 5]) for i in range(4, 35, 5)]
    assert all(later > earlier for earlier, later in pairwise(rounds[:5]))
    assert len({row[30] for row in pauses}) == 300


def test_success_forgets_the_failures() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    for _ in range(50):
        cycle.next()
    cycle.settled()
    assert all(cycle.next()[1] <= HostCycle.FIRST_PAUSE for _ in range(5))


def test_a_server_that_is_preferred_comes_first() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    cycle.next()
    cycle.prefer(HOSTS[3])
    assert cycle.starts_round
    assert cycle.next()[0] == HOSTS[3]
    assert sorted(host.name for host in cycle.others(HOSTS[3])) == ["a", "b", "c", "e"]
    cycle.prefer(Host("gone", 1))
    assert {cycle.next()[0] for _ in HOSTS} == set(HOSTS)


def test_a_server_that_is_preferred_keeps_one_turn() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    cycle.prefer(HOSTS[3])
    assert len(cycle) == 5
    order = [cycle.next()[0] for _ in range(10)]
    assert set(order[:5]) == set(HOSTS)
    assert order[:5] == order[5:]


def test_a_round_pauses_only_at_its_start() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    pauses = [cycle.next()[1] for _ in range(25)]
    assert [bool(pause) for pause in pauses] == ([False] * 5 + ([True] + [False] * 4) * 4)


def test_servers_come_and_go_between_rounds() -> None:
    places = set()
    for seed in range(30):
        cycle = HostCycle(HOSTS, random.Random(seed))
        before = [cycle.next()[0] for _ in range(5)]
        assert cycle.starts_round
        new = Host("new", 1)
        cycle.update([new, *HOSTS[1:], new])
        after = [cycle.next()[0] for _ in range(5)]
        assert cycle.starts_round
        places.add(after.index(new))
        after.remove(new)
        assert after == [host for host in before if host != HOSTS[0]], "who stays keeps its place"
    assert places == {0, 1, 2, 3, 4}


def test_a_server_that_has_proved_good_comes_last_when_it_is_lost() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    cycle.next()
    good = cycle.next()[0]
    cycle.settled()
    assert cycle.starts_round
    order = [cycle.next()[0] for _ in range(5)]
    assert order[-1] == good
    assert set(order) == set(HOSTS)


def test_a_round_is_no_longer_than_there_are_servers() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    assert cycle.starts_round
    cycle.next()
    assert not cycle.starts_round
    cycle.update(HOSTS[:2])
    assert len(cycle) == 2
    for _ in range(2):
        assert not cycle.starts_round
        cycle.next()
    assert cycle.starts_round, "after each of the two"

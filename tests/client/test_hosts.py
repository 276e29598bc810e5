"""The servers: connect strings, the order in which they are tried, who moves, and who is asked what it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from pyzk.client.connect import _follow_ensemble
from pyzk.client.hosts import (
    ConnectString,
    Host,
    HostCycle,
    ReadWriteProbe,
    Service,
    list_servers,
    rebalance,
)
from pyzk.protocol.errors import (
    BadArgumentsError,
    ClosingError,
    ConnectionLossError,
    NoAuthError,
    SessionExpiredError,
)


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


@pytest.mark.parametrize("port", [1, 65535])
def test_the_least_and_the_largest_port(port: int) -> None:
    assert ConnectString.parse(f"a:{port}").hosts == (Host("a", port),)
    assert ConnectString.parse(f"[::1]:{port}").hosts == (Host("::1", port),)


@pytest.mark.parametrize(("text", "port"), [("[::1]", 2181), ("[::1]:", 2181), ("[::1]:7", 7)])
def test_an_address_in_brackets(text: str, port: int) -> None:
    assert ConnectString.parse(text).hosts == (Host("::1", port),)


@pytest.mark.parametrize("text", ["[]:1", "[::1]:x"])
def test_no_address_in_brackets(text: str) -> None:
    with pytest.raises(ValueError, match=r"\[.*\]"):
        ConnectString.parse(text)


def test_two_names_of_a_server_have_their_address_in_common() -> None:
    assert Host("a", 1, "10.0.0.1").endpoint == Host("b", 1, "10.0.0.1").endpoint == ("10.0.0.1", 1)
    assert Host("a", 1).endpoint == ("a", 1)
    assert str(Host("a", 1, "10.0.0.1")) == "a:1 (10.0.0.1)"
    assert str(Host("10.0.0.1", 1, "10.0.0.1")) == "10.0.0.1:1"


class Half(random.Random):
    """Chance that is always in the middle, or where a test puts it.

    :ivar asked: between what it has chosen.
    """

    def __init__(self, part: float = 0.5) -> None:
        super().__init__(1)
        self.part = part
        self.asked: list[tuple[float, float]] = []

    def random(self) -> float:
        return self.part

    def uniform(self, a: float, b: float) -> float:
        self.asked.append((a, b))
        return a + (b - a) * self.part


def test_the_longest_pauses_are_exact() -> None:
    cycle = HostCycle(HOSTS[:2], chance := Half())
    pauses = [cycle.next()[1] for _ in range(16)]
    longest = [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert chance.asked == [(0, each) for each in longest]
    assert pauses[::2] == [each / 2 for each in longest]
    assert pauses[1::2] == [0.0] * 8, "only before a round"
    assert cycle.rounds == 8
    cycle.settled()
    assert (cycle.rounds, cycle.starts_round) == (0, True)
    assert cycle.next()[1] == 0.025, "a lost connection is the first failure"


def test_a_list_that_becomes_shorter_ends_the_round_earlier() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    cycle.next()
    assert not cycle.starts_round
    cycle.update(HOSTS[:2])
    tried = [cycle.next()[0], cycle.next()[0]]
    assert set(tried) == set(HOSTS[:2])
    assert cycle.starts_round
    assert len(cycle) == 2


def test_a_server_that_is_not_in_the_list_is_not_preferred() -> None:
    cycle = HostCycle(HOSTS, random.Random(1))
    first, _ = cycle.next()
    cycle.prefer(Host("x", 1))
    assert cycle.starts_round, "the next round begins all the same"
    assert len(cycle) == 5
    cycle.prefer(first)
    assert cycle.next()[0] == first
    assert set(cycle.others(first)) == set(HOSTS) - {first}


@pytest.mark.parametrize(
    ("old", "new", "current", "part", "order"),
    [
        # grown, and ours is kept: to an added server with the probability 1 - 2/4
        ("ab", "abcd", "a", 0.5, None),
        ("ab", "abcd", "a", 0.499, "cd ab"),
        # not grown, and ours is kept
        ("abc", "ab", "a", 0.0, None),
        ("ab", "ac", "a", 0.0, None),
        # ours has gone, and the list has grown
        ("ab", "bcd", "a", 0.0, "cd b"),
        # ours has gone, and nothing else: 2 * (3 - 2) / (2 * (3 - 2)) = 1
        ("abc", "bc", "a", 0.999, "bc"),
        # ours has gone: kept 1 * (3 - 2) / (2 * (3 - 1)) = 1/4
        ("abc", "bd", "a", 0.249, "b d"),
        ("abc", "bd", "a", 0.25, "d b"),
        # ours is in neither list
        ("ab", "ab", "x", 0.0, "ab"),
    ],
)
def test_who_moves_and_where_to(old: str, new: str, current: str, part: float, order: str | None) -> None:
    """The order within each group is chance."""
    found = rebalance(old, new, current, Half(part))
    if order is None or found is None:
        assert found is order
        return
    groups = order.split()
    assert [set(group) for group in groups] == [
        set(found[sum(map(len, groups[:n])) :][: len(group)]) for n, group in enumerate(groups)
    ]
    assert len(found) == len(new)


def test_a_client_that_is_to_move_begins_a_round_there() -> None:
    cycle = HostCycle(HOSTS[:2], random.Random(1))
    current, _ = cycle.next()
    assert not cycle.rebalance(HOSTS[:2], current)
    assert not cycle.starts_round
    assert not cycle.rebalance(HOSTS[2:], None), "nothing is connected"
    assert set(cycle.others(current)) == set(HOSTS[2:])
    assert cycle.rebalance(HOSTS[:2], HOSTS[2])
    assert cycle.starts_round
    assert cycle.next()[0] in HOSTS[:2]


def test_a_server_is_known_by_its_address() -> None:
    """Its name may have changed."""
    cycle = HostCycle([Host("a", 1, "10.0.0.1")], random.Random(1))
    assert not cycle.rebalance([Host("b", 1, "10.0.0.1")], Host("a", 1, "10.0.0.1"))
    assert cycle.next()[0] == Host("b", 1, "10.0.0.1")


# --- asking servers what they are -------------------------------------------------------------------------


class Answers(trio.abc.Stream):
    """A server that answers a word in pieces; None never comes, and an exception is raised."""

    def __init__(self, *pieces: bytes | Exception | None) -> None:
        self._pieces = list(pieces)
        self.said = b""
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.said += data

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        piece = self._pieces.pop(0) if self._pieces else b""
        if piece is None:
            await trio.sleep_forever()
        if isinstance(piece, Exception):
            raise piece
        return piece or b""

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("pieces", "answer", "seconds"),
    [
        ((b"rw",), b"rw", 0),
        ((b"r", b"o"), b"ro", 0),
        ((b"r", None), b"r", 1),
        ((b"r", OSError("reset")), b"r", 0),
        ((trio.BrokenResourceError(),), b"", 0),
        ((b"x" * 99, b"y", b"z"), b"x" * 99 + b"y", 0),
    ],
)
async def test_what_a_server_answers(
    autojump_clock: MockClock, pieces: tuple[bytes | Exception | None, ...], answer: bytes, seconds: float
) -> None:
    stream = Answers(*pieces)

    async def open_stream(host: Host) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return stream

    began = trio.current_time()
    assert await ReadWriteProbe(open_stream).mode(HOSTS[0]) == answer
    assert trio.current_time() - began == seconds
    assert stream.said == b"isro"
    assert stream.closed


@pytest.mark.parametrize("error", [OSError("refused"), UnicodeError("no name"), None])
async def test_a_server_that_cannot_be_asked_is_nothing(
    autojump_clock: MockClock, error: Exception | None
) -> None:
    async def open_stream(host: Host) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if error is not None:
            raise error
        await trio.sleep_forever()
        raise AssertionError

    began = trio.current_time()
    assert await ReadWriteProbe(open_stream).mode(HOSTS[0]) == b""
    assert trio.current_time() - began == (0 if error else 1)


async def test_servers_are_asked_in_turn_with_growing_pauses(autojump_clock: MockClock) -> None:
    asked: list[tuple[Host, float]] = []

    async def open_stream(host: Host) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        asked.append((host, trio.current_time() - began))
        return Answers(b"rw" if len(asked) == 14 else b"ro" if len(asked) % 2 else b"")

    began = trio.current_time()
    lists = iter([[], *[HOSTS[:2]] * 99])
    assert await ReadWriteProbe(open_stream).full_server(lambda: next(lists)) == HOSTS[1]
    assert [host for host, _ in asked] == HOSTS[:2] * 7
    pauses = [0.1 * 2**n for n in range(10)] + [60.0] * 5
    times = [sum(pauses[: n + 1]) for n in range(15)]
    assert [time for _, time in asked] == pytest.approx(times[1:]), "there was nobody at first"


async def test_a_service_without_an_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(name: str) -> list[tuple[str, int]]:
        await trio.lowlevel.checkpoint()
        return [("a", 1), ("b", 2)]

    monkeypatch.setattr("pyzk.client.srv.look_up", look_up)
    found = await list_servers([Service("x", 2181), Host("c", 3)])
    assert found == [Host("a", 1), Host("b", 2), Host("c", 3)]


# --- following the configuration, with a client that a test plays -----------------------------------------


class Following:
    """A client whose configuration is what a test says: an error is raised, else it is the data.

    :ivar used: the lists of servers that it was given.
    """

    def __init__(self, *configs: bytes | Exception | None) -> None:
        self.session = self
        self.configs = list(configs)
        self.used: list[list[Host]] = []
        self.cancelled = 0

    async def wait_connected(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self.configs:
            raise ClosingError(message="the client was closed")

    async def get_config_and_watch(self) -> tuple[bytes | None, None, Following]:
        await trio.lowlevel.checkpoint()
        found = self.configs.pop(0)
        if isinstance(found, Exception):
            raise found
        return found, None, self

    async def wait(self) -> None:
        await trio.lowlevel.checkpoint()

    async def use(self, servers: Sequence[Host]) -> None:
        await trio.lowlevel.checkpoint()
        self.used.append(list(servers))

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancelled += 1


def config(name: str) -> bytes:
    return f"server.1={name}:1:2;3".encode()


@pytest.mark.parametrize(
    ("error", "used", "line"),
    [
        (None, ["a", "b"], None),
        (ConnectionLossError(None, "lost", sent=True), ["a", "b"], None),
        (SessionExpiredError(), ["a", "b"], None),
        (ClosingError(message="closed"), ["a"], None),
        (NoAuthError("/zookeeper/config"), ["a"], "does not follow the ensemble's configuration"),
    ],
)
async def test_what_ends_the_following(
    error: Exception | None, used: list[str], line: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    client = Following(*[each for each in (config("a"), b"", error, config("b")) if each is not None])
    await _follow_ensemble(client, client.use)  # type: ignore[arg-type]
    assert client.used == [[Host(name, 3)] for name in used], "a list without servers is not used"
    assert client.cancelled == len(used) + 1, "each watch is cancelled"
    assert [record.levelname for record in caplog.records] == (["WARNING"] if line else [])
    assert (line or "") in caplog.text

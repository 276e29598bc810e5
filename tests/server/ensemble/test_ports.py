"""Where the servers of an ensemble listen, and how the time that they share passes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import trio
import trio.testing

from pyzk.server.config.members import ServerAddress, made_up
from pyzk.server.config.settings import Settings
from pyzk.server.core.sessions import NEVER
from pyzk.server.ensemble.host import EnsembleHost, MemberServer
from pyzk.server.net.clock import Clock


async def test_lines_that_name_the_ports_of_clients_decide_where_servers_listen() -> None:
    lines = [ServerAddress.parse(str(n), f"127.0.0.1:2888:3888;127.0.0.1:{20_000 + n}") for n in (1, 2, 3)]
    servers = EnsembleHost(Settings(), Clock(), lines).servers
    assert [server.service.settings.port for server in servers.values()] == [20_001, 20_002, 20_003]


async def test_a_server_that_is_added_listens_at_the_port_of_its_line_or_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No socket is opened: the numbers are what a user sees first."""
    monkeypatch.setattr(MemberServer, "bind", lambda self: None)

    async def run(self: MemberServer, **arguments: object) -> None:
        """Do nothing."""

    monkeypatch.setattr(MemberServer, "run", run)
    for first, line, port in (
        (20_001, "127.0.0.1:1:2", 20_005),
        (20_001, "127.0.0.1:1:2;30000", 30_000),
        (0, "127.0.0.1:1:2", 0),
    ):
        host = EnsembleHost(Settings(port=first), Clock(), made_up(3))
        async with trio.open_nursery() as host._nursery:
            settings = host.add(ServerAddress.parse("5", line)).service.settings
        assert settings.port == port
        assert (settings.secure_port, settings.admin_port, settings.metrics_port) == (None, None, None)


class Steps(Clock):
    """A clock that is where a sleeper wants it, at once.

    :ivar slept: until when, in ms from the start.
    :ivar late: seconds by which each sleeper oversleeps.
    """

    late = 0.0

    def __init__(self, most: int) -> None:
        super().__init__(frozen=True)
        self.jump(1000.1 - self.now())
        self._most = most
        self.slept: list[int] = []

    async def sleep_until(self, deadline: float) -> None:
        self.slept.append(round(1000 * (deadline - 1000)))
        if len(self.slept) > self._most:
            await trio.sleep_forever()
        self.jump(max(0.0, deadline - self.now()) + self.late)


async def times_of(host: EnsembleHost, clock: Steps) -> list[int]:
    """Let the time of an ensemble pass until the clock stands still."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host._keep_time)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return clock.slept


def host_of(clock: Clock) -> EnsembleHost:
    return EnsembleHost(Settings(port=0, tick_time=500), clock, made_up(3))


async def test_an_ensemble_at_rest_looks_each_half_tick() -> None:
    """A tick is 500 ms: signs of life are reported at multiples of 250."""
    clock = Steps(3)
    assert await times_of(host_of(clock), clock) == [250, 500, 750, 1000]


async def test_what_a_server_takes_late_is_not_slept_over() -> None:
    clock = Steps(3)
    host = host_of(clock)
    host.ensemble.lag(host.ensemble.members[1], delay=20)
    assert await times_of(host, clock) == [120, 140, 160, 180]
    assert host.ensemble.now == 1_000_160


async def test_what_falls_due_is_done_at_its_time() -> None:
    clock = Steps(2)
    host = host_of(clock)
    host.ensemble.partition([[host.ensemble.members[3]]], silent=False)
    slept = await times_of(host, clock)
    assert slept[:2] == [250, 100 + 200], "half a tick, and an election"
    assert host.ensemble.leader().member.number == 2
    assert host.ensemble.leader().began == 1_000_300


async def test_the_shortest_tick_is_looked_at_each_ms() -> None:
    for tick in (1, 2, 3):
        clock = Steps(4)
        clock.late = 1e-5
        host = EnsembleHost(Settings(port=0, tick_time=tick), clock, made_up(3))
        slept = await times_of(host, clock)
        assert [later - sooner for sooner, later in pairwise(slept)] == [1] * 4


async def test_a_sleep_ends_later_than_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that no float shows may be rounded to the present one."""
    clock = Steps(2)
    clock.jump(4503599627370497.5 / 1000 - clock.now())
    host = EnsembleHost(Settings(port=0, tick_time=1), clock, made_up(3))
    began = clock.now()
    await times_of(host, clock)
    assert clock.now() > began


async def test_what_fails_in_an_ensemble_is_reported_and_the_rest_follows(
    tracebacks: list[str],
) -> None:
    clock = Steps(3)
    host = host_of(clock)
    done: list[int] = []

    class Failing:
        next_act = host.ensemble.now + 10

        def act(self) -> None:
            self.next_act += 10
            done.append(host.ensemble.now)
            raise LookupError("mine")

    host.ensemble.nemesis = Failing()
    await times_of(host, clock)
    assert done[:2] == [1_000_110, 1_000_120]
    words = "some due work of the ensemble was not done; it follows later"
    assert [text.startswith(words) for text in tracebacks] == [True] * len(done)


async def test_a_server_whose_port_is_taken_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: MemberServer) -> None:
        raise OSError("the address is in use")

    monkeypatch.setattr(MemberServer, "bind", refuse)
    host = host_of(Clock())
    async with trio.open_nursery() as host._nursery:
        with pytest.raises(OSError, match="in use"):
            host.add(ServerAddress.parse("5", "127.0.0.1:1:2"))
    assert list(host.servers) == [1, 2, 3]
    assert list(host.ensemble.members) == [1, 2, 3]


async def test_each_server_has_ports_of_its_own() -> None:
    settings = Settings(port=20_001, admin_port=30_001, metrics_port=None)
    found = [
        server.service.settings for server in EnsembleHost(settings, Clock(), made_up(3)).servers.values()
    ]
    assert [each.port for each in found] == [20_001, 20_002, 20_003]
    assert [each.admin_port for each in found] == [30_001, 30_002, 30_003]
    assert [each.metrics_port for each in found] == [None] * 3
    assert [each.secure_port for each in found] == [None] * 3


@pytest.mark.parametrize(
    ("port", "lines", "ports"),
    [
        (7000, ["1:2;20001", "1:2;20002"], [20_001, 20_002]),
        (7000, ["1:2;20001", "1:2;20001"], [7000, 7001]),
        (7000, ["1:2;20001", "1:2"], [20_001, 7001]),
        (0, ["1:2;20001", "1:2;20002"], [0, 0]),
    ],
)
async def test_lines_count_only_if_each_names_another_port(
    port: int, lines: list[str], ports: list[int]
) -> None:
    members = [ServerAddress.parse(str(n), f"127.0.0.1:{text}") for n, text in enumerate(lines, 1)]
    servers = EnsembleHost(Settings(port=port), Clock(), members).servers
    assert [server.service.settings.port for server in servers.values()] == ports


async def test_when_something_is_due_for_the_servers() -> None:
    host = host_of(Steps(1))
    ensemble = host.ensemble
    assert host.next_deadline() == math.inf, "there is no session"
    for member in list(ensemble.members.values()):
        ensemble.freeze(member)
    assert ensemble.next_deadline() < NEVER
    assert host.next_deadline() == ensemble.next_deadline() / 1000, "frozen servers do nothing"
    host.advance(1000.1 + 2)
    assert ensemble.now == 1_002_100


async def test_servers_that_run_and_their_addresses() -> None:
    host = EnsembleHost(Settings(port=20_001), Clock(), made_up(3))
    assert host.any_runs
    for member in list(host.ensemble.members.values()):
        member.up = False
    assert not host.any_runs

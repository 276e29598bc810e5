"""Where the servers of an ensemble listen, and how the time that they share passes."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyzk.server.config.members import ServerAddress, made_up
from pyzk.server.config.settings import Settings
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
    """

    def __init__(self, most: int) -> None:
        super().__init__(frozen=True)
        self.jump(1000.1 - self.now())
        self._most = most
        self.slept: list[int] = []

    async def sleep_until(self, deadline: float) -> None:
        self.slept.append(round(1000 * (deadline - 1000)))
        if len(self.slept) > self._most:
            await trio.sleep_forever()
        self.jump(max(0.0, deadline - self.now()))


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

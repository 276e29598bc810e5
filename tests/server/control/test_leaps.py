"""A leap of time over HTTP: in turns, and without a step for each ping."""

from __future__ import annotations

import itertools

import pytest
import trio

from pyzk.server import open_server
from pyzk.server.testing import open_ensemble
from pyzk.server.testing.host import LocalServer
from pyzk.server.testing.tree_io import Node
from tests.server.control.client import Api
from tests.support.rounds import rounds_while
from tests.support.wire import StreamClient

MINUTE = 60
"""Seconds between two looks at the containers."""


@pytest.mark.usefixtures("one_step_a_turn")
async def test_others_run_between_two_things_that_fall_due() -> None:
    async with open_server(clock="frozen") as server:
        server.load({"/c": Node(kind="container")})
        api = Api(server)
        assert await rounds_while(lambda: api.post("/clock/advance", seconds=100 * MINUTE)) > 90
        assert server.clock.now() == pytest.approx(100 * MINUTE, abs=1e-6)


@pytest.mark.usefixtures("one_step_a_turn")
@pytest.mark.parametrize("path", ["/clock/advance", "/ensemble/advance"])
async def test_others_run_between_two_things_that_fall_due_in_an_ensemble(path: str) -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        ensemble.load({"/c": Node(kind="container")})
        api = Api(ensemble[1])  # type: ignore[arg-type]
        assert await rounds_while(lambda: api.post(path, seconds=100 * MINUTE)) > 90
        assert ensemble.clock.now() == pytest.approx(100 * MINUTE, abs=1e-6)


@pytest.mark.usefixtures("one_step_a_turn")
async def test_sessions_that_expire_at_once_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(clock="frozen") as server:
        running = server.running
        for _ in range(50):
            running.engine.sessions.create(10_000, running.service.now_ms)
        steps = iter(range(10**9))
        monkeypatch.setattr(running.service, "stopwatch", lambda: float(next(steps)))  # each look a second
        left: list[int] = []

        async def others() -> None:
            while True:
                left.append(len(running.engine.sessions))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await Api(server).post("/clock/advance", seconds=60)
            nursery.cancel_scope.cancel()
        # the leap and the server's own task may each have had its turn in between, twice
        assert max(before - after for before, after in itertools.pairwise(left)) <= 4
        assert server.sessions() == []


@pytest.mark.usefixtures("one_step_a_turn")
async def test_two_leaps_at_once_add_up() -> None:
    async with open_server(clock="frozen") as server:
        server.load({"/c": Node(kind="container")})
        api = Api(server)
        async with trio.open_nursery() as nursery:
            for minutes in (10, 20):
                nursery.start_soon(lambda n: api.post("/clock/advance", seconds=n * MINUTE), minutes)
            await trio.lowlevel.checkpoint()
            server.advance(5 * MINUTE)
        assert server.clock.now() == 35 * MINUTE


async def test_a_leap_takes_no_step_for_each_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        host = ensemble.running.host
        stays = [await StreamClient(ensemble[number].open_stream()).connect() for number in (1, 3)]
        goes = await StreamClient(ensemble[2].open_stream()).connect()
        await goes.stream.aclose()
        steps = 0
        advance = host.advance

        def count(now: float) -> None:
            nonlocal steps
            steps += 1
            advance(now)

        monkeypatch.setattr(host, "advance", count)
        ensemble.advance(900_000_000, keep_alive=True)
        assert steps < 10
        assert {each.id for each in ensemble.sessions()} == {each.session_id for each in stays}
        # each was heard of when the leap ended, and not later
        ensemble.advance(60)
        assert ensemble.sessions() == []


async def test_who_is_cut_off_on_the_way_is_not_kept_alive() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        client = await StreamClient(ensemble[1].open_stream()).connect()
        ensemble.holdup(1)  # its leader gives it up
        ensemble.advance(120, keep_alive=True)
        assert client.session_id not in {each.id for each in ensemble.sessions()}


async def test_a_wrong_leap_is_refused(api: Api) -> None:
    for seconds in (-1, 2**40):
        assert (await api.refused("POST", "/clock/advance", seconds=seconds))[0] == 400
    assert isinstance(api.server, LocalServer)
    assert api.server.clock.now() == 0

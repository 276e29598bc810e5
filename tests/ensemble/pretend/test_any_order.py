"""What a test does to an ensemble and to its servers, in any order: nothing breaks, and all ends well."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.errors import ZooKeeperError
from pyzk.protocol.operations import OpCode
from pyzk.server.ensemble.errors import EnsembleError
from pyzk.server.testing import LocalEnsemble, UnknownSessionError, open_ensemble

from ...support.wire import ClosedError, StreamClient

SEEDS = 3000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 12
STEPS = 150
REFUSED = (EnsembleError, UnknownSessionError, ValueError, ZooKeeperError)
"""What a control may raise where it makes no sense."""


class Chance:
    """Clients and a test that do anything.

    :ivar ended: ends the faults and the chaos that were begun.
    """

    def __init__(self, ensemble: LocalEnsemble, seed: int) -> None:
        self.ensemble, self.random = ensemble, random.Random(seed)
        self.clients: list[StreamClient] = []
        self.ends: list[Callable[[], object]] = []
        self.snapshots = [ensemble.snapshot()]
        self.log: list[str] = []

    # --- clients -----------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Open a session, or go on with one, at any server."""
        client = StreamClient(self.a_server().open_stream())
        old = self.random.choice([None, *self.clients])
        with suppress(ClosedError, trio.BrokenResourceError), trio.move_on_after(0):
            if old is not None and old.handshake is not None:
                given = {"session_id": old.session_id, "password": old.password}
                await client.connect(timeout=4000, **given)
            else:
                await client.connect(timeout=4000)
        self.clients = [*self.clients[-5:], client]

    async def ask(self) -> None:
        if not self.clients:
            return
        path, client = f"/{self.random.choice('abc')}", self.random.choice(self.clients)
        flags = self.random.choice([0, CreateMode.EPHEMERAL])
        op, body = self.random.choice(
            [
                (OpCode.CREATE, r.CreateRequest(path, b"", r.OPEN_ACL, flags)),
                (OpCode.SET_DATA, r.SetDataRequest(path, b"x", -1)),
                (OpCode.DELETE, r.DeleteRequest(path, -1)),
                (OpCode.GET_DATA, r.GetDataRequest(path, True)),
                (OpCode.SYNC, r.SyncRequest(path)),
                (OpCode.CLOSE_SESSION, b""),
            ]
        )
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await client.send(op, body)
            with suppress(ClosedError), trio.move_on_after(0):
                while True:
                    await client.next()

    # --- the test ----------------------------------------------------------------------------------------

    def number(self) -> int:
        return self.random.choice(self.ensemble.numbers)

    def a_server(self) -> Any:
        return self.ensemble[self.number()]

    def session(self) -> int:
        return self.random.choice([1, *(info.id for info in self.a_server().sessions())])

    def fault(self) -> None:
        action = self.random.choice(["disconnect", "drop_reply", "error", "delay", "expire"])
        given = {"error": {"error": -101}, "delay": {"seconds": 0.5}}.get(action, {})
        when = "before" if action == "error" else self.random.choice(["before", "after"])
        fault = self.a_server().fault(when=when, action=action, times=2, required=False, **given)
        fault.__enter__()
        self.ends.append(lambda: fault.__exit__(None, None, None))

    def chaos(self) -> None:
        names = ("disconnect", "silence", "delay_request", "delay_reply", "expire", "delay_event", "refuse")
        chaos = self.a_server().chaos(self.random.randrange(99), **dict.fromkeys(names, 0.1))
        self.ends.append(chaos.end)

    def hold(self) -> None:
        kind = self.random.choice(["request", "reply", "event", "handshake"])
        self.a_server().hold(kind, seconds=self.random.choice([None, 0.2]))

    def release_or_lose(self) -> None:
        server = self.a_server()
        for message in server.held()[:1]:
            self.random.choice([server.release, server.lose])(message.number)

    def act(self) -> None:
        """Call one control."""
        ensemble, one, number = self.ensemble, self.a_server(), self.number()
        yes = self.random.random() < 0.5
        name, control = self.random.choice(
            [
                ("lag", lambda: ensemble.lag(number)),
                ("catch_up", ensemble.catch_up),
                ("isolate", lambda: ensemble.isolate(number, silent=yes)),
                ("partition", lambda: ensemble.partition([1, 2], [3], silent=yes)),
                ("heal", ensemble.heal),
                ("holdup", lambda: ensemble.holdup(number)),
                ("releaseup", ensemble.releaseup),
                ("freeze", lambda: ensemble.freeze(number)),
                ("thaw", lambda: ensemble.thaw(number)),
                ("kill", lambda: ensemble.kill(number)),
                ("kill, applied", lambda: ensemble.kill(number, "applied")),
                ("start", lambda: ensemble.start(number)),
                ("elect", lambda: ensemble.elect(number if yes else None)),
                ("roll", ensemble.roll),
                ("hold acks", ensemble.hold_acks),
                ("hold proposals", ensemble.hold_proposals),
                ("release acks", ensemble.release_acks),
                ("expire", lambda: self.random.choice([ensemble, one]).expire(self.session())),
                ("disconnect", lambda: self.random.choice([ensemble, one]).disconnect(self.session())),
                ("move", lambda: ensemble.move(self.session(), number)),
                ("nemesis", lambda: ensemble.nemesis(number, 5)),
                ("calm", ensemble.calm),
                ("advance", lambda: ensemble.advance(self.random.choice([0.1, 0.3, 3]), keep_alive=yes)),
                ("refuse", one.refuse_connections),
                ("accept", one.accept_connections),
                ("pause", lambda: one.pause(self.session() if yes else None)),
                ("resume", one.resume),
                ("fault", self.fault),
                ("chaos", self.chaos),
                ("end a fault", lambda: self.ends.pop()() if self.ends else None),
                ("hold", self.hold),
                ("release or lose", self.release_or_lose),
                ("stop holding", one.stop_holding),
                ("restart", one.restart),
                ("load", lambda: self.random.choice([ensemble, one]).load({"/a": "loaded"})),
                ("snapshot", lambda: self.snapshots.append(one.snapshot())),
                ("restore", lambda: one.restore(self.random.choice(self.snapshots))),
                ("name", lambda: one.name_session("worker")),
                ("look", lambda: (one.dump(), one.leaks(), one.held(), ensemble.advice())),
                ("timeline", lambda: (ensemble.format_timeline(), one.format_timeline())),
                ("sessions", lambda: (ensemble.sessions(), ensemble.leaks())),
            ]
        )
        self.log.append(name)
        with suppress(*REFUSED):
            control()

    async def end(self) -> None:
        """End all that was begun."""
        for end in self.ends:
            end()
        self.ensemble.calm()
        assert self.ensemble.leader() is not None, self.log
        for server in self.ensemble:
            server.resume()
            server.accept_connections()
            server.stop_holding()
            if server.held():
                server.release()
        self.ensemble.advance(60)  # elections, and the end of every session of a client that is gone


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_all_is_well_in_the_end(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async with open_ensemble(3, observers=1, clock="frozen", tick_time=500) as ensemble:
        chance = Chance(ensemble, seed)
        for _ in range(STEPS):
            if chance.random.random() < 0.5:
                chance.act()
            else:
                await chance.random.choice([chance.connect, chance.ask, chance.ask])()
        await chance.end()
        assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [], chance.log
        roles = [ensemble.role(number) for number in ensemble.numbers]
        assert sorted(roles) == ["follower", "follower", "leader", "observer"], chance.log
        for server in ensemble:
            client = await StreamClient(server.open_stream()).connect()
            assert (await client.create(f"/of-{server.number}")).err == 0, chance.log
            assert ensemble.outstanding(server.number) == 0, chance.log
        assert len({str(server.dump()) for server in ensemble}) == 1, chance.log

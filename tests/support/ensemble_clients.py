"""Clients that run into trouble: they read, write, watch, move and go away by chance, while somebody makes
trouble. All that happens is held against the rules of :mod:`.ensemble_rules`.
"""

from __future__ import annotations

import random
from typing import Any

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import CLOSE_SESSION
from pyzk.server.ensemble.nemesis import Nemesis, heal_all

from .ensemble import EnsembleWorld, Later
from .ensemble_rules.recording import Recording, recorded
from .requests import create_op, set_op
from .tree import contents
from .wire import Reply
from .world import Peer

PATHS = [f"/{name}" for name in "abcd"]
TIMEOUTS = [1000, 2000, 6000]


class Client:
    """One client that carries its session, and the last zxid it has seen, from server to server.

    :ivar ghosts: older connections of its session, which it has forgotten.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.seen = 0
        self.session = (0, bytes(16))
        self.peer: Peer | None = None
        self.server = 0
        self.ghosts: list[Peer] = []

    def attach(self, server: int) -> None:
        """Go to a server, where the old connection is forgotten."""
        if not self.run.world.ensemble.members[server].up:
            return
        session_id, password = self.session
        if self.peer is not None and self.welcomed:
            self.ghosts.append(self.peer)
        self.peer = self.run.world[server].open()
        self.server = server
        self.welcomed = False
        timeout = self.run.random.choice(TIMEOUTS)
        self.peer.connect(timeout=timeout, session_id=session_id, password=password, last_zxid=self.seen)
        self.take()

    def take(self) -> None:
        """Look at what has come."""
        peer = self.peer
        if peer is None:
            return
        peer.feed()
        handshake = peer.handshake
        if handshake is not None and not self.welcomed:
            self.welcomed = True
            if handshake.session_id:
                self.session = handshake.session_id, handshake.password
            else:
                self._begin_again()
        for arrival in peer.take_all():
            if isinstance(arrival, Reply):
                self.seen = max(self.seen, arrival.zxid)
                if arrival.op == CLOSE_SESSION:
                    self._begin_again()
        if peer.closed:
            self.peer = None

    def _begin_again(self) -> None:
        self.session, self.seen = (0, bytes(16)), 0
        self.ghosts.clear()

    def act(self) -> None:
        """Do something by chance."""
        self.take()
        chance = self.run.random
        if self.peer is None or chance.random() < 0.03:
            self.attach(chance.choice(list(self.run.world.servers)))
        elif self.ghosts and chance.random() < 0.03:
            self.request(self.ghosts.pop())
        elif self.welcomed:
            self.request(self.peer)
            self.take()

    def request(self, peer: Peer) -> None:
        """Send a request, without waiting for what comes."""
        self.run.operations += 1
        chance = self.run.random
        path, data = chance.choice(PATHS), str(chance.random()).encode()
        flags = chance.choice([0, 0, CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL])
        method, *arguments = chance.choice(
            [
                ("create", path, data, flags),
                ("create", path, data, flags),
                ("delete", path),
                ("set", path, data, chance.choice([-1, -1, 0])),
                ("get", path, chance.random() < 0.3),
                ("exists", path, chance.random() < 0.3),
                ("children", "/", chance.random() < 0.3),
                ("sync", path),
                ("ping",),
                ("multi", create_op(f"{path}/x", data), set_op(path, data)),
                *([("close_session",)] if chance.random() < 0.1 else []),
            ]
        )
        if method == "create":
            Later(peer).create(*arguments[:2], flags=arguments[2])
        else:
            getattr(Later(peer), method)(*arguments)


class Run:
    """Some clients, and trouble.

    :ivar recording: of all that happens.
    :ivar operations: how many requests clients have sent.
    """

    def __init__(
        self,
        seed: int,
        *,
        participants: int = 3,
        observers: int = 1,
        clients: int = 4,
        rate: float = 1.0,
        **settings: Any,
    ) -> None:
        self.random = random.Random(seed)
        with recorded() as recordings:
            self.world = EnsembleWorld(participants, observers, **settings)
        self.recording: Recording = recordings[0]
        self.operations = 0
        self.clients = [Client(self) for _ in range(clients)]
        self.nemesis = self.world.ensemble.nemesis = Nemesis(self.world.ensemble, seed, rate)

    def step(self, seconds: float) -> None:
        self.random.choice(self.clients).act()
        self.world.pass_time(seconds)

    def check(self) -> None:
        self.recording.check()

    def finish(self) -> None:
        """End all trouble: then all servers are equal."""
        world = self.world
        world.ensemble.nemesis = None
        heal_all(world.ensemble)
        world.pass_time(5)
        roles = [world.role(number) for number in world.servers]
        assert roles.count("leader") == 1, roles
        assert set(roles) <= {"leader", "follower", "observer"}, roles
        for client in self.clients:
            client.take()
        first, *others = (contents(server.service.engine.tree) for server in world.servers.values())
        assert all(other == first for other in others), "rule 1: the trees differ"
        members = world.ensemble.members.values()
        tables = [{s.id for s in member.engine.tracker.known_to_all()} for member in members]
        tables.append({s.id for s in world.ensemble.leader().sessions})
        assert all(table == tables[0] for table in tables), "the tables of sessions differ"
        assert not any(server.service.engine.waiting for server in world.servers.values()), (
            "somebody still waits"
        )
        world.pass_time(30)
        assert not list(world.ensemble.leader().sessions), "each session ends once nobody pings any more"
        assert not world[1].engine.tree.ephemerals
        self.check()

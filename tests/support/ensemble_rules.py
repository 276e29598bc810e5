"""The rules that no run of an ensemble breaks (ensemble.md section 15.2), and clients that run into trouble.

A :class:`Run` has some clients that read, write, watch, move and go away by chance, while somebody makes
trouble. What a client may conclude from what it was told is checked as it comes; what must hold of the log
and the trees, whenever
:meth:`Run.check` is called, and at the end, when all trouble is over.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import Any

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import WRITES, OpCode
from pyzk.server.core.txn import CloseSession, Create, Multi, Txn
from pyzk.server.ensemble.nemesis import Nemesis, calm

from .ensemble import EnsembleWorld
from .requests import create_op, set_op
from .tree import contents
from .wire import Event, Reply
from .world import Peer

PATHS = [f"/{name}" for name in "abcd"]
TIMEOUTS = [1000, 2000, 6000]


class Client:
    """One client that carries its session, and the last zxid it has seen, from server to server.

    :ivar acknowledged: the zxids of writes that were answered, and their errors.
    :ivar least: the zxid that a read behind the last sync must show.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.seen = 0
        self.session = (0, bytes(16))
        self.acknowledged: dict[int, int] = {}
        self.peer: Peer | None = None
        self.server = 0

    def attach(self, server: int) -> None:
        """Go to a server, where the old connection is forgotten."""
        member = self.run.world.ensemble.members[server]
        if not member.up:
            return
        session_id, password = self.session
        if self.peer is not None and not self.peer.closed and self.server != server:
            self.run.ghosts.append(self.peer)
        self.peer = peer = self.run.world[server].open()
        self.server = server
        self.attached = self.run.world.now
        self.asked: list[tuple[int, int]] = []  # xid, op
        self.last_header = 0
        self.least: dict[int, int] = {}  # by xid of a sync
        timeout = self.run.random.choice(TIMEOUTS)
        is_ahead = self.seen > member.engine.zxid
        peer.connect(
            timeout=timeout, session_id=session_id, password=password or bytes(16), last_zxid=self.seen
        )
        self.welcomed = False
        self.take()
        is_refused = self.peer is None and peer.handshake is None
        assert member.frozen or member.leader is None or is_refused is is_ahead, "ensemble.md 1.4"

    def take(self) -> None:
        """Look at what has come."""
        peer = self.peer
        if peer is None:
            return
        peer.feed()
        handshake = peer.handshake
        if handshake is not None and not self.welcomed:
            self.welcomed = True
            if handshake.session_id == 0:
                assert peer.closed
                if self.run.misled.get(self.server, 0.0) < self.attached:  # else it may be false (14.18)
                    self.run.told_over(self.session[0])
                self.session, self.seen = (0, bytes(16)), 0
            else:
                assert self.session[0] in (0, handshake.session_id)
                if self.session[0] == 0:
                    assert handshake.session_id >> 56 & 0xFF == self.server % 256, "rule 16"
                    assert handshake.session_id not in self.run.sessions, "rule 16"
                    self.run.sessions.add(handshake.session_id)
                self.session = handshake.session_id, handshake.password
        for arrival in peer.take_all():
            if isinstance(arrival, Event):
                if arrival.zxid > 0:
                    assert arrival.zxid > self.last_header, "rule 10: an event behind a reply that shows it"
            else:
                self.replied(arrival)
        if peer.closed:
            self.peer = None

    def replied(self, reply: Reply) -> None:
        xid, op = self.asked.pop(0)
        assert reply.xid == (xid if op != OpCode.PING else -2), "rule 5: replies in the order of requests"
        assert reply.zxid >= self.last_header, "rule 4: the zxid of replies falls"
        assert reply.zxid >= self.seen or op == OpCode.PING, "rule 4, across connections"
        self.last_header = reply.zxid
        self.seen = max(self.seen, reply.zxid)
        if op in WRITES:
            self.acknowledged[reply.zxid] = reply.err
            self.run.acknowledge(reply.zxid, self.session[0])
        if op == OpCode.CLOSE_SESSION:
            self.session, self.seen = (0, bytes(16)), 0
        if (least := self.least.pop(xid, None)) is not None:
            assert reply.zxid >= least, "rule 9: a sync has missed what was committed before it"

    def send(self, method: str, *arguments: Any, **more: Any) -> None:
        """Send a request, and look at what comes without waiting for it."""
        if self.peer is None or not self.welcomed:
            return
        peer = self.peer
        xid = self.run.next_xid()

        def request(op: int, body: Any = b"", _: int | None = None) -> None:
            self.asked.append((xid, op))
            if op == OpCode.SYNC and self.run.is_current(self.server):
                self.least[xid] = self.run.world.ensemble.log.last_zxid
            peer.send(op, body, xid)

        getattr(_Through(request), method)(*arguments, **more)
        self.take()

    def act(self) -> None:
        """Do something by chance."""
        self.take()
        chance = self.run.random
        path, data = chance.choice(PATHS), str(chance.random()).encode()
        if self.peer is None or chance.random() < 0.03:
            self.attach(chance.choice(list(self.run.world.servers)))
            return
        flags = chance.choice([0, 0, CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL])
        method, *arguments = chance.choice(
            [
                ("create", path, data),
                ("create", path, data),
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
            self.send("create", *arguments, flags=flags)
        else:
            self.send(method, *arguments)


class _Through:
    """The requests of a peer, sent by another function."""

    def __init__(self, request: Any) -> None:
        from .requests import Requests

        class Sender(Requests[None]):
            def request(self, op: int, body: Any = b"", xid: int | None = None) -> None:
                request(op, body, xid)

        self._sender = Sender()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)


class Run:
    """Some clients, and trouble.

    :ivar ghosts: connections that their clients have forgotten.
    :ivar sessions: the ids that were given to clients.
    :ivar misled: by server, when it last had an old leader, or was one; infinite while it has one.
    """

    def __init__(
        self, seed: int, *, participants: int = 3, observers: int = 1, clients: int = 4, rate: float = 1.0
    ) -> None:
        self.random = random.Random(seed)
        self.world = EnsembleWorld(participants, observers)
        self.ghosts: list[Peer] = []
        self.sessions: set[int] = set()
        self.clients = [Client(self) for _ in range(clients)]
        self._xid = 0
        self._acknowledged: dict[int, int] = {}
        self.nemesis = self.world.ensemble.nemesis = Nemesis(self.world.ensemble, seed, rate)
        self.log: list[Txn] = []
        self.misled: dict[int, float] = {}
        self._ending: set[int] = set()  # sessions whose end was proposed
        self.world.ensemble.log.on_commit = self._committed
        self.world.ensemble.on_change = self._changed

    def next_xid(self) -> int:
        self._xid += 1
        return self._xid

    def is_current(self, server: int) -> bool:
        """Whether a server follows, and follows the leader of the latest epoch."""
        member = self.world.ensemble.members[server]
        leader = member.leader
        return (
            leader is not None
            and leader.member is not member
            and leader.number == self.world.ensemble.epoch
            and leader.member.leader is leader
        )

    def _committed(self, txn: Txn) -> None:
        last = self.log[-1] if self.log else None
        if last is not None:
            assert txn.zxid > last.zxid, "rule 3: zxids rise"
            if txn.zxid >> 32 == last.zxid >> 32:
                assert txn.zxid == last.zxid + 1, "rule 3: the counter rises by 1"
            elif txn.zxid >> 32 > last.zxid >> 32:
                assert txn.zxid & 0xFFFFFFFF == 1, "rule 3: the counter starts at 1"
        self.log.append(txn)

    def acknowledge(self, zxid: int, session: int) -> None:
        self._acknowledged[zxid] = session

    def _changed(self, *_: object) -> None:
        """The role of a server changes."""
        self._note_proposals()
        for number, member in self.world.ensemble.members.items():
            if member.leader is not None and member.leader.number < self.world.ensemble.epoch:
                self.misled[number] = math.inf
            elif self.misled.get(number) == math.inf:
                self.misled[number] = self.world.now

    def _note_proposals(self) -> None:
        """Note whose end is proposed: who asks hears of it, even if the proposal is lost later."""
        ensemble = self.world.ensemble
        txns = [proposal.txn for proposal in ensemble.log.proposed if proposal.zxid >> 32 == ensemble.epoch]
        self._ending.update(txn.session for txn in txns if isinstance(txn.effect, CloseSession))

    def told_over(self, session: int) -> None:
        """A client was told that its session is gone."""
        self._note_proposals()
        over = {txn.session for txn in self.log if isinstance(txn.effect, CloseSession)}
        assert session in over | self._ending | {0}, (
            "rule 12: a client is told that its session is gone, and nothing has ended it"
        )

    def step(self, seconds: float) -> None:
        self.random.choice(self.clients).act()
        self.world.pass_time(seconds)

    def check(self) -> None:
        """Rules of the log."""
        zxids = [txn.zxid for txn in self.log]
        by_zxid = {txn.zxid: txn for txn in self.log}
        for server, txns in self.world.txns.items():
            applied = [txn.zxid for txn in txns]
            assert applied == sorted(set(applied)), f"rule 2: server {server} has applied something twice"
            assert all(by_zxid[txn.zxid] is txn for txn in txns), f"rule 1: server {server} has another log"
            if server not in self.world.ensemble.copied:
                assert applied == zxids[: len(applied)], f"rule 2: server {server} has left something out"
        for zxid, session in self._acknowledged.items():
            assert by_zxid[zxid].session == session, "rule 7: an acknowledged write is not in the log"
        over: dict[int, int] = {}
        for place, txn in enumerate(self.log):
            if isinstance(txn.effect, CloseSession):
                assert txn.session not in over, "rule 12: a session ends once"
                over[txn.session] = place
            else:
                assert txn.session not in over, "rule 8: a write of a session that is over"
        self._check_sequence()

    def _check_sequence(self) -> None:
        last: dict[str, int] = defaultdict(lambda: -1)
        for txn in self.log:
            effects = txn.effect.effects if isinstance(txn.effect, Multi) else (txn.effect,)
            for effect in effects:
                if isinstance(effect, Create) and effect.name[-10:].isdigit() and len(effect.name) > 10:
                    number = int(effect.name[-10:])
                    assert number > last[effect.parent], "rule 15: sequence numbers rise"
                    last[effect.parent] = number

    def finish(self) -> None:
        """End all trouble: then all servers are equal."""
        world = self.world
        world.ensemble.nemesis = None
        calm(world.ensemble)
        world.pass_time(5)
        roles = [world.role(number) for number in world.servers]
        assert roles.count("leader") == 1, roles
        assert set(roles) <= {"leader", "follower", "observer"}, roles
        for client in self.clients:
            client.take()
        self.check()
        first, *others = (contents(server.service.engine.tree) for server in world.servers.values())
        assert all(other == first for other in others), "rule 1: the trees differ"
        tables = [{s.id for s in server.service.engine.sessions} for server in world.servers.values()]
        tables.append({s.id for s in world.ensemble.leader().sessions})
        assert all(table == tables[0] for table in tables), "the tables of sessions differ"
        assert not any(server.service.engine.waiting for server in world.servers.values()), (
            "somebody still waits"
        )
        world.pass_time(30)
        assert not list(world.ensemble.leader().sessions), "each session ends once nobody pings any more"
        assert not world[1].engine.tree.ephemerals

"""A pretend ensemble without sockets, with a clock that only tests move.

world = EnsembleWorld(3)
alice = world[1].connect()              # a Peer, as of World
world.lag(1)                            # any verb of Ensemble, with servers by number
world.pass_time(5.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyzk.protocol import records as r
from pyzk.protocol.jute import Record
from pyzk.server.config.members import joiner, made_up
from pyzk.server.config.settings import Settings
from pyzk.server.core.engine import Engine
from pyzk.server.core.txn import Txn
from pyzk.server.ensemble.ensemble import Ensemble
from pyzk.server.ensemble.member import Member
from pyzk.server.ensemble.status import ReportingService
from pyzk.server.ensemble.timing import Timing
from pyzk.server.monitoring.four_letter_words import answer
from pyzk.server.net.service import Service

from .requests import Requests
from .world import EPOCH, START, Peer


class EnsembleWorld:
    """
    :param numbers: those of the servers; they all vote.
    :ivar now: the monotonic time in seconds.
    :ivar txns: by server, what it has applied.
    """

    def __init__(
        self,
        participants: int = 3,
        observers: int = 0,
        *,
        timing: Timing | None = None,
        numbers: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        self.now = START
        given = Settings(**{"initial_zxid": 1 << 32, "tick_time": 500, **settings})
        at, epoch = int(START * 1000), int(EPOCH * 1000)
        members = [joiner(number) for number in numbers] or made_up(participants, observers)
        self.ensemble = Ensemble(given, members, now=at, epoch=epoch, timing=timing, secret=b"s")
        self.servers = {
            number: MemberWorld(self, member, given) for number, member in self.ensemble.members.items()
        }
        self.txns: dict[int, list[Txn]] = {number: [] for number in self.servers}
        for number, server in self.servers.items():
            server.service.engine.on_txn = self.txns[number].append
        self.ensemble.begin()

    def __getitem__(self, number: int) -> MemberWorld:
        return self.servers[number]

    @property
    def leader(self) -> int:
        return self.ensemble.leader().member.number

    def role(self, number: int) -> str:
        return self.ensemble.members[number].role

    def zxid(self, number: int) -> int:
        return self.ensemble.members[number].engine.zxid

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and whatever falls due in it happen, in its order."""
        until = self.now + seconds
        while True:
            services = [server.service.next_deadline() for server in self.servers.values()]
            due = min(*services, self.ensemble.next_deadline() / 1000, until)
            self.now = max(self.now, due)
            self.ensemble.advance(int(self.now * 1000 + 1e-6))
            for server in self.servers.values():
                server.service.advance(self.now)
            if due >= until:
                return

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self.ensemble, verb)

        def call(*arguments: Any, **more: Any) -> Any:
            self.ensemble.now = int(self.now * 1000)
            return method(*[self._member(argument) for argument in arguments], **more)

        return call

    def _member(self, argument: Any) -> Any:
        if isinstance(argument, int) and not isinstance(argument, bool):
            return self.ensemble.members[argument]
        if isinstance(argument, list):
            return [self._member(each) for each in argument]
        return argument


class MemberWorld:
    """One server of it: what a :class:`Peer` needs."""

    def __init__(self, world: EnsembleWorld, member: Member, settings: Settings) -> None:
        self.world = world
        self.member = member
        self.service: Service = member.make_service(
            ReportingService, settings, now=START, epoch=EPOCH, answer_word=answer
        )

    @property
    def engine(self) -> Engine:
        return self.service.engine

    @property
    def now(self) -> float:
        return self.world.now

    def open(self, host: str = "127.0.0.1", identities: Iterable[r.Id] = ()) -> Peer:
        return Peer(self, host, identities)  # type: ignore[arg-type]

    def connect(self, host: str = "127.0.0.1", **handshake: Any) -> Peer:
        peer = self.open(host)
        peer.connect(**handshake)
        return peer


class Later(Requests[None]):
    """Requests of a peer whose replies are awaited later: ``Later(peer).set("/x", b"1")``."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> None:
        self._peer.send(op, body, xid)

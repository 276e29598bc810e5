"""How a script is run: on the pretend ensemble, whose time stands still, and on a real one."""

from __future__ import annotations

import re
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pyzk.server.testing import EmbeddedEnsemble, Timing

from ...support.links import HOST, Link
from ...support.real import Ensemble, Node
from ...support.requests import digest_id
from ...support.waiting import wait_until
from ...support.wire import ClosedError, Handshake, WireClient
from .masks import Masks
from .speaker import PATIENCE, Speaker

TICK = 500
"""In ms. The rules of ensemble.md section 11 were measured with it."""
SYNC_LIMIT = 8
"""In ticks: a silent link is given up after 4 s. The machine may stand still for shorter than that."""
LONGEST_SESSION = 60_000
MOMENT = 0.15
"""Seconds in which a real server has sent what it has to send at once."""
STEP = 0.05
"""Seconds of virtual time between two looks at a connection."""
ROLES = ("L", "F", "G", "O")
SUPER = "super:secret"
SUPER_DIGEST = digest_id(SUPER)
_LINE = re.compile(r"server\.(\d+)=.*")


def ask(address: tuple[str, int], word: str) -> str:
    """What a server answers to a four-letter word."""
    with socket.create_connection(address, timeout=5) as sock:
        sock.sendall(word.encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


class Side(ABC):
    """One ensemble, for one script.

    :ivar numbers: the servers' numbers by their roles at the start.
    :ivar lines: the transcript.
    :ivar sessions: the passwords of all sessions that were given.
    """

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.away: set[str] = set()  # servers that are cut off, or stand still, or do not run
        self.lines: list[str] = []
        self.sessions: dict[int, bytes] = {}
        self._speakers: list[Speaker] = []
        with WireClient(self.address("L")) as first:  # epochs begin with a transaction everywhere
            first.connect()
            config = first.get("/zookeeper/config").record.data.decode()
            first.create("/begins")
            self.spread(first.delete("/begins").zxid)
            self.spread(first.close_session().zxid)
        base = self.zxid("L")
        self.masks = Masks(base, {number: role for role, number in numbers.items()})

        found = [_LINE.fullmatch(line) for line in config.splitlines()]
        self._lines = {int(match[1]): match[0] for match in found if match}

    # --- the members -------------------------------------------------------------------------------------

    def line(self, role: str, *, votes: bool | None = None, port: int | None = None) -> str:
        """The line of a server at the start, or what shall become of it."""
        line = self._lines[self.numbers[role]]
        if votes is not None:
            line = re.sub(":(participant|observer)", ":participant" if votes else ":observer", line)
        return line if port is None else re.sub(r"\d+$", str(port), line)

    def number(self, role: str) -> str:
        return str(self.numbers[role])

    def bring_back(self) -> None:
        """Make the members those of the start, for the next script, and let all serve."""
        lines = "\n".join(self._lines.values())

        def is_done() -> bool:
            try:
                with WireClient(self.address(self.leader()), timeout=5) as client:
                    client.connect(timeout=2 * TICK)
                    client.auth("digest", SUPER)
                    return client.reconfig(new_members=lines).err == 0
            except (ClosedError, OSError):  # its leader has left meanwhile
                return False

        wait_until(is_done, 90)
        wait_until(self._all_serve, LONGEST_SESSION / 1000)

    def _all_serve(self) -> bool:
        """Whether each server lets a client in, and no session is left: its end would be a transaction of the
        next script. After a change of its part a server may lose requests and answers."""
        try:
            modes = [self.mode(role) for role in ROLES]
            for role in ROLES:
                with WireClient(self.address(role), timeout=2) as client:
                    client.connect(timeout=2 * TICK)
                    client.close_session()
            figures = [self.word(role, "mntr") for role in ROLES]
        except (ClosedError, OSError):
            return False
        are_empty = all("\nzk_global_sessions\t0\n" in text for text in figures)
        return modes.count("leader") == 1 and are_empty

    # --- clients -----------------------------------------------------------------------------------------

    def client(self, name: str, role: str, like: Speaker | None = None, **handshake: Any) -> Speaker:
        """A client with a new session at a server, or with the session of another, which knows what that
        one has seen."""
        speaker = self.asking(name, role, like, **handshake)
        if isinstance(speaker.next(), Handshake) and like is None:
            self.spread(self.zxid(role))
        return speaker

    def at_leader(self, name: str, like: Speaker) -> Speaker:
        """A client with the session of another, at the leader, whoever that is."""
        return self.client(name, self.leader(), like, last_zxid=0, shown="the leader")

    def asking(
        self, name: str, role: str, like: Speaker | None = None, *, shown: str = "", **handshake: Any
    ) -> Speaker:
        """A client that has asked for a session and not heard yet."""
        speaker = Speaker(self, name, role)
        self._speakers.append(speaker)
        speaker.note(f"-> connects to {shown or role}")
        speaker.attach(like, **handshake)
        return speaker

    def note(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        """Leave no session behind, and no znode."""
        for speaker in self._speakers:
            speaker.drop()
        self.mend()
        address = self.address(self.leader())
        for session_id, password in self.sessions.items():
            with WireClient(address) as client:
                if client.connect(session_id=session_id, password=password).session_id:
                    client.close_session()
        with WireClient(address) as client:
            client.connect()
            for name in client.children("/").record.children:
                if name != "zookeeper":
                    _delete(client, f"/{name}")
            client.close_session()

    # --- what servers say --------------------------------------------------------------------------------

    @abstractmethod
    def address(self, role: str) -> tuple[str, int]: ...

    def word(self, role: str, word: str) -> str:
        return ask(self.address(role), word)

    def zxid(self, role: str) -> int:
        """The last zxid that a server has applied; -1 while it does not serve."""
        found = re.search(r"^Zxid: 0x([0-9a-f]+)$", self.word(role, "srvr"), re.M)
        return int(found[1], 16) if found else -1

    def mode(self, role: str) -> str | None:
        found = re.search(r"^Mode: (.*)$", self.word(role, "srvr"), re.M)
        return found[1] if found else None

    def try_mode(self, role: str) -> str | None:
        """Likewise of a server that may not run."""
        try:
            return self.mode(role)
        except OSError:
            return None

    @abstractmethod
    def leader(self) -> str:
        """The role that the leader of the latest epoch had at the start, once there is one, and all servers
        that reach it follow it."""

    def figures(self, role: str) -> list[str]:
        """How many servers vote, as a server knows it, and how many follow a leader."""
        found = re.findall(r"^zk_((?:quorum_size|learners|synced_\w+)\t\d+)$", self.word(role, "mntr"), re.M)
        return sorted(found)

    def note_leader(self) -> str:
        role = self.leader()
        self.note(f"{role} leads")
        return role

    # --- time --------------------------------------------------------------------------------------------

    step: float
    """Seconds between two looks."""

    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    def pass_time(self, seconds: float) -> None: ...

    def ends_of(self, clients: Mapping[str, Speaker]) -> dict[str, float]:
        """When the connections of clients end, of which nothing else is heard."""
        ends: dict[str, float] = {}
        begun = self.now()
        while len(ends) < len(clients):
            for name, client in clients.items():
                if name not in ends and self.wait_for(client.socket, 0):
                    client.until_closed()
                    ends[name] = self.now()
            assert self.now() < begun + PATIENCE, f"only {ends} have ended"
            self.pass_time(self.step)
        return ends

    @abstractmethod
    def wait_for(self, sock: socket.socket, patience: float) -> bool:
        """Whether something arrives, or the connection ends, within so many seconds."""

    @abstractmethod
    def settle(self) -> None:
        """Let what happens at once happen."""

    @abstractmethod
    def spread(self, zxid: int) -> None:
        """Wait until all servers that reach the leader have applied a transaction: ours do so at once
        (ensemble.md section 3)."""

    @abstractmethod
    def until(self, look: Callable[[], bool]) -> None:
        """Let time pass until something can be seen."""

    def until_read_only(self, role: str) -> None:
        self.until(lambda: self.word(role, "isro") == "ro")

    def level(self) -> None:
        """Wait until all of them have applied what any of them has; not in a new epoch (1.5)."""
        self.spread(max(self.zxid(role) for role in ROLES if role not in self.away))

    # --- controls ----------------------------------------------------------------------------------------

    @abstractmethod
    def lag(self, role: str) -> None:
        """What the leader sends to a server stands, for less than ``syncLimit`` ticks."""

    @abstractmethod
    def release(self, role: str) -> None: ...

    @abstractmethod
    def hold_up(self, role: str) -> None:
        """What a server sends to the leader stands; what the leader sends arrives."""

    @abstractmethod
    def release_up(self, role: str) -> None: ...

    @abstractmethod
    def isolate(self, role: str, *, silent: bool = True) -> None: ...

    @abstractmethod
    def heal(self, role: str) -> None: ...

    @abstractmethod
    def freeze(self, role: str) -> None: ...

    @abstractmethod
    def thaw(self, role: str) -> None: ...

    @abstractmethod
    def kill(self, role: str) -> None: ...

    @abstractmethod
    def start(self, role: str) -> None: ...

    @abstractmethod
    def hold_acks(self) -> None:
        """No follower's acknowledgement reaches the leader: until :meth:`release_acks`, or another leader."""

    @abstractmethod
    def hold_proposals(self) -> None:
        """No other server gets what the leader proposes, until another leads."""

    @abstractmethod
    def release_acks(self) -> None: ...

    @abstractmethod
    def mend(self) -> None:
        """Undo all that the script has done to the servers, and let all serve."""


def _delete(client: WireClient, path: str) -> None:
    for name in client.children(path).record.children:
        _delete(client, f"{path}/{name}")
    client.delete(path)


class Ours(Side):
    """A pretend ensemble."""

    step = STEP

    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self._ensemble = ensemble
        super().__init__({"L": 3, "F": 1, "G": 2, "O": 4})

    @staticmethod
    def make(**settings: Any) -> EmbeddedEnsemble:
        """An ensemble with the settings of the real one."""
        return EmbeddedEnsemble(
            3,
            observers=1,
            clock="frozen",
            tick_time=TICK,
            max_session_timeout=LONGEST_SESSION,
            timing=Timing(sync_limit=SYNC_LIMIT),
            extended_types=True,
            **settings,
        )

    def address(self, role: str) -> tuple[str, int]:
        server = self._ensemble[self.numbers[role]]
        return server.host, server.port

    def leader(self) -> str:
        present = [role for role in ROLES if role not in self.away]
        for _ in range(round(20 / STEP)):
            roles = {self._ensemble.role(self.numbers[role]): role for role in present}
            if "leader" in roles and {"looking", "read-only"}.isdisjoint(roles):
                return roles["leader"]
            self._ensemble.advance(STEP)
        raise AssertionError("nobody leads")

    def now(self) -> float:
        return self._ensemble.clock.now()

    def pass_time(self, seconds: float) -> None:
        self._ensemble.advance(seconds)

    def wait_for(self, sock: socket.socket, patience: float) -> bool:
        for _ in range(max(1, round(patience / STEP))):
            self._ensemble.leader()  # what was sent has been handled
            if select.select([sock], [], [], 0)[0]:
                return True
            if patience:
                self._ensemble.advance(STEP)
        return False

    def settle(self) -> None:
        self._ensemble.leader()

    def spread(self, zxid: int) -> None:
        pass

    def until(self, look: Callable[[], bool]) -> None:
        for _ in range(round(PATIENCE / STEP)):
            if look():
                return
            self._ensemble.advance(STEP)
        raise AssertionError("it does not come")

    def lag(self, role: str) -> None:
        self._ensemble.lag(self.numbers[role])

    def release(self, role: str) -> None:
        self._ensemble.catch_up(self.numbers[role])

    def hold_up(self, role: str) -> None:
        self._ensemble.holdup(self.numbers[role])

    def release_up(self, role: str) -> None:
        self.away.discard(role)
        self._ensemble.releaseup(self.numbers[role])

    def isolate(self, role: str, *, silent: bool = True) -> None:
        self.away.add(role)
        self._ensemble.isolate(self.numbers[role], silent=silent)

    def heal(self, role: str) -> None:
        self.away.discard(role)
        self._ensemble.heal(self.numbers[role])

    def freeze(self, role: str) -> None:
        self.away.add(role)
        self._ensemble.freeze(self.numbers[role])

    def thaw(self, role: str) -> None:
        self.away.discard(role)
        self._ensemble.thaw(self.numbers[role])

    def kill(self, role: str) -> None:
        self.away.add(role)
        self._ensemble.kill(self.numbers[role])

    def start(self, role: str) -> None:
        self.away.discard(role)
        self._ensemble.start(self.numbers[role])

    def hold_acks(self) -> None:
        self._ensemble.hold_acks()

    def hold_proposals(self) -> None:
        self._ensemble.hold_proposals()

    def release_acks(self) -> None:
        self._ensemble.release_acks()

    def mend(self) -> None:
        for number in self._ensemble.numbers:
            if self._ensemble.role(number) == "down":
                self._ensemble.start(number)
            self._ensemble.thaw(number)
        self._ensemble.catch_up()
        self._ensemble.heal()
        self.away.clear()
        self.leader()


class Real(Side):
    """Apache ZooKeeper. Servers keep their numbers; who leads is seen at the start."""

    step = 0.01

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._nodes = {node.number: node for node in ensemble.nodes}
        self._lagging: dict[str, list[Link]] = {}
        modes = {number: node.mode() for number, node in self._nodes.items()}
        (leader,) = (number for number, mode in modes.items() if mode == "leader")
        followers = [number for number, mode in modes.items() if mode == "follower"]
        (observer,) = (number for number, mode in modes.items() if mode == "observer")
        super().__init__(dict(zip(ROLES, [leader, *sorted(followers), observer], strict=True)))

    def _node(self, role: str) -> Node:
        return self._nodes[self.numbers[role]]

    def _links(self, *pairs: tuple[str, str]) -> list[Link]:
        return [self._ensemble.links[self.numbers[one], self.numbers[other]] for one, other in pairs]

    def _links_of(self, role: str) -> list[Link]:
        others = [self._node(other) for other in ROLES if other != role]
        return self._ensemble.links_between(self._node(role), *others)

    def address(self, role: str) -> tuple[str, int]:
        return HOST, self._node(role).port

    def leader(self) -> str:
        present = [role for role in ROLES if role not in self.away]

        def whole() -> str | None:
            modes = {role: self.try_mode(role) for role in present}
            if not {None, "read-only"}.isdisjoint(modes.values()):
                return None
            return next((role for role, mode in modes.items() if mode == "leader"), None)

        found: str = wait_until(whole, 90)
        return found

    def now(self) -> float:
        return time.monotonic()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_for(self, sock: socket.socket, patience: float) -> bool:
        return bool(select.select([sock], [], [], patience)[0])

    def settle(self) -> None:
        time.sleep(MOMENT)

    def spread(self, zxid: int) -> None:
        for role in ROLES:
            if role not in self.away:
                wait_until(lambda role=role: self.zxid(role) >= zxid or self.zxid(role) < 0)  # type: ignore[misc]

    def until(self, look: Callable[[], bool]) -> None:
        wait_until(look, PATIENCE)

    def lag(self, role: str) -> None:
        self.away.add(role)
        self._lagging[role] = self._links((role, "L"))
        for link in self._lagging[role]:
            link.silence(there=False)

    def release(self, role: str) -> None:
        for link in self._lagging.pop(role):
            link.heal()
        self.away.discard(role)
        self.spread(self.zxid("L"))
        self.settle()

    def hold_up(self, role: str) -> None:
        for link in self._links((role, "L")):
            link.silence(back=False)

    def release_up(self, role: str) -> None:
        for link in self._links((role, "L")):
            link.heal()
        self.away.discard(role)
        self.settle()

    def isolate(self, role: str, *, silent: bool = True) -> None:
        self.away.add(role)
        for link in self._links_of(role):
            if silent:
                link.silence()
            else:
                link.refuse()

    def heal(self, role: str) -> None:
        for link in self._links_of(role):
            link.heal()
        self.away.discard(role)

    def freeze(self, role: str) -> None:
        self.away.add(role)
        self._node(role).pause()

    def thaw(self, role: str) -> None:
        self._node(role).resume()
        self.away.discard(role)

    def kill(self, role: str) -> None:
        self.away.add(role)
        self._node(role).kill()
        for link in self._links_of(role):
            link.refuse()  # what it has sent, and nobody has got, is lost with it

    def start(self, role: str) -> None:
        for link in self._links_of(role):
            link.heal()
        self._node(role).start()
        self.away.discard(role)

    def hold_acks(self) -> None:
        for link in self._links(("F", "L"), ("G", "L")):
            link.silence(back=False)

    def hold_proposals(self) -> None:
        for link in self._links(("F", "L"), ("G", "L"), ("O", "L")):
            link.silence(there=False)

    def release_acks(self) -> None:
        for link in self._links(("F", "L"), ("G", "L"), ("O", "L")):
            link.heal()
        self.settle()

    def mend(self) -> None:
        for role in ROLES:
            for link in self._links_of(role):
                link.heal()
        for node in self._nodes.values():
            if node.running:
                node.resume()
            else:
                node.start()
        self.away.clear()
        self.leader()

"""Structured fuzz over sockets, TLS and HTTP, and on the embedded server while faults are in force.

HYPOTHESIS_PROFILE=nightly sends 10^8 bytes each, and something else each time; how many bytes were sent, and
the seed, is printed. No input may bring about a traceback, harm the bystander, or leave a connection.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Generator

import pytest

from benchmarks import wire
from benchmarks.stalls.clients import tls_config, trusting
from benchmarks.stalls.scene import LONG
from benchmarks.wire import Address, Client
from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.errors import NoNodeError
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.sessions import UnknownSessionError

from ..support.frames import Frames
from ..support.waiting import wait_until
from .fuzz import Requests, flood
from .target import NIGHTLY, attacked, size

BYTES = size(10**6, 10**8)
ROUND = 10**6  # bytes; after each the bystander looks around, and what has been created is swept away
SUPER = "super:CqVS6SOocS+seg35uvstOaZtJTg="  # of "super:a secret"
SETTINGS: dict[str, object] = {
    "tickTime": 200,
    "extendedTypesEnabled": "true",
    "enforceQuota": "true",
    "DigestAuthenticationProvider.superDigest": SUPER,
}


@pytest.fixture
def chance() -> random.Random:
    seed = random.SystemRandom().getrandbits(32) if NIGHTLY else 1
    print(f"seed {seed}")
    return random.Random(seed)


class Sweeper:
    """A client that may do everything, and deletes what the others have created."""

    KEPT = ("/zookeeper", "/bystander")

    def __init__(self, address: Address) -> None:
        self._client = Client(address, timeout=LONG, patience=60)
        self._client.ask(wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"super:a secret"), xid=-4))

    def sweep(self, path: str = "/") -> None:
        missing = [NoNodeError.code]
        reply = self._client.ask(wire.children(path), may_fail=missing)[0]
        if len(reply) == wire.REPLY.size:
            return
        paths = [f"{path.rstrip('/')}/{name}" for name in wire.names_in(reply)]
        paths = [path for path in paths if path not in self.KEPT]
        self._client.ask_all((wire.delete(path) for path in paths), may_fail=[NoNodeError.code, -111])
        left = self._client.ask(wire.children(path), may_fail=missing)[0]
        if len(left) > wire.REPLY.size:
            for name in wire.names_in(left):
                child = f"{path.rstrip('/')}/{name}"
                if child not in self.KEPT:
                    self.sweep(child)
                    self._client.ask(wire.delete(child), may_fail=[NoNodeError.code, -111])

    @property
    def session(self) -> int:
        return self._client.session[0]

    def leave(self) -> None:
        self._client.leave()


def received(address: Address) -> int:
    """What the server says it has received on its client port, in bytes."""
    return wire.monitor(address)["zk_bytes_received_count"]


def let_go_on(
    what: str,
    attack: Generator[int, None, None],
    address: Address,
    sweeper: Sweeper,
    bystander: Client,
    count: Callable[[Address], int] | None = received,
) -> None:
    """Let an attack go on until enough bytes have been received, and say how many.

    :param count: how many have been received; None if those that were sent count.
    """
    began, before, said = time.monotonic(), received(address), 0
    due = counted = 0
    while counted < BYTES:
        due += ROUND
        while said < due:
            said = next(attack)
        bystander.ask(wire.get("/bystander"), wire.exists("/bystander/here"))
        sweeper.sweep()
        sweeper.sweep("/zookeeper/quota")
        counted = count(address) - before if count else said
    attack.close()
    sweeper.leave()
    seconds = time.monotonic() - began
    print(f"{what}: {said:,} bytes sent, {counted:,} of them received, in {seconds:,.0f} s")
    if count:
        print(f"{what}: {wire.monitor(address)['zk_packets_received']:,} packets")


@pytest.mark.parametrize("how", ["sockets", "TLS"])
def test_fuzz_of_frames(how: str, chance: random.Random) -> None:
    tls = how == "TLS"
    with attacked(**SETTINGS, **(tls_config() if tls else {})) as server:
        plain = server.server.address
        address = server.server.others["secure"] if tls else plain
        attack = flood(address, Frames(chance), chance, trusting() if tls else None)
        let_go_on(how, attack, plain, Sweeper(plain), server.bystander)


def test_fuzz_of_http(chance: random.Random) -> None:
    with attacked(**SETTINGS, **{"admin.enableServer": "true", "admin.serverPort": 0}) as server:
        plain = server.server.address
        attack = flood(server.server.others["admin"], Requests(chance), chance)
        let_go_on("HTTP", attack, plain, Sweeper(plain), server.bystander, count=None)


# --- the embedded server ---------------------------------------------------------------------------------

_FAULTS = [
    ("before", "disconnect", {}),
    ("before", "drop_reply", {}),
    ("before", "error", {"error": NoNodeError}),
    ("before", "delay", {"seconds": 0.01}),
    ("after", "disconnect", {}),
    ("after", "drop_reply", {}),
    ("after", "error", {"error": -101}),
    ("after", "delay", {"seconds": 0.01}),
]


class _Bugs(logging.Handler):
    """Collects what has a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))


def _trouble(
    server: EmbeddedServer, chance: random.Random, attack: Generator[int, None, None], spared: set[int]
) -> Generator[int, None, None]:
    """The attack, while one fault after the other is in force, and sessions are expired and cut."""
    while True:
        when, action, more = chance.choice(_FAULTS)
        path = chance.choice(("/a", "/a/**", "/q/**", "/e", "/p-*"))
        with server.fault(path=path, when=when, action=action, times=3, required=False, **more):
            for _ in range(chance.randrange(10, 200)):
                said = next(attack)
        others = [session.id for session in server.sessions() if session.id not in spared]
        if others:
            with contextlib.suppress(UnknownSessionError):  # it is over meanwhile
                chance.choice((server.expire, server.disconnect))(chance.choice(others))
        if chance.random() < 0.05:
            server.format_timeline()
        yield said


def test_fuzz_of_the_embedded_server_with_faults(chance: random.Random) -> None:
    bugs = _Bugs()
    logging.getLogger("pyzk").addHandler(bugs)
    try:
        with EmbeddedServer(
            tick_time=200,
            max_client_connections=0,
            max_session_timeout=LONG,
            extended_types=True,
            enforce_quota=True,
            super_digest=SUPER,
        ) as server:
            address = (server.host, server.port)
            bystander = Client(address, timeout=LONG, patience=60)
            bystander.ask(
                wire.create("/bystander", b""), wire.create("/bystander/here", b"", CreateMode.EPHEMERAL)
            )
            sweeper = Sweeper(address)
            spared = {bystander.session[0], sweeper.session}
            attack = flood(address, Frames(chance), chance)
            let_go_on(
                "embedded, with faults", _trouble(server, chance, attack, spared), address, sweeper, bystander
            )
            attack.close()
            bystander.leave()
            wait_until(lambda: not any(session.connected for session in server.sessions()))
    finally:
        logging.getLogger("pyzk").removeHandler(bugs)
    assert bugs.found == []

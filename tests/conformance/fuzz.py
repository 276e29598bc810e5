"""Random requests to a real server and to ours, and what the two answer differently.

    python -m tests.conformance.fuzz 100000 --seed 7
    PYZK_JARS=DIR python -m tests.conformance.fuzz 100000 --data

Ours emulates the release of the real one (that of ``PYZK_JARS``, or Debian's). The rules:

* Requests are drawn from all op codes, with fields of all lengths, nulls in every place, and bytes that are
  no request at all. They come in batches, each sent in one piece. A request after which a server may close
  the connection ends its batch: what comes behind it the real server carries out or not, as its threads
  happen to run. An op code that nobody knows comes alone: the real server answers it before what waits.
* Between batches connections are lost, taken over by another one, and sessions closed; another session comes.
* A witness has a recursive watch over everything, and must see the same events in the same order; those of a
  closed session's znodes may come in any order.
* Before 3.9 no watch is set on a null path: the real server never closes the connection that has one, and
  keeps its watches (semantics.md section 16).
* No multi has a null path, or a null in an ACL: see :func:`leaves_changes`.
* What is left out is what :mod:`.talking` and :mod:`.test_random_requests` leave out.

A difference ends its conversation, and is printed with the seed and the number that repeat it (``--first``).
The conversation is had twice more: the threads of the real server sometimes show a zxid or a counter that is
not there yet, or no more, and then it differs once only.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.jute import JuteError
from pyzk.protocol.multi import decode_fields
from pyzk.protocol.operations import OpCode

from ..support.jvm import missing, scratch
from ..support.wire import ClosedError, WireClient
from . import ours, real_zookeeper
from .known_differences import differs
from .lockstep import FIXED_XIDS, Side
from .servers import CONFIG
from .talking import WITH_ACL, Talk, fresh, is_comparable, says

REQUESTS = 250
"""Requests of a conversation."""
BATCH = 25
"""Requests that are sent in one piece, at most."""
SHOWN = 10
"""Differences that are printed."""
_MOMENT = 0.5
"""Seconds."""
_LENGTHS = (0, 1, 2, 3, 7, 8, 63, 255, 256, 1023, 4096, 70_000)
_KNOWN = frozenset(op.value for op in OpCode)
_OTHERS = frozenset((OpCode.CLOSE_SESSION, OpCode.AUTH, OpCode.SASL))
"""Requests that a conversation sends in other ways, or not at all."""


class Difference(Exception):
    """The two servers have parted."""


@attrs.frozen
class Asked:
    """A request.

    :ivar ends: whether a server may close the connection behind it.
    """

    op: int
    body: bytes
    ends: bool = False

    @property
    def known(self) -> OpCode:
        """The op code, or for one that nobody knows that of an operation without a body."""
        return OpCode(self.op) if self.op in _KNOWN else OpCode.PING

    def xid(self, number: int) -> int:
        return FIXED_XIDS.get(self.known, 1000 + number) if self.op in _KNOWN else 1000 + number

    def __str__(self) -> str:
        return f"{self.known.name if self.op in _KNOWN else self.op} {self.body!r:.2000}"


class Fuzz(Talk):
    """What one client says: a :class:`Talk` with longer fields, more nulls and stranger bytes.

    :param watches_null: whether it sets watches on a null path.
    """

    def __init__(self, chance: random.Random, top: str, *, watches_null: bool) -> None:
        super().__init__(chance, top)
        self._watches_null = watches_null

    def asked(self) -> Asked:
        """Draw a request."""
        chance = self._chance
        while True:
            if chance.random() < 0.01:  # an op code that nobody knows
                code = chance.choice((chance.randrange(-50, 200), chance.randrange(-(2**31), 2**31)))
                if code not in _KNOWN:
                    return Asked(code, chance.randbytes(chance.randrange(20)), ends=True)
            op, body = self.request()
            damaged = chance.random() < 0.12
            if damaged:
                body = self._damaged(body, op in WITH_ACL)
            if not self._watches_null and watches_null(op, body):
                continue
            if op not in _OTHERS and is_comparable(op, body) and not leaves_changes(op, body):
                return Asked(op, body, damaged or _is_odd_container(op, body))

    def _value(self, cls: Any, name: str, kind: str) -> Any:
        chance = self._chance
        if chance.random() < 0.03:
            if kind in ("buffer", "vector") and name != "acl":
                return None if not name.startswith("persistent") else []
            if kind == "ustring":
                return None
        if kind == "buffer" and chance.random() < 0.02:
            return chance.randbytes(chance.choice(_LENGTHS))
        if kind == "ustring" and "ath" in name and chance.random() < 0.02:
            return f"{self._paths[0]}/{'n' * chance.choice(_LENGTHS[:-2])}"
        return super()._value(cls, name, kind)


def _is_odd_container(op: OpCode, body: bytes) -> bool:
    """Whether it creates a container by the mode of an ephemeral: as long as the real server has not applied
    that, it refuses children."""
    if op != OpCode.CREATE_CONTAINER:
        return False
    with contextlib.suppress(JuteError):
        return r.CreateRequest.decode(body).flags in (1, 3)
    return False


def watches_null(op: int, body: bytes) -> bool:
    """Whether a request may set a watch on a null path."""
    with contextlib.suppress(JuteError):
        if op == OpCode.ADD_WATCH:
            return r.AddWatchRequest.decode(body).path is None
        if op == OpCode.SET_WATCHES2:
            request = r.SetWatches2.decode(body)
            return None in (*(request.persistentWatches or ()), *(request.persistentRecursiveWatches or ()))
    return False


def leaves_changes(op: int, body: bytes) -> bool:
    """Whether it is a multi with a null path, or a null in an ACL: the real server may validate the next
    requests against changes that it never applies (semantics.md section 16)."""
    if op != OpCode.MULTI:
        return False
    with contextlib.suppress(JuteError):
        for _, fields in decode_fields(body, 0):
            entries = [entry for field in fields if isinstance(field, tuple | list) for entry in field]
            if fields[0] is None or any(None in (entry.id.scheme, entry.id.id) for entry in entries):
                return True
    return False


class Pair:
    """The same connection to both servers."""

    def __init__(self, sides: list[Side], number: int) -> None:
        self.sides = sides
        self.number = number
        self.clients = [side.connect() for side in sides]
        for side, client in zip(sides, self.clients, strict=True):
            side.sessions[client.session_id] = number

    def ask(self, batch: list[Asked]) -> bool:
        """Send a batch, and compare the answers; returns whether the connection is open still.

        :raises Difference: they differ.
        """
        for client in self.clients:
            client.send_together(*((one.op, one.body, one.xid(n)) for n, one in enumerate(batch)))
        for number, one in enumerate(batch):
            mine, theirs = (
                says(side, client, one.known, number)
                for side, client in zip(self.sides, self.clients, strict=True)
            )
            if mine != theirs:
                raise Difference(f"{one}:\n  ours {mine!r:.1500}\n  real {theirs!r:.1500}")
            if mine and mine[-1] == "closed":
                return False
            if one.op not in _KNOWN:
                self._must_close()
                return False
            if one.ends and not self._is_open():
                return False
        return True

    def _must_close(self) -> None:
        rests = [client.receive_rest() for client in self.clients]
        if any(rests):
            raise Difference(f"behind an unknown op: ours {rests[0]!r}, real {rests[1]!r}")

    def _is_open(self) -> bool:
        answers = []
        for side, client in zip(self.sides, self.clients, strict=True):
            client.send_bytes(client.encode(OpCode.PING, b"", -2))
            answers.append(says(side, client, OpCode.PING, 0))
        if answers[0] != answers[1]:
            raise Difference(f"the ping behind it:\n  ours {answers[0]}\n  real {answers[1]}")
        return bool(answers[0]) and answers[0][-1] != "closed"

    def seen(self, *, in_order: bool = True) -> None:
        """Compare the events that have come.

        :raises Difference: they differ.
        """
        found = []
        for side, client in zip(self.sides, self.clients, strict=True):
            events = [(side.zxid(event.zxid), *side.event(event)) for event in client.take_events()]
            found.append(events if in_order else sorted(events, key=repr))
        if found[0] != found[1]:
            raise Difference(f"events of a witness:\n  ours {found[0]!r:.3000}\n  real {found[1]!r:.3000}")

    def close(self) -> None:
        """End the session.

        :raises Difference: the answers differ.
        """
        answers = []
        for side, client in zip(self.sides, self.clients, strict=True):
            client.send(OpCode.CLOSE_SESSION)
            answers.append(says(side, client, OpCode.CLOSE_SESSION, 0)[-1])
            client.drop()
        if answers[0] != answers[1]:
            raise Difference(f"closeSession: ours {answers[0]}, real {answers[1]}")

    def move(self, *, lose_first: bool) -> None:
        """Take the session to another connection: after the old one was lost, or away from it.

        :raises Difference: only one of the servers lets it.
        """
        answers, clients = [], []
        for side, old in zip(self.sides, self.clients, strict=True):
            if lose_first:
                with contextlib.suppress(OSError):
                    old.socket.shutdown(socket.SHUT_WR)
                old.receive_rest()
            new = WireClient((side.server.host, side.server.port))
            shaken = new.connect(session_id=old.session_id, password=old.password)
            answers.append((shaken.timeout, shaken.session_id == old.session_id, shaken.extra))
            if not lose_first:
                old.socket.settimeout(_MOMENT)  # the real server sometimes forgets the old connection
                with contextlib.suppress(TimeoutError):
                    old.receive_rest()
            old.drop()
            clients.append(new)
        self.clients = clients
        if answers[0] != answers[1]:
            raise Difference(f"a session that moves: ours {answers[0]}, real {answers[1]}")

    def drop(self) -> None:
        for client in self.clients:
            with contextlib.suppress(Exception):
                client.send(OpCode.CLOSE_SESSION)
                client.receive_rest()
            client.drop()


class Conversation:
    """Two sessions that say random things below one znode, and a witness.

    :ivar count: the requests that were compared.
    """

    def __init__(self, sides: list[Side], chance: random.Random, top: str) -> None:
        self.count = 0
        self._sides = sides
        self._chance = chance
        old = differs("check-watches-of-anybody", sides[1].server)
        self._fuzz = Fuzz(chance, top, watches_null=not old)
        for side in sides:
            side.sessions = {}
        self._sessions = 0
        self._pairs = [self._pair() for _ in range(3)]
        for side, client in zip(sides, self._pairs[0].clients, strict=True):
            side.base = client.ping().zxid
        self._watch(top)

    def _watch(self, top: str) -> None:
        for client in self._pairs[0].clients:
            client.add_watch(top, AddWatchMode.PERSISTENT_RECURSIVE)

    def _pair(self) -> Pair:
        self._sessions += 1
        return Pair(self._sides, self._sessions)

    def run(self) -> None:
        """
        :raises Difference: the servers have parted.
        """
        chance = self._chance
        try:
            while self.count < REQUESTS:
                at = chance.randrange(1, len(self._pairs))
                batch = self._batch()
                self.count += len(batch)
                try:
                    is_open = self._pairs[at].ask(batch)
                except Difference as difference:
                    said = "; ".join(map(str, batch))
                    raise Difference(f"{difference}\n  in the batch {said:.6000}") from None
                self._pairs[0].seen()
                self._maybe_die(at, is_open)
                for pair in self._pairs[1:]:
                    pair.seen()
        finally:
            for pair in self._pairs:
                pair.drop()

    def _batch(self) -> list[Asked]:
        batch: list[Asked] = []
        for _ in range(self._chance.randrange(1, BATCH)):
            asked = self._fuzz.asked()
            if asked.op not in _KNOWN:
                return batch or [asked]
            batch.append(asked)
            if asked.ends:
                break
        return batch

    def _maybe_die(self, at: int, is_open: bool) -> None:
        fate = self._chance.random()
        pair = self._pairs[at]
        if not is_open:
            pair.move(lose_first=True)
        elif fate < 0.05:
            pair.close()
            self._pairs[at] = self._pair()
            for other in self._pairs:
                other.seen(in_order=False)
        elif fate < 0.15:
            pair.move(lose_first=fate < 0.1)


def run(count: int, seed: int, data: bool, number: int = 0) -> int:
    """Compare ``count`` requests, and print what differs; returns how many conversations differ each time.

    :param number: of the first conversation.
    """
    found = once = done = 0
    began = time.monotonic()
    with servers(data) as sides:
        while done < count:
            asked, difference = _converse(sides, seed, number)
            done += asked
            if difference is not None:
                again = [_converse(sides, seed, number)[1] for _ in range(2)]
                if any(again):
                    found += 1
                else:
                    once += 1
                if found + once <= SHOWN:
                    how = "each time" if any(again) else "once in three times"
                    print(f"seed {seed}, conversation {number}, {how}: {difference}", flush=True)
            number += 1
    took = time.monotonic() - began
    release = ".".join(map(str, sides[1].server.version))
    kept = " with --data" if data else ""
    print(
        f"{done:,} requests beside {release}{kept}: {found} conversations differ, and {once} once in three "
        f"times, in {took:.0f} s (seed {seed})"
    )
    return found


def _converse(sides: list[Side], seed: int, number: int) -> tuple[int, str | None]:
    """Have one conversation; returns its requests, and what the servers answered differently."""
    path = f"/fuzz-{number}"
    with fresh(sides[0].server, path), fresh(sides[1].server, path):
        conversation = Conversation(sides, random.Random(f"{seed}-{number}"), f"{path}/t")
        try:
            conversation.run()
        except (Difference, ClosedError, TimeoutError) as difference:
            return conversation.count, f"{type(difference).__name__}: {difference}"
        return conversation.count, None


@contextlib.contextmanager
def servers(data: bool) -> Iterator[list[Side]]:
    """Ours, which emulates the release of the real one, and the real one."""
    config = {**CONFIG, "znode.container.checkIntervalMs": "600000"}
    with scratch() as real_folder, scratch() as folder:
        real = real_zookeeper.start(config, Path(real_folder))
        try:
            release = ".".join(map(str, real.version))
            more = ("--data", str(Path(folder) / "data")) if data else ()
            own = ours.start({**config, "emulate": release}, Path(folder), arguments=more)
            try:
                yield [Side(own), Side(real)]
            finally:
                own.stop()
        finally:
            real.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fuzz")
    parser.add_argument("count", type=int, help="how many requests at least")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--first", type=int, default=0, help="the number of the first conversation")
    parser.add_argument("--data", action="store_true", help="ours keeps its data in files")
    arguments = parser.parse_args()
    if lacking := missing():
        sys.exit(f"there is {lacking}")
    return 1 if run(arguments.count, arguments.seed, arguments.data, arguments.first) else 0


if __name__ == "__main__":
    sys.exit(main())

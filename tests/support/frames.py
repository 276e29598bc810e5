"""Conversations of a client that make sense more or less, frame by frame."""

from __future__ import annotations

import random
import struct
from typing import Any

from pyzk.protocol import records as r
from pyzk.protocol.framing import frame
from pyzk.protocol.jute import Record, fields_of
from pyzk.protocol.multi import READ_OPS, TRANSACTION_OPS, MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

from .vocabulary import BUFFERS, ENTRIES, INTS, LONGS, ODD_PATHS, PATHS, SCHEMES, SINGLE

_POOL = 3000  # payloads that are made once, and then sent as they are or with something wrong in them


class Frames:
    """Handshakes and requests."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pool = [self._payload() for _ in range(_POOL)]

    def conversation(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.03:
            return chance.choice(
                (chance.randbytes(chance.randrange(200)), *(self._hello() for _ in range(3)))
            )
        said = [frame(self._hello())]
        for _ in range(chance.randrange(20, 600)):
            payload = chance.choice(self._pool)
            if chance.random() < 0.1:
                payload = self._spoilt(payload)
            said.append(frame(payload))
        if chance.random() < 0.3:
            said.append(chance.randbytes(chance.randrange(40)))
        return b"".join(said)

    def _hello(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.95:
            timeout, session, zxid = chance.choice((400, 2000)), 0, 0
        else:
            timeout, session, zxid = chance.choice(INTS), chance.choice(LONGS), chance.choice(LONGS)
        password = chance.choice((bytes(16), bytes(16), b"", None))
        return r.ConnectRequest(0, zxid, timeout, session, password).encode() + chance.choice(
            (b"\0", b"", b"xx")
        )

    def _payload(self) -> bytes:
        kind, body = self.request()
        return struct.pack(">ii", self._chance.choice(INTS), kind) + body

    def request(self) -> tuple[OpCode, bytes]:
        """An operation, and the body of its request."""
        chance = self._chance
        kind = chance.choice([*SINGLE, OpCode.MULTI, OpCode.MULTI, OpCode.MULTI_READ])
        if kind in (OpCode.AUTH, OpCode.SASL) and chance.random() < 0.95:
            kind = OpCode.CREATE  # most of those end the conversation
        if kind in (OpCode.MULTI, OpCode.MULTI_READ):
            usual = TRANSACTION_OPS if kind == OpCode.MULTI else READ_OPS
            table = usual if chance.random() < 0.9 else TRANSACTION_OPS | READ_OPS
            ops = chance.choices(sorted(table), k=chance.randrange(8))
            body = encode_multi(MultiOp(op, self._record(table[op])) for op in ops)
        else:
            cls = SINGLE[kind]
            body = self._record(cls).encode() if cls else b""
        return kind, body

    def _record(self, cls: Any) -> Record:
        found: Record = cls(*(self._value(cls, name, kind) for name, kind, _ in fields_of(cls)))
        return found

    def _value(self, cls: Any, name: str, kind: str) -> Any:
        chance = self._chance
        odd = chance.random() < 0.1
        if name == "acl":
            lists = [r.OPEN_ACL, r.OPEN_ACL, chance.choices(ENTRIES, k=chance.randrange(4))]
            return chance.choice([*lists, None] if odd else lists)
        if name == "flags":
            return chance.choice(
                INTS if odd else [4, 5, 6] if cls is r.CreateTTLRequest else [0, 0, 0, 1, 2, 3]
            )
        if name == "version":
            return chance.choice(INTS) if odd else -1
        if name == "ttl":
            return chance.choice(LONGS) if odd else chance.randrange(1, 5000)
        if kind == "vector":
            return None if odd else [self._path() for _ in range(chance.randrange(4))]
        if kind == "ustring":
            return self._path() if "ath" in name else chance.choice(SCHEMES)
        if kind == "buffer" and chance.random() < 0.003:
            return bytes(chance.randrange(20_000))
        choices = {"int": INTS, "long": LONGS, "boolean": [False, True], "buffer": BUFFERS}
        return chance.choice(choices[kind])

    def _path(self) -> str | None:
        return self._chance.choice(PATHS if self._chance.random() < 0.9 else ODD_PATHS)

    def _spoilt(self, data: bytes) -> bytes:
        chance = self._chance
        # a header with something wrong in it ends most conversations: that should be rare
        at = chance.randrange(0 if chance.random() < 0.005 else 8, len(data) + 1)
        how = chance.randrange(4)
        if how == 0:
            return data[:at]
        if how == 1:
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
        if how == 2:
            return data[:at] + chance.randbytes(chance.randrange(1, 6)) + data[at:]
        return data[:at] + struct.pack(">i", chance.choice(INTS)) + data[at + 4 :]

"""What random conversations consist of: odd requests below a znode, and which of them can be compared."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterator
from typing import Any

from pyzk.protocol import records as r
from pyzk.protocol.jute import JuteError
from pyzk.protocol.multi import decode_fields
from pyzk.protocol.operations import OpCode

from ..support.frames import Frames
from ..support.requests import acl, digest_id
from ..support.vocabulary import INTS
from ..support.wire import ClosedError, Event, WireClient
from .conftest import delete_tree
from .lockstep import Side
from .servers import SUPER_CREDENTIALS, Server

PATHS = ["", "", "/a", "/a/b", "/a/b/c", "/e", "/p-", "/a/x", "/b", "/b/c"]
ODD_PATHS = ["/", "//", "/a//b", "/.", "/\0", "/😀", "/\ufffd", "/" + "n" * 300, "/a/"]
ENTRIES = [
    *(acl(31), acl(1), acl(31, "auth", ""), acl(1, "ip", "::1"), acl(1, "ip", "::\0"), acl(1, "auth", None)),
    *(
        acl(1, "digest", "x"),
        acl(31, "digest", digest_id("u:p")),
        acl(1, "x509", "CN=a"),
        acl(1, "sasl", "bob"),
    ),
    *(acl(1, "world", None), acl(1, None, None)),
]
NAMES = [b"\xed\xa0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xff", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
WITH_ACL = frozenset(op for op in OpCode if op.name.startswith(("CREATE", "SET_ACL", "MULTI")))
_TTL_FLAGS = (5, 6)


class Talk(Frames):
    """What one connection says below a znode of its own."""

    def __init__(self, chance: random.Random, top: str) -> None:
        self._chance = chance
        self._paths = [top + path for path in PATHS]
        self._odd_paths = [top + path for path in ODD_PATHS] + ["a", None]

    def requests(self, number: int) -> Iterator[tuple[OpCode, bytes]]:
        while number:
            op, body = self.request()
            if self._chance.random() < 0.08:
                body = self._damaged(body, op in WITH_ACL)
            if op not in (OpCode.SASL, OpCode.AUTH) and is_comparable(op, body):
                number -= 1
                yield op, body

    def _path(self) -> str | None:
        return self._chance.choice(self._paths if self._chance.random() < 0.9 else self._odd_paths)

    def _value(self, cls: Any, name: str, kind: str) -> Any:
        value = super()._value(cls, name, kind)
        if name == "acl" and value:  # everybody may read everything
            return self._chance.choice([r.OPEN_ACL, r.OPEN_ACL, [acl(31), *self._entries()]])
        if name.startswith("persistent") and value:  # before 3.9 a second null of one client is refused
            return [path for path in value if path is not None]
        if name == "relativeZxid":  # in each server the same znodes are newer
            return self._chance.choice([-1, 0, -(2**63), 2**63 - 1])
        return value

    def _entries(self) -> list[r.ACL]:
        return self._chance.choices(ENTRIES, k=self._chance.randrange(4))

    def _damaged(self, body: bytes, has_acl: bool) -> bytes:
        chance, at = self._chance, self._chance.randrange(len(body) + 1)
        how = chance.randrange(2 if has_acl else 4)  # nothing that could hide a znode
        if how == 0:
            return body[:at]
        if how == 1:
            return body.replace(b"/a", chance.choice(NAMES)[:2], 1)
        if how == 2:
            return body[:at] + chance.randbytes(1) + body[at + 1 :]
        return body[:at] + struct.pack(">i", chance.choice(INTS)) + body[at + 4 :]


def is_comparable(op: OpCode, body: bytes) -> bool:
    if op in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
        return struct.unpack_from(">q", body.ljust(8))[0] in (-1, 0, -(2**63), 2**63 - 1)
    with contextlib.suppress(JuteError):
        if op == OpCode.CREATE_TTL:
            return r.CreateTTLRequest.decode(body).flags not in range(5)
        if op in (OpCode.MULTI, OpCode.MULTI_READ):
            odd: list[int] = []

            def note(code: int, fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
                odd.extend([code] if code != OpCode.CREATE_TTL and fields[3] in _TTL_FLAGS else ())
                # a container with the mode of an ephemeral can have children here, in the same multi too
                odd.extend([code] if code == OpCode.CREATE_CONTAINER and fields[3] in (1, 3) else ())
                return code, fields

            decode_fields(body, 0, note)
            return not odd
    return True


def says(side: Side, client: WireClient, op: OpCode, number: int) -> list[Any]:
    """What the server says up to the reply to a request."""
    said: list[Any] = []
    try:
        while isinstance(arrival := client.receive(), Event):
            said.append((side.zxid(arrival.zxid), side.event(arrival)))
    except ClosedError:
        return [*said, "closed"]
    with contextlib.suppress(Exception):  # an error reply may have a body of its own
        return [*said, side.reply(arrival)]
    return [*said, (arrival.xid, arrival.err, side.zxid(arrival.zxid), arrival.body)]


@contextlib.contextmanager
def _administrator(server: Server) -> Iterator[WireClient]:
    with WireClient((server.host, server.port)) as admin:
        admin.connect()
        admin.auth("digest", SUPER_CREDENTIALS)
        yield admin
        admin.close_session()


@contextlib.contextmanager
def fresh(server: Server, path: str) -> Iterator[None]:
    """A znode with nothing below it, and later nothing of it. Between the two no session is kept, which a
    long conversation would outlive."""
    with _administrator(server) as admin:
        assert admin.create(path).err == 0
        assert admin.create(f"{path}/t").err == 0
    yield
    with _administrator(server) as admin:
        delete_tree(admin, path)

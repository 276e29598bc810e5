"""What is refused while memory is short, and how an embedded server is spared it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import CLIENTS, OpCode
from pyzk.server.core import operations
from pyzk.server.core.memory import reserve
from pyzk.server.core.operations.growth import grows

from ...support.world import Peer

NEITHER = {
    *(OpCode.GET_ACL, OpCode.SYNC, OpCode.PING, OpCode.WHO_AM_I, OpCode.GET_EPHEMERALS, OpCode.MULTI_READ),
    *(OpCode.GET_ALL_CHILDREN_NUMBER, OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES),
    *(OpCode.DELETE, OpCode.CLOSE_SESSION),
}
READS = {OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2}


@pytest.mark.parametrize("op", sorted(CLIENTS - {OpCode.MULTI}), ids=lambda op: OpCode(op).name)
@pytest.mark.parametrize("last", [0, 1])
def test_requests_that_make_a_server_grow(op: int, last: int) -> None:
    assert grows(op, bytes(20) + bytes([last])) == (op not in NEITHER and (op not in READS or last == 1))


def test_a_multi_makes_a_server_grow_if_a_step_does() -> None:
    delete = MultiOp(OpCode.DELETE, r.DeleteRequest("/a", -1))
    check = MultiOp(OpCode.CHECK, r.CheckVersionRequest("/a", -1))
    create = MultiOp(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0))
    assert not grows(OpCode.MULTI, bytes(8) + encode_multi([check, delete]))
    assert grows(OpCode.MULTI, bytes(8) + encode_multi([delete, create]))


def test_what_is_refused_takes_no_zxid(monkeypatch: pytest.MonkeyPatch, client: Peer) -> None:
    client.create("/a")
    before = client.get("/a").zxid
    monkeypatch.setattr(reserve, "short", True)
    operations.OPERATIONS.clear()
    calls: list[Callable[[], object]] = [
        lambda: client.create("/b"),
        lambda: client.exists("/a", watch=True),
    ]
    for call in calls:
        with pytest.raises(MemoryError):
            call()
    reply = client.get("/a")
    assert (reply.err, reply.zxid) == (0, before)
    assert client.delete("/a").err == 0
    assert not operations.OPERATIONS

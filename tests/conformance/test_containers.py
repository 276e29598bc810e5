"""Containers and TTL znodes, and how they go (semantics.md 13)."""

from __future__ import annotations

import time

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp
from pyzk.protocol.operations import OpCode

from ..support.requests import create_op, delete_op
from ..support.waiting import PATIENCE, wait_until
from ..support.wire import Event, WireClient
from .known_differences import differs
from .servers import Server


def is_gone(client: WireClient, path: str) -> bool:
    return client.exists(path).err == -101


def wait_for_a_reaping(client: WireClient, top: str) -> None:
    """Wait until the reaper has come round at least once since the call: it takes a bait laid now."""
    client.create(f"{top}/bait", op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/bait/child")
    client.delete(f"{top}/bait/child")
    wait_until(lambda: is_gone(client, f"{top}/bait"))


def test_a_container_goes_after_its_last_child(client: WireClient, top: str) -> None:
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/c/child")
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/c").err == 0
    client.delete(f"{top}/c/child")
    wait_until(lambda: is_gone(client, f"{top}/c"))


def test_a_container_that_never_had_children_stays(client: WireClient, top: str) -> None:
    # never reaped by default up to 3.9
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/c").err == 0


@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.CREATE2], ids=lambda op: op.name)
def test_a_container_flag_alone_makes_no_container(client: WireClient, top: str, op: OpCode) -> None:
    # semantics.md 4.1: with op 1 or 15 a plain persistent znode
    client.create(f"{top}/c", flags=4, op=op)
    client.create(f"{top}/c/child")
    client.delete(f"{top}/c/child")
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/c").err == 0


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_the_container_op_makes_containers_whatever_the_flag(
    client: WireClient, top: str, flags: int
) -> None:
    # semantics.md 4.1
    path = client.create(f"{top}/c", flags=flags, op=OpCode.CREATE_CONTAINER).record.path
    client.create(f"{path}/child")
    client.delete(f"{path}/child")
    wait_until(lambda: is_gone(client, path))


@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.CREATE2], ids=lambda op: op.name)
def test_in_a_multi_the_container_flag_makes_a_container(client: WireClient, top: str, op: OpCode) -> None:
    # wire.md section 10: a real container, which answers like create2
    reply = client.multi(
        create_op(f"{top}/c", flags=4, op=op),
        create_op(f"{top}/c/child"),
        delete_op(f"{top}/c/child"),
    )
    assert [result.type for result in reply.results] == [15, 1, 2]
    wait_until(lambda: is_gone(client, f"{top}/c"))


def test_a_reaping_is_a_delete(server: Server, client: WireClient, top: str) -> None:
    # semantics.md 13: one zxid, and watches fire as for a delete
    path = f"{top}/c"
    client.create(path, flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{path}/child")
    client.exists(path, watch=True)
    client.children(top, watch=True)
    before = client.delete(f"{path}/child").zxid
    events = [client.wait_event(), client.wait_event()]
    zxid = -1 if differs("notification-zxid", server) else before + 1
    assert events == [Event(zxid, 2, path), Event(zxid, 4, top)]
    assert client.exists(top).record.stat.pzxid == before + 1
    # The real reaper asks again while its first request is on the way; the refusal consumes a zxid.
    assert client.ping().zxid == before + 1 or server.kind == "real"


def test_containers_may_have_all_kinds_of_children(client: WireClient, top: str) -> None:
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/t", flags=5, ttl=10**6)
    for parent in ("c", "t"):
        assert client.create(f"{top}/{parent}/e", flags=1).err == 0
        assert client.create(f"{top}/{parent}/c", flags=4, op=OpCode.CREATE_CONTAINER).err == 0
        assert client.create(f"{top}/{parent}/t", flags=5, ttl=10**6).err == 0


def test_a_ttl_znode_goes_when_its_time_is_over(client: WireClient, top: str) -> None:
    path = client.create(f"{top}/t", flags=6, ttl=50).record.path
    client.create(f"{top}/long", flags=5, ttl=10**6)
    wait_until(lambda: is_gone(client, path))
    assert client.exists(f"{top}/long").err == 0


def test_children_keep_a_ttl_znode(client: WireClient, top: str) -> None:
    # a znode whose last child goes after its time is over dies at the next check
    ttl_create = MultiOp(OpCode.CREATE_TTL, r.CreateTTLRequest(f"{top}/t", b"", r.OPEN_ACL, 5, 50))
    assert client.multi(ttl_create, create_op(f"{top}/t/child")).results[-1].err == 0
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/t").err == 0
    client.delete(f"{top}/t/child")
    wait_until(lambda: is_gone(client, f"{top}/t"))


def test_set_data_renews_a_ttl_znode(client: WireClient, top: str) -> None:
    ttl, renewed, left = 500, f"{top}/renewed", f"{top}/left"

    def begin() -> float:
        now = time.monotonic()
        for path in (renewed, left):  # what outlives the other was the first to be made
            client.create(path, flags=5, ttl=ttl)
        return now

    touched = begin()
    deadline = time.monotonic() + 2 * PATIENCE
    while True:
        gone = is_gone(client, left)
        now = time.monotonic()
        if client.set(renewed, b"").err == 0:
            touched = now
            if gone:
                break
        else:
            assert time.monotonic() - touched > ttl / 1000
            wait_until(lambda: is_gone(client, left))  # we came too late: both anew
            touched = begin()
        assert now < deadline
        time.sleep(0.02)  # the pace of the touches


def test_containers_and_ttl_znodes_look_persistent(client: WireClient, top: str) -> None:
    # semantics.md 1.1
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/t", flags=5, ttl=10**6)
    assert client.exists(f"{top}/c").record.stat.ephemeralOwner == 0
    assert client.exists(f"{top}/t").record.stat.ephemeralOwner == 0
    assert list(client.ephemerals().record.ephemerals) == []

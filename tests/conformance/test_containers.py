"""Containers and TTL znodes, and how they go (semantics.md 13)."""

from __future__ import annotations

import pytest

from pyzk.protocol.constants import OpCode

from .conftest import poll
from .known_differences import differs
from .servers import Server
from .wire_client import Event, WireClient, create_op, delete_op


def is_gone(client: WireClient, path: str) -> bool:
    return client.exists(path).err == -101


def wait_for_a_reaping(client: WireClient, top: str) -> None:
    """Wait until the reaper has come round at least once since the call: it takes a bait laid now."""
    client.create(f"{top}/bait", op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/bait/child")
    client.delete(f"{top}/bait/child")
    poll(lambda: is_gone(client, f"{top}/bait"))


def test_a_container_goes_after_its_last_child(client: WireClient, top: str) -> None:
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/c/child")
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/c").err == 0
    client.delete(f"{top}/c/child")
    poll(lambda: is_gone(client, f"{top}/c"))


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
    poll(lambda: is_gone(client, path))


@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.CREATE2], ids=lambda op: op.name)
def test_in_a_multi_the_container_flag_makes_a_container(client: WireClient, top: str, op: OpCode) -> None:
    # wire.md section 10: a real container, which answers like create2
    reply = client.multi(
        create_op(f"{top}/c", flags=4, op=op),
        create_op(f"{top}/c/child"),
        delete_op(f"{top}/c/child"),
    )
    assert [result.type for result in reply.results] == [15, 1, 2]
    poll(lambda: is_gone(client, f"{top}/c"))


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
    assert events == [Event(zxid, 2, 3, path), Event(zxid, 4, 3, top)]
    assert client.ping().zxid == before + 1
    assert client.exists(top).record.stat.pzxid == before + 1


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
    poll(lambda: is_gone(client, path))
    assert client.exists(f"{top}/long").err == 0


def test_children_keep_a_ttl_znode(client: WireClient, top: str) -> None:
    # a znode whose last child goes after its time is over dies at the next check
    client.create(f"{top}/t", flags=5, ttl=50)
    if client.create(f"{top}/t/child").err:
        pytest.skip("the machine was too slow for the race")
    wait_for_a_reaping(client, top)
    assert client.exists(f"{top}/t").err == 0
    client.delete(f"{top}/t/child")
    poll(lambda: is_gone(client, f"{top}/t"))


def test_set_data_renews_a_ttl_znode(client: WireClient, top: str) -> None:
    client.create(f"{top}/t", flags=5, ttl=1000)
    client.create(f"{top}/sooner", flags=5, ttl=900)
    for _ in range(2):
        wait_for_a_reaping(client, top)
        assert client.set(f"{top}/t", b"renewed").err == 0
    poll(lambda: is_gone(client, f"{top}/sooner"))
    assert client.exists(f"{top}/t").err == 0


def test_containers_and_ttl_znodes_look_persistent(client: WireClient, top: str) -> None:
    # semantics.md 1.1
    client.create(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER)
    client.create(f"{top}/t", flags=5, ttl=10**6)
    assert client.exists(f"{top}/c").record.stat.ephemeralOwner == 0
    assert client.exists(f"{top}/t").record.stat.ephemeralOwner == 0
    assert list(client.ephemerals().record.ephemerals) == []

"""Who may do what, and how much: ACLs, credentials, quotas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import OpCode

from .. import wire
from ..wire import BenchmarkError
from .case import case, one_multi
from .scene import (
    MEGABYTE,
    NO_AUTH,
    PIPELINE,
    Scene,
    create_op,
    delete_op,
    entries,
    exchange,
    get_op,
    set_op,
)
from .states import guarded, small_tree, tree


@case("acl-get", PIPELINE, "N reads of a znode with 40,000 ACL entries", state=guarded, quick=PIPELINE)
def acl_get(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    yield
    client.ask(*[wire.get("/g")] * size, may_fail=[NO_AUTH])


@case(
    "acl-get-acl",
    PIPELINE,
    "N times getACL of a znode with 40,000 ACL entries",
    state=guarded,
    quick=PIPELINE,
)
def acl_get_acl(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    yield
    client.ask(*[wire.request(OpCode.GET_ACL, r.GetACLRequest("/g"))] * size, may_fail=[NO_AUTH])


@case(
    "acl-multi-read",
    45_000,
    "one multiRead of N reads of a znode with 40,000 ACL entries",
    state=guarded,
    transaction=True,
)
def acl_multi_read(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    request = wire.multi_of([get_op("/g")] * size, OpCode.MULTI_READ)
    scene.elements = size
    yield
    client.ask(request)


@case(
    "acl-events", 500, "a change of a znode with 40,000 ACL entries, which N connections watch", state=guarded
)
def acl_events(scene: Scene, size: int) -> Iterator[None]:
    for client in scene.clients(size):
        client.ask(wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/g", AddWatchMode.PERSISTENT)))
    client = scene.client()
    yield
    client.ask(wire.set_data("/g", b""))


@case("acl-set", 40_000, "a create with N ACL entries", transaction=True, spoils=True)
def acl_set(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    request = wire.request(OpCode.CREATE, r.CreateRequest("/g", b"", entries(size), 0))
    scene.elements = size
    yield
    client.ask(request, may_fail=[-114])


@case("auth-entries", 60_000, "a create with N auth entries, of a client with 30 credentials",
      transaction=True, memory_each=800)  # fmt: skip
def auth_entries(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    client.ask_all(credentials_of(CREDENTIALS))
    acl = [r.ACL(n, r.Id("auth", "")) for n in range(size)]
    request = wire.request(OpCode.CREATE, r.CreateRequest("/auth", b"", acl, 0))
    scene.elements = size
    yield
    client.ask(request, may_fail=[-5, -114])


CREDENTIALS = 30
"""What one connection may show: some servers allow no more than 32."""


def credentials_of(count: int) -> Iterator[bytes]:
    for n in range(count):
        yield wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"user%d:password" % n), xid=-4)


@case("credentials", 20_000, "one connection shows N credentials")
def credentials(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    requests = b"".join(credentials_of(size))
    yield
    with contextlib.suppress(BenchmarkError, ConnectionError):  # it may be refused more than some number
        exchange(client, requests, size)


@case(
    "credentials-acl",
    PIPELINE,
    "N reads with 30 credentials of a znode with 8,000 ACL entries",
    quick=PIPELINE,
)
def credentials_acl(scene: Scene, size: int) -> Iterator[None]:
    owner = scene.client()
    acl = [r.ACL(1, r.Id("digest", f"{n:05}:{'x' * 27}=")) for n in range(scene.size(8_000))]
    owner.ask(wire.request(OpCode.CREATE, r.CreateRequest("/d", b"", acl, 0)))
    client = scene.client()
    client.ask_all(credentials_of(CREDENTIALS))
    yield
    client.ask(*[wire.get("/d")] * size, may_fail=[NO_AUTH])


# --- quotas ---------------------------------------------------------------------------------------------


_QUOTA = "/zookeeper/quota"


@case("quota-recount", 50, "one multi that deletes and creates a quota's zookeeper_stats N times",
      state=small_tree, transaction=True, quick=50, spoils=True)  # fmt: skip
def quota_recount(scene: Scene, size: int) -> Iterator[None]:
    stats = f"{_QUOTA}/t/zookeeper_stats"
    scene.fill([f"{_QUOTA}/t", f"{_QUOTA}/t/zookeeper_limits", stats])
    ops = [op for _ in range(size) for op in (delete_op(stats), create_op(stats))]
    return one_multi(scene, ops)


@case(
    "quota-count",
    1_000_000,
    "the first count of a quota over N znodes",
    state=tree,
    transaction=True,
    spoils=True,
)
def quota_count(scene: Scene, size: int) -> Iterator[None]:
    scene.fill([f"{_QUOTA}/t", f"{_QUOTA}/t/zookeeper_limits"])
    return one_multi(scene, [create_op(f"{_QUOTA}/t/zookeeper_stats")], size)


def _junk_quotas(scene: Scene) -> None:
    small_tree(scene)
    prefixes = [f"{_QUOTA}/t", *(f"{_QUOTA}/t/{n}" for n in range(60))]
    scene.fill(prefixes)
    scene.fill(f"{prefix}/{leaf}" for prefix in prefixes for leaf in ("zookeeper_limits", "zookeeper_stats"))
    client = scene.client()
    client.ask_all(wire.set_data(f"{prefix}/zookeeper_stats", b"junk") for prefix in prefixes)


@case("quota-junk", 60, "one small multi while N quotas have usage that cannot be read", state=_junk_quotas,
      quick=60)  # fmt: skip
def quota_junk(scene: Scene, size: int) -> Iterator[None]:
    return one_multi(scene, [set_op("/t")])


@case(
    "quota-junk-mntr",
    60,
    "the word mntr while N quotas have usage that cannot be read",
    state=_junk_quotas,
    quick=60,
)
def quota_junk_mntr(scene: Scene, size: int) -> Iterator[None]:
    yield
    scene.word(b"mntr")


@case("quota-junk-writes", 20, "N times junk as usage, and a create in that quota", state=_junk_quotas,
      quick=20, spoils=True)  # fmt: skip
def quota_junk_writes(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    yield
    for n in range(size):
        client.ask(wire.set_data(f"{_QUOTA}/t/zookeeper_stats", b"junk"), wire.create(f"/t/new{n}"))


def _many_quotas(scene: Scene) -> None:
    parents = [f"{_QUOTA}/q{n}" for n in range(scene.size(50_000))]
    scene.fill(parents)
    client = scene.client(patience=60)
    client.ask_all(wire.create(f"{parent}/zookeeper_limits", b"count=10") for parent in parents)


@case("quota-many", 50_000, "ten small multis while there are N quotas", state=_many_quotas)
def quota_many(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/a"])
    client = scene.client()
    yield
    client.ask(*[wire.multi_of([set_op("/a")])] * 10)


@case("quota-many-mntr", 50_000, "the word mntr while there are N quotas", state=_many_quotas)
def quota_many_mntr(scene: Scene, size: int) -> Iterator[None]:
    yield
    scene.word(b"mntr")


@case("quota-long-limits", MEGABYTE, "32 creates in a quota whose limits are N bytes of text")
def quota_long_limits(scene: Scene, size: int) -> Iterator[None]:
    prefix = f"{_QUOTA}/l"
    scene.fill(["/l", prefix, f"{prefix}/zookeeper_limits", f"{prefix}/zookeeper_stats"])
    client = scene.client()
    limits = b"count=1," * (size // 8)
    client.ask(wire.set_data(f"{prefix}/zookeeper_limits", limits))
    yield
    client.ask(*(wire.create(f"/l/{n}") for n in range(PIPELINE)), may_fail=[-125])

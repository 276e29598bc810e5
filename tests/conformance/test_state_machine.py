"""Random sessions against ours and the real server in lock-step: every reply, event and tree must agree.

``HYPOTHESIS_PROFILE=nightly`` makes it a long search.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, children_op, create_op, delete_op, digest_id, get_op, set_op
from .conftest import running
from .lockstep import Lockstep, Twin
from .servers import CONFIG, Server

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SETTINGS = settings(
    max_examples=3000 if NIGHTLY else 150,
    stateful_step_count=100 if NIGHTLY else 50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
MOST_SESSIONS = 4

ALICE, BOB = "alice:secret", "bob:secret"

# Most of what is drawn makes sense, and now and then something does not: lists are weighted by repetition.
BASE = ["/a", "/b", "/a/c", "/a/c/e"]
sessions = st.integers(0, MOST_SESSIONS - 1)
paths = st.sampled_from(
    ["", *BASE, *BASE, "/b/c", "/a/d", "/s0000000003", "/a/s0000000001", "/a/s0000000002", "/b/s0000000000"]
)
odd_paths = ["/a/", "//a", "/.", "/a/\x01", "/none/n", "/a/c/.."]
any_path = st.sampled_from([*BASE * 5, "", "/b/c", "/a/d", "/a/s0000000001", *odd_paths])
new_paths = st.sampled_from([*BASE, "/b/c", "/a/d", "/a/c/f"])
data = st.sampled_from([b"", None, b"x", b"longer data", b"\0\xff"])
versions = st.sampled_from([-1] * 6 + [0, 1, 2, -2])
watch = st.booleans()
GOOD_ACLS = [
    r.READ_ACL,
    [acl(31, "digest", digest_id(ALICE))],
    [acl(31, "digest", digest_id(BOB)), acl(1, "world", "anyone")],
    [acl(1 | 4 | 8, "world", "anyone")],
    [acl(2 | 4 | 8 | 16, "world", "anyone")],
    [acl(31, "ip", "127.0.0.0/8")],
    [acl(0, "world", "anyone")],
    [acl(31, "auth", ""), acl(4, "world", "anyone")],
]
BAD_ACLS = [None, [], [acl(31, "world", "me")], [acl(31, "digest", "x")], [acl(31, "no", "x")]]
good_acls = st.sampled_from([r.OPEN_ACL] * 12 + GOOD_ACLS)
acls = st.sampled_from([r.OPEN_ACL] * 20 + GOOD_ACLS + BAD_ACLS)
flags = st.sampled_from([0, 0, 0, 1, 2, 3])
quota_paths = st.sampled_from(["/a", "/a/c", "/b"])
limits = st.sampled_from(
    [
        b"count=-1,bytes=-1",
        b"count=1,bytes=1",
        b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=4",
        b"count=2,bytes=-1=;byteHardLimit=12;countHardLimit=-1",
        b"countHardLimit=3",
    ]
)

# Parts of a multi, with paths still relative.
good_parts = st.one_of(
    st.tuples(st.just("create"), paths, data, good_acls, st.sampled_from([2, 3])),
    st.tuples(st.just("create2"), paths, data, good_acls, st.sampled_from([2, 3])),
    st.tuples(st.just("ttl"), paths, data, good_acls, st.just(6)),
    st.tuples(st.just("set"), paths, data, st.just(-1)),
    st.tuples(st.just("check"), paths, st.just(-1)),
)
risky_parts = st.one_of(
    st.tuples(st.just("create"), any_path, data, acls, st.sampled_from([0, 1, 4])),
    st.tuples(st.just("ttl"), new_paths, data, good_acls, st.just(5)),
    st.tuples(st.just("set"), any_path, data, versions),
    st.tuples(st.just("delete"), any_path, versions),
    st.tuples(st.just("check"), any_path, versions),
)

_counter = itertools.count()


class Sessions(RuleBasedStateMachine):
    """Several sessions that do as they please."""

    pair: tuple[Server, Server]

    def __init__(self) -> None:
        super().__init__()
        self.lockstep = Lockstep(*self.pair)
        self.top = f"/machine-{next(_counter)}"
        self.quota = f"/zookeeper/quota{self.top}"
        self.zxids = [0]

    def teardown(self) -> None:
        lockstep = self.lockstep
        try:
            if lockstep.broken:
                return
            self.remains = lockstep.compare_trees(self.top) + lockstep.compare_trees(self.quota)
            for twin in lockstep.twins[1:]:
                lockstep.close_session(twin)
            lockstep.compare_trees(self.top)
            lockstep.compare_trees(self.quota)
            lockstep.remove(self.remains)
            lockstep.close_session(lockstep.admin)
        finally:
            lockstep.abandon()

    # --- helpers -------------------------------------------------------------------------------------------

    def twin(self, who: int) -> Twin:
        """One of the sessions beside the administrator's."""
        return self.lockstep.twins[1 + who % (len(self.lockstep.twins) - 1)]

    def path(self, path: str | None) -> str:
        return f"{self.top}{path}"

    def ask(self, who: int, op: OpCode, request: Any = b"") -> Any:
        reply = self.lockstep.request(self.twin(who), op, request)
        if reply.zxid > 0:
            self.zxids.append(self.lockstep.sides[0].zxid(reply.zxid))
        return reply

    def may_watch(self, who: int, path: str, mode: str) -> bool:
        """Up to 3.8 a connection has only one mode at a path: keep to the first one."""
        if not self.lockstep.differs("one-mode-per-path"):
            return True
        return self.twin(who).modes.setdefault(path, mode) == mode

    def is_secret(self, who: int, path: str) -> bool:
        return bool(self.ask(who, OpCode.GET_DATA, r.GetDataRequest(path, False)).err == -102)

    # --- sessions ------------------------------------------------------------------------------------------

    @initialize(quota=st.sampled_from([None, "/a", "/b"]))
    def begin(self, quota: str | None) -> None:
        admin = self.lockstep.admin
        for path in (self.top, self.quota):
            self.lockstep.request(admin, OpCode.CREATE, r.CreateRequest(path, b"", r.OPEN_ACL, 0))
        self.lockstep.open()
        self.lockstep.open()
        for path in BASE:
            self.ask(0, OpCode.CREATE, r.CreateRequest(self.path(path), b"base", r.OPEN_ACL, 0))
        if quota:
            self.set_quota(0, quota, b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=4")

    @precondition(lambda self: len(self.lockstep.twins) <= MOST_SESSIONS)
    @rule()
    def open_session(self) -> None:
        self.lockstep.open()

    @precondition(lambda self: len(self.lockstep.twins) > 2)
    @rule(who=sessions)
    def close_session(self, who: int) -> None:
        self.lockstep.close_session(self.twin(who))

    @rule(who=sessions, lose_first=st.booleans())
    def reattach(self, who: int, lose_first: bool) -> None:
        self.lockstep.reattach(self.twin(who), lose_first=lose_first)

    @rule(who=sessions, credentials=st.sampled_from([ALICE, BOB]))
    def auth(self, who: int, credentials: str) -> None:
        self.ask(who, OpCode.AUTH, r.AuthPacket(0, "digest", credentials.encode()))
        self.ask(who, OpCode.WHO_AM_I)

    # --- writes --------------------------------------------------------------------------------------------

    @rule(
        who=sessions,
        op=st.sampled_from([OpCode.CREATE, OpCode.CREATE2]),
        path=any_path,
        data=data,
        acl=acls,
        flags=flags,
    )
    def create(self, who: int, op: OpCode, path: str, data: Any, acl: Any, flags: int) -> None:
        self.ask(who, op, r.CreateRequest(self.path(path), data, acl, flags))

    @rule(who=sessions, path=new_paths, data=data, ephemeral=st.booleans())
    def create_openly(self, who: int, path: str, data: Any, ephemeral: bool) -> None:
        self.ask(who, OpCode.CREATE2, r.CreateRequest(self.path(path), data, r.OPEN_ACL, int(ephemeral)))

    @rule(who=sessions, path=st.sampled_from(["", "/a", "/b"]), data=data, ephemeral=st.booleans())
    def create_sequential(self, who: int, path: str, data: Any, ephemeral: bool) -> None:
        request = r.CreateRequest(self.path(f"{path}/s"), data, r.OPEN_ACL, 2 + ephemeral)
        self.ask(who, OpCode.CREATE, request)

    @rule(who=sessions, path=paths, flags=st.sampled_from([0, 2, 4, 5, 7]))
    def create_container(self, who: int, path: str, flags: int) -> None:
        self.ask(who, OpCode.CREATE_CONTAINER, r.CreateRequest(self.path(path), b"", r.OPEN_ACL, flags))

    @rule(
        who=sessions,
        path=paths,
        data=data,
        flags=st.sampled_from([5, 6]),
        ttl=st.sampled_from([10**9, 0, -1]),
    )
    def create_ttl(self, who: int, path: str, data: Any, flags: int, ttl: int) -> None:
        request = r.CreateTTLRequest(self.path(path), data, r.OPEN_ACL, flags, ttl)
        self.ask(who, OpCode.CREATE_TTL, request)

    @rule(who=sessions, path=any_path, version=versions)
    def delete(self, who: int, path: str, version: int) -> None:
        self.ask(who, OpCode.DELETE, r.DeleteRequest(self.path(path), version))

    @rule(who=sessions, path=any_path, data=data, version=versions)
    def set(self, who: int, path: str, data: Any, version: int) -> None:
        self.ask(who, OpCode.SET_DATA, r.SetDataRequest(self.path(path), data, version))

    @rule(who=sessions, path=paths, data=data)
    def set_anyway(self, who: int, path: str, data: Any) -> None:
        self.ask(who, OpCode.SET_DATA, r.SetDataRequest(self.path(path), data, -1))

    @rule(who=sessions, path=any_path, acl=acls, version=versions)
    def set_acl(self, who: int, path: str, acl: Any, version: int) -> None:
        self.ask(who, OpCode.SET_ACL, r.SetACLRequest(self.path(path), acl, version))

    @rule(who=sessions, good=st.lists(good_parts, max_size=5), risky=st.lists(risky_parts, max_size=2))
    def multi(self, who: int, good: list[Any], risky: list[Any]) -> None:
        parts = [*good[:3], *risky, *good[3:]]
        self.ask(who, OpCode.MULTI, encode_multi([self.part(*part) for part in parts]))

    def part(self, kind: str, path: str, *rest: Any) -> MultiOp:
        path = self.path(path or ("" if kind in ("set", "check", "delete") else "/"))
        match kind:
            case "create":
                return create_op(path, *rest)
            case "create2":
                old = self.lockstep.differs("create2-in-multi")
                return create_op(path, *rest, op=OpCode.CREATE if old else OpCode.CREATE2)
            case "ttl":
                return MultiOp(OpCode.CREATE_TTL, r.CreateTTLRequest(path, *rest, 10**9))
            case "set":
                return set_op(path, *rest)
            case "delete":
                return delete_op(path, *rest)
            case _:
                return check_op(path, *rest)

    # --- reads, with and without watches -------------------------------------------------------------------

    @rule(who=sessions, path=any_path, watch=watch)
    def get(self, who: int, path: str, watch: bool) -> None:
        path = self.path(path)
        watch = watch and self.may_watch(who, path, "standard")
        self.ask(who, OpCode.GET_DATA, r.GetDataRequest(path, watch))
        self.ask(who, OpCode.GET_ACL, r.GetACLRequest(path))

    @rule(who=sessions, path=any_path, watch=watch)
    def exists(self, who: int, path: str, watch: bool) -> None:
        path = self.path(path)
        if self.lockstep.differs("exists-read-check") and self.is_secret(who, path):
            return
        watch = watch and self.may_watch(who, path, "standard")
        self.ask(who, OpCode.EXISTS, r.ExistsRequest(path, watch))

    @rule(
        who=sessions,
        path=any_path,
        watch=watch,
        op=st.sampled_from([OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]),
    )
    def children(self, who: int, path: str, watch: bool, op: OpCode) -> None:
        path = self.path(path)
        watch = watch and self.may_watch(who, path, "standard")
        request = r.GetChildrenRequest if op == OpCode.GET_CHILDREN else r.GetChildren2Request
        self.ask(who, op, request(path, watch))

    @rule(who=sessions, parts=st.lists(st.tuples(st.booleans(), any_path), max_size=4))
    def multi_read(self, who: int, parts: list[tuple[bool, str]]) -> None:
        ops = [(get_op if is_get else children_op)(self.path(path)) for is_get, path in parts]
        self.ask(who, OpCode.MULTI_READ, encode_multi(ops))

    @rule(who=sessions, path=any_path)
    def count_and_sync(self, who: int, path: str) -> None:
        path = self.path(path)
        self.ask(who, OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest(path))
        self.ask(who, OpCode.SYNC, r.SyncRequest(path))
        self.ask(who, OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest(path))

    # --- watches -------------------------------------------------------------------------------------------

    @rule(who=sessions, path=any_path, mode=st.sampled_from([0, 1]))
    def add_watch(self, who: int, path: str, mode: int) -> None:
        path = self.path(path)
        if self.may_watch(who, path, ("persistent", "recursive")[mode]):
            self.ask(who, OpCode.ADD_WATCH, r.AddWatchRequest(path, mode))

    @rule(who=sessions)
    def watch_everything(self, who: int) -> None:
        """Each of the base znodes, by a watch of some sort."""
        for number, path in enumerate(self.path(path) for path in ["", *BASE]):
            mode = ("recursive", "persistent", "standard")[(number + who) % 3]
            if not self.may_watch(who, path, mode):
                continue
            if mode == "standard":
                self.ask(who, OpCode.GET_DATA, r.GetDataRequest(path, True))
                self.ask(who, OpCode.GET_CHILDREN, r.GetChildrenRequest(path, True))
            else:
                self.ask(who, OpCode.ADD_WATCH, r.AddWatchRequest(path, int(mode == "recursive")))

    @rule(who=sessions, path=any_path, kind=st.sampled_from([1, 2, 3, 4, 5, 6]))
    def remove_watches(self, who: int, path: str, kind: int) -> None:
        path = self.path(path)
        if self.lockstep.differs("watcher-types-ignore-modes"):
            kind = 3
        else:
            self.ask(who, OpCode.CHECK_WATCHES, r.CheckWatchesRequest(path, kind))
        self.ask(who, OpCode.REMOVE_WATCHES, r.RemoveWatchesRequest(path, kind))
        self.twin(who).modes.pop(path, None)

    @rule(
        who=sessions,
        back=st.integers(0, 30),
        lists=st.lists(st.tuples(st.integers(0, 4), any_path), max_size=6),
    )
    def set_watches(self, who: int, back: int, lists: list[tuple[int, str]]) -> None:
        kinds: list[list[str]] = [[], [], [], [], []]
        for kind, path in lists:
            mode = ("standard", "standard", "standard", "persistent", "recursive")[kind]
            if self.may_watch(who, self.path(path), mode):
                kinds[kind].append(self.path(path))
        relative = self.zxids[-1 - min(back, len(self.zxids) - 1)]
        two = bool(kinds[3] or kinds[4])
        op = OpCode.SET_WATCHES2 if two else OpCode.SET_WATCHES
        lockstep, twin = self.lockstep, self.twin(who)
        for side, client in zip(lockstep.sides, twin.clients, strict=True):
            zxid = max(side.base + relative, 0)
            client.send(op, r.SetWatches2(zxid, *kinds) if two else r.SetWatches(zxid, *kinds[:3]), -8)
        lockstep.compare_replies(twin, zxid=-1)

    # --- quotas --------------------------------------------------------------------------------------------

    @rule(who=sessions, path=quota_paths, text=limits)
    def set_quota(self, who: int, path: str, text: bytes) -> None:
        folder = self.quota + path
        for node in (f"{self.quota}/a", folder):
            self.ask(who, OpCode.CREATE, r.CreateRequest(node, b"", r.OPEN_ACL, 0))
        for name, content in (("limits", text), ("stats", b"count=0,bytes=0")):
            request = r.CreateRequest(f"{folder}/zookeeper_{name}", content, r.OPEN_ACL, 0)
            self.ask(who, OpCode.CREATE, request)

    @rule(who=sessions, path=quota_paths, slack=st.integers(-1, 2))
    def tighten_quota(self, who: int, path: str, slack: int) -> None:
        """Hard limits right where the usage is, or a little above or below."""
        folder = self.quota + path
        reply = self.ask(who, OpCode.GET_DATA, r.GetDataRequest(f"{folder}/zookeeper_stats", False))
        if reply.err == 0:
            count, size = (int(number) + slack for number in re.findall(rb"\d+", reply.record.data))
            text = f"count=-1,bytes=-1=;byteHardLimit={size};countHardLimit={count}".encode()
            self.ask(who, OpCode.SET_DATA, r.SetDataRequest(f"{folder}/zookeeper_limits", text, -1))

    @rule(who=sessions, path=quota_paths, text=st.sampled_from([b"count=1,bytes=1", b"count=9,bytes=90"]))
    def rewrite_usage(self, who: int, path: str, text: bytes) -> None:
        node = f"{self.quota}{path}/zookeeper_stats"
        self.ask(who, OpCode.SET_DATA, r.SetDataRequest(node, text, -1))

    @rule(who=sessions, path=quota_paths, stats_too=st.booleans())
    def delete_quota(self, who: int, path: str, stats_too: bool) -> None:
        names = ["limits", "stats"] if stats_too else ["limits"]
        for name in names:
            self.ask(who, OpCode.DELETE, r.DeleteRequest(f"{self.quota}{path}/zookeeper_{name}", -1))

    @rule(who=sessions, path=quota_paths)
    def read_usage(self, who: int, path: str) -> None:
        node = f"{self.quota}{path}/zookeeper_stats"
        watch = self.may_watch(who, node, "standard")
        self.ask(who, OpCode.GET_DATA, r.GetDataRequest(node, watch))


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    """Servers of this module's own, whose reaper never comes round to consume zxids in between."""
    config = {**CONFIG, "znode.container.checkIntervalMs": "1000000000"}
    with contextlib.ExitStack() as stack:
        real = stack.enter_context(running("real", config))
        yield stack.enter_context(running("ours", config)), real


def test_both_servers_do_the_same(pair: tuple[Server, Server]) -> None:
    machine = type("Sessions", (Sessions,), {"pair": pair})
    run_state_machine_as_test(machine, settings=SETTINGS)

"""Random histories of a server: what clients may do to its tree, and all that the tree holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import OpCode
from pyzk.server.core.quota import ROOT
from pyzk.server.testing.snapshots import Snapshot

from .requests import acl, check_op, create_op, delete_op, set_op
from .world import Peer, World

PATHS = ["/", "/a", "/a/b", "/a/b/c", "/q", "/q/x", "/q/x/y", "/e", "/c", "/c/x", "/t"]
QUOTA_PATHS = [
    f"{ROOT}{path}{leaf}" for path in ("/q", "/q/x") for leaf in ("", "/zookeeper_limits", "/zookeeper_stats")
]
SEQUENCES = ["/a/s-", "/q/s-", "/c/", "/s-"]
DATA = [b"", b"x", b"y" * 50, None, b"countHardLimit=4", b"byteHardLimit=40;count=1", b"count=2,bytes=9"]
ACLS = [r.OPEN_ACL, (acl(31), acl(1, "ip", "10.0.0.1")), (acl(31, "ip", "127.0.0.1"),), (acl(1),)]

any_path = st.sampled_from([*PATHS, *PATHS, *QUOTA_PATHS])
any_data = st.sampled_from(DATA)
any_version = st.sampled_from([-1, -1, -1, 0, 1])
any_acl = st.sampled_from([r.OPEN_ACL, *ACLS])
plain_create_op = st.sampled_from([OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER])
new_path = st.one_of(any_path, st.sampled_from(SEQUENCES))
part = st.one_of(
    st.builds(create_op, new_path, any_data, any_acl, flags=st.integers(0, 4), op=plain_create_op),
    st.builds(set_op, any_path, any_data, any_version),
    st.builds(delete_op, any_path, any_version),
    st.builds(check_op, any_path, any_version),
)


SETTINGS = {
    "extended_types": True,
    "enforce_quota": True,
    "container_check_interval": 3000,
    "container_max_never_used": 5000,
}
"""Settings with which all of that can happen."""


class Run:
    """A server and its clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshots: list[Snapshot] = []
        self.peers: list[Peer] = [self.world.connect(), self.world.connect()]

    def peer(self, who: int) -> Peer:
        """A client with a live session; a new one, if the old session is over."""
        if self.peers[who].closed:
            self.peers[who] = self.world.connect()
        return self.peers[who]


Action: TypeAlias = Callable[[Run], object]


def by_client(method: str, *arguments: st.SearchStrategy[Any], **more: Any) -> st.SearchStrategy[Action]:
    """A request by one of the clients."""

    def build(who: int, arguments: tuple[Any, ...], more: dict[str, Any]) -> Action:
        return lambda run: getattr(run.peer(who), method)(*arguments, **more)

    return st.builds(build, st.integers(0, 1), st.tuples(*arguments), st.fixed_dictionaries(more))


def multi(who: int, parts: list[Any]) -> Action:
    return lambda run: run.peer(who).multi(*parts)


def watch(who: int, mode: int) -> Action:
    """From now on somebody hears of the writes."""
    return lambda run: run.peer(who).add_watch("/", mode)


def take_snapshot(run: Run) -> None:
    run.snapshots.append(Snapshot.of(run.world.engine))


def restore(run: Run) -> None:
    if run.snapshots:
        run.snapshots[-1].restore(run.world.engine)


def set_up_quota(path: str, limits: bytes) -> Action:
    def build(run: Run) -> None:
        for below in ("", "/zookeeper_limits", "/zookeeper_stats"):
            run.peer(0).create(f"{ROOT}{path}{below}", limits)

    return build


action: st.SearchStrategy[Action] = st.one_of(
    by_client("create", new_path, any_data, any_acl, st.integers(0, 6), op=plain_create_op),
    by_client("create", new_path, any_data, flags=st.sampled_from([5, 6]), ttl=st.sampled_from([1, 4000])),
    by_client("set", any_path, any_data, any_version),
    by_client("set", any_path, any_data, any_version),
    by_client("delete", any_path, any_version),
    by_client("delete", any_path, any_version),
    by_client("set_acl", any_path, any_acl, any_version),
    st.builds(multi, st.integers(0, 1), st.lists(part, max_size=6)),
    st.builds(multi, st.integers(0, 1), st.lists(part, max_size=2)),
    by_client("close_session"),
    st.builds(set_up_quota, st.sampled_from(["/q", "/q/x", "/a"]), st.sampled_from(DATA[4:])),
    st.builds(watch, st.integers(0, 1), st.sampled_from(list(AddWatchMode))),
    st.builds(lambda seconds: lambda run: run.world.pass_time(seconds), st.sampled_from([0.001, 3, 12])),
    st.sampled_from([take_snapshot, restore]),
)
START: list[Action] = [
    lambda run: run.peer(0).create("/a"),
    lambda run: run.peer(0).create("/q", b"data"),
    lambda run: run.peer(0).create("/c", op=OpCode.CREATE_CONTAINER),
    lambda run: run.peer(0).create("/e", flags=1),
]

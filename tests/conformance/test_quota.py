"""Quotas: bookkeeping, text format, enforcement (semantics.md 9). The servers of these tests enforce them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ..support.requests import create_op, delete_op, set_op
from ..support.wire import WireClient

UNLIMITED = b"count=-1,bytes=-1"


def limits(
    count: int = -1, size: int = -1, *, hard_count: int | None = None, hard_size: int | None = None
) -> bytes:
    text = f"count={count},bytes={size}"
    if hard_count is not None or hard_size is not None:
        hard_size = -1 if hard_size is None else hard_size
        hard_count = -1 if hard_count is None else hard_count
        text += f"=;byteHardLimit={hard_size};countHardLimit={hard_count}"
    return text.encode()


def set_quota(client: WireClient, path: str, text: bytes = UNLIMITED) -> None:
    """What a client does for a quota on ``path``."""
    folder = "/zookeeper/quota"
    for name in path[1:].split("/"):
        folder += "/" + name
        client.create(folder)
    assert client.create(f"{folder}/zookeeper_limits", text).err == 0
    assert client.create(f"{folder}/zookeeper_stats", b"whatever").err == 0


def usage(client: WireClient, path: str) -> bytes:
    data: bytes = client.get(f"/zookeeper/quota{path}/zookeeper_stats").record.data
    return data


@pytest.fixture
def branch(client: WireClient, top: str) -> str:
    """Three znodes with twelve bytes."""
    path = f"{top}/b"
    client.create(path, b"123456")
    client.create(f"{path}/x", b"123456")
    client.create(f"{path}/y", None)
    return path


def test_the_stats_node_starts_with_the_usage(client: WireClient, branch: str) -> None:
    # 9.1: whatever the client sent; the znode itself counts
    set_quota(client, branch)
    assert usage(client, branch) == b"count=3,bytes=12"


BOOKKEEPING: list[tuple[str, Any, bytes]] = [
    ("create", lambda c, b: c.create(f"{b}/n", b"1234"), b"count=4,bytes=16"),
    ("create deeper", lambda c, b: c.create(f"{b}/x/n", b"1"), b"count=4,bytes=13"),
    ("create null", lambda c, b: c.create(f"{b}/n", None), b"count=4,bytes=12"),
    ("create container", lambda c, b: c.create(f"{b}/n", b"1", op=19), b"count=4,bytes=13"),
    ("delete", lambda c, b: c.delete(f"{b}/x"), b"count=2,bytes=6"),
    ("set longer", lambda c, b: c.set(f"{b}/x", b"1234567"), b"count=3,bytes=13"),
    ("set shorter", lambda c, b: c.set(f"{b}/x", b""), b"count=3,bytes=6"),
    ("set null", lambda c, b: c.set(f"{b}/x", None), b"count=3,bytes=6"),
    ("set the node itself", lambda c, b: c.set(b, b""), b"count=3,bytes=6"),
    ("refused", lambda c, b: c.create(f"{b}/x", b"1234"), b"count=3,bytes=12"),
    ("multi", lambda c, b: c.multi(create_op(f"{b}/n", b"12"), delete_op(f"{b}/x")), b"count=3,bytes=8"),
    ("failed multi", lambda c, b: c.multi(create_op(f"{b}/n", b"1"), delete_op(b)), b"count=3,bytes=12"),
    ("elsewhere", lambda c, b: c.create(f"{b}-not", b"1234"), b"count=3,bytes=12"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "expected"), [row[1:] for row in BOOKKEEPING], ids=[row[0] for row in BOOKKEEPING]
)
def test_bookkeeping(client: WireClient, branch: str, call: Any, expected: bytes) -> None:
    set_quota(client, branch)
    call(client, branch)
    assert usage(client, branch) == expected


def test_bookkeeping_is_silent(client: WireClient, branch: str) -> None:
    # semantics.md 1.4: no stat field but dataLength, and no watch
    set_quota(client, branch)
    path = f"/zookeeper/quota{branch}/zookeeper_stats"
    before = client.get(path, watch=True).record.stat
    for number in range(10):
        client.create(f"{branch}/n{number}")
    assert usage(client, branch) == b"count=13,bytes=12"
    assert client.exists(path).record.stat == attrs.evolve(before, dataLength=len(b"count=13,bytes=12"))
    assert client.take_events() == []


def test_only_the_deepest_quota_is_charged(client: WireClient, branch: str) -> None:
    # 9.1
    set_quota(client, branch)
    set_quota(client, f"{branch}/x")
    client.create(f"{branch}/x/n", b"1234")
    client.set(f"{branch}/x", b"")
    assert usage(client, branch) == b"count=3,bytes=12"
    assert usage(client, f"{branch}/x") == b"count=2,bytes=4"
    client.create(f"{branch}/n", b"1")
    assert usage(client, branch) == b"count=4,bytes=13"


def test_deleting_the_limits_ends_the_quota(client: WireClient, branch: str) -> None:
    # 9.1
    set_quota(client, branch, limits(hard_count=3))
    assert client.create(f"{branch}/n").err == -125
    client.delete(f"/zookeeper/quota{branch}/zookeeper_limits")
    assert client.create(f"{branch}/n").err == 0
    assert usage(client, branch) == b"count=3,bytes=12"


def test_ephemerals_of_a_closed_session_are_given_back(connect: Any, client: WireClient, branch: str) -> None:
    set_quota(client, branch)
    other = connect()
    other.create(f"{branch}/e", b"1234", flags=1)
    assert usage(client, branch) == b"count=4,bytes=16"
    other.close_session()
    assert usage(client, branch) == b"count=3,bytes=12"


ENFORCEMENT: list[tuple[bytes, Any, int]] = [
    (limits(hard_count=4), lambda c, b: c.create(f"{b}/n"), 0),
    (limits(hard_count=3), lambda c, b: c.create(f"{b}/n"), -125),
    (limits(hard_count=3), lambda c, b: c.create(f"{b}/n", flags=3), -125),
    (limits(hard_count=0), lambda c, b: c.create(f"{b}/n"), -125),
    (limits(hard_count=3), lambda c, b: c.set(f"{b}/x", b"123456789"), 0),
    (limits(hard_count=1), lambda c, b: c.delete(f"{b}/x"), 0),
    (limits(hard_size=13), lambda c, b: c.create(f"{b}/n", b"1"), 0),
    (limits(hard_size=12), lambda c, b: c.create(f"{b}/n", b"1"), -125),
    (limits(hard_size=12), lambda c, b: c.create(f"{b}/n", b""), 0),
    (limits(hard_size=13), lambda c, b: c.set(f"{b}/x", b"1234567"), 0),
    (limits(hard_size=12), lambda c, b: c.set(f"{b}/x", b"1234567"), -125),
    (limits(hard_size=5), lambda c, b: c.set(f"{b}/x", b"abcdef"), 0),  # no difference: not looked at
    (limits(hard_size=5), lambda c, b: c.set(f"{b}/x", b"abcde"), -125),  # less, but still above
    (limits(count=1, size=1), lambda c, b: c.create(f"{b}/n", b"1234"), 0),  # soft: a log line only
    (limits(count=1, hard_count=10), lambda c, b: c.create(f"{b}/n"), 0),
    (limits(count=100, hard_count=3), lambda c, b: c.create(f"{b}/n"), -125),
    (b"count=-1,bytes=-1=;countHardLimit=3", lambda c, b: c.create(f"{b}/n"), -125),
    (b"countHardLimit=3", lambda c, b: c.create(f"{b}/n"), -125),
    (b"countHardLimit=3;byteHardLimit=5", lambda c, b: c.create(f"{b}/n"), -125),
]


@pytest.mark.parametrize(("text", "call", "err"), ENFORCEMENT)
def test_enforcement(client: WireClient, branch: str, text: bytes, call: Any, err: int) -> None:
    # 9.3
    set_quota(client, branch, text)
    assert call(client, branch).err == err


def test_limits_may_be_changed(client: WireClient, branch: str) -> None:
    set_quota(client, branch, limits(hard_count=3))
    assert client.create(f"{branch}/n").err == -125
    client.set(f"/zookeeper/quota{branch}/zookeeper_limits", limits(hard_count=4))
    assert client.create(f"{branch}/n").err == 0
    assert client.create(f"{branch}/m").err == -125


def test_without_the_stats_node_nothing_is_enforced(client: WireClient, branch: str) -> None:
    # 9.3
    set_quota(client, branch, limits(hard_count=3))
    client.delete(f"/zookeeper/quota{branch}/zookeeper_stats")
    assert client.create(f"{branch}/n").err == 0


def test_the_outer_quota_does_not_stop_what_the_inner_one_allows(client: WireClient, branch: str) -> None:
    set_quota(client, branch, limits(hard_count=3))
    set_quota(client, f"{branch}/x", limits(hard_count=2))
    assert client.create(f"{branch}/x/n").err == 0
    assert client.create(f"{branch}/x/m").err == -125


def test_in_a_multi_the_refusal_is_one_of_its_results(client: WireClient, branch: str) -> None:
    set_quota(client, branch, limits(hard_count=3))
    reply = client.multi(set_op(branch, b""), create_op(f"{branch}/n"), set_op(branch, b""))
    assert [result.err for result in reply.results] == [0, -125, -2]


def test_a_multi_is_measured_against_the_usage_before_it(client: WireClient, branch: str) -> None:
    # what its earlier operations take or give back does not count
    set_quota(client, branch, limits(hard_count=4))
    reply = client.multi(*[create_op(f"{branch}/n{number}") for number in range(3)])
    assert [result.err for result in reply.results] == [0, 0, 0]
    assert usage(client, branch) == b"count=6,bytes=12"
    reply = client.multi(*[delete_op(f"{branch}/n{number}") for number in range(3)], create_op(f"{branch}/n"))
    assert [result.err for result in reply.results] == [0, 0, 0, -125]


def test_a_quota_made_in_a_multi_does_not_bind_it(client: WireClient, branch: str) -> None:
    folder = f"/zookeeper/quota{branch.rpartition('/')[0]}"
    client.create(folder)
    client.create(folder + "/b")
    reply = client.multi(
        create_op(f"{folder}/b/zookeeper_limits", limits(hard_count=1)),
        create_op(f"{folder}/b/zookeeper_stats"),
        create_op(f"{branch}/n"),
    )
    assert [result.err for result in reply.results] == [0, 0, 0]
    assert usage(client, branch) == b"count=4,bytes=12"
    assert client.create(f"{branch}/m").err == -125


def test_a_quota_deleted_in_a_multi_binds_it_still(client: WireClient, branch: str) -> None:
    set_quota(client, branch, limits(hard_count=3))
    gone = delete_op(f"/zookeeper/quota{branch}/zookeeper_limits")
    reply = client.multi(gone, create_op(f"{branch}/n"))
    assert [result.err for result in reply.results] == [0, -125]
    assert client.multi(gone).results[0].err == client.create(f"{branch}/n").err == 0


def test_a_quota_made_in_a_multi_does_not_replace_the_outer_one_in_it(
    client: WireClient, branch: str
) -> None:
    set_quota(client, branch, limits(hard_count=3))
    folder = f"/zookeeper/quota{branch}/x"
    client.create(folder)
    steps = [create_op(f"{folder}/zookeeper_limits", limits(hard_count=9)), create_op(f"{branch}/x/n")]
    assert [result.err for result in client.multi(*steps).results] == [0, -125]
    assert client.multi(steps[0], create_op(f"{folder}/zookeeper_stats")).results[-1].err == 0
    assert client.create(f"{branch}/x/n").err == 0


def test_limits_set_in_a_multi_do_not_bind_it(client: WireClient, branch: str) -> None:
    set_quota(client, branch, limits(hard_count=4))
    stricter = set_op(f"/zookeeper/quota{branch}/zookeeper_limits", limits(hard_count=1))
    reply = client.multi(stricter, create_op(f"{branch}/n"))
    assert [result.err for result in reply.results] == [0, 0]
    assert client.create(f"{branch}/m").err == -125


def test_what_a_multi_writes_into_the_stats_counts_in_its_turn(client: WireClient, branch: str) -> None:
    set_quota(client, branch)
    stats = f"/zookeeper/quota{branch}/zookeeper_stats"
    client.multi(set_op(stats, b"count=9,bytes=9"), create_op(f"{branch}/n", b"1"))
    assert usage(client, branch) == b"count=10,bytes=10"
    client.multi(delete_op(f"{branch}/n"), set_op(stats, b"count=2,bytes=2"))
    assert usage(client, branch) == b"count=2,bytes=2"
    client.multi(delete_op(stats), create_op(stats, b"whatever"))
    assert usage(client, branch) == b"count=3,bytes=12"

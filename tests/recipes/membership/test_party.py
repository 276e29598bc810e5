"""Who is there is seen, who is not is not."""

from __future__ import annotations

import re

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, BadArgumentsError, Id, NoAuthError, NodeExistsError, Perms, ZooKeeper
from pyzk.recipes.membership.party import Party, PartyLayout

from ...support.lab import Lab

LAYOUTS: list[PartyLayout] = ["kazoo", "kazoo-shallow", "curator-group"]
layouts = pytest.mark.parametrize("layout", LAYOUTS)


async def ids(party: Party) -> list[str]:
    return sorted(member.id for member in await party.members())


@layouts
async def test_members_come_and_go(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout
) -> None:
    other = await lab.client()
    observer = Party(zk, "/party", layout=layout)
    assert await ids(observer) == []
    async with Party(zk, "/party", "one", layout=layout):
        assert await ids(observer) == ["one"], "the block begins once we have joined"
        async with Party(other, "/party", "two-2", layout=layout):
            assert await ids(observer) == ["one", "two-2"]
        assert await ids(observer) == ["one"]
    assert await ids(observer) == []
    assert (zk.watch_count, lab.watch_count) == (0, 0)


@pytest.mark.parametrize(
    ("layout", "pattern", "data"),
    [
        ("kazoo", r"[0-9a-f]{32}__party__", b"an id"),
        ("kazoo-shallow", r"[0-9a-f]{32}-an id", b"an id"),
        ("curator-group", r"an id", b""),
    ],
)
async def test_the_layout(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout, pattern: str, data: bytes
) -> None:
    async with Party(zk, "/party", "an id", layout=layout):
        (name,) = await zk.get_children("/party")
        assert re.fullmatch(pattern, name)
        held, stat = await zk.get(f"/party/{name}")
        assert held == data
        assert stat.ephemeralOwner == zk.session.id
    assert lab.server.dump(form="nodes")["/party"].kind == "container"


async def test_members_data(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    party = Party(zk, "/party", "me", data=b"\xff payload", layout="curator-group")
    async with party:
        (member,) = await party.members()
        assert (member.name, member.id, member.data) == ("me", "me", b"\xff payload")
    with pytest.raises(ValueError, match="kazoo"):
        Party(zk, "/party", "me", data=b"data")


@pytest.mark.row("F18", "E-55")
@layouts
async def test_foreign_children_are_no_members(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout
) -> None:
    lab.server.load({"/party": b"", "/party/garbage": b"", "/party/x__party__": b"\xff"})
    found = await ids(Party(zk, "/party", layout=layout))
    assert found == {"kazoo": ["�"], "kazoo-shallow": [], "curator-group": ["garbage", "x__party__"]}[layout]


@pytest.mark.row("F7", "F8")
@layouts
async def test_the_session_expires(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout
) -> None:
    other = await lab.client()
    observer = Party(other, "/party", layout=layout)
    async with Party(zk, "/party", "me", layout=layout):
        lab.server.expire(zk.session.id)
        assert await ids(observer) == []
        await trio.sleep(1)
        assert await ids(observer) == ["me"]
        (name,) = await zk.get_children("/party")
        stat = await zk.exists(f"/party/{name}")
        assert stat is not None
        assert stat.ephemeralOwner == zk.session.id


@pytest.mark.row("F14")
@layouts
async def test_a_partition(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout) -> None:
    other = await lab.client()
    observer = Party(other, "/party", layout=layout)
    async with Party(zk, "/party", "me", layout=layout):
        lab.cut_off(zk)
        await trio.sleep(30)
        assert await ids(observer) == []
        lab.let_through(zk)
        await trio.sleep(5)
        assert await ids(observer) == ["me"]


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("when", ["before", "after"])
@layouts
async def test_a_lost_connection_while_joining(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout, when: str
) -> None:
    with lab.server.fault(op="create", path="/party/*", when=when, action="disconnect"):  # type: ignore[arg-type]
        async with Party(zk, "/party", "me", layout=layout) as party:
            assert await ids(party) == ["me"]


@pytest.mark.row("F15", "F17")
async def test_deleted_by_an_operator_or_with_the_directory(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with Party(zk, "/a/party", "me") as party:
        for path in ["/a/party", "/a"]:
            await zk.delete(path, recursive=True)
            await trio.sleep(1)
            assert await ids(party) == ["me"]


@pytest.mark.row("F10", "F11")
@pytest.mark.parametrize("keep_data", [True, False])
async def test_the_server_is_restarted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, keep_data: bool
) -> None:
    async with Party(zk, "/party", "me") as party:
        before = await party.members()
        lab.server.restart(keep_data=keep_data)
        await trio.sleep(60)
        after = await party.members()
        assert after == before
        assert after != []


async def test_two_of_one_name(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    first = Party(zk, "/party", "same", layout="curator-group")
    second = Party(other, "/party", "same", layout="curator-group")
    async with first:
        with trio.move_on_after(5) as patience:
            async with second:
                pass
        assert patience.cancelled_caught
        with pytest.raises(NodeExistsError):
            async with Party(other, "/party", "same", layout="curator-group", conflict="raise"):
                pass
        lab.cut_off(zk)
        async with second:  # once the first has gone
            assert "/party/same" in lab.server.dump()
        lab.let_through(zk)
        await trio.sleep(5)
        assert await ids(first) == ["same"]


async def test_one_who_leaves_while_we_look(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    found = []

    async def look() -> None:
        found.append(await ids(Party(zk, "/party")))

    async with Party(other, "/party", "stays"), trio.open_nursery() as nursery:
        listing = lab.server.fault(
            op="get_children", session=zk.session.id, when="after", action="delay", seconds=1
        )
        with listing:
            async with Party(other, "/party", "goes"):
                nursery.start_soon(look)
                await trio.sleep(0.5)
    assert found == [["stays"]]


@pytest.mark.row("F21")
async def test_what_makes_joining_impossible(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/party", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with Party(zk, "/party", "me"):
            pass
    with pytest.raises(BadArgumentsError):
        async with Party(zk, "/party", "a/b/", layout="kazoo-shallow"):
            pass


@pytest.mark.row("F20")
@pytest.mark.parametrize("tenths", range(0, 30, 5))
async def test_one_who_gives_up_joining_is_no_member(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, tenths: int
) -> None:
    await zk.create("/party")
    fault = lab.server.fault(
        op="create", path="/party/*", when="after", action="delay", seconds=2, required=False
    )
    with fault, trio.move_on_after(tenths / 10):
        async with Party(zk, "/party", "me"):
            await trio.sleep_forever()
    await trio.sleep(5)
    await zk.cleanup.idle()
    assert await zk.get_children("/party") == []
    assert (zk.watch_count, lab.watch_count) == (0, 0)


# --- changes ---------------------------------------------------------------------------------------------


@layouts
async def test_changes(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: PartyLayout) -> None:
    other = await lab.client()
    observer = Party(zk, "/party", layout=layout)
    changes = observer.changes()
    async with Party(other, "/party", "one", layout=layout):
        change = await anext(changes)
        assert {member.id for member in change.joined} == {"one"}
        assert change.left == set()
        async with Party(other, "/party", "two", layout=layout), Party(other, "/party", "3", layout=layout):
            change = await anext(changes)
            assert {member.id for member in change.joined} == {"two", "3"}
        change = await anext(changes)
        assert {member.id for member in change.left} == {"two", "3"}
        assert change.joined == set()
    assert {member.id for member in (await anext(changes)).left} == {"one"}


async def test_a_member_that_comes_and_goes_unseen_is_no_change(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with Party(zk, "/party", "one") as party:
        changes = party.changes()
        await anext(changes)
        async with Party(zk, "/party", "two"):
            pass
        with trio.move_on_after(60) as patience:
            await anext(changes)
        assert patience.cancelled_caught


@pytest.mark.row("F7")
async def test_changes_while_away_are_told(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    changes = Party(zk, "/party").changes()
    async with Party(other, "/party", "one"):
        await anext(changes)
        lab.cut_off(zk)
    await trio.sleep(60)
    lab.let_through(zk)
    change = await anext(changes)
    assert {member.id for member in change.left} == {"one"}


async def test_a_change_is_not_lost_with_a_cancelled_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    changes = Party(zk, "/party").changes()
    async with Party(other, "/party", "one"):
        with (
            lab.server.fault(op="get_data", session=zk.session.id, when="before", action="delay", seconds=5),
            trio.move_on_after(1) as patience,
        ):
            await anext(changes)
        assert patience.cancelled_caught
        change = await anext(changes)
        assert {member.id for member in change.joined} == {"one"}

"""One body for all: what holds against our server holds against a real one and against an ensemble."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import (
    ACL,
    OPEN_ACL,
    READ_ACL,
    AuthFailedError,
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    EventType,
    GetChildren,
    GetData,
    Id,
    InvalidACLError,
    Missed,
    MissedReason,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    Perms,
    SessionExpiredError,
    SessionState,
    SetData,
    WatchEvent,
    WatchStream,
    ZooKeeper,
    connect,
)
from pyzk.client.tcp import TcpStream
from pyzk.protocol.constants import JUTE_MAXBUFFER
from pyzk.protocol.errors import ReconfigDisabledError

from ..support.lines import cut
from .ending import end_session


class Lines:
    """A connector whose connections can be cut."""

    def __init__(self) -> None:
        self._streams: list[trio.abc.Stream] = []

    async def __call__(self, host: str, port: int) -> trio.abc.Stream:
        stream = await TcpStream.open(host, port)
        self._streams.append(stream)
        return stream

    def cut(self) -> None:
        for stream in self._streams:
            cut(stream)
        self._streams.clear()


async def take(stream: WatchStream, count: int) -> list[tuple[EventType, str]]:
    events = []
    for _ in range(count):
        event = await anext(stream)
        assert isinstance(event, WatchEvent), event
        events.append((event.type, event.path))
    return events


async def test_znodes(zk: ZooKeeper) -> None:
    path, created = await zk.create_with_stat("/a", b"1")
    data, stat = await zk.get("/a")
    assert (path, data, stat) == ("/a", b"1", created)
    assert stat.czxid == stat.mzxid == zk.session.last_zxid
    with pytest.raises(NodeExistsError):
        await zk.create("/a")
    changed = await zk.set("/a", b"22", version=0)
    assert (changed.version, changed.dataLength) == (1, 2)
    with pytest.raises(BadVersionError):
        await zk.set("/a", b"3", version=0)
    await zk.create("/a/b/c", make_parents=True)
    assert await zk.get_children("/a") == ["b"]
    names, stat = await zk.get_children_and_stat("/a")
    assert (names, stat.numChildren) == (["b"], 1)
    assert await zk.get_all_children_number("/a") == 2
    assert await zk.exists("/none") is None
    with pytest.raises(NoNodeError):
        await zk.get("/none")
    with pytest.raises(BadVersionError):
        await zk.delete("/a/b/c", version=3)
    await zk.delete("/a", recursive=True)
    assert await zk.exists("/a") is None


async def test_kinds_of_znodes(zk: ZooKeeper) -> None:
    for number in range(3):
        assert await zk.create("/n-", sequential=True) == f"/n-{number:010}"
    path, stat = await zk.create_with_stat("/e-", ephemeral=True, sequential=True)
    assert (path, stat.ephemeralOwner) == ("/e-0000000003", zk.session.id)
    assert await zk.get_ephemerals() == [path]
    with pytest.raises(NoChildrenForEphemeralsError):
        await zk.create(f"{path}/x")
    await zk.create("/container", container=True)
    path, stat = await zk.create_with_stat("/ttl-", sequential=True, ttl=3600)
    assert (path, stat.ephemeralOwner) in [
        ("/ttl-0000000005", 0),
        ("/ttl-0000000005", -(1 << 56) + 3_600_000),
    ], "the TTL shows in the owner of real servers"


async def test_access_control(chroot: str, zk: ZooKeeper) -> None:
    await zk.create("/open")
    assert await zk.get_acl("/open") == (list(OPEN_ACL), await zk.exists("/open"))
    mine = [ACL(Perms.ALL, Id("auth", ""))]
    with pytest.raises(InvalidACLError):
        await zk.create("/mine", acl=mine)
    await zk.add_auth("digest", "me:secret")
    await zk.create("/mine", b"x", acl=mine)
    async with connect(chroot) as other:
        with pytest.raises(NoAuthError):
            await other.get("/mine")
    async with connect(chroot, auth=[("digest", b"me:secret")]) as me:
        assert (await me.get("/mine"))[0] == b"x"
        assert "me" in [info.user for info in await me.who_am_i()]
        stat = await me.set_acl("/mine", READ_ACL, version=0)
        assert stat.aversion == 1
    await zk.sync("/mine")
    assert (await zk.get_acl("/mine"))[0] == list(READ_ACL)
    with pytest.raises(AuthFailedError):
        async with connect(chroot, auth=[("nonsense", "")]):
            pass


async def test_batches(zk: ZooKeeper) -> None:
    async with zk.transaction() as t:
        t.create("/a", b"1")
        t.create("/a/n-", ephemeral=True, sequential=True)
        t.create("/c", container=True)
        t.set("/a", b"2")
        t.check("/a", version=1)
        t.delete("/c")
    assert t.results[:3] == ["/a", "/a/n-0000000000", "/c"]
    assert t.results[3].version == 1
    before = zk.session.last_zxid
    with pytest.raises(BadVersionError) as caught:
        await zk.multi([SetData("/a", b"3"), Check("/a", 7), Create("/d")])
    assert (caught.value.index, caught.value.path) == (1, "/a")
    assert zk.session.last_zxid > before
    data, names, error = await zk.multi_read([GetData("/a"), GetChildren("/a"), GetData("/none")])
    assert data[0] == b"2"
    assert names == ["n-0000000000"]
    assert isinstance(error, NoNodeError)
    assert await zk.multi([]) == []


async def test_one_shot_watches(zk: ZooKeeper) -> None:
    await zk.create("/a")
    _, _, changed = await zk.get_and_watch("/a")
    _, gone = await zk.exists_and_watch("/a")
    _, grown = await zk.get_children_and_watch("/a")
    _, created = await zk.exists_and_watch("/b")
    await zk.set("/a", b"x")
    await zk.create("/a/c")
    await zk.create("/b")
    types = []
    for watch in (changed, gone, grown, created):
        event = await watch.wait()
        assert isinstance(event, WatchEvent)
        types.append((event.type, event.path))
    assert types == [
        (EventType.CHANGED, "/a"),
        (EventType.CHANGED, "/a"),
        (EventType.CHILD, "/a"),
        (EventType.CREATED, "/b"),
    ]
    assert zk.watch_count == 0


async def test_lasting_watches(zk: ZooKeeper) -> None:
    await zk.create("/a")
    async with zk.watch("/a") as flat, zk.watch("/", recursive=True) as deep:
        await zk.set("/a", b"x")
        await zk.create("/a/b")
        await zk.delete("/a/b")
        assert await take(flat, 3) == [
            (EventType.CHANGED, "/a"),
            (EventType.CHILD, "/a"),
            (EventType.CHILD, "/a"),
        ]
        assert await take(deep, 3) == [
            (EventType.CHANGED, "/a"),
            (EventType.CREATED, "/a/b"),
            (EventType.DELETED, "/a/b"),
        ]
    events = zk.event_count
    await zk.set("/a", b"y")
    await zk.create("/a/b")
    await zk.sync()
    assert zk.event_count == events, "the server no longer watches"


@pytest.mark.parametrize("order", ["flat first", "deep first"])
async def test_all_kinds_of_watches_at_one_path(zk: ZooKeeper, order: str) -> None:
    """Servers before 3.9 keep one mode for each path: the last one registered wins."""
    await zk.create("/a")
    first, second = order == "deep first", order != "deep first"
    async with zk.watch("/a", recursive=first) as one, zk.watch("/a", recursive=second) as two:
        deep, flat = (one, two) if first else (two, one)
        for _ in range(2):
            _, _, data = await zk.get_and_watch("/a")
            _, children = await zk.get_children_and_watch("/a")
            await zk.create("/a/b")
            await zk.set("/a", b"x")
            await zk.delete("/a/b")
            await zk.sync()
            assert data.event is not None
            assert children.event is not None
            assert await take(flat, 3) == [
                (EventType.CHILD, "/a"),
                (EventType.CHANGED, "/a"),
                (EventType.CHILD, "/a"),
            ]
            assert await take(deep, 3) == [
                (EventType.CREATED, "/a/b"),
                (EventType.CHANGED, "/a"),
                (EventType.DELETED, "/a/b"),
            ]


async def test_a_reconnect_restores_everything(chroot: str) -> None:
    lines = Lines()
    async with connect(chroot, connector=lines) as zk, connect(chroot) as other:
        await zk.add_auth("digest", "me:secret")
        await zk.create("/e", ephemeral=True)
        await zk.create("/a")
        async with zk.watch("/a") as flat, zk.watch("/", recursive=True) as deep:
            _, _, data = await zk.get_and_watch("/a")
            (
                _,
                same,
            ) = await zk.get_children_and_watch("/a")
            _, created = await zk.exists_and_watch("/new")
            session_id = zk.session.id
            for turn in range(3):
                lines.cut()
                assert await zk.session.wait_change() is SessionState.SUSPENDED
                await zk.session.wait_connected()
                assert await anext(flat) == Missed("/a", MissedReason.RECONNECTED)
                assert await anext(deep) == Missed("/", MissedReason.RECONNECTED)
                assert "me" in [info.user for info in await zk.who_am_i()]
                assert await zk.get_ephemerals() == ["/e"]
                assert (data.event, same.event, created.event) == (None, None, None), turn
            assert zk.session.id == session_id
            await other.set("/a", b"x")
            await other.create("/new")
            await zk.sync()
            assert await data.wait() == data.event
            assert await created.wait() == created.event
            assert await take(flat, 1) == [(EventType.CHANGED, "/a")]
            assert await take(deep, 2) == [(EventType.CHANGED, "/a"), (EventType.CREATED, "/new")]


async def test_more_watches_than_fit_a_frame_are_armed_again(chroot: str) -> None:
    lines = Lines()
    async with connect(chroot, connector=lines) as zk:
        paths = [f"/{'x' * 700}{number}" for number in range(2000)]
        assert sum(map(len, paths)) > JUTE_MAXBUFFER
        watches = []
        async with trio.open_nursery() as nursery:

            async def arm(path: str) -> None:
                _, watch = await zk.exists_and_watch(path)
                watches.append(watch)

            for path in paths:
                nursery.start_soon(arm, path)
        lines.cut()
        await zk.session.wait_change()
        await zk.session.wait_connected()
        await zk.create(paths[0])
        await zk.create(paths[-1])
        assert {watch.path for watch in watches if watch.event} == {paths[0], paths[-1]}
        assert zk.metrics.connections == 2


async def test_a_large_listing_arrives(zk: ZooKeeper) -> None:
    names = [f"{'x' * 250}{number:04}" for number in range(4500)]
    pending = [zk.submit(Create(f"/{name}")) for name in names]
    for each in pending:
        await each.wait()
    assert sum(len(name) + 4 for name in names) > JUTE_MAXBUFFER
    assert sorted(await zk.get_children("/")) == names


async def test_a_request_above_the_servers_limit_is_a_loss(chroot: str, zk: ZooKeeper) -> None:
    await zk.create("/a")
    async with connect(chroot, request_limit=2**22) as careless:
        with pytest.raises(ConnectionLossError) as caught:
            await careless.set("/a", bytes(2**21))
        assert caught.value.sent
        assert (await careless.get("/a"))[0] == b""


async def test_expiry(chroot: str, zk: ZooKeeper) -> None:
    with pytest.raises(SessionExpiredError):
        async with connect(chroot) as doomed:
            await doomed.create("/e", ephemeral=True)
            await end_session(chroot, doomed)
            await trio.sleep_forever()
    await zk.sync()
    assert await zk.exists("/e") is None

    async with connect(chroot, on_expired="new_session") as zk2:
        await zk2.create("/e", ephemeral=True)
        _, watch = await zk2.exists_and_watch("/none")
        async with zk2.watch("/", recursive=True) as events:
            await end_session(chroot, zk2)
            assert await watch.wait() == Missed("/none", MissedReason.EXPIRED)
            while (event := await anext(events)) != Missed("/", MissedReason.EXPIRED):
                assert isinstance(event, WatchEvent | Missed)
            await zk2.session.wait_connected()
            assert zk2.session.generation == 2
            await zk2.create("/again")
            assert await take(events, 1) == [(EventType.CREATED, "/again")]


async def test_expiry_by_silence(chroot: str, zk: ZooKeeper) -> None:
    """The server's clock agrees with the lease: the session outlives it, but not for long."""
    lines = Lines()
    away = False

    async def connector(host: str, port: int) -> trio.abc.Stream:
        if away:
            raise OSError("away")
        return await lines(host, port)

    async with connect(chroot, connector=connector, session_timeout=2, close_grace=0) as doomed:
        await doomed.create("/e", ephemeral=True)
        await zk.sync("/e")
        _, watch = await zk.exists_and_watch("/e")
        away = True
        lines.cut()
        event = await watch.wait()
        assert isinstance(event, WatchEvent)
        assert event.type is EventType.DELETED
        assert doomed.session.lease_deadline() <= trio.current_time()
        assert doomed.session.state is SessionState.SUSPENDED


async def test_an_idle_session_lives(chroot: str) -> None:
    async def idle(kept: bool) -> None:
        async with connect(chroot, session_timeout=6) as zk:  # the machine may stand still for some seconds
            if kept:
                zk.keep_lease(lambda: None)
            path = await zk.create(f"/kept-{kept}", ephemeral=True)
            begun = trio.current_time()
            while trio.current_time() < begun + 1.2 * zk.session.negotiated_timeout:
                await trio.sleep(zk.session.negotiated_timeout / 5)
            renewed = zk.session.lease_deadline() > begun + zk.session.negotiated_timeout
            assert renewed == kept, "syncs prove it, and pings do not"
            assert await zk.exists(path) is not None
            assert zk.session.generation == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle, False)
        nursery.start_soon(idle, True)


async def test_a_hundred_tasks(zk: ZooKeeper) -> None:
    async def work(number: int) -> None:
        path = await zk.create("/task-", str(number).encode(), sequential=True)
        for turn in range(10):
            assert (await zk.set(path, f"{number} {turn}".encode())).version == turn + 1
            assert (await zk.get(path))[0] == f"{number} {turn}".encode()

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(work, number)
    assert len(await zk.get_children("/")) == 100


async def test_a_pipeline_keeps_its_order(chroot: str, zk: ZooKeeper) -> None:
    await zk.create("/n", b"")
    pending = [zk.submit(SetData("/n", str(i).encode(), i)) for i in range(1000)]
    assert [(await each.wait()).version for each in pending] == list(range(1, 1001))
    async with connect(chroot) as other:
        await other.sync("/n")
        assert (await other.get("/n"))[0] == b"999"


async def test_the_configuration(zk: ZooKeeper) -> None:
    try:
        data, stat = await zk.get_config()
    except NoNodeError:
        pytest.fail("every server has the znode /zookeeper/config")
    assert data is None or data == b"" or b"server." in data
    assert stat.version >= -1


async def test_reconfiguration_is_off_unless_it_is_switched_on(zk: ZooKeeper) -> None:
    with pytest.raises(ReconfigDisabledError):
        await zk.reconfig(leaving="3")
    assert zk.metrics.connections == 1

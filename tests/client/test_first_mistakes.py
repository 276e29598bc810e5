"""The mistakes that everybody makes once: each error says what to do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    GetData,
    NoNodeError,
    NotEmptyError,
    SetACL,
    SetData,
    Stat,
    UnimplementedError,
    ZooKeeper,
    ZooKeeperError,
    connect,
)
from pyzk.client.hosts import ConnectString
from pyzk.server.testing import Controls

from .memory import SERVER, client, open_memory_server

# --- connecting -----------------------------------------------------------------------------------------

PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"hosts": ["a:2181", "b:2181"]}, 'hosts must be a str.*join a list with ","'),
    ({"session_timeout": "10"}, "session_timeout must be a number of seconds.*without quotes"),
    ({"connect_timeout": "10"}, "connect_timeout must be a number of seconds.*without quotes"),
    ({"on_expired": "raise"}, "on_expired must be 'cancel' or 'new_session', not 'raise'"),
    ({"on_expired": None}, "on_expired must be 'cancel' or 'new_session', not None"),
    ({"auth": ("digest", "user:password")}, r'as in \[\("digest", "user:password"\)\]'),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS)
async def test_parameters_of_connect(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        async with connect(**({"hosts": SERVER} | parameters)):
            raise AssertionError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zk://a:2181/app", "no scheme: write 'a:2181/app' in place of 'zk://a:2181/app'"),
        ("zookeeper://a", "no scheme: write 'a'"),
        ("a:2181;b:2181", "separate servers by commas"),
        ("a:2181 b:2181", "separate servers by commas"),
        ("a:2181/app,b:2181/app", "write the chroot once, after the last server"),
        ("a/app,b:2181", "write the chroot once, after the last server"),
        ("::1", "an IPv6 address needs brackets"),
        ("", "no server"),
    ],
)
def test_connect_strings(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ConnectString.parse(text)


def test_a_comma_is_fine_in_a_chroot() -> None:
    assert ConnectString.parse("a:2181, b:2182/x,y").chroot == "/x,y"


def test_asyncio_is_told_of_the_other_packages() -> None:
    async def main() -> None:
        async with connect(SERVER):
            raise AssertionError

    with pytest.raises(RuntimeError, match=r"tasks of trio only.* asyncio, import from pyzk.aio"):
        asyncio.run(main())


async def test_a_server_that_accepts_and_says_nothing(autojump_clock: MockClock) -> None:
    async def connector(host: str, port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        silent.append(theirs)
        return ours

    silent: list[trio.abc.Stream] = []
    with pytest.raises(ConnectionLossError, match=r"server:2181: no answer .* client port .* TLS"):
        async with connect(SERVER, connector=connector, session_timeout=5):
            raise AssertionError


async def test_a_server_that_closes_at_once(autojump_clock: MockClock) -> None:
    async def connector(host: str, port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.aclose()
        return ours

    with pytest.raises(ConnectionLossError, match=r"server:2181: .*closed .* without an answer.* no quorum"):
        async with connect(SERVER, connector=connector):
            raise AssertionError


# --- operations -----------------------------------------------------------------------------------------

REFUSALS: list[tuple[Callable[[ZooKeeper], Any], type[ZooKeeperError], str]] = [
    (lambda zk: zk.create("/a/b/c"), NoNodeError, "the parent does not exist; create it with make_parents"),
    (lambda zk: zk.create_with_stat("/a/b/c"), NoNodeError, "the parent does not exist"),
    (lambda zk: zk.get("/b"), NoNodeError, "The znode does not exist: /b"),
    (lambda zk: zk.set("/a", b"", version=7), BadVersionError, "does not have version 7; read the znode"),
    (lambda zk: zk.delete("/a", version=7), BadVersionError, "does not have version 7"),
    (lambda zk: zk.submit(SetACL("/a", Create("/").acl, 7)).wait(), BadVersionError, "version 7 .*aversion"),
    (lambda zk: zk.delete("/full"), NotEmptyError, "has children .recursive=True"),
    (lambda zk: zk.create("/t", ttl=1), UnimplementedError, "no TTL; set extendedTypesEnabled=true"),
    (
        lambda zk: zk.multi([Check("/a", 1), SetData("/a", b"secret", 7)]),
        BadVersionError,
        r"operations\[1\], SetData\('/a', 6 bytes, version=7\): the data does not have version 7",
    ),
    (
        lambda zk: zk.multi([Check("/a", 0)]),
        BadVersionError,
        r"operations\[0\], Check\('/a', version=0\): the data does not have version 0",
    ),
    (
        lambda zk: zk.multi([Create("/x/y", ephemeral=True)]),
        NoNodeError,
        r"operations\[0\], Create\('/x/y', 0 bytes, ephemeral\): the parent does not exist",
    ),
    (
        lambda zk: zk.multi([Create("/t", ttl=1.5)]),
        UnimplementedError,
        r"Create\('/t', 0 bytes, persistent_with_ttl, ttl=1.5\): the server allows no TTL",
    ),
    (lambda zk: zk.multi([Delete("/b")]), NoNodeError, r"Delete\('/b'\): The znode does not exist: /b"),
]


@pytest.mark.parametrize("case", range(len(REFUSALS)))
async def test_refusals_of_the_server(autojump_clock: MockClock, case: int) -> None:
    call, kind, message = REFUSALS[case]
    async with open_memory_server() as server, client(server) as zk:
        await zk.create("/a", b"0")
        await zk.set("/a", b"1")
        await zk.create("/full/child", make_parents=True)
        with pytest.raises(kind, match=message) as caught:
            await call(zk)
        assert "secret" not in str(caught.value)


async def test_arguments_say_what_to_do(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    for call, message in (
        (lambda: zk.create("/a", "text"), r"data must be bytes.*encode text with \.encode"),  # type: ignore[arg-type]
        (lambda: zk.set("/a", b"", version=2**31), "an int of 32 bits.*-1 stands for any version"),
        (lambda: zk.multi(Delete("/b")), r"not Delete\('/b'\) .as in \[Check"),  # type: ignore[arg-type]
        (
            lambda: zk.multi([GetData("/b")]),
            r"GetData\('/b'\) cannot be part of this request; Create, Delete",
        ),
    ):
        with pytest.raises(ZooKeeperError, match=message):
            await call()


# --- what is printed ------------------------------------------------------------------------------------


async def test_reprs_are_sentences_without_secrets(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, f"{SERVER}/app", auth=[("digest", "user:secret")]) as zk:
        await zk.ensure_path("/")
        name = f"0x{zk.session.id:x}"
        assert (
            repr(zk) == f"<ZooKeeper at server:2181/app, CONNECTED, session {name}, "
            "0 requests in flight, 0 waiting>"
        )
        assert repr(zk.session) == f"<Session {name}, CONNECTED, generation 1, timeout 10 s>"
        first, pending = zk.submit(SetData("/", b"")), zk.submit(SetData("/", b"secret"))
        assert repr(first) == "<Pending set_data /, not answered>"
        assert repr(pending) == "<Pending set_data /, not sent>"
        await pending.wait()
        assert repr(pending) == "<Pending set_data /, done>"
        _, _, watch = await zk.get_and_watch("/")
        assert repr(watch) == "<Watch /, not fired>"
        watch.cancel()
        assert repr(watch) == "<Watch /, over>"
        async with zk.watch("/") as events:
            assert repr(events) == "<WatchStream /, 0 unread>"


def test_the_repr_of_a_stat_can_be_read() -> None:
    stat = Stat(0x100000002, 0x100000003, 1715934600250, 1715934600250, 3, 1, 0, 0x1FF, 12, 2, 0x100000004)
    assert repr(stat) == (
        "Stat(version=3, dataLength=12, numChildren=2, ephemeralOwner=0x1ff, czxid=0x100000002, "
        "mzxid=0x100000003, pzxid=0x100000004, ctime=2024-05-17T08:30:00.250Z, "
        "mtime=2024-05-17T08:30:00.250Z, cversion=1, aversion=0)"
    )
    odd = Stat(*(2**63 - 1 if field in (2, 3) else 0 for field in range(11)))
    assert "ctime=9223372036854775807 ms" in repr(odd)
    assert "1969-12-31T23:59:59.999Z" in repr(Stat(0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0))

"""Arguments that cannot be right: each is refused by its name before anything is sent, and nothing else
suffers."""

from __future__ import annotations

import array
import inspect
import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import MockClock

from pyzk.client import (
    ACL,
    OPEN_ACL,
    BadArgumentsError,
    Check,
    Create,
    CreateMode,
    CreateOptions,
    Delete,
    GetData,
    Id,
    SetACL,
    SetData,
    ZooKeeper,
    ZooKeeperError,
    connect,
)
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls

from .memory import SERVER, client, connector

WRONG_ACL = [
    [("world", "anyone")],
    [ACL("rw", Id("world", "anyone"))],  # type: ignore[arg-type]
    [ACL(2**31, Id("world", "anyone"))],
    [ACL(31, ("world", "anyone"))],  # type: ignore[arg-type]
    [ACL(31, Id("world", 5))],  # type: ignore[arg-type]
    ACL(31, Id("world", "anyone")),
    iter(OPEN_ACL),
    5,
]
CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    *(
        (f"version must be an int of 32 bits, not {value!r}", call)
        for value in (2**31, -(2**31) - 1, None, "1", 1.5)
        for call in (
            lambda zk, value=value: zk.set("/n", b"", version=value),
            lambda zk, value=value: zk.delete("/n", version=value),
            lambda zk, value=value: zk.set_acl("/n", OPEN_ACL, version=value),
        )
    ),
    *(
        (f"data must be bytes or None, not this {type(value).__name__}", call)
        for value in ("text", 5, [1], array.array("i", [1, 2]))
        for call in (
            lambda zk, value=value: zk.set("/n", value),
            lambda zk, value=value: zk.create("/m", value),
            lambda zk, value=value: zk.create("/m", value, ttl=5),
        )
    ),
    *(
        ("acl must be a list of ACL", call)
        for value in WRONG_ACL
        for call in (
            lambda zk, value=value: zk.create("/m", acl=value),
            lambda zk, value=value: zk.ensure_path("/m", acl=value),
            lambda zk, value=value: zk.set_acl("/n", value),
        )
    ),
    *(
        (re.escape(f"path must be a str, not {value!r}"), call)
        for value in (None, 5, b"/n", ["/n"])
        for call in (
            lambda zk, value=value: zk.create(value),
            lambda zk, value=value: zk.create(value, sequential=True),
            lambda zk, value=value: zk.ensure_path(value),
            lambda zk, value=value: zk.set(value, b""),
            lambda zk, value=value: zk.delete(value),
            lambda zk, value=value: zk.delete(value, recursive=True),
            lambda zk, value=value: zk.set_acl(value, OPEN_ACL),
            lambda zk, value=value: zk.get(value),
            lambda zk, value=value: zk.get_and_watch(value),
            lambda zk, value=value: zk.exists(value),
            lambda zk, value=value: zk.exists_and_watch(value),
            lambda zk, value=value: zk.get_children(value),
            lambda zk, value=value: zk.get_children_stat_and_watch(value),
            lambda zk, value=value: zk.get_acl(value),
            lambda zk, value=value: zk.get_ephemerals(value),
            lambda zk, value=value: zk.get_all_children_number(value),
            lambda zk, value=value: zk.sync(value),
            lambda zk, value=value: zk.watch(value).__aenter__(),
            lambda zk, value=value: zk.multi_read([GetData(value)]),
        )
    ),
    *(
        ("ttl must be a number of seconds above 0", lambda zk, value=value: zk.create("/m", ttl=value))
        for value in ("5", 0, -1, math.nan, math.inf, 1e30)
    ),
    ("joining must be a str or None, not 5", lambda zk: zk.reconfig(5)),
    ("leaving must be a str or None", lambda zk: zk.reconfig("", b"1")),
    ("new_members must be a str or None", lambda zk: zk.reconfig(None, None, ["x"])),
    ("from_config must be an int of 64 bits", lambda zk: zk.reconfig("x", from_config=2**63)),
    ("operations must be a list of operations, not 5", lambda zk: zk.multi(5)),
    ("operations must be a list of operations, not None", lambda zk: zk.multi_read(None)),
    (r"operations\[1\]: 'x' cannot be part", lambda zk: zk.multi([Check("/"), "x"])),
    (r"operations\[0\]: GetData.* cannot be part", lambda zk: zk.multi([GetData("/")])),
    (r"operations\[0\]: version must be", lambda zk: zk.multi([Delete("/n", 2**31)])),
    (r"operations\[1\]: data must be", lambda zk: zk.multi([Check("/"), SetData("/n", "x")])),  # type: ignore[arg-type]
    (r"operations\[0\]: acl must be", lambda zk: zk.multi([Create("/m", acl=5)])),  # type: ignore[arg-type]
    (r"operations\[0\]: a path must start", lambda zk: zk.multi([Delete("n")])),
    ("acl must be a list of ACL", lambda zk: zk.submit(SetACL("/n", 5))),  # type: ignore[arg-type]
    ("only an operation can be submitted, such as", lambda zk: zk.submit("/n")),
    ("scheme must be a str, not None", lambda zk: zk.add_auth(None, "u:p")),
    ("credential must be bytes or a str, not this int", lambda zk: zk.add_auth("digest", 5)),
    ("credential must be bytes or a str", lambda zk: zk.add_auth("digest", "\ud800")),
    ("buffer must be an int from 1", lambda zk: zk.watch("/n", buffer="x").__aenter__()),
    ("buffer must be an int from 1", lambda zk: zk.watch("/n", buffer=0).__aenter__()),
    ("function must be a function, not 5", lambda zk: zk.start_soon(5)),
    ("paths must be one path or more", lambda zk: zk.cleanup.delete()),
    ("prefix must be a str", lambda zk: zk.cleanup.delete_prefixed("/", 5)),
    ("prefix must be a str", lambda zk: zk.cleanup.delete_when_settled(zk.submit(GetData("/n")), 5)),
]


async def test_wrong_arguments_are_named_and_nothing_is_sent(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/n")
    sent = zk.metrics.requests.copy()
    with server.fault(op="set_data", when="after", action="delay", seconds=1):
        before = zk.submit(SetData("/n", b"before"))
        for message, call in CALLS:
            with pytest.raises(BadArgumentsError, match=message):
                await call(zk)
            assert not zk._watches._paths, message
        behind = zk.submit(GetData("/n"))
        assert (await before.wait()).version == 1
        assert (await behind.wait())[0] == b"before"
    assert (zk.metrics.requests - sent).keys() == {OpCode.SET_DATA, OpCode.GET_DATA}
    assert (zk.metrics.requests - sent)[OpCode.SET_DATA] == 1
    assert zk.metrics.connections == 1


async def test_a_wrong_operation_of_a_transaction_is_counted(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        async with zk.transaction() as transaction:
            transaction.check("/")
            transaction.set("/n", b"", version=2**31)
    assert (caught.value.index, caught.value.path) == (1, "/n")


async def test_what_is_like_bytes_goes_as_bytes(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    for number, data in enumerate((bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"abcd").cast("H"))):
        await zk.create(f"/{number}", data)  # type: ignore[arg-type]
        assert (await zk.get(f"/{number}"))[0] == b"abcd"
        await zk.set(f"/{number}", data)  # type: ignore[arg-type]
        assert (await zk.get(f"/{number}"))[0] == b"abcd"


class Odd:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


JUNK = [
    None, True, 0, 5, -1, 2**31, 2**63, 2**70, 1.5, math.nan, math.inf, 1j, "", "x", "/n", "/a\ud800", b"",
    b"/n", [], [5], ["x"], [None], {}, {"a": 1}, (1, 2), {1}, object(), Odd(), int, len, OPEN_ACL,
    OPEN_ACL[0], CreateMode.EPHEMERAL, Create("/z"), [Create("/z", 5)], array.array("i", [1]), iter([1]),
]  # fmt: skip
GOOD = {"path": "/n", "data": b"", "acl": OPEN_ACL, "operations": []}


@pytest.mark.parametrize(
    "method",
    [
        name
        for name, value in inspect.getmembers(ZooKeeper, inspect.isroutine)
        if not name.startswith("_") and name not in ("start_soon", "withdraw", "add_auth")
    ],
)
async def test_no_argument_whatever_does_harm(
    autojump_clock: MockClock, server: Controls, method: str
) -> None:
    async with client(server) as zk:
        function = getattr(zk, method)
        parameters = list(inspect.signature(function).parameters)
        if "options" in parameters:
            parameters[-1:] = CreateOptions.__annotations__
        needed = {name: GOOD[name] for name in parameters if name in GOOD}
        for name in parameters:
            for value in JUNK:
                try:
                    result = function(**(needed | {name: value}))
                    if hasattr(result, "__aenter__"):
                        async with result:
                            pass
                    elif inspect.isawaitable(result):
                        await result
                    elif hasattr(result, "wait"):
                        await result.wait()
                except ZooKeeperError:
                    pass
                except ValueError as error:
                    if "exclude" not in str(error):
                        raise
                assert zk.metrics.connections == 1, (name, value)
        await zk.sync()


@pytest.mark.parametrize(
    ("parameter", "values", "message"),
    [
        ("hosts", [None, b"a:1", 5], "a str"),
        ("session_timeout", [0, -1, math.nan, math.inf, "10", None, 1j], "a number of seconds above 0"),
        ("connect_timeout", [-1, math.nan, "1", None], "a number of seconds, 0 or more"),
        ("close_grace", [-0.1, math.nan, "1", None], "a number of seconds, 0 or more"),
        (
            "auth",
            [
                None,
                5,
                "digest:u:p",
                [("digest",)],
                [("digest", 5)],
                [(b"digest", "x")],
                [5],
                [("d", "\ud800")],
            ],
            "a list of",
        ),
        ("read_only", [1, "yes", None], "True or False"),
        ("follow_config", [1, "yes", None], "True or False"),
        ("observer", [1, print], "an Observer or None"),
        ("on_expired", ["typo", None, "Cancel", []], "'cancel' or 'new_session'"),
        ("resume", [5, (1,), (1, "x"), (2**63, b""), ("1", b""), (1, b"", 3)], r"\(session id, password\)"),
        ("ssl_context", [True, "tls", object()], "an ssl.SSLContext or None"),
        ("connector", ["tcp", 5], "a function"),
        ("request_limit", [0, -1, None, 1.5, 2**31], "an int from 1"),
        ("reply_limit", [0, -1, None, "64M", 2**31], "an int from 1"),
        ("rng", [5, random], "a random.Random or None"),
    ],
)
async def test_wrong_parameters_of_a_client(
    autojump_clock: MockClock, server: Controls, parameter: str, values: list[Any], message: str
) -> None:
    for value in values:
        with pytest.raises(ValueError, match=f"^{parameter} must be {message}.*, not "):
            async with connect(**({"hosts": SERVER, "connector": connector(server)} | {parameter: value})):
                pass
    assert server.history(kind="connection") == []


async def test_secrets_are_not_repeated(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        await zk.add_auth("digest", ["u:secret"])  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    for wrong in ({"auth": [("digest", ["u:secret"])]}, {"resume": (1, "secret")}):
        with pytest.raises(ValueError, match=next(iter(wrong))) as refused:
            async with connect(SERVER, **wrong):  # type: ignore[arg-type]
                pass
        assert "secret" not in str(refused.value)


async def test_identities_may_come_from_a_generator(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, auth=(("digest", f"user-{n}:p") for n in range(2))) as zk:
        assert [info.authScheme for info in await zk.who_am_i()].count("digest") == 2

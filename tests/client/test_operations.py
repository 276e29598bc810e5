"""Operations as values: paths below a chroot, modes, results of batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.client import (
    Check,
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    SetACL,
    SetData,
    Sync,
    ZooKeeper,
)
from pyzk.client.batch import Multi, MultiRead, Transaction
from pyzk.client.operations import GetEphemerals, Operation, Reconfig, client_path, server_path
from pyzk.protocol.errors import BadArgumentsError, BadVersionError, NoNodeError
from pyzk.protocol.jute import JuteError, Record
from pyzk.protocol.multi import MultiResult, decode_multi, encode_results
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import (
    OPEN_ACL,
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    ErrorResponse,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    MultiHeader,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
    SetDataResponse,
    Stat,
)

STAT = Stat(*range(1, 12))
HEADER = bytes(16)

segments = st.text("abc-._é", min_size=1).filter(lambda name: name not in (".", ".."))
paths = st.lists(segments, max_size=4).map(lambda parts: "/" + "/".join(parts))
prefixes = paths.map(lambda path: path.rstrip("/"))


@given(prefixes, paths)
def test_a_path_comes_back_from_the_server_as_it_went(prefix: str, path: str) -> None:
    assert client_path(prefix, server_path(prefix, path)) == path


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/..", "/a/./b", "/a\0", "/\U0001f600"])
def test_malformed_paths_never_reach_the_chroot(path: str) -> None:
    for operation in (GetData(path), Create(path), Check(path), Sync(path)):
        with pytest.raises(BadArgumentsError):
            operation._request("/app")


def test_a_sequential_name_may_be_nothing_but_its_number() -> None:
    operation = Create("/queue/", sequential=True)
    request = operation._request("/app")
    assert isinstance(request, CreateRequest)
    assert request.path == "/app/queue/"
    with pytest.raises(BadArgumentsError):
        Create("queue", sequential=True)._request("/app")
    assert operation._result(Create2Response("/app/queue/0000000003", STAT), "/app") == (
        "/queue/0000000003",
        STAT,
    )


@pytest.mark.parametrize(
    ("options", "mode", "opcode"),
    [
        ({}, CreateMode.PERSISTENT, OpCode.CREATE2),
        ({"ephemeral": True}, CreateMode.EPHEMERAL, OpCode.CREATE2),
        ({"sequential": True}, CreateMode.PERSISTENT_SEQUENTIAL, OpCode.CREATE2),
        ({"ephemeral": True, "sequential": True}, CreateMode.EPHEMERAL_SEQUENTIAL, OpCode.CREATE2),
        ({"container": True}, CreateMode.CONTAINER, OpCode.CREATE_CONTAINER),
        ({"ttl": 1}, CreateMode.PERSISTENT_WITH_TTL, OpCode.CREATE_TTL),
        ({"ttl": 1, "sequential": True}, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, OpCode.CREATE_TTL),
    ],
)
def test_the_options_of_a_create(options: dict[str, Any], mode: CreateMode, opcode: OpCode) -> None:
    create = Create("/a", **options)
    assert (create.mode, create.opcode) == (mode, opcode)


@pytest.mark.parametrize(
    "options",
    [
        {"ephemeral": True, "container": True},
        {"ephemeral": True, "ttl": 1},
        {"container": True, "ttl": 1},
        {"container": True, "sequential": True},
    ],
)
def test_options_of_a_create_that_exclude_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exclude"):
        Create("/a", **options)


@pytest.mark.parametrize(
    ("operation", "request_record"),
    [
        (Delete("/a"), DeleteRequest("/a", -1)),
        (Check("/a"), CheckVersionRequest("/a", -1)),
        (SetData("/a", b"1"), SetDataRequest("/a", b"1", -1)),
        (SetACL("/a", []), SetACLRequest("/a", [], -1)),
        (Reconfig("x", "y", None), ReconfigRequest("x", "y", None, -1)),
    ],
)
def test_without_a_version_any_will_do(operation: Any, request_record: Any) -> None:
    assert operation._request("") == request_record


def test_ephemerals_outside_the_chroot_are_left_out() -> None:
    response = GetEphemeralsResponse(("/app/a", "/application", "/app"))
    assert GetEphemerals("/")._result(response, "/app") == ["/a"]
    assert GetEphemerals("/")._result(GetEphemeralsResponse(("/a",)), "") == ["/a"]


def test_a_transaction_is_encoded_below_the_chroot() -> None:
    body = Multi([Create("/a", b"1"), SetData("/b", b"2"), Delete("/c", 3), Check("/d", 4)])._encode("/app")
    ops = decode_multi(body)
    assert [(op.op, op.request.path) for op in ops] == [  # type: ignore[attr-defined]
        (OpCode.CREATE2, "/app/a"),
        (OpCode.SET_DATA, "/app/b"),
        (OpCode.DELETE, "/app/c"),
        (OpCode.CHECK, "/app/d"),
    ]


@pytest.mark.parametrize("batch", [Multi([GetData("/a")]), MultiRead([Delete("/a")]), Multi([Multi([])])])
def test_what_cannot_be_part_of_a_batch(batch: Multi | MultiRead) -> None:
    with pytest.raises(BadArgumentsError, match="cannot be part"):
        batch._encode("")


def test_results_of_a_transaction() -> None:
    multi = Multi([Create("/a"), Create("/b", container=True), Delete("/c")])
    reply = encode_results(
        [
            MultiResult(OpCode.CREATE, 0, CreateResponse("/app/a")),
            MultiResult(OpCode.CREATE2, 0, Create2Response("/app/b", STAT)),
            MultiResult(OpCode.DELETE, 0, None),
        ]
    )
    assert multi._decode(HEADER + reply, "/app") == ["/a", "/b", None]


def test_the_error_of_a_transaction_is_that_of_the_operation_that_failed() -> None:
    multi = Multi([Check("/a"), SetData("/b", b"", 7), Delete("/c")])
    reply = encode_results([MultiResult(-1, code, ErrorResponse(code)) for code in (0, -103, -2)])
    with pytest.raises(BadVersionError, match="/b") as caught:
        multi._decode(HEADER + reply, "")
    assert caught.value.index == 1
    assert caught.value.expected == 7


def test_a_wrong_version_names_the_one_that_was_expected() -> None:
    for operation in (SetData("/a", b"", 7), Delete("/a", 7), Check("/a", 7), SetACL("/a", [], 7)):
        error = operation._refusal(BadVersionError.code)
        assert isinstance(error, BadVersionError)
        assert error.expected == 7
        assert "version 7" in str(error)
    assert BadVersionError().expected is None


def test_results_of_a_batch_of_reads() -> None:
    batch = MultiRead([GetData("/a"), GetChildren("/b"), GetData("/c")])
    reply = encode_results(
        [
            MultiResult(OpCode.GET_DATA, 0, GetDataResponse(b"1", STAT)),
            MultiResult(OpCode.GET_CHILDREN, 0, GetChildrenResponse(("x", "y"))),
            MultiResult(-1, -101, ErrorResponse(-101)),
        ]
    )
    data, names, error = batch._decode(HEADER + reply, "")
    assert data == (b"1", STAT)
    assert names == ["x", "y"]
    assert isinstance(error, NoNodeError)
    assert error.path == "/c"


def test_a_batch_with_the_wrong_number_of_results_does_not_decode() -> None:
    with pytest.raises(JuteError):
        Multi([Delete("/a")])._decode(HEADER + encode_results([]), "")


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        (Create("/a"), MultiResult(OpCode.DELETE, 0, None)),
        (Delete("/a"), MultiResult(OpCode.SET_DATA, 0, SetDataResponse(STAT))),
        (SetData("/a", b""), MultiResult(OpCode.CREATE, 0, CreateResponse("/app/a"))),
        (SetData("/a", b""), MultiResult(-1, 0, ErrorResponse(0))),
        (Check("/a"), MultiResult(OpCode.CREATE2, 0, Create2Response("/app/a", STAT))),
        (Create("/a"), MultiResult(OpCode.CREATE, 0, CreateResponse("/elsewhere"))),
    ],
)
def test_results_of_another_kind_are_malformed(operation: Any, result: MultiResult) -> None:
    with pytest.raises(JuteError, match=r"a result of type|not below '/app'"):
        Multi((operation,))._decode(HEADER + encode_results([result]), "/app")


def test_results_without_end_are_not_kept() -> None:
    endless = HEADER + MultiHeader(OpCode.CHECK, False, 0).encode() * 2  # it would go on
    with pytest.raises(JuteError, match="more than 1 results"):
        Multi((Check("/a"),))._decode(endless, "")


def test_a_batch_of_reads_with_results_of_another_kind() -> None:
    reply = HEADER + encode_results([MultiResult(OpCode.GET_CHILDREN, 0, GetChildrenResponse(["a"]))])
    with pytest.raises(JuteError, match="for GetData"):
        MultiRead((GetData("/a"),))._decode(reply, "")


def test_a_znode_created_outside_of_the_chroot_is_malformed() -> None:
    with pytest.raises(JuteError, match="not below '/app'"):
        Create("/a")._result(Create2Response("/application", STAT), "/app")
    assert Create("/")._result(Create2Response("/app", STAT), "/app") == ("/", STAT)


CALLS: list[tuple[Callable[[ZooKeeper], Awaitable[object]], Record]] = [
    (lambda zk: zk.set("/a", b"1"), SetDataRequest("/a", b"1", -1)),
    (lambda zk: zk.set("/a", b"1", version=5), SetDataRequest("/a", b"1", 5)),
    (lambda zk: zk.delete("/a"), DeleteRequest("/a", -1)),
    (lambda zk: zk.delete("/a", version=0), DeleteRequest("/a", 0)),
    (lambda zk: zk.set_acl("/a", OPEN_ACL), SetACLRequest("/a", OPEN_ACL, -1)),
    (lambda zk: zk.set_acl("/a", OPEN_ACL, version=5), SetACLRequest("/a", OPEN_ACL, 5)),
    (lambda zk: zk.create("/a"), CreateRequest("/a", b"", OPEN_ACL, 0)),
    (lambda zk: zk.create_with_stat("/a"), CreateRequest("/a", b"", OPEN_ACL, 0)),
    (lambda zk: zk.reconfig(), ReconfigRequest(None, None, None, -1)),
    (lambda zk: zk.reconfig("x", "1"), ReconfigRequest("x", "1", None, -1)),
    (lambda zk: zk.reconfig(new_members="x", from_config=7), ReconfigRequest(None, None, "x", 7)),
]


@pytest.mark.parametrize(("call", "request_"), CALLS, ids=lambda value: type(value).__name__)
async def test_what_a_call_asks_the_server_for(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[ZooKeeper], Awaitable[object]], request_: Record
) -> None:
    """What is not given stands for any version, open ACLs and a persistent znode."""
    asked: list[Any] = []

    async def keep(self: ZooKeeper, operation: Any, prefix: str | None = None) -> tuple[str, Stat]:
        asked.append(operation)
        return "/a", STAT

    monkeypatch.setattr(ZooKeeper, "_call", keep)
    await call(object.__new__(ZooKeeper))
    (operation,) = asked
    found = operation._request("")
    assert (type(found), found.encode()) == (type(request_), request_.encode())


async def test_what_a_transaction_asks_the_server_for() -> None:
    """The same as the calls of a client: what is not given stands for any version."""
    committed: list[Any] = []

    async def commit(operations: Sequence[Operation[Any]]) -> list[Any]:
        committed.extend(operations)
        return ["results"]

    transaction = Transaction(commit)
    for versions in ({}, {"version": 7}):
        transaction.delete("/a", **versions)
        transaction.set("/a", b"1", **versions)
        transaction.check("/a", **versions)
    transaction.create("/a")
    assert await transaction.commit() == transaction.results == ["results"]
    expected: list[Record] = []
    for version in (-1, 7):
        expected += [
            DeleteRequest("/a", version),
            SetDataRequest("/a", b"1", version),
            CheckVersionRequest("/a", version),
        ]
    found = [operation._request("") for operation in committed]
    assert found[:-1] == expected
    assert found[-1].encode() == CreateRequest("/a", b"", OPEN_ACL, 0).encode()

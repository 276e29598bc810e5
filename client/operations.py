"""Operations as values: how a request is encoded, and what its result is.

The methods of :class:`.ZooKeeper` are built on them, and so are transactions, batched reads and pipelining:
``zk.multi([Check("/a", 3), SetData("/b", b"...")])``, ``zk.submit(GetChildren("/jobs"))``.

Paths are the client's own, below its chroot; ``prefix`` is the chroot, ``""`` for none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

import attrs

from ..protocol.constants import AddWatchMode, CreateMode, WatcherType
from ..protocol.errors import BadArgumentsError, error_for
from ..protocol.jute import JuteError, Record
from ..protocol.multi import READ_OPS, TRANSACTION_OPS, MultiOp, MultiResult, decode_results, encode_multi
from ..protocol.operations import OpCode
from ..protocol.paths import validate_path
from ..protocol.records import (
    ACL,
    OPEN_ACL,
    AddWatchRequest,
    CheckVersionRequest,
    ClientInfo,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    ExistsRequest,
    ExistsResponse,
    GetACLRequest,
    GetACLResponse,
    GetAllChildrenNumberRequest,
    GetAllChildrenNumberResponse,
    GetChildren2Request,
    GetChildren2Response,
    GetChildrenRequest,
    GetChildrenResponse,
    GetDataRequest,
    GetDataResponse,
    GetEphemeralsRequest,
    GetEphemeralsResponse,
    ReconfigRequest,
    RemoveWatchesRequest,
    SetACLRequest,
    SetACLResponse,
    SetDataRequest,
    SetDataResponse,
    Stat,
    SyncRequest,
    WhoAmIResponse,
)
from .arguments import RULES, check_arguments, complaint

T = TypeVar("T")
REPLY_HEADER_SIZE = 16
"""Bytes: xid, zxid and error code (wire.md section 5)."""
CONFIG_PATH = "/zookeeper/config"
"""The znode that holds the ensemble's configuration. It lies outside every chroot."""


def server_path(prefix: str, path: str) -> str:
    """A path of the client as the server has it.

    :raises BadArgumentsError: the path is malformed.
    """
    try:
        validate_path(path)
    except (AttributeError, TypeError):  # it is not a str
        check_arguments(path=path)
        raise
    if not prefix:
        return path
    return prefix + path if path != "/" else prefix


def client_path(prefix: str, path: str) -> str:
    """A path of the server as the client has it."""
    return path[len(prefix) :] or "/" if prefix else path


def _created_path(response: CreateResponse | Create2Response, prefix: str) -> str:
    if response.path != prefix and not response.path.startswith(f"{prefix}/"):
        raise JuteError(
            f"a znode was created at {response.path!r:.100}, which is not below {prefix or '/'!r}"
        )
    return client_path(prefix, response.path)


def _bytes(data: bytes | None) -> bytes | None:
    """The data as bytes.

    :raises TypeError: the data is neither bytes nor a buffer of bytes: its length may not be its size.
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError


_NOT_ENCODABLE = (TypeError, ValueError, AttributeError, struct.error)
"""What an encoder raises for an argument of a wrong type or out of range."""


class Operation(Generic[T]):
    """One operation; ``T`` is the type of its result.

    Most operations only declare themselves: their fields are those of the request record, in its order and
    with the path first, and their result is what the response record holds.

    :cvar record: the request behind the header; None where there is nothing behind it.
    :cvar response: the record behind the reply's header; None where there is nothing behind it.
    :cvar idempotent: whether the client itself may repeat the operation when the reply is lost: reads only.
    :ivar path: the path that errors name.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]
    record: ClassVar[Callable[..., Record] | None] = None
    response: ClassVar[type[Record] | None] = None
    idempotent: ClassVar[bool] = False
    path: str

    @property
    def opcode(self) -> OpCode:
        """The op code of the request."""
        raise NotImplementedError

    def request(self, prefix: str) -> Record | None:
        """The record behind the request header.

        :raises BadArgumentsError: the path is malformed.
        """
        if self.record is None:
            return None
        path, *others = [getattr(self, name) for name in self.__match_args__]
        return self.record(server_path(prefix, path), *others)

    def result(self, response: Any, prefix: str) -> T:
        """The result, made of the response record: None without one, its only field, or a tuple of all."""
        if response is None:
            return None  # type: ignore[return-value]
        values = tuple(getattr(response, name) for name in response.__match_args__)
        return values if len(values) > 1 else values[0]  # type: ignore[return-value]

    def encode(self, prefix: str) -> bytes:
        """The bytes behind the request header.

        :raises BadArgumentsError: an argument cannot be encoded; the error names it.
        """
        try:
            record = self.request(prefix)
            return record.encode() if record is not None else b""
        except _NOT_ENCODABLE as error:
            arguments = {name: getattr(self, name) for name in RULES if hasattr(self, name)}
            words = complaint(arguments) or f"{type(self).__name__} cannot be encoded: {error}"
            path = arguments.get("path")
            raise BadArgumentsError(path if isinstance(path, str) else None, words) from error

    def decode(self, reply: bytes, prefix: str) -> T:
        """The result, made of a whole reply frame.

        :raises JuteError: the reply is malformed.
        """
        response = self.response
        return self.result(response.decode(reply, REPLY_HEADER_SIZE) if response else None, prefix)


# --- writes ---------------------------------------------------------------------------------------------

_CREATE_OPCODES = {
    CreateMode.CONTAINER: OpCode.CREATE_CONTAINER,
    CreateMode.PERSISTENT_WITH_TTL: OpCode.CREATE_TTL,
    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL: OpCode.CREATE_TTL,
}


class CreateOptions(TypedDict, total=False):
    """The options of every create; :class:`Create` says what they mean."""

    acl: Sequence[ACL] | None
    ephemeral: bool
    sequential: bool
    container: bool
    ttl: float | None


@attrs.frozen(init=False)
class Create(Operation[tuple[str, Stat]]):
    """Create a znode; the result is its path and its Stat.

    :ivar ttl: in ms.
    """

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    mode: CreateMode
    ttl: int
    response = Create2Response

    def __init__(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Sequence[ACL] | None = None,
        mode: CreateMode | None = None,
        milliseconds: int = 0,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
    ) -> None:
        """Everything but ``path`` and ``data`` by keyword: ``acl``, ``mode`` and ``milliseconds`` will
        lose their places.

        :param acl: everything for everyone if None.
        :param ephemeral: the server removes the znode when the session ends.
        :param sequential: the server appends a number of ten digits to the name, higher than any before.
        :param container: the server removes the znode some time after its last child.
        :param ttl: seconds after which the server removes the znode if it has no children and was not
            changed; servers have to be told to allow this.
        :raises ValueError: the options exclude each other.
        :raises BadArgumentsError: ``ttl`` is no number above 0.
        """
        if ttl is not None:
            check_arguments(**{"ttl in seconds": ttl})
            milliseconds = round(ttl * 1000)
        if mode is None:
            if (ephemeral and (container or ttl is not None)) or (
                container and (sequential or ttl is not None)
            ):
                raise ValueError(
                    "ephemeral, container and ttl exclude each other, and so do container and sequential"
                )
            if container:
                mode = CreateMode.CONTAINER
            elif ttl is not None:
                mode = (
                    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL
                    if sequential
                    else CreateMode.PERSISTENT_WITH_TTL
                )
            else:
                mode = CreateMode(bool(ephemeral) + 2 * bool(sequential))
        self.__attrs_init__(path, data, OPEN_ACL if acl is None else acl, mode, milliseconds)

    @property
    def opcode(self) -> OpCode:
        return _CREATE_OPCODES.get(self.mode, OpCode.CREATE2)

    def request(self, prefix: str) -> Record:
        if self.mode.is_sequential:  # "/queue/" is a path: the name is the number (semantics.md section 6)
            server_path("", self.path + "0")
            path = prefix + self.path
        else:
            path = server_path(prefix, self.path)
        if self.mode.is_ttl:
            return CreateTTLRequest(path, _bytes(self.data), self.acl, self.mode, self.ttl)
        return CreateRequest(path, _bytes(self.data), self.acl, self.mode)

    def result(self, response: Create2Response, prefix: str) -> tuple[str, Stat]:
        return _created_path(response, prefix), response.stat


@attrs.frozen
class _Versioned(Operation[None]):
    """An operation on a znode whose data has this version (-1: any)."""

    path: str
    version: int = -1


class Delete(_Versioned):
    """Delete a znode."""

    __slots__ = ()
    opcode = OpCode.DELETE
    record = DeleteRequest


class Check(_Versioned):
    """Part of a transaction only: the znode exists, with this version of its data."""

    __slots__ = ()
    opcode = OpCode.CHECK
    record = CheckVersionRequest


@attrs.frozen
class SetData(Operation[Stat]):
    """Replace the data if they have this version (-1: any); the result is the new Stat."""

    path: str
    data: bytes | None
    version: int = -1
    opcode = OpCode.SET_DATA
    response = SetDataResponse

    def request(self, prefix: str) -> Record:
        return SetDataRequest(server_path(prefix, self.path), _bytes(self.data), self.version)


@attrs.frozen
class SetACL(Operation[Stat]):
    """Replace the ACL if it has this version (``Stat.aversion``; -1: any); the result is the new Stat."""

    path: str
    acl: Sequence[ACL]
    version: int = -1
    opcode = OpCode.SET_ACL
    record = SetACLRequest
    response = SetACLResponse


@attrs.frozen
class Reconfig(Operation[tuple[bytes | None, Stat]]):
    """Change the members of the ensemble; the result is the new configuration and its Stat."""

    joining: str | None
    leaving: str | None
    new_members: str | None
    from_config: int = -1
    path: str = CONFIG_PATH
    opcode = OpCode.RECONFIG
    response = GetDataResponse

    def request(self, prefix: str) -> Record:
        return ReconfigRequest(self.joining, self.leaving, self.new_members, self.from_config)


# --- reads ----------------------------------------------------------------------------------------------


@attrs.frozen
class _Read(Operation[T]):
    """A read that arms no watch."""

    path: str
    idempotent = True


@attrs.frozen
class _WatchableRead(Operation[T]):
    """A read that may arm a watch."""

    path: str
    watch: bool = False
    idempotent = True


class Exists(_WatchableRead[Stat]):
    """The Stat. Where there is no such znode, the error is NoNodeError, and the watch is armed."""

    __slots__ = ()
    opcode = OpCode.EXISTS
    record = ExistsRequest
    response = ExistsResponse


class GetData(_WatchableRead[tuple[bytes | None, Stat]]):
    """The data and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_DATA
    record = GetDataRequest
    response = GetDataResponse


class GetChildren(_WatchableRead[list[str]]):
    """The names of the children, in no particular order."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN
    record = GetChildrenRequest
    response = GetChildrenResponse

    def result(self, response: GetChildrenResponse, prefix: str) -> list[str]:
        return list(response.children or ())


class GetChildrenAndStat(_WatchableRead[tuple[list[str], Stat]]):
    """The names of the children, in no particular order, and the Stat of the parent."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN2
    record = GetChildren2Request
    response = GetChildren2Response

    def result(self, response: GetChildren2Response, prefix: str) -> tuple[list[str], Stat]:
        return list(response.children or ()), response.stat


class GetACL(_Read[tuple[list[ACL], Stat]]):
    """The ACL and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_ACL
    record = GetACLRequest
    response = GetACLResponse

    def result(self, response: GetACLResponse, prefix: str) -> tuple[list[ACL], Stat]:
        return list(response.acl or ()), response.stat


class GetAllChildrenNumber(_Read[int]):
    """The number of znodes below a path, at all depths."""

    __slots__ = ()
    opcode = OpCode.GET_ALL_CHILDREN_NUMBER
    record = GetAllChildrenNumberRequest
    response = GetAllChildrenNumberResponse


class GetEphemerals(_Read[list[str]]):
    """The paths of this session's ephemeral znodes that begin with a string. The server compares strings, not
    paths: ``/a`` finds ``/ab``, too. Paths outside the chroot are left out."""

    __slots__ = ()
    opcode = OpCode.GET_EPHEMERALS
    record = GetEphemeralsRequest
    response = GetEphemeralsResponse

    def result(self, response: GetEphemeralsResponse, prefix: str) -> list[str]:
        found = response.ephemerals or ()
        return [client_path(prefix, path) for path in found if path.startswith(f"{prefix}/")]


class Sync(_Read[None]):
    """Wait until the server has everything that was committed when this was asked."""

    __slots__ = ()
    opcode = OpCode.SYNC
    record = SyncRequest


@attrs.frozen
class WhoAmI(Operation[list[ClientInfo]]):
    """The identities of this connection."""

    path: str = "/"
    idempotent = True
    opcode = OpCode.WHO_AM_I
    response = WhoAmIResponse

    def result(self, response: WhoAmIResponse, prefix: str) -> list[ClientInfo]:
        return list(response.clientInfo or ())


# --- several at once ------------------------------------------------------------------------------------


_CREATED = (CreateResponse, Create2Response)
_NOTHING = type(None)


def _members(operations: Iterable[Operation[Any]]) -> tuple[Operation[Any], ...]:
    try:
        return tuple(operations)
    except TypeError:
        check_arguments(operations=operations)
        raise


@attrs.frozen
class _Batch(Operation[T]):
    """What a transaction and a batch of reads have in common (wire.md section 10).

    :cvar members: the op codes that it may contain.
    """

    operations: tuple[Operation[Any], ...] = attrs.field(converter=_members)
    path: str = "/"
    members: ClassVar[Collection[int]]

    def encode(self, prefix: str) -> bytes:
        ops = []
        try:
            for operation in self.operations:
                if operation.opcode not in self.members:
                    raise TypeError
                request = operation.request(prefix)
                assert request is not None
                ops.append(MultiOp(operation.opcode, request))
            return encode_multi(ops)
        except (*_NOT_ENCODABLE, BadArgumentsError):
            self._blame(prefix)
            raise

    def _blame(self, prefix: str) -> None:
        """Find the operation that cannot be encoded.

        :raises BadArgumentsError: the error of that operation, with its ``index``.
        """
        for index, operation in enumerate(self.operations):
            try:
                if isinstance(operation, Operation):
                    operation.encode(prefix)
                if not isinstance(operation, Operation) or operation.opcode not in self.members:
                    raise BadArgumentsError(None, f"{operation!r:.100} cannot be part of a batch")
            except BadArgumentsError as error:
                error.message = f"operations[{index}]: {error.message}"
                error.index = index
                raise

    def decode(self, reply: bytes, prefix: str) -> T:
        results = decode_results(reply, REPLY_HEADER_SIZE, len(self.operations))
        if len(results) != len(self.operations):
            raise JuteError(f"{len(results)} results for a batch of {len(self.operations)}")
        return self._combine(results, prefix)

    def _combine(self, results: list[MultiResult], prefix: str) -> T:
        raise NotImplementedError

    def _result(self, operation: Operation[Any], result: MultiResult, prefix: str) -> Any:
        """The result of an operation that succeeded."""
        response: Any = result.response
        kind = type(response)
        if kind in _CREATED and isinstance(operation, Create):
            return _created_path(response, prefix)
        if kind is not (operation.response or _NOTHING):
            raise JuteError(f"a result of type {result.type} for {type(operation).__name__}")
        return operation.result(response, prefix)


@attrs.frozen
class Multi(_Batch[list[Any]]):
    """A transaction: all or nothing, under one zxid. If it fails, the error is that of the operation that
    failed, and ``index`` is its position.

    The result of a :class:`Create` is its path alone: inside a transaction real servers treat create2 as
    create, and send no Stat (observed with 3.8.0).
    """

    members = TRANSACTION_OPS
    opcode = OpCode.MULTI

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        for index, result in enumerate(results):
            if result.err:  # the first code that is not 0 is the cause (wire.md section 10)
                error = error_for(result.err, self.operations[index].path)
                error.index = index
                raise error
        return [
            self._result(operation, result, prefix)
            for operation, result in zip(self.operations, results, strict=True)
        ]


@attrs.frozen
class MultiRead(_Batch[list[Any]]):
    """Several :class:`GetData` and :class:`GetChildren` in one round trip; a result may be an error."""

    idempotent = True
    members = READ_OPS
    opcode = OpCode.MULTI_READ

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        return [
            error_for(result.err, operation.path) if result.err else self._result(operation, result, prefix)
            for operation, result in zip(self.operations, results, strict=True)
        ]


# --- watches --------------------------------------------------------------------------------------------


@attrs.frozen
class AddWatch(Operation[None]):
    """Arm a persistent watch."""

    path: str
    mode: AddWatchMode
    idempotent = True
    opcode = OpCode.ADD_WATCH
    record = AddWatchRequest


@attrs.frozen
class RemoveWatches(Operation[None]):
    """Remove this connection's watches of some type from a path."""

    path: str
    type: WatcherType
    opcode = OpCode.REMOVE_WATCHES
    record = RemoveWatchesRequest

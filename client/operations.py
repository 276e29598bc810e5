"""Operations as values: what to ask, and how to read the answer.

The methods of :class:`.ZooKeeper` are built on them, and so are transactions, batched reads and pipelining:
``zk.multi([Check("/a", 3), SetData("/b", b"...")])``, ``zk.submit(GetChildren("/jobs"))``.

Paths are the client's own, below its chroot; ``prefix`` is the chroot, ``""`` for none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
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
CONFIG_PATH = "/zookeeper/config"


def server_path(prefix: str, path: str) -> str:
    """A path of the client as the server has it. Raises :class:`BadArgumentsError` for a malformed one."""
    try:
        validate_path(path)
    except (AttributeError, TypeError):  # no str
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
    """The data as they go on the wire, which counts bytes. Raises TypeError for what has other elements."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError


_NOT_ENCODABLE = (TypeError, ValueError, AttributeError, struct.error)
"""What encoding raises if an argument is of another type or out of range."""


class Operation(Generic[T]):
    """One operation; ``T`` is the type of its result.

    :ivar idempotent: whether the client itself may repeat it when the reply is lost: reads only.
    """

    __slots__ = ()
    idempotent: ClassVar[bool] = False
    response: ClassVar[type[Record] | None] = None
    path: str

    @property
    def opcode(self) -> OpCode:
        raise NotImplementedError

    def request(self, prefix: str) -> Record | None:
        """The record behind the request header."""
        raise NotImplementedError

    def result(self, response: Any, prefix: str) -> T:
        """The result, made of the decoded response record."""
        raise NotImplementedError

    def encode(self, prefix: str) -> bytes:
        """The body of the request. Raises :class:`BadArgumentsError` naming the argument that is wrong."""
        try:
            record = self.request(prefix)
            return record.encode() if record is not None else b""
        except _NOT_ENCODABLE as error:
            arguments = {name: getattr(self, name) for name in RULES if hasattr(self, name)}
            words = complaint(arguments) or f"{type(self).__name__} cannot be encoded: {error}"
            path = arguments.get("path")
            raise BadArgumentsError(path if isinstance(path, str) else None, words) from error

    def decode(self, reply: bytes, prefix: str) -> T:
        """The result, made of a whole reply frame; raises :class:`~pyzk.protocol.jute.JuteError`."""
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
        if self.mode.is_sequential:  # the number makes a name of "/queue/" (semantics.md section 6)
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
class Delete(Operation[None]):
    path: str
    version: int = -1
    opcode = OpCode.DELETE

    def request(self, prefix: str) -> Record:
        return DeleteRequest(server_path(prefix, self.path), self.version)

    def result(self, response: None, prefix: str) -> None:
        return None


@attrs.frozen
class SetData(Operation[Stat]):
    path: str
    data: bytes | None
    version: int = -1
    opcode = OpCode.SET_DATA
    response = SetDataResponse

    def request(self, prefix: str) -> Record:
        return SetDataRequest(server_path(prefix, self.path), _bytes(self.data), self.version)

    def result(self, response: SetDataResponse, prefix: str) -> Stat:
        return response.stat


@attrs.frozen
class SetACL(Operation[Stat]):
    path: str
    acl: Sequence[ACL]
    version: int = -1
    opcode = OpCode.SET_ACL
    response = SetACLResponse

    def request(self, prefix: str) -> Record:
        return SetACLRequest(server_path(prefix, self.path), self.acl, self.version)

    def result(self, response: SetACLResponse, prefix: str) -> Stat:
        return response.stat


@attrs.frozen
class Check(Operation[None]):
    """Part of a transaction only: the znode exists and has this version of its data (-1: any)."""

    path: str
    version: int = -1
    opcode = OpCode.CHECK

    def request(self, prefix: str) -> Record:
        return CheckVersionRequest(server_path(prefix, self.path), self.version)

    def result(self, response: None, prefix: str) -> None:
        return None


@attrs.frozen
class Reconfig(Operation[tuple[bytes | None, Stat]]):
    joining: str | None
    leaving: str | None
    new_members: str | None
    from_config: int = -1
    path: str = CONFIG_PATH
    opcode = OpCode.RECONFIG
    response = GetDataResponse

    def request(self, prefix: str) -> Record:
        return ReconfigRequest(self.joining, self.leaving, self.new_members, self.from_config)

    def result(self, response: GetDataResponse, prefix: str) -> tuple[bytes | None, Stat]:
        return response.data, response.stat


# --- reads ----------------------------------------------------------------------------------------------


@attrs.frozen
class Exists(Operation[Stat]):
    """NoNodeError where there is no such znode; the watch is armed all the same."""

    path: str
    watch: bool = False
    idempotent = True
    opcode = OpCode.EXISTS
    response = ExistsResponse

    def request(self, prefix: str) -> Record:
        return ExistsRequest(server_path(prefix, self.path), self.watch)

    def result(self, response: ExistsResponse, prefix: str) -> Stat:
        return response.stat


@attrs.frozen
class GetData(Operation[tuple[bytes | None, Stat]]):
    path: str
    watch: bool = False
    idempotent = True
    opcode = OpCode.GET_DATA
    response = GetDataResponse

    def request(self, prefix: str) -> Record:
        return GetDataRequest(server_path(prefix, self.path), self.watch)

    def result(self, response: GetDataResponse, prefix: str) -> tuple[bytes | None, Stat]:
        return response.data, response.stat


@attrs.frozen
class GetConfig(GetData):
    """The ensemble's configuration, which lies outside every chroot."""

    path: str = CONFIG_PATH

    def request(self, prefix: str) -> Record:
        return GetDataRequest(self.path, self.watch)


@attrs.frozen
class GetChildren(Operation[list[str]]):
    path: str
    watch: bool = False
    idempotent = True
    opcode = OpCode.GET_CHILDREN
    response = GetChildrenResponse

    def request(self, prefix: str) -> Record:
        return GetChildrenRequest(server_path(prefix, self.path), self.watch)

    def result(self, response: GetChildrenResponse, prefix: str) -> list[str]:
        return list(response.children or ())


@attrs.frozen
class GetChildrenAndStat(Operation[tuple[list[str], Stat]]):
    path: str
    watch: bool = False
    idempotent = True
    opcode = OpCode.GET_CHILDREN2
    response = GetChildren2Response

    def request(self, prefix: str) -> Record:
        return GetChildren2Request(server_path(prefix, self.path), self.watch)

    def result(self, response: GetChildren2Response, prefix: str) -> tuple[list[str], Stat]:
        return list(response.children or ()), response.stat


@attrs.frozen
class GetACL(Operation[tuple[list[ACL], Stat]]):
    path: str
    idempotent = True
    opcode = OpCode.GET_ACL
    response = GetACLResponse

    def request(self, prefix: str) -> Record:
        return GetACLRequest(server_path(prefix, self.path))

    def result(self, response: GetACLResponse, prefix: str) -> tuple[list[ACL], Stat]:
        return list(response.acl or ()), response.stat


@attrs.frozen
class GetAllChildrenNumber(Operation[int]):
    path: str
    idempotent = True
    opcode = OpCode.GET_ALL_CHILDREN_NUMBER
    response = GetAllChildrenNumberResponse

    def request(self, prefix: str) -> Record:
        return GetAllChildrenNumberRequest(server_path(prefix, self.path))

    def result(self, response: GetAllChildrenNumberResponse, prefix: str) -> int:
        return response.totalNumber


@attrs.frozen
class GetEphemerals(Operation[list[str]]):
    """The server compares by plain string prefix: ``/a`` also finds ``/ab``. Those outside the chroot are
    left out."""

    path: str
    idempotent = True
    opcode = OpCode.GET_EPHEMERALS
    response = GetEphemeralsResponse

    def request(self, prefix: str) -> Record:
        return GetEphemeralsRequest(server_path(prefix, self.path))

    def result(self, response: GetEphemeralsResponse, prefix: str) -> list[str]:
        found = response.ephemerals or ()
        return [client_path(prefix, path) for path in found if path.startswith(f"{prefix}/")]


@attrs.frozen
class Sync(Operation[None]):
    path: str
    idempotent = True
    opcode = OpCode.SYNC

    def request(self, prefix: str) -> Record:
        return SyncRequest(server_path(prefix, self.path))

    def result(self, response: None, prefix: str) -> None:
        return None


@attrs.frozen
class WhoAmI(Operation[list[ClientInfo]]):
    path: str = "/"
    idempotent = True
    opcode = OpCode.WHO_AM_I
    response = WhoAmIResponse

    def request(self, prefix: str) -> None:
        return None

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
    """The common part of a transaction and a batch of reads (wire.md section 10)."""

    operations: tuple[Operation[Any], ...] = attrs.field(converter=_members)
    path: str = "/"
    members: ClassVar[Mapping[int, type[Record]]]

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
        """Encoding has failed: raise the error of the operation that is wrong."""
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
        """The result of one that succeeded."""
        response: Any = result.response
        kind = type(response)
        if kind in _CREATED and isinstance(operation, Create):
            return _created_path(response, prefix)
        if kind is not (operation.response or _NOTHING):
            raise JuteError(f"a result of type {result.type} for {type(operation).__name__}")
        return operation.result(response, prefix)


@attrs.frozen
class Multi(_Batch[list[Any]]):
    """All or nothing, under one zxid. The error of a failed one is that of the operation that failed, with
    its position in ``index``.

    The result of a :class:`Create` is its path alone: real servers read create2 as create in here and send no
    Stat (observed with 3.8.0).
    """

    members = TRANSACTION_OPS
    opcode = OpCode.MULTI

    def _combine(self, results: list[MultiResult], prefix: str) -> list[Any]:
        for index, result in enumerate(results):
            if result.err:  # the first that is not 0 is the cause (wire.md section 10)
                error = error_for(result.err, self.operations[index].path)
                error.index = index
                raise error
        return [
            self._result(operation, result, prefix)
            for operation, result in zip(self.operations, results, strict=True)
        ]


@attrs.frozen
class MultiRead(_Batch[list[Any]]):
    """:class:`GetData` and :class:`GetChildren` in one round trip; a result may be an error."""

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
    path: str
    mode: AddWatchMode
    idempotent = True
    opcode = OpCode.ADD_WATCH

    def request(self, prefix: str) -> Record:
        return AddWatchRequest(server_path(prefix, self.path), self.mode)

    def result(self, response: None, prefix: str) -> None:
        return None


@attrs.frozen
class RemoveWatches(Operation[None]):
    path: str
    type: WatcherType
    opcode = OpCode.REMOVE_WATCHES

    def request(self, prefix: str) -> Record:
        return RemoveWatchesRequest(self.path, self.type)

    def result(self, response: None, prefix: str) -> None:
        return None

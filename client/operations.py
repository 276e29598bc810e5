"""Operations as values: how a request is encoded, and what its result is.

The methods of :class:`.ZooKeeper`, transactions, batched reads and pipelining use these values:
``zk.multi([Check("/a", 3), SetData("/b", b"...")])``, ``zk.submit(GetChildren("/jobs"))``.

Paths are the paths at the client, below its chroot. ``prefix`` is the chroot, or ``""`` without one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

import attrs

from ..protocol import records as r
from ..protocol.constants import CONFIG_PATH, AddWatchMode, CreateMode, WatcherType
from ..protocol.errors import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
    ZooKeeperError,
    error_for,
)
from ..protocol.jute import JuteError, Record
from ..protocol.operations import OpCode
from ..protocol.paths import validate_path
from ..protocol.records import ACL, OPEN_ACL, ClientInfo, Stat
from .arguments import RULES, check_arguments, complaint

T = TypeVar("T")
REPLY_HEADER_SIZE = 16
"""The size of the reply header in bytes: xid, zxid and error code (wire.md section 5)."""


def server_path(prefix: str, path: str) -> str:
    """Convert a path of the client to the path at the server.

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
    """Convert a path of the server to the path at the client."""
    return path[len(prefix) :] or "/" if prefix else path


def as_bytes(data: bytes | None) -> bytes | None:
    """Convert data to bytes.

    :raises TypeError: the data is neither bytes nor a buffer of bytes, so ``len(data)`` may not be the size
        of the data in bytes.
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError


NOT_ENCODABLE = (TypeError, ValueError, AttributeError, struct.error)
"""The errors that an encoder raises for an argument of a wrong type or out of range."""


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Reads the fields of a record: the only field, or a tuple of all fields."""
    return attrgetter(*kind.__match_args__)


class Operation(Generic[T]):
    """One operation; ``T`` is the type of its result.

    Its records are in the row of its op code in :mod:`pyzk.protocol.operations`. Its result is the content of
    the response record: the only field, or a tuple of all fields.

    :ivar opcode: the row of the table.
    :ivar path: the path that errors name.
    :cvar idempotent: whether the client itself can repeat the operation when the reply is lost.
    :cvar advice: texts for errors that this operation can explain, by error code. Braces in a text name
        fields of the operation.
    """

    __slots__ = ()
    idempotent: ClassVar[bool] = False
    advice: ClassVar[Mapping[int, str]] = {}
    opcode: OpCode
    path: str

    def _request(self, prefix: str) -> Record | None:
        """Make the record that follows the request header; None if there is no record.

        :raises BadArgumentsError: the path is malformed.
        """
        raise NotImplementedError

    def _result(self, response: Any, prefix: str) -> T:
        """Make the result from the response record."""
        return _reader(response.__class__)(response)  # type: ignore[no-any-return]

    def _refusal(self, code: int) -> ZooKeeperError:
        """Make the error for a code of the server."""
        error = error_for(code, self.path)
        if code in self.advice:
            error.message = self.advice[code].format(self)
        if isinstance(error, BadVersionError):
            error.expected = getattr(self, "version", None)
        return error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """The arguments that were given, without the data, which may be secret."""
        shown = []
        for field in attrs.fields(type(self)):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "path":
                shown.append(repr(value))
            elif field.name == "data":
                shown.append(f"{len(value)} bytes" if isinstance(value, bytes) else f"{type(value).__name__}")
            elif value != field.default:
                shown.append(f"{field.name}={value!r:.100}")
        return shown

    def _encode(self, prefix: str) -> bytes:
        """Encode the bytes that follow the request header.

        :raises BadArgumentsError: an argument cannot be encoded; the error names it.
        """
        try:
            record = self._request(prefix)
            return record.encode() if record is not None else b""
        except NOT_ENCODABLE as error:
            arguments = {name: getattr(self, name) for name in RULES if hasattr(self, name)}
            words = complaint(arguments) or f"{type(self).__name__} cannot be encoded: {error}"
            path = arguments.get("path")
            raise BadArgumentsError(path if isinstance(path, str) else None, words) from error

    def _decode(self, reply: bytes, prefix: str) -> T:
        """Make the result from a whole reply frame.

        :raises JuteError: the reply is malformed.
        """
        response = self.opcode.response
        return self._result(response.decode(reply, REPLY_HEADER_SIZE) if response else None, prefix)


class _Command(Operation[None]):
    """An operation whose reply says only that it succeeded."""

    __slots__ = ()

    def _result(self, response: object, prefix: str) -> None:
        return None

    def _decode(self, reply: bytes, prefix: str) -> None:
        return None


# --- writes ---------------------------------------------------------------------------------------------

_VERSION_ADVICE = {BadVersionError.code: "the data does not have version {0.version}; read the znode again"}


@attrs.frozen(repr=False)
class _Versioned(_Command):
    """An operation on a znode whose data has this version; -1 means any version."""

    path: str
    version: int = -1
    advice = MappingProxyType(_VERSION_ADVICE)

    def _request(self, prefix: str) -> Record:
        record: Any = self.opcode.request
        return record(server_path(prefix, self.path), self.version)  # type: ignore[no-any-return]


class Delete(_Versioned):
    """Delete a znode."""

    __slots__ = ()
    advice = MappingProxyType(
        _VERSION_ADVICE | {NotEmptyError.code: "the znode has children (recursive=True deletes them too)"}
    )
    opcode = OpCode.DELETE


class Check(_Versioned):
    """A check that the znode exists and that its data has this version; -1 means any version. A check can
    only be part of a transaction."""

    __slots__ = ()
    opcode = OpCode.CHECK


@attrs.frozen(repr=False)
class SetData(Operation[Stat]):
    """Replace the data if the data has this version; -1 means any version. The result is the new Stat."""

    path: str
    data: bytes | None
    version: int = -1
    advice = MappingProxyType(_VERSION_ADVICE)
    opcode = OpCode.SET_DATA

    def _request(self, prefix: str) -> Record:
        return r.SetDataRequest(server_path(prefix, self.path), as_bytes(self.data), self.version)


@attrs.frozen(repr=False)
class SetACL(Operation[Stat]):
    """Replace the ACL if the ACL has this version (``Stat.aversion``); -1 means any version. The result is
    the new Stat."""

    path: str
    acl: Sequence[ACL]
    version: int = -1
    advice = MappingProxyType(
        {BadVersionError.code: "the ACL does not have version {0.version} (Stat.aversion); read it again"}
    )
    opcode = OpCode.SET_ACL

    def _request(self, prefix: str) -> Record:
        return r.SetACLRequest(server_path(prefix, self.path), self.acl, self.version)


@attrs.frozen(repr=False)
class Reconfig(Operation[tuple[bytes | None, Stat]]):
    """Change the members of the ensemble; the result is the new configuration and its Stat."""

    joining: str | None
    leaving: str | None
    new_members: str | None
    from_config: int = -1
    path: str = CONFIG_PATH
    opcode = OpCode.RECONFIG

    def _request(self, prefix: str) -> Record:
        return r.ReconfigRequest(self.joining, self.leaving, self.new_members, self.from_config)


# --- reads ----------------------------------------------------------------------------------------------


@attrs.frozen(repr=False)
class _Read(Operation[T]):
    """A read that arms no watch."""

    path: str
    idempotent = True

    def _request(self, prefix: str) -> Record:
        record: Any = self.opcode.request
        return record(server_path(prefix, self.path))  # type: ignore[no-any-return]


@attrs.frozen(repr=False)
class _WatchableRead(Operation[T]):
    """A read that can arm a watch."""

    path: str
    watch: bool = False
    idempotent = True

    def _request(self, prefix: str) -> Record:
        record: Any = self.opcode.request
        return record(server_path(prefix, self.path), self.watch)  # type: ignore[no-any-return]


class Exists(_WatchableRead[Stat]):
    """The Stat. If there is no such znode, the error is NoNodeError, and the watch is armed."""

    __slots__ = ()
    opcode = OpCode.EXISTS


class GetData(_WatchableRead[tuple[bytes | None, Stat]]):
    """The data and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_DATA


class GetChildren(_WatchableRead[list[str]]):
    """The names of the children, in no particular order."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN

    def _result(self, response: Any, prefix: str) -> list[str]:
        return list(response.children or ())


class GetChildrenAndStat(_WatchableRead[tuple[list[str], Stat]]):
    """The names of the children, in no particular order, and the Stat of the parent."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN2

    def _result(self, response: Any, prefix: str) -> tuple[list[str], Stat]:
        return list(response.children or ()), response.stat


class GetACL(_Read[tuple[list[ACL], Stat]]):
    """The ACL and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_ACL

    def _result(self, response: Any, prefix: str) -> tuple[list[ACL], Stat]:
        return list(response.acl or ()), response.stat


class GetAllChildrenNumber(_Read[int]):
    """The number of znodes below a path, at all depths."""

    __slots__ = ()
    opcode = OpCode.GET_ALL_CHILDREN_NUMBER


class GetEphemerals(_Read[list[str]]):
    """The paths of this session's ephemeral znodes that begin with a string. The server compares strings, not
    paths: ``/a`` also finds ``/ab``. Paths outside the chroot are left out."""

    __slots__ = ()
    opcode = OpCode.GET_EPHEMERALS

    def _result(self, response: Any, prefix: str) -> list[str]:
        found = response.ephemerals or ()
        return [client_path(prefix, path) for path in found if path.startswith(f"{prefix}/")]


class Sync(_Read[None]):
    """Wait until the server has applied everything that was committed when the request was made."""

    __slots__ = ()
    opcode = OpCode.SYNC

    def _decode(self, reply: bytes, prefix: str) -> None:
        return None


@attrs.frozen(repr=False)
class WhoAmI(Operation[list[ClientInfo]]):
    """The identities of this connection."""

    path: str = "/"
    idempotent = True
    opcode = OpCode.WHO_AM_I

    def _request(self, prefix: str) -> None:
        return None

    def _result(self, response: Any, prefix: str) -> list[ClientInfo]:
        return list(response.clientInfo or ())


# --- watches --------------------------------------------------------------------------------------------


@attrs.frozen(repr=False)
class AddWatch(_Command):
    """Arm a persistent watch."""

    path: str
    mode: AddWatchMode
    idempotent = True
    opcode = OpCode.ADD_WATCH

    def _request(self, prefix: str) -> Record:
        return r.AddWatchRequest(server_path(prefix, self.path), self.mode)


@attrs.frozen(repr=False)
class RemoveWatches(_Command):
    """Remove this connection's watches of some type from a path."""

    path: str
    type: WatcherType
    opcode = OpCode.REMOVE_WATCHES

    def _request(self, prefix: str) -> Record:
        return r.RemoveWatchesRequest(server_path(prefix, self.path), self.type)


_MODES = {  # by the options ephemeral, sequential, container, and whether there is a ttl
    (False, False, False, False): (CreateMode.PERSISTENT, OpCode.CREATE2),
    (True, False, False, False): (CreateMode.EPHEMERAL, OpCode.CREATE2),
    (False, True, False, False): (CreateMode.PERSISTENT_SEQUENTIAL, OpCode.CREATE2),
    (True, True, False, False): (CreateMode.EPHEMERAL_SEQUENTIAL, OpCode.CREATE2),
    (False, False, True, False): (CreateMode.CONTAINER, OpCode.CREATE_CONTAINER),
    (False, False, False, True): (CreateMode.PERSISTENT_WITH_TTL, OpCode.CREATE_TTL),
    (False, True, False, True): (CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, OpCode.CREATE_TTL),
}


class CreateOptions(TypedDict, total=False):
    """The options of every create: see :class:`Create`. ``ttl`` is in seconds."""

    acl: Sequence[ACL] | None
    ephemeral: bool
    sequential: bool
    container: bool
    ttl: float | None


@attrs.frozen(init=False, repr=False)
class Create(Operation[tuple[str, Stat]]):
    """Create a znode. The result is the path and the Stat of the znode.

    :param data: None for null data. A read of null data returns None, not ``b""``.
    :param acl: None gives everyone all permissions.
    :param ephemeral: the server deletes the znode when the session ends.
    :param sequential: the server appends a number of ten digits to the name. The number is higher than all
        earlier numbers.
    :param container: the server deletes the znode some time after the deletion of its last child.
    :param ttl: seconds after which the server deletes the znode if it has no children and was not changed.
        The servers must allow TTL znodes (``zookeeper.extendedTypesEnabled``).
    :raises ValueError: the options exclude each other.
    :raises BadArgumentsError: ``ttl`` is not a number above 0.
    :ivar milliseconds: the ``ttl`` in milliseconds; 0 for none.
    """

    advice = MappingProxyType(
        {
            NoNodeError.code: "the parent does not exist; create it with make_parents=True or ensure_path",
            NoChildrenForEphemeralsError.code: "the parent is ephemeral, and cannot have children",
        }
    )

    path: str
    data: bytes | None
    acl: Sequence[ACL]
    mode: CreateMode
    opcode: OpCode
    milliseconds: int

    def __init__(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl: float | None = None,
    ) -> None:
        options = (bool(ephemeral), bool(sequential), bool(container), ttl is not None)
        if options not in _MODES:
            raise ValueError(
                "ephemeral, container and ttl exclude each other, and so do container and sequential"
            )
        if ttl is not None:
            check_arguments(ttl=ttl)
        milliseconds = 0 if ttl is None else round(ttl * 1000)
        self.__attrs_init__(path, data, OPEN_ACL if acl is None else acl, *_MODES[options], milliseconds)

    def _refusal(self, code: int) -> ZooKeeperError:
        error = super()._refusal(code)
        if isinstance(error, UnimplementedError) and self.mode.is_ttl:
            error.message = "the server allows no TTL; set extendedTypesEnabled=true in its configuration"
        return error

    def _shown(self) -> list[str]:
        mode = [self.mode.name.lower()] if self.mode else []
        ttl = [f"ttl={self.milliseconds / 1000:g}"] if self.mode.is_ttl else []
        return [*super()._shown()[:2], *mode, *ttl]

    def _request(self, prefix: str) -> Record:
        if self.mode.is_sequential:  # "/queue/" is a path: the name is the number (semantics.md section 6)
            server_path("", self.path + "0")
            path = prefix + self.path
        else:
            path = server_path(prefix, self.path)
        if self.mode.is_ttl:
            return r.CreateTTLRequest(path, as_bytes(self.data), self.acl, self.mode, self.milliseconds)
        return r.CreateRequest(path, as_bytes(self.data), self.acl, self.mode)

    def _result(self, response: r.Create2Response, prefix: str) -> tuple[str, Stat]:
        return created_path(response, prefix), response.stat


def created_path(response: r.CreateResponse | r.Create2Response, prefix: str) -> str:
    """Convert the path of a new znode at the server to the path at the client.

    :raises JuteError: the znode is not below the chroot.
    """
    if response.path != prefix and not response.path.startswith(f"{prefix}/"):
        raise JuteError(
            f"a znode was created at {response.path!r:.100}, which is not below {prefix or '/'!r}"
        )
    return client_path(prefix, response.path)

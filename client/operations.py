"""Operations as values: how a request is encoded, and what its result is.

The methods of :class:`.ZooKeeper` are built on them, and so are transactions, batched reads and pipelining:
``zk.multi([Check("/a", 3), SetData("/b", b"...")])``, ``zk.submit(GetChildren("/jobs"))``.

Paths are the client's own, below its chroot; ``prefix`` is the chroot, ``""`` for none.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

import attrs

from ..protocol import records as r
from ..protocol.constants import AddWatchMode, CreateMode, WatcherType
from ..protocol.errors import BadArgumentsError
from ..protocol.jute import JuteError, Record
from ..protocol.operations import OpCode
from ..protocol.paths import validate_path
from ..protocol.records import ACL, OPEN_ACL, ClientInfo, Stat
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


def created_path(response: r.CreateResponse | r.Create2Response, prefix: str) -> str:
    """The path of a new znode as the client has it.

    :raises JuteError: the znode is not below the chroot.
    """
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


NOT_ENCODABLE = (TypeError, ValueError, AttributeError, struct.error)
"""What an encoder raises for an argument of a wrong type or out of range."""


class Operation(Generic[T]):
    """One operation; ``T`` is the type of its result.

    What it looks like on the wire is in the row of its op code in :mod:`pyzk.protocol.operations`. Its fields
    are those of the request record, in the same order and with the path first. Its result is what the
    response record holds: the only field, or a tuple of all.

    :ivar opcode: the row of the table.
    :ivar path: the path that errors name.
    :cvar idempotent: whether the client itself may repeat the operation when the reply is lost.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]
    idempotent: ClassVar[bool] = False
    opcode: OpCode
    path: str

    def request(self, prefix: str) -> Record | None:
        """The record behind the request header; None if there is nothing behind it.

        :raises BadArgumentsError: the path is malformed.
        """
        record: Any = self.opcode.request
        if record is None:
            return None
        path, *others = [getattr(self, name) for name in self.__match_args__]
        return record(server_path(prefix, path), *others)  # type: ignore[no-any-return]

    def result(self, response: Any, prefix: str) -> T:
        """The result, made of the response record."""
        values = tuple(getattr(response, name) for name in response.__match_args__)
        return values if len(values) > 1 else values[0]  # type: ignore[return-value]

    def encode(self, prefix: str) -> bytes:
        """The bytes behind the request header.

        :raises BadArgumentsError: an argument cannot be encoded; the error names it.
        """
        try:
            record = self.request(prefix)
            return record.encode() if record is not None else b""
        except NOT_ENCODABLE as error:
            arguments = {name: getattr(self, name) for name in RULES if hasattr(self, name)}
            words = complaint(arguments) or f"{type(self).__name__} cannot be encoded: {error}"
            path = arguments.get("path")
            raise BadArgumentsError(path if isinstance(path, str) else None, words) from error

    def decode(self, reply: bytes, prefix: str) -> T:
        """The result, made of a whole reply frame.

        :raises JuteError: the reply is malformed.
        """
        response = self.opcode.response
        return self.result(response.decode(reply, REPLY_HEADER_SIZE) if response else None, prefix)


class _Command(Operation[None]):
    """An operation whose reply says only that it succeeded."""

    __slots__ = ()

    def result(self, response: object, prefix: str) -> None:
        return None

    def decode(self, reply: bytes, prefix: str) -> None:
        return None


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
    opcode: OpCode

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
        opcode = _CREATE_OPCODES.get(mode, OpCode.CREATE2) if isinstance(mode, int) else OpCode.CREATE2
        self.__attrs_init__(path, data, OPEN_ACL if acl is None else acl, mode, milliseconds, opcode)

    def request(self, prefix: str) -> Record:
        if self.mode.is_sequential:  # "/queue/" is a path: the name is the number (semantics.md section 6)
            server_path("", self.path + "0")
            path = prefix + self.path
        else:
            path = server_path(prefix, self.path)
        if self.mode.is_ttl:
            return r.CreateTTLRequest(path, _bytes(self.data), self.acl, self.mode, self.ttl)
        return r.CreateRequest(path, _bytes(self.data), self.acl, self.mode)

    def result(self, response: r.Create2Response, prefix: str) -> tuple[str, Stat]:
        return created_path(response, prefix), response.stat


@attrs.frozen
class _Versioned(_Command):
    """An operation on a znode whose data has this version (-1: any)."""

    path: str
    version: int = -1


class Delete(_Versioned):
    """Delete a znode."""

    __slots__ = ()
    opcode = OpCode.DELETE


class Check(_Versioned):
    """Part of a transaction only: the znode exists, with this version of its data."""

    __slots__ = ()
    opcode = OpCode.CHECK


@attrs.frozen
class SetData(Operation[Stat]):
    """Replace the data if they have this version (-1: any); the result is the new Stat."""

    path: str
    data: bytes | None
    version: int = -1
    opcode = OpCode.SET_DATA

    def request(self, prefix: str) -> Record:
        return r.SetDataRequest(server_path(prefix, self.path), _bytes(self.data), self.version)


@attrs.frozen
class SetACL(Operation[Stat]):
    """Replace the ACL if it has this version (``Stat.aversion``; -1: any); the result is the new Stat."""

    path: str
    acl: Sequence[ACL]
    version: int = -1
    opcode = OpCode.SET_ACL


@attrs.frozen
class Reconfig(Operation[tuple[bytes | None, Stat]]):
    """Change the members of the ensemble; the result is the new configuration and its Stat."""

    joining: str | None
    leaving: str | None
    new_members: str | None
    from_config: int = -1
    path: str = CONFIG_PATH
    opcode = OpCode.RECONFIG

    def request(self, prefix: str) -> Record:
        return r.ReconfigRequest(self.joining, self.leaving, self.new_members, self.from_config)


# --- reads ----------------------------------------------------------------------------------------------


@attrs.frozen
class _Read(Operation[T]):
    """A read."""

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


class GetData(_WatchableRead[tuple[bytes | None, Stat]]):
    """The data and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_DATA


class GetChildren(_WatchableRead[list[str]]):
    """The names of the children, in no particular order."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN

    def result(self, response: Any, prefix: str) -> list[str]:
        return list(response.children or ())


class GetChildrenAndStat(_WatchableRead[tuple[list[str], Stat]]):
    """The names of the children, in no particular order, and the Stat of the parent."""

    __slots__ = ()
    opcode = OpCode.GET_CHILDREN2

    def result(self, response: Any, prefix: str) -> tuple[list[str], Stat]:
        return list(response.children or ()), response.stat


class GetACL(_Read[tuple[list[ACL], Stat]]):
    """The ACL and the Stat."""

    __slots__ = ()
    opcode = OpCode.GET_ACL

    def result(self, response: Any, prefix: str) -> tuple[list[ACL], Stat]:
        return list(response.acl or ()), response.stat


class GetAllChildrenNumber(_Read[int]):
    """The number of znodes below a path, at all depths."""

    __slots__ = ()
    opcode = OpCode.GET_ALL_CHILDREN_NUMBER


class GetEphemerals(_Read[list[str]]):
    """The paths of this session's ephemeral znodes that begin with a string. The server compares strings, not
    paths: ``/a`` finds ``/ab``, too. Paths outside the chroot are left out."""

    __slots__ = ()
    opcode = OpCode.GET_EPHEMERALS

    def result(self, response: Any, prefix: str) -> list[str]:
        found = response.ephemerals or ()
        return [client_path(prefix, path) for path in found if path.startswith(f"{prefix}/")]


@attrs.frozen
class Sync(_Command):
    """Wait until the server has everything that was committed when this was asked."""

    path: str
    idempotent = True
    opcode = OpCode.SYNC


@attrs.frozen
class WhoAmI(Operation[list[ClientInfo]]):
    """The identities of this connection."""

    path: str = "/"
    idempotent = True
    opcode = OpCode.WHO_AM_I

    def result(self, response: Any, prefix: str) -> list[ClientInfo]:
        return list(response.clientInfo or ())


# --- watches --------------------------------------------------------------------------------------------


@attrs.frozen
class AddWatch(_Command):
    """Arm a persistent watch."""

    path: str
    mode: AddWatchMode
    idempotent = True
    opcode = OpCode.ADD_WATCH


@attrs.frozen
class RemoveWatches(_Command):
    """Remove this connection's watches of some type from a path."""

    path: str
    type: WatcherType
    opcode = OpCode.REMOVE_WATCHES

"""Creating a znode: the operation as a value, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TypedDict

import attrs

from ..protocol import records as r
from ..protocol.constants import CreateMode
from ..protocol.errors import NoChildrenForEphemeralsError, NoNodeError, UnimplementedError, ZooKeeperError
from ..protocol.jute import JuteError, Record
from ..protocol.operations import OpCode
from ..protocol.records import ACL, OPEN_ACL, Stat
from .arguments import check_arguments
from .operations import Operation, as_bytes, client_path, server_path

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
    """The options of every create; :class:`Create` says what they mean."""

    acl: Sequence[ACL] | None
    ephemeral: bool
    sequential: bool
    container: bool
    ttl: float | None


@attrs.frozen(init=False, repr=False)
class Create(Operation[tuple[str, Stat]]):
    """Create a znode; the result is its path and its Stat.

    :param data: None for data that is null, which reads as None and not as ``b""``.
    :param acl: everything for everyone if None.
    :param ephemeral: the server deletes the znode when the session ends.
    :param sequential: the server appends a number of ten digits to the name, higher than any before.
    :param container: the server deletes the znode some time after its last child.
    :param ttl: seconds after which the server deletes the znode if it has no children and was not changed;
        servers must be configured to allow it (``zookeeper.extendedTypesEnabled``).
    :raises ValueError: the options exclude each other.
    :raises BadArgumentsError: ``ttl`` is not a number above 0.
    :ivar milliseconds: the ``ttl``; 0 for none.
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

    def refusal(self, code: int) -> ZooKeeperError:
        error = super().refusal(code)
        if isinstance(error, UnimplementedError) and self.mode.is_ttl:
            error.message = "the server allows no TTL; set extendedTypesEnabled=true in its configuration"
        return error

    def _shown(self) -> list[str]:
        mode = [self.mode.name.lower()] if self.mode else []
        ttl = [f"ttl={self.milliseconds / 1000:g}"] if self.mode.is_ttl else []
        return [*super()._shown()[:2], *mode, *ttl]

    def request(self, prefix: str) -> Record:
        if self.mode.is_sequential:  # "/queue/" is a path: the name is the number (semantics.md section 6)
            server_path("", self.path + "0")
            path = prefix + self.path
        else:
            path = server_path(prefix, self.path)
        if self.mode.is_ttl:
            return r.CreateTTLRequest(path, as_bytes(self.data), self.acl, self.mode, self.milliseconds)
        return r.CreateRequest(path, as_bytes(self.data), self.acl, self.mode)

    def result(self, response: r.Create2Response, prefix: str) -> tuple[str, Stat]:
        return created_path(response, prefix), response.stat


def created_path(response: r.CreateResponse | r.Create2Response, prefix: str) -> str:
    """Convert the path of a new znode to that of the client.

    :raises JuteError: the znode is not below the chroot.
    """
    if response.path != prefix and not response.path.startswith(f"{prefix}/"):
        raise JuteError(
            f"a znode was created at {response.path!r:.100}, which is not below {prefix or '/'!r}"
        )
    return client_path(prefix, response.path)

"""The engine that emulates a release of Apache ZooKeeper other than the default (:mod:`..config.releases`).

The rules:

* The engine of the default release is :class:`.core.engine.Engine`. For another release the server uses a
  subclass, :class:`OtherEngine`. So the default release is not slower.
* If a whole operation differs, the table of an :class:`OtherEngine` has another function for it.
* If only single values differ (ids in ACLs, commands of the admin server), the code that reads the values
  looks at the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ...protocol import records as r
from ...protocol.constants import WatcherType
from ...protocol.errors import MarshallingError, NoAuthError, NoNodeError, NoWatcherError
from ...protocol.jute import JuteError, fields_reader
from ...protocol.multi import TERMINATOR, TTL_MODES, decode_fields, reread_create
from ...protocol.operations import CLIENTS, WRITES, OpCode
from ..config.releases import ALWAYS_SENDS_FLAG, Release
from ..config.settings import Settings
from ..core.client import Client
from ..core.engine import Engine
from ..core.one_mode_watches import OneModeWatches
from ..core.operations import Operation, UnknownOperation
from ..core.operations.reads import exists
from ..core.operations.watching import add_watch, watcher_type
from ..core.operations.writes import check
from ..core.sessions import Session
from ..core.stats import ServerStats
from ..core.txn import Change
from ..core.watches import NULL_PATH, Notification
from .gate import Withheld

if TYPE_CHECKING:
    from ..core.sasl import Login

_Result: TypeAlias = tuple[int, int, bytes]
_Method: TypeAlias = Callable[["OtherEngine", Client, Any], bytes]

_BATCHED_READS = (
    *(OpCode.MULTI_READ, OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER),
    *(OpCode.SET_WATCHES2, OpCode.ADD_WATCH),
)
_MULTI = OpCode.MULTI.value
_WRITES = (WRITES | {OpCode.CHECK}) - {OpCode.RECONFIG}
"""The operations that may take a zxid, at any release."""
_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL = (
    op.value for op in (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
)
_CREATES = (_CREATE, _CREATE2, _CREATE_CONTAINER)
_MARSHALLING = MarshallingError.code
_ONE_NAME: dict[int, str] = {
    OpCode.CREATE2: "create",
    OpCode.CREATE_CONTAINER: "create",
    OpCode.CREATE_TTL: "create",
    OpCode.GET_CHILDREN2: "get_children",
    OpCode.SET_WATCHES2: "set_watches",
}
"""The operations that are counted under the name of another operation."""
_OPERATIONS: dict[int, str] = {
    op: f"op_count_{_ONE_NAME.get(op, OpCode(op).name.lower())}"
    for op in CLIENTS - {OpCode.AUTH, OpCode.SASL}
}
_COUNTERS = (
    *("op_count_total", "op_count_create_session", "ttl_node_created_count", "ttl_node_deleted_count"),
    *dict.fromkeys(_OPERATIONS.values()),
)
"""The counters that only releases later than the default have (operator-surface.md section 3.4)."""
_SINCE_PERSISTENT_KINDS = (WatcherType.PERSISTENT, WatcherType.PERSISTENT_RECURSIVE)


def _unknown(release: Release) -> frozenset[int]:
    unknown: set[int] = set()
    if not release.has("batched-reads"):
        unknown.update(_BATCHED_READS)
    if not release.has("who-am-i"):
        unknown.add(OpCode.WHO_AM_I)
    return frozenset(unknown)


def _operations(release: Release) -> dict[int, Operation]:
    methods: dict[OpCode, _Method] = {}
    if not release.has("exists-read-check"):
        methods[OpCode.EXISTS] = _exists
    if not release.has("check-watches-of-anybody"):
        methods[OpCode.CHECK_WATCHES] = _check_watches
    if not release.has("watcher-types"):
        methods[OpCode.REMOVE_WATCHES] = _remove_watches
    if not release.has("top-level-check"):
        methods[OpCode.CHECK] = _check
    if not release.has("one-mode-per-path"):
        methods[OpCode.ADD_WATCH] = _add_watch
    operations: dict[int, Operation] = {}
    for op, method in methods.items():
        assert op.request is not None
        operations[op] = fields_reader(op.request), method, op in _WRITES, None
    return operations


class OtherEngine(Engine):
    """The engine of the release that its settings name.

    :ivar release: the emulated release.
    :ivar unknown: the op codes that the release does not know.
    :ivar null_watchers: the connections that have a watch without a path, before 3.9.
    """

    _untold = (-1, -1)
    """A zxid that no reply shows, and the zxid that replies show instead."""

    def __init__(self, settings: Settings, **arguments: Any) -> None:
        super().__init__(settings, **arguments)
        self.release = release = settings.release
        self.unknown = _unknown(release)
        self.operations = _operations(release)
        self.flag_by_default = (
            b"\0" if ALWAYS_SENDS_FLAG[0] <= release.version <= ALWAYS_SENDS_FLAG[1] else b""
        )
        self.reread = _rereader(release)
        if not release.has("quota-limits"):
            self.settings = attrs.evolve(settings, enforce_quota=False)
        if not release.has("one-mode-per-path"):
            self.watches = OneModeWatches()
        self.null_watchers: set[Client] = set()
        self._counted: dict[int, str] = {}
        if release.has("operation-counters"):
            self._counted = _OPERATIONS
            self.stats.others = dict.fromkeys(_COUNTERS, 0)
            self.tree.ttl_nodes = _TtlNodes(self.stats)

    def connect(self, client: Client, request: r.ConnectRequest, now: int) -> Session | None:
        """Open a session, or re-attach to a session. New sessions are counted if the release has such a
        counter."""
        session = super().connect(client, request, now)
        if session is not None and not request.sessionId and self._counted:
            self._count("op_count_create_session")
        return session

    def disconnected(self, client: Client) -> None:
        """Forget a connection that is over, and its watches without a path."""
        self.null_watchers.discard(client)
        super().disconnected(client)

    def new_login(self) -> Login | None:
        """Return a login. If the release has only the mechanisms of FIPS 140, the login refuses everybody."""
        if self.settings.fips_mode and self.settings.sasl_users is not None and self.release.has("fips-sasl"):
            from ..core.sasl import NoLogin  # loaded only if needed, as in the engine

            return NoLogin({}, self._random_bytes)
        return super().new_login()

    def _count(self, name: str) -> None:
        self.stats.others["op_count_total"] += 1
        self.stats.others[name] += 1

    def handle(self, client: Client, op: int, frame: bytes, now: int) -> _Result:
        """Process one request as the emulated release does, and count it if the release has such a
        counter."""
        if op in self.unknown:
            raise UnknownOperation
        name = self._counted.get(op)
        if name is None:
            return self._answer(client, op, frame, now)
        if op not in _WRITES:
            self._count(name)
            return self._answer(client, op, frame, now)
        result = self._answer(client, op, frame, now)
        if result[1] == 0:  # a write that is refused is not counted (operator-surface.md section 3.4)
            self._count(name)
        return result

    def _answer(self, client: Client, op: int, frame: bytes, now: int) -> _Result:
        zxid, err, body = self._handle(client, op, frame, now)
        hidden, shown = self._untold
        return (shown if zxid == hidden else zxid), err, body

    def _handle(self, client: Client, op: int, frame: bytes, now: int) -> _Result:
        before = self.zxid
        zxid, err, body = super().handle(client, op, frame, now)
        if err == _MARSHALLING and op in _WRITES:
            if zxid == before:
                if not self.release.has("undecodable-write"):
                    return self.refuse(err, client.session_id), err, body
            elif op == _MULTI and not self.release.has("null-path-in-multi") and self._lacks_path(frame):
                hidden, shown = self._untold
                self._untold = zxid, shown if before == hidden else before
                return zxid, err, TERMINATOR
        return zxid, err, body

    def _lacks_path(self, frame: bytes) -> bool:
        try:
            return any(fields[0] is None for _, fields in decode_fields(frame, 8, self.reread))
        except JuteError:
            return False

    def carry_out(
        self, client: Client, requests: Iterable[tuple[int, tuple[Any, ...]]], results: list[bytes]
    ) -> list[Change]:
        """Carry out the operations of a multi, as the decoder of the emulated release allows."""
        return super().carry_out(client, _judged(requests), results)

    def tell(self, events: Sequence[Notification], clients: Sequence[Client]) -> None:
        """Queue watch events. In old releases an event has no zxid."""
        if not self.release.has("notification-zxid"):
            for event in events:
                event.zxid = -1
        super().tell(events, clients)

    def _may_read(self, client: Client, acl: Sequence[r.ACL]) -> bool:
        return not self.release.has("notification-read-check") or super()._may_read(client, acl)


class _TtlNodes(dict[str, None]):
    """The paths of TTL znodes. The statistics count each addition and removal."""

    def __init__(self, stats: ServerStats) -> None:
        super().__init__()
        self._stats = stats

    def __setitem__(self, path: str, nothing: None) -> None:
        self._stats.others["ttl_node_created_count"] += 1
        super().__setitem__(path, nothing)

    def __delitem__(self, path: str) -> None:
        self._stats.others["ttl_node_deleted_count"] += 1
        super().__delitem__(path)


def _judged(requests: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the operations of a multi, up to a create that lacks its TTL. Such a create makes the whole
    multi fail, unless an earlier operation fails."""
    for op, fields in requests:
        if op in _CREATES and fields[3] in TTL_MODES:
            raise MarshallingError(fields[0], "a TTL create mode without its TTL")
        yield op, fields


# --- operations ---------------------------------------------------------------------------------------------


def _exists(engine: OtherEngine, client: Client, request: r.ExistsFields) -> bytes:
    try:
        return exists(engine, client, request)
    except NoAuthError as refusal:
        path = refusal.path
    node = engine.tree.find(path) if path is not None else None
    if node is None or path is None:
        raise NoNodeError(path)
    if request[1]:
        engine.watches.add_data(path, client)
    return node.packed_stat()


def _check_watches(engine: OtherEngine, client: Client, request: r.CheckWatchesFields) -> bytes:
    path, number = request
    kind = _kind(engine, number)
    if path is None or (path and "/" not in path):
        raise MarshallingError(path, "no path")
    registries = (WatcherType.CHILDREN, WatcherType.DATA) if kind == WatcherType.ANY else (kind,)
    for registry in registries:
        if engine.watches.has(path, client, registry):
            return b""
        if engine.watches.any_recursive and not path.startswith("/") and path:
            raise MarshallingError(path, "the release looks for the paths above a relative path, and fails")
    raise NoWatcherError(path)


def _add_watch(engine: OtherEngine, client: Client, request: r.AddWatchFields) -> bytes:
    """Add a watch. A second watch without a path fails, also if the first watch does not exist any more
    (wire.md section 15)."""
    if request[0] is None and client in engine.null_watchers:
        raise MarshallingError(None, "no path")
    body = add_watch(engine, client, request)
    if request[0] is None:
        engine.null_watchers.add(client)
    return body


def _remove_watches(engine: OtherEngine, client: Client, request: r.RemoveWatchesFields) -> bytes:
    path, number = request
    kind = _kind(engine, number)
    if path is None:  # the release removes the watch from one registry, and then it fails
        for registry in (WatcherType.CHILDREN, WatcherType.DATA):
            if kind in (registry, WatcherType.ANY) and engine.watches.remove(NULL_PATH, client, registry):
                raise MarshallingError(path, "no path")
    if path is None or not engine.watches.remove(path, client, kind):
        raise NoWatcherError(path)
    return b""


def _kind(engine: OtherEngine, number: int) -> WatcherType:
    kind = watcher_type(number)
    if kind in _SINCE_PERSISTENT_KINDS and not engine.release.has("watcher-types"):
        raise MarshallingError(None, f"unknown watcher type {number}")
    return kind


def _check(engine: OtherEngine, client: Client, request: r.CheckVersionFields) -> bytes:
    """Check a version outside of a multi.

    :raises Withheld: the check succeeds, and the release sends no reply.
    """
    check(engine, client, request)
    raise Withheld


def _rereader(release: Release) -> Callable[[int, tuple[Any, ...]], tuple[int, tuple[Any, ...]]]:
    """Return a function that changes a create of a multi as the decoder of the release does (wire.md
    section 10)."""
    knows_flags, keeps_create2, refuses_null = map(
        release.has, ("flags-in-multi", "create2-in-multi", "null-acl-in-multi")
    )

    def reread(op: int, fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        path, data, acl, flags = fields[:4]
        if op != _CREATE_TTL:
            if not 0 <= flags <= 4 and not knows_flags:
                return op, fields  # _judged() refuses it later, if the operations before it succeed
            if acl is None and not refuses_null:
                fields = (path, data, (), flags)
        op, fields = reread_create(op, fields)
        if not keeps_create2 and op in (_CREATE2, _CREATE_CONTAINER) and 0 <= flags <= 3:
            op = _CREATE
        return op, fields

    return reread

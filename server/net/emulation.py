"""An engine that behaves as another release of Apache ZooKeeper than the default (:mod:`..config.releases`).

The rules:

* The engine of the default release is used as it is. For another release it becomes a subclass of itself when
  the server starts. What is different is overridden there, so that nobody else pays for it.
* An operation that is different as a whole has a function of its own, in the table of an
  :class:`OtherEngine`.
* What only concerns single values (ids in ACLs, commands of the admin server) is decided where these are
  read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import attrs

from ...protocol import records as r
from ...protocol.constants import WatcherType
from ...protocol.errors import MarshallingError, NoAuthError, NoNodeError, NoWatcherError, ZooKeeperError
from ...protocol.jute import JuteError, fields_reader
from ...protocol.multi import TERMINATOR, TTL_MODES, decode_fields, reread_create
from ...protocol.operations import WRITES, OpCode
from ..config.releases import ALWAYS_SENDS_FLAG, Release
from ..core.engine import Client, Engine
from ..core.one_mode_watches import OneModeWatches
from ..core.operations import UnknownOperation
from ..core.operations.reads import exists
from ..core.operations.watching import watcher_type
from ..core.operations.writes import check
from ..core.txn import Change, Refused
from ..core.watches import NULL_PATH, Notification
from .gate import Withheld

_Result: TypeAlias = tuple[int, int, bytes]
_Method: TypeAlias = Callable[["OtherEngine", Client, Any], bytes]

_BATCHED_READS = (
    *(OpCode.MULTI_READ, OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER),
    *(OpCode.SET_WATCHES2, OpCode.ADD_WATCH),
)
_MULTI = OpCode.MULTI.value
_WRITES = WRITES - {OpCode.RECONFIG}
_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL = (
    op.value for op in (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
)
_CREATES = (_CREATE, _CREATE2, _CREATE_CONTAINER)
_MARSHALLING = MarshallingError.code
_SINCE_PERSISTENT_KINDS = (WatcherType.PERSISTENT, WatcherType.PERSISTENT_RECURSIVE)


def emulate(engine: Engine, release: Release) -> Engine:
    """Make a new engine behave as a release that is not the default one."""
    if not release.has("quota-limits"):
        engine.settings = attrs.evolve(engine.settings, enforce_quota=False)
    if not release.has("one-mode-per-path"):
        engine.watches = OneModeWatches()
    engine.__class__ = _other(type(engine), release)
    return engine


def _other(kind: type[Engine], release: Release) -> type[OtherEngine]:
    unknown: set[int] = set()
    if not release.has("batched-reads"):
        unknown.update(_BATCHED_READS)
    if not release.has("who-am-i"):
        unknown.add(OpCode.WHO_AM_I)
    methods: dict[int, _Method] = {}
    if not release.has("exists-read-check"):
        methods[OpCode.EXISTS] = _exists
    if not release.has("check-watches-of-anybody"):
        methods[OpCode.CHECK_WATCHES] = _check_watches
    if not release.has("watcher-types"):
        methods[OpCode.REMOVE_WATCHES] = _remove_watches
    if not release.has("top-level-check"):
        methods[OpCode.CHECK] = _check
    first, last = ALWAYS_SENDS_FLAG
    content = {
        "release": release,
        "unknown": frozenset(unknown),
        "methods": methods,
        "flag_by_default": b"\0" if first <= release.version <= last else b"",
        "reread": staticmethod(_rereader(release)),
    }
    return type(f"Other{kind.__name__}", (OtherEngine, kind), content)


class OtherEngine(Engine):
    """
    :cvar release: which one it behaves as.
    :cvar unknown: the op codes that the release does not know.
    :cvar methods: by op code, the operations that are different as a whole.
    """

    release: Release
    unknown: frozenset[int]
    methods: dict[int, _Method]
    _untold = (-1, -1)
    """A zxid that replies do not show, and what they show instead."""

    def handle(self, client: Client, op: int, frame: bytes, now: int) -> _Result:
        if op in self.unknown:
            raise UnknownOperation
        method = self.methods.get(op)
        if method is not None:
            return self._shown(*self._call(method, client, op, frame, now))
        return self._shown(*self._handle(client, op, frame, now))

    def _shown(self, zxid: int, err: int, body: bytes) -> _Result:
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

    def _call(self, method: _Method, client: Client, op: int, frame: bytes, now: int) -> _Result:
        """Do as :meth:`handle` for one of the ``methods``."""
        takes_zxid = op == OpCode.CHECK
        if takes_zxid:
            self.zxid += 1
            self._set_time(now)
        try:
            return self.zxid, 0, method(self, client, _reader(op)(frame, 8))
        except JuteError:
            error: ZooKeeperError = MarshallingError(None, "the request cannot be decoded")
        except ZooKeeperError as failure:
            error = failure
        if self.on_refusal is not None:
            self.on_refusal(error)
        if takes_zxid:
            self.record(Refused(error.code), client.session_id)
        return self.zxid, error.code, b""

    def _lacks_path(self, frame: bytes) -> bool:
        try:
            return any(fields[0] is None for _, fields in decode_fields(frame, 8, self.reread))
        except JuteError:
            return False

    def carry_out(
        self, client: Client, requests: Iterable[tuple[int, tuple[Any, ...]]], results: list[bytes]
    ) -> list[Change]:
        return super().carry_out(client, _judged(requests), results)

    def tell(self, events: Sequence[Notification], clients: Sequence[Client]) -> None:
        if not self.release.has("notification-zxid"):
            for event in events:
                event.zxid = -1
        super().tell(events, clients)

    def _may_read(self, client: Client, acl: Sequence[r.ACL]) -> bool:
        return not self.release.has("notification-read-check") or super()._may_read(client, acl)


def _judged(requests: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the operations of a multi, up to a create that lacks its TTL: it spoils the whole multi, but only
    if none before it fails."""
    for op, fields in requests:
        if op in _CREATES and fields[3] in TTL_MODES:
            raise MarshallingError(fields[0], "a TTL create mode without its TTL")
        yield op, fields


# --- operations ---------------------------------------------------------------------------------------------


@cache
def _reader(op: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    request = OpCode(op).request
    assert request is not None
    return fields_reader(request)


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
    if not engine.watches.has(path, client, kind):
        raise NoWatcherError(path)
    return b""


def _remove_watches(engine: OtherEngine, client: Client, request: r.RemoveWatchesFields) -> bytes:
    path, number = request
    kind = _kind(engine, number)
    if path is None:  # the release takes a watch out of one registry, and fails then
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
    """
    :raises Withheld: the check succeeds, and the release loses its reply.
    """
    check(engine, client, request)
    raise Withheld


def _rereader(release: Release) -> Callable[[int, tuple[Any, ...]], tuple[int, tuple[Any, ...]]]:
    """Return the quirks of a release's decoder of creates in a multi (wire.md section 10)."""
    knows_flags, keeps_create2, refuses_null = map(
        release.has, ("flags-in-multi", "create2-in-multi", "null-acl-in-multi")
    )

    def reread(op: int, fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        path, data, acl, flags = fields[:4]
        if op != _CREATE_TTL:
            if not 0 <= flags <= 4 and not knows_flags:
                return op, fields  # judged when its turn comes
            if acl is None and not refuses_null:
                fields = (path, data, (), flags)
        op, fields = reread_create(op, fields)
        if not keeps_create2 and op in (_CREATE2, _CREATE_CONTAINER) and 0 <= flags <= 3:
            op = _CREATE
        return op, fields

    return reread

"""Functions that load, read and compare the contents of the tree, in the form that tests use. The rules:

* Contents are a mapping from paths or names to data. Use a :class:`Node` for a znode that has more than data:
  an ACL, a kind, children. ``...`` stands for a znode with any data.
* Missing parents are created. Loading works like a client's multi: watches fire and the history shows the
  load. But ACLs are not checked.
* ``/zookeeper`` is the server's own: it is neither dumped nor compared.
* A comparison lists all differences, not only the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import EllipsisType
from typing import Any, Literal, TypeAlias, get_args

import attrs

from ...protocol.constants import CreateMode
from ...protocol.errors import (
    BadArgumentsError,
    RuntimeInconsistencyError,
    UnimplementedError,
    ZooKeeperError,
    error_for,
)
from ...protocol.multi import TERMINATOR, MultiOp, MultiResult, decode_results, encode_multi
from ...protocol.operations import OpCode
from ...protocol.paths import validate_path
from ...protocol.records import (
    ACL,
    OPEN_ACL,
    CreateRequest,
    CreateTTLRequest,
    Id,
    MultiHeader,
    SetDataRequest,
)
from ...protocol.text import session_text
from ..core.engine import Engine
from ..core.tree import DataTree
from ..core.watches import Notification
from ..core.znode import Znode
from .describe import data_text
from .steps import finish

NodeKind: TypeAlias = Literal["persistent", "ephemeral", "container", "ttl"]

RESERVED = "/zookeeper"
"""The server's own subtree, which is neither dumped nor compared."""
_STEP = 50
"""The number of znodes that are read in one step. A step takes 0.2 ms."""
_PARENTS = 64 * 2**20
"""The largest number of bytes of the paths of all parents that are not given themselves. The limit is needed
because a single long path may have very many parents."""


def _as_bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _as_acl(entries: Iterable[ACL]) -> tuple[ACL, ...]:
    return tuple(entries)


def _check_ttl(node: Node, attribute: attrs.Attribute[int], ttl: int) -> None:
    if type(ttl) is not int or not 0 <= ttl < 2**63:
        raise ValueError(f"ttl must be a number of ms, not {ttl!r:.50}")


@attrs.frozen(kw_only=True)
class Node:
    """A znode with more than its data: ACL, kind, children.

    :ivar data: bytes, or text to be encoded as UTF-8; None is null.
    :ivar acl: the access control list of the znode; by default everyone has all permissions.
    :ivar kind: ``persistent``, ``ephemeral``, ``container`` or ``ttl``.
    :ivar owner: the id of the session that owns an ephemeral.
    :ivar ttl: the TTL of a TTL znode, in ms. TTL znodes need ``extended_types=True``.
    :ivar children: the children of the znode, by name. ``dump`` does not set this value.
    """

    data: bytes | None = attrs.field(default=b"", converter=_as_bytes)
    acl: tuple[ACL, ...] = attrs.field(default=OPEN_ACL, converter=_as_acl)
    kind: NodeKind = attrs.field(default="persistent", validator=attrs.validators.in_(get_args(NodeKind)))
    owner: int = 0
    ttl: int = attrs.field(default=0, validator=_check_ttl)
    children: Mapping[str, Contents] = attrs.field(factory=dict, eq=False)

    def __attrs_post_init__(self) -> None:
        """
        :raises ValueError: this kind of znode has no such value.
        """
        for name, value, kind in (("ttl", self.ttl, "ttl"), ("owner", self.owner, "ephemeral")):
            if value and self.kind != kind:
                raise ValueError(
                    f"{name} is only for znodes of the kind {kind}, but this znode is of the kind {self.kind}"
                )


Contents: TypeAlias = "bytes | str | Node | Mapping[str, Contents] | None"
"""A znode in the argument of :func:`flatten`: its data, a :class:`Node`, or a mapping of its children by
name."""
Flat: TypeAlias = "dict[str, Node | bytes | EllipsisType | None]"
"""Znodes by path. ``...`` stands for a znode with any data."""


def flatten(tree: Mapping[str, Any], base: str = "/") -> Flat:
    """Convert a nested dict, a dict from path to data, or a mixture of both to one form. Parents come before
    children.

    Znodes that occur only as parents of other znodes become ``...``.

    :param base: the path to which names without a leading ``/`` are relative.
    :raises BadArgumentsError: a path is malformed, or a path is not at or below ``base``. Or the paths of the
        parents that are not given themselves take more than 64 MiB.
    :raises TypeError: a value cannot be a znode.
    """
    return finish(flattening(tree, base))


def flattening(tree: Mapping[str, Any], base: str = "/") -> Generator[None, None, Flat]:
    """Do what :func:`flatten` does, in steps."""
    given = yield from _by_path(tree, base)
    flat: Flat = {}
    room = _PARENTS
    for count, (path, value) in enumerate(given.items()):
        if path[: path.rindex("/")] not in flat:
            for parent in _ancestors(path, base):
                if parent not in flat and parent not in given and (room := room - len(parent)) < 0:
                    raise BadArgumentsError(
                        f"{path:.100}", f"the parents to create exceed {_PARENTS:,} bytes"
                    )
                flat.setdefault(parent, given.get(parent, ...))
        flat.setdefault(path, value)
        if not count % _STEP:
            yield
    return flat


def _by_path(tree: Mapping[str, Any], base: str) -> Generator[None, None, Flat]:
    given: Flat = {}
    count = 0
    waiting = [(base, iter(tree.items()))]  # not by recursion: a tree may be deeper than Python's stack
    while waiting:
        at, items = waiting[-1]
        for name, value in items:
            if not isinstance(name, str):
                raise TypeError(f"a znode is named by a str, not {name!r}")
            count += 1
            if not count % _STEP:
                yield
            path = name if name.startswith("/") else f"{at.rstrip('/')}/{name}"
            validate_path(path)
            if not f"{path}/".startswith(f"{base.rstrip('/')}/"):
                raise BadArgumentsError(path, f"not at or below {base}")
            if isinstance(value, Mapping):
                given.setdefault(path, ...)
                waiting.append((path, iter(value.items())))
                break
            if isinstance(value, Node):
                given[path] = value
                waiting.append((path, iter(value.children.items())))
                break
            if value is not ... and value is not None and not isinstance(value, bytes | str):
                raise TypeError(f"{path}: data is bytes, str or None, not {type(value).__name__}")
            given[path] = _as_bytes(value) if value is not ... else ...
        else:
            waiting.pop()
    return given


def _ancestors(path: str, base: str) -> Iterator[str]:
    """Yield the paths between ``base`` and ``path``, from the top. The two paths themselves are not
    yielded."""
    at = path.find("/", 1)
    while at > 0:
        if at > len(base):
            yield path[:at]
        at = path.find("/", at + 1)


# --- reading -----------------------------------------------------------------------------------------------


def read(tree: DataTree, base: str = "/") -> dict[str, Node]:
    """Return every znode below ``base``, by path in sorted order. The server's own znodes are left out. The
    root is left out if it has no data."""
    found: dict[str, Node] = {}
    top = tree.nodes.get(base)
    if top is None:
        return found
    items = [(base, top)] if base != "/" or top.data else []
    # a / counts less than any other character: a znode's children follow it at once
    for path, node in sorted([*items, *tree.items_below(base)], key=lambda item: item[0].replace("/", "\0")):
        if path == RESERVED or path.startswith(RESERVED + "/"):
            continue
        found[path] = node_of(node)
    return found


def walk(tree: DataTree, path: str) -> Iterator[tuple[str, Znode]]:
    """Yield a znode and all znodes below it.

    If the tree changes meanwhile, a new znode may be left out, and a deleted znode may be yielded.
    """
    top = tree.find(path)
    waiting = [] if top is None else [(path, top)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        prefix = "" if path == "/" else path
        children = node.children
        for name in list(children or ()):
            child = children.get(name) if children else None
            if child is None:
                continue
            below = f"{prefix}/{name}"
            if child.children:
                waiting.append((below, child))
            else:
                yield below, child


def node_of(node: Znode) -> Node:
    """Return a znode in the form for tests."""
    owner, ttl = node.ephemeral_owner, node.ttl or 0
    return Node(data=node.data, acl=node.acl, kind=kind_of(node), owner=owner, ttl=ttl)


def kind_of(node: Znode) -> NodeKind:
    if node.ephemeral_owner:
        return "ephemeral"
    return "persistent" if not node.owner else "container" if node.is_container else "ttl"


def nested(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """Convert znodes to the nested form, with data at the leaves. A znode with children is a dict. If the
    znode has data too, it is a :class:`Node`.

    :param nodes: one znode and all znodes below it, parents before children.
    """
    below: dict[str, dict[str, Any]] = {}  # by path: the names of its children, the last one first
    parent = ""
    for path, node in reversed([*nodes.items()]):
        if path == "/":
            continue
        children = dict(reversed(below.pop(path, {}).items()))
        value: Any = children or node.data
        if children and node.data:
            value = Node(data=node.data, children=children)
        parent, _, name = path.rpartition("/")
        below.setdefault(parent, {})[name] = value
    tree = dict(reversed(below.get(parent, {}).items()))
    for name in reversed(parent.split("/")[1:]):
        tree = {name: tree}
    return tree


def format_tree(nodes: Mapping[str, Node], limit: int = 200) -> str:
    """Show the tree as indented text."""
    lines = []
    for path, node in islice(nodes.items(), limit):
        depth = path.count("/") - 1
        words = [f"{'  ' * depth}/{path[path.rindex('/') + 1 :]}"]
        if node.data != b"":
            words.append(data_text(node.data))
        if node.kind != "persistent":
            words.append(f"({_kind_text(node)})")
        if node.acl != OPEN_ACL:
            words.append(f"[{_acl_text(node.acl)}]")
        lines.append("  ".join(words))
    if len(nodes) > limit:
        lines.append(f".. and {len(nodes) - limit} more")
    return "\n".join(lines) or "(no znodes)"


def _kind_text(node: Node) -> str:
    if node.kind == "ephemeral":
        return f"ephemeral of {session_text(node.owner)}"
    return f"TTL {node.ttl} ms" if node.kind == "ttl" else node.kind


def _acl_text(acl: Iterable[ACL]) -> str:
    return ", ".join(f"{entry.id.scheme}:{entry.id.id}={entry.perms}" for entry in acl)


# --- comparing ---------------------------------------------------------------------------------------------


def differences(expected: Flat, actual: Iterable[tuple[str, Node]]) -> Generator[None, None, list[str]]:
    """Describe the differences, a line for each znode. The generator yields after each existing znode, so
    that other tasks can run. If a :class:`Node` is expected, its kind and ACL are compared too."""
    lines: list[tuple[str, str]] = []
    seen = set()
    for path, node in actual:
        yield
        seen.add(path)
        if path not in expected:
            kind = "" if node.kind == "persistent" else f" ({_kind_text(node)})"
            lines.append((path, f"+ {path}  is there, not expected: {data_text(node.data)}{kind}"))
        elif wrong := _wrong(expected[path], node):
            lines.append((path, f"! {path}  {'; '.join(wrong)}"))
    for path, wanted in expected.items():
        if path not in seen and path != "/":
            data = wanted.data if isinstance(wanted, Node) else wanted
            what = "" if data is ... else f", expected {data_text(data)}"
            lines.append((path, f"- {path}  is missing{what}"))
    return [line for _, line in sorted(lines)]


def _wrong(wanted: Node | bytes | EllipsisType | None, node: Node) -> list[str]:
    if wanted is ...:
        return []
    data = wanted.data if isinstance(wanted, Node) else wanted
    wrong = []
    if data != node.data:
        wrong.append(f"holds {data_text(node.data)}, expected {data_text(data)}")
    if not isinstance(wanted, Node):
        return wrong
    if wanted.kind != node.kind or (wanted.owner and wanted.owner != node.owner):
        wrong.append(f"is {_kind_text(node)}, expected {_kind_text(wanted)}")
    if wanted.ttl and wanted.ttl != node.ttl:
        wrong.append(f"has TTL {node.ttl} ms, expected {wanted.ttl} ms")
    if wanted.acl != node.acl:
        wrong.append(f"has ACL [{_acl_text(node.acl)}], expected [{_acl_text(wanted.acl)}]")
    return wrong


# --- loading -----------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Loader:
    """A connection for loading, so that loads get the same checks as requests. The connection has the
    identity ``super``."""

    session_id: int
    identities: list[Id] = attrs.field(factory=lambda: [Id("super", "")])
    close_expected: bool = False

    def notify(self, events: Sequence[Notification], frames: bytes) -> None:
        """Do nothing: this connection has no watches."""

    def abort(self, reason: str) -> None:
        """Do nothing: there is no connection to end."""

    def reject(self, reason: str) -> None:
        """Do nothing: there is no connection to refuse."""

    def turn_is_over(self, ahead: float = 0.0) -> bool:
        return False

    def fail(self) -> None:
        """Do nothing: there is no connection to end."""


def load(engine: Engine, nodes: Flat, now: int) -> None:
    """Create the znodes, or replace the data of znodes that exist. Watches fire.

    One transaction creates all znodes except ephemerals. The ephemerals of each owner take one more
    transaction. If one create is refused, the whole transaction is refused.

    :raises ZooKeeperError: the error that a client would get.
    :raises ValueError: an ephemeral's owner is not a session, an existing znode has another kind, or a znode
        is larger than a server reads from files.
    """
    finish(loading(lambda: engine, nodes, lambda: now))


def loading(engine: Callable[[], Engine], nodes: Flat, now: Callable[[], int]) -> Generator[None, None, None]:
    """Do what :func:`load` does, in steps. The last step writes everything. It first checks again the znodes
    that have changed meanwhile.

    :param engine: returns the engine that takes writes.
    """
    prepared: dict[str, _Prepared] = {}
    for count, path in enumerate(nodes):
        prepared[path] = _prepare(engine(), path, nodes[path])
        if not count % _STEP:
            yield
    writer = engine()
    find, by_owner = writer.tree.find, dict[int, dict[str, bytes]]()
    for path, (there, owner, operation) in prepared.items():
        if (find(path) is not None) is not there:
            _, owner, operation = _prepare(writer, path, nodes[path])
        if operation:
            by_owner.setdefault(owner, {})[path] = operation
    for owner in sorted(by_owner, key=bool):  # an ephemeral's parents are never ephemeral
        if owner and writer.sessions.get(owner) is None:
            raise _without_owner(next(iter(by_owner[owner])), owner)
    for owner in sorted(by_owner, key=bool):
        operations = by_owner[owner]
        _carry_out(writer, owner, list(operations), b"".join(operations.values()) + TERMINATOR, now())


_Prepared: TypeAlias = tuple[bool, int, bytes]
"""Return whether a znode exists, its owner, and the operation that creates or changes it. The operation is
None if nothing must change."""


def _prepare(engine: Engine, path: str, wanted: Any) -> _Prepared:
    existing = engine.tree.find(path)
    if wanted is ... and existing is not None:
        return True, 0, b""
    node = wanted if isinstance(wanted, Node) else Node(data=b"" if wanted is ... else wanted)
    size = len(node.data or b"")
    if engine.log is not None and size > 2 * engine.settings.max_buffer:
        raise ValueError(f"{path}: {size:,} bytes could not be read again; raise jute.maxbuffer")
    owner = node.owner if node.kind == "ephemeral" else 0
    if node.kind == "ephemeral" and engine.sessions.get(owner) is None:
        raise _without_owner(path, owner)
    operation = _operation(existing, path, node, plain=wanted is not node)
    return existing is not None, owner, encode_multi([operation])[: -len(TERMINATOR)]


def _without_owner(path: str, owner: int) -> ValueError:
    return ValueError(f"{path}: an ephemeral needs the id of a live session as owner, not {owner:#x}")


def _operation(existing: Znode | None, path: str, node: Node, plain: bool) -> MultiOp:
    if existing is not None:
        kind = kind_of(existing)
        if kind != node.kind and not plain:
            raise ValueError(f"{path} exists, and is {kind}, not {node.kind}")
        return MultiOp(OpCode.SET_DATA, SetDataRequest(path, node.data, -1))
    return creation(path, node)


def creation(path: str, node: Node, *, sequential: bool = False) -> MultiOp:
    """Make the operation that creates a znode.

    :param sequential: whether the server appends a number.
    :raises ValueError: a container or TTL znode cannot be sequential.
    """
    if sequential and node.kind not in _SEQUENTIAL:
        raise ValueError(f"a {node.kind} znode cannot be sequential; make it persistent or ephemeral")
    if node.kind == "ttl":
        mode = CreateMode.PERSISTENT_WITH_TTL
        return MultiOp(OpCode.CREATE_TTL, CreateTTLRequest(path, node.data, node.acl, mode, node.ttl))
    if node.kind == "container":
        mode = CreateMode.CONTAINER
        return MultiOp(OpCode.CREATE_CONTAINER, CreateRequest(path, node.data, node.acl, mode))
    plain, numbered = _SEQUENTIAL[node.kind]
    mode = numbered if sequential else plain
    return MultiOp(OpCode.CREATE, CreateRequest(path, node.data, node.acl, mode))


_SEQUENTIAL: Mapping[str, tuple[CreateMode, CreateMode]] = {
    "persistent": (CreateMode.PERSISTENT, CreateMode.PERSISTENT_SEQUENTIAL),
    "ephemeral": (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL),
}
"""The create modes by kind. The first mode is not sequential, and the second mode is sequential."""


def commit(engine: Engine, owner: int, operations: Mapping[str, MultiOp], now: int) -> list[MultiResult]:
    """Execute operations as one transaction of a session. ACLs are not checked.

    :param owner: the id of the session; 0 for none.
    :raises ZooKeeperError: the error that a client would get. The tree is then unchanged.
    """
    body = _carry_out(engine, owner, list(operations), encode_multi(operations.values()), now)
    return decode_results(body)


def _carry_out(engine: Engine, owner: int, paths: Sequence[str], request: bytes, now: int) -> bytes:
    """Execute the operations of a request, and return the reply.

    :raises ZooKeeperError: as :func:`commit`.
    """
    _, err, body = engine.handle(Loader(owner), OpCode.MULTI, bytes(8) + request, now)
    if err:
        raise error_for(err)
    if MultiHeader.read(body)[0].type != OpCode.ERROR:  # of those that fail all results are errors
        return body
    for path, result in zip(paths, decode_results(body), strict=True):
        if result.err and result.err != RuntimeInconsistencyError.code:
            raise _explained(error_for(result.err, path), path)
    return body


def _explained(error: ZooKeeperError, path: str) -> ZooKeeperError:
    if isinstance(error, UnimplementedError):
        return UnimplementedError(path, "TTL znodes need extended_types=True")
    return error

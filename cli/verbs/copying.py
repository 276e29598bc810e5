"""``cp``, ``diff``, ``dump`` and ``load``: whole trees, of one server or of two.

A tree in a file is JSON, as :mod:`pyzk.protocol.dump` has it. The protocol does not tell a container or a TTL
znode from a persistent one: ``dump`` and ``cp`` know ephemerals only, and ``load`` creates all of them but
ephemerals, which belong to sessions.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, nullcontext
from pathlib import Path
from typing import Any, TextIO

import attrs
import trio

from ...client import (
    ACL,
    Create,
    NodeExistsError,
    Pending,
    Stat,
    UnimplementedError,
    ZooKeeper,
)
from ...protocol.dump import Node, data_fields, fields_of, node_of
from ...protocol.files.nodes import nodes_of
from ...protocol.paths import join, parent
from ...protocol.text import printable
from ..arguments import wrong
from ..context import Context, split_location
from ..files import image_of, is_data
from ..parser import PROG
from ..pipeline import Pipeline
from ..show import acl_text, as_json, brief
from ..status import Failure, Status, say
from ..units import size_text
from ..walking import RESERVED, Walker, order

_PIECE = 256 * 1024
"""Bytes of a file that are read at once."""
_SHOW_EVERY = 0.2
"""Seconds between two reports of progress."""


def _at(top: str, path: str) -> str:
    """The whole path of a znode of a tree."""
    return top if path == "/" else join(top, path[1:])


async def cp(context: Context) -> int:
    """Copy a tree."""
    options = context.options
    async with AsyncExitStack() as stack:
        (source, top), (target, base) = await _open(context, stack, options.source, options.target)
        if source is target and f"{base}/".startswith(f"{top.rstrip('/')}/"):
            raise Failure(Status.USAGE, f"{base} is part of {top}: copy it somewhere else")
        walker = _walker(source)
        progress = Progress(await _count(source, top))
        async with _tree(walker, top, with_acl=options.acl) as nodes:
            await _put(context, target, base, nodes, progress)
        await progress.finish(context)
        return context.tell_refused(walker.refused)


async def _open(context: Context, stack: AsyncExitStack, *locations: str) -> list[tuple[ZooKeeper, str]]:
    """A client and a path for each location; one client for both if they are of one server."""
    clients: dict[str, ZooKeeper] = {}
    found = []
    for location in locations:
        hosts, path = split_location(location, context.options.hosts)
        if hosts not in clients:
            clients[hosts] = await stack.enter_async_context(context.connect(hosts))
        found.append((clients[hosts], path))
    return found


def _walker(zk: ZooKeeper) -> Walker:
    return Walker(zk, leave_out=() if zk.chroot else (RESERVED,))


def _tree(
    walker: Walker, top: str, *, with_acl: bool, exact: bool = True
) -> aclosing[AsyncGenerator[Node, None]]:
    """The tree of a server.

    :param exact: do not take an access control list whose digests the server hides from us.
    """
    return aclosing(_nodes(walker, top, with_acl, exact))


async def _nodes(walker: Walker, top: str, with_acl: bool, exact: bool) -> AsyncGenerator[Node, None]:
    async with walker.read(top, with_acl=with_acl) as znodes:
        async for znode in znodes:
            if exact and znode.acl and any(map(_is_hidden, znode.acl)):
                raise Failure(
                    Status.FORBIDDEN,
                    f"{znode.path}: the digests of its ACL are shown only to who may change them;"
                    " add such an identity by --auth-file, or pass --no-acl",
                )
            owner = znode.stat.ephemeralOwner
            path = znode.path[len(top) if top != "/" else 0 :] or "/"
            yield Node(path, znode.data, znode.acl, "ephemeral" if owner else "persistent", owner=owner)


def _is_hidden(entry: ACL) -> bool:
    """Whether the server has put an x into the place of a digest."""
    return entry.id.scheme == "digest" and (entry.id.id or "").endswith(":x")


async def _count(zk: ZooKeeper, top: str) -> int | None:
    """Return the number of znodes, or None if the server cannot tell."""
    try:
        return 1 + await zk.get_all_children_number(top)
    except UnimplementedError:
        return None


# --- writing -----------------------------------------------------------------------------------------------


@attrs.define
class Progress:
    """The progress of a copy, shown at a terminal.

    :ivar total: None if it is not known.
    """

    total: int | None = None
    znodes: int = 0
    size: int = 0
    left_out: int = 0
    _shown_at: float = attrs.field(factory=trio.current_time)

    def add(self, node: Node) -> None:
        """Count a znode, and say so now and then."""
        self.znodes += 1
        self.size += len(node.data or b"")
        now = trio.current_time()
        if now - self._shown_at > _SHOW_EVERY and sys.stderr.isatty():
            self._shown_at = now
            of = f" of {self.total:,}" if self.total else ""
            print(
                f"\r{self.znodes:,}{of} znodes, {size_text(self.size)}\x1b[K",
                end="",
                file=sys.stderr,
                flush=True,
            )

    async def finish(self, context: Context) -> None:
        """Say what was done."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self.left_out:
            say(
                PROG, f"left out {self.left_out} ephemeral znodes: they belong to sessions, and end with them"
            )
        await context.out(
            f"{self.znodes:,} znodes, {size_text(self.size)}",
            {"znodes": self.znodes, "size": self.size, "left_out": self.left_out},
        )


async def _put(
    context: Context, zk: ZooKeeper, top: str, nodes: AsyncIterator[Node], progress: Progress
) -> None:
    """Create a tree. Requests are pipelined; the server carries them out in order, parents first.

    :raises Failure: for a znode that exists with other data, without ``--overwrite``.
    """
    overwrite = context.options.overwrite
    if overwrite:
        await context.ask(zk, f"replace what there is at and below {top}")
    if top != "/":
        await zk.ensure_path(parent(top))

    async def settle(node: Node, pending: Pending[tuple[str, Stat]]) -> None:
        try:
            await pending.wait()
        except NodeExistsError:
            await _replace(zk, _at(top, node.path), node, overwrite)
        progress.add(node)

    creates = Pipeline(settle)
    async for node in nodes:
        if node.kind == "ephemeral":
            progress.left_out += 1
            continue
        create = Create(
            _at(top, node.path), node.data, acl=node.acl, container=node.kind == "container", ttl=node.ttl
        )
        await creates.add(node, zk.submit(create), len(node.data or b""))
    await creates.finish()


async def _replace(zk: ZooKeeper, path: str, node: Node, overwrite: bool) -> None:
    """Give a znode that exists the data and the access control list of another."""
    if overwrite:
        await zk.set(path, node.data)
        if node.acl is not None:
            await zk.set_acls(path, node.acl)
    elif (await zk.get(path))[0] != node.data:
        raise Failure(Status.NO, f"{path} exists and holds other data; pass --overwrite to replace it")


# --- comparing ---------------------------------------------------------------------------------------------


async def diff(context: Context) -> int:
    """Compare two trees."""
    options = context.options
    differences = 0
    async with AsyncExitStack() as stack:
        trees, walkers = [], []
        for zk, top in await _open(context, stack, options.left, options.right):
            walkers.append(_walker(zk))
            tree = _tree(walkers[-1], top, with_acl=options.acl, exact=False)
            trees.append(await stack.enter_async_context(tree))
        async for left, right in _side_by_side(*trees):
            lines = _differences(left, right)
            differences += len(lines) > 0
            for text, fields in lines:
                await context.out(text, fields)
        refused = context.tell_refused([path for walker in walkers for path in walker.refused])
    return refused or (Status.NO if differences else 0)


async def _side_by_side(
    left: AsyncGenerator[Node, None], right: AsyncGenerator[Node, None]
) -> AsyncIterator[tuple[Node | None, Node | None]]:
    """Each path of two trees, with what is there on either side."""
    one, other = await anext(left, None), await anext(right, None)
    while one or other:
        if other is None or (one and order(one.path) < order(other.path)):
            yield one, None
            one = await anext(left, None)
        elif one is None or order(other.path) < order(one.path):
            yield None, other
            other = await anext(right, None)
        else:
            yield one, other
            one, other = await anext(left, None), await anext(right, None)


def _differences(left: Node | None, right: Node | None) -> list[tuple[str, dict[str, Any]]]:
    """The differences at one path, for people and for programs."""
    if left is None or right is None:
        node = left or right
        assert node is not None
        sign, side = ("-", "left") if left else ("+", "right")
        text = f"{sign} {printable(node.path)}  {brief(node.data)}".rstrip()
        return [(text, {"path": node.path, "only": side, **data_fields(node.data)})]
    found: list[tuple[str, str, str]] = []
    if left.data != right.data:
        found.append(("data", brief(left.data), brief(right.data)))
    if left.acl != right.acl:
        found.append(("acl", acl_text(left.acl or ()), acl_text(right.acl or ())))
    if left.kind != right.kind:
        found.append(("kind", left.kind, right.kind))
    return [
        (
            printable(f"! {left.path}  {what}: {one} | {other}"),
            {"path": left.path, "differs": what, "left": one, "right": other},
        )
        for what, one, other in found
    ]


# --- files -------------------------------------------------------------------------------------------------


async def dump(context: Context) -> int:
    """Write a tree as JSON."""
    options = context.options
    if options.data is not None:
        nodes = _adjusted(nodes_of(image_of(options.data), options.path), context)
        await _write(context, nodes, Progress())
        return 0
    async with context.connect() as zk:
        walker = _walker(zk)
        progress = Progress(await _count(zk, options.path))
        async with _tree(walker, options.path, with_acl=options.acl) as tree:
            await _write(context, (_masked(node, options.mask) async for node in tree), progress)
        return context.tell_refused(walker.refused)


async def _write(context: Context, nodes: AsyncIterator[Node], progress: Progress) -> None:
    with _target(context.options.file) as file:
        async for node in nodes:
            line = fields_of(node)
            if file is None:
                await context.out(as_json(line), line)
            else:
                file.write(as_json(line) + "\n")
                progress.add(node)
    if file is not None:
        await progress.finish(context)


async def _adjusted(nodes: Iterable[Node], context: Context) -> AsyncGenerator[Node, None]:
    """Znodes of files, as the options want them."""
    options = context.options
    for node in nodes:
        shown = node if options.acl else attrs.evolve(node, acl=None)
        yield _masked(shown, options.mask)


def _masked(node: Node, globs: Sequence[str]) -> Node:
    """Hide the data of a znode, if it is one of these."""
    if any(fnmatch.fnmatchcase(node.path, glob) for glob in globs):
        return attrs.evolve(node, data=b"***")
    return node


async def load(context: Context) -> int:
    """Create what ``dump`` has written, or what files of a server hold."""
    options = context.options
    progress = Progress()
    if options.file != "-" and is_data(options.file):
        image = await trio.to_thread.run_sync(image_of, options.file)
        found = list(nodes_of(image, options.top))
        if not found:
            raise Failure(Status.NO, f"{options.file} has no {options.top}; pyzk inspect shows what there is")
        progress.total = len(found)
        async with context.connect() as zk:
            await _put(context, zk, options.path, _adjusted(found, context), progress)
    else:
        async with context.connect() as zk:
            with _source(options.file) as file:
                async with aclosing(_read(file, options.file)) as nodes:
                    await _put(context, zk, options.path, _each(nodes, context), progress)
    await progress.finish(context)
    return 0


async def _each(nodes: AsyncIterator[Node], context: Context) -> AsyncGenerator[Node, None]:
    """Znodes of a dump, as the options want them."""
    async for node in nodes:
        async for adjusted in _adjusted([node], context):
            yield adjusted


def _source(name: str) -> AbstractContextManager[TextIO]:
    """A file to read; ``-`` is standard input.

    :raises Failure: if it cannot be read.
    """
    try:
        return nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8")
    except OSError as error:
        raise wrong(PROG, f"cannot read {name}: {error.strerror}") from None


def _target(name: str) -> AbstractContextManager[TextIO | None]:
    """A file to write; None for ``-``, which is standard output.

    :raises Failure: if it cannot be written.
    """
    try:
        return nullcontext() if name == "-" else Path(name).open("w", encoding="utf-8")
    except OSError as error:
        raise wrong(PROG, f"cannot write {name}: {error.strerror}") from None


async def _read(file: TextIO, name: str) -> AsyncGenerator[Node, None]:
    """The znodes of a file.

    :raises Failure: for a line that is none.
    """
    number = 0
    while lines := await trio.to_thread.run_sync(_lines, file, name, abandon_on_cancel=True):
        for number, line in enumerate(lines, number + 1):  # noqa: B020 - it goes on counting
            if line.strip():
                try:
                    node = node_of(line)
                except ValueError as error:
                    raise Failure(
                        Status.USAGE, f"{name}, line {number}: {error}; pyzk dump shows the form"
                    ) from None
                yield node


def _lines(file: TextIO, name: str) -> list[str]:
    try:
        return file.readlines(_PIECE)
    except UnicodeDecodeError:
        raise Failure(Status.USAGE, f"{name} is not text in UTF-8; pyzk dump shows the form") from None

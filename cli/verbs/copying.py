"""``cp``, ``diff``, ``dump`` and ``load``: verbs for whole trees of servers and of files.

A copy reads the znodes that :class:`~pyzk.protocol.dump.Choice` selects from a source, and writes these
znodes to a target. The source and the target can each be a server, a dump in JSON
(:mod:`pyzk.protocol.dump`), a snapshot or a data directory. The protocol does not distinguish containers and
TTL znodes from persistent znodes. So if the source is a server, the only known kinds are ephemeral and
persistent.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import attrs
import trio

from ...client import (
    ACL,
    UnimplementedError,
    ZooKeeper,
    ZooKeeperError,
)
from ...protocol.dump import Choice, Node, below, data_fields, fields_of, parsed
from ...protocol.files import places
from ...protocol.files.nodes import nodes_of, stored_stat
from ...protocol.files.writing import image_of
from ...protocol.paths import parent
from ...protocol.text import printable
from ..arguments import identities, wrong
from ..context import Context, split_location
from ..files import image_of as read_image
from ..files import is_data
from ..parser import PROG
from ..putting import Putter
from ..show import acl_text, as_json, brief
from ..status import Failure, Status, say
from ..units import size_text
from ..walking import RESERVED, Walker, order

_PIECE = 256 * 1024
"""The number of bytes of a file that are read at once."""
_SHOW_EVERY = 0.2
"""Seconds between two reports of progress."""


_FILE = "file:"
"""The prefix by which ``cp`` recognises the name of a file."""


def _choice(options: Any) -> Choice:
    return Choice(
        subtree=getattr(options, "subtree", "/"),
        acl=options.acl,
        ephemerals=options.ephemerals,
        masks=tuple(options.mask),
    )


async def cp(context: Context) -> int:
    """Copy a tree."""
    options = context.options
    choice = _choice(options)
    ends = [options.source, options.target]
    source_file, target_file = (end.removeprefix(_FILE) if end.startswith(_FILE) else None for end in ends)
    if source_file is None and choice.subtree != "/":
        raise wrong(PROG, "--subtree works only for a file: name the path in SOURCE instead")
    if target_file is None:
        _check_ephemerals(choice)
    progress = Progress()
    walker = None
    async with AsyncExitStack() as stack:
        servers = await _open(context, stack, *(end for end in ends if not end.startswith(_FILE)))
        if source_file is not None:
            nodes: AsyncGenerator[Node, None] = _read(source_file, choice.subtree, progress)
        else:
            source, top = servers.pop(0)
            if servers and source is servers[0][0] and f"{servers[0][1]}/".startswith(f"{top.rstrip('/')}/"):
                raise Failure(Status.USAGE, f"{servers[0][1]} is part of {top}: copy it to another place")
            walker = _walker(source)
            progress.total = await _count(source, top)
            nodes = _nodes(walker, top, choice.acl, exact=True)
        chosen = await stack.enter_async_context(_chosen(nodes, choice, progress))
        if target_file is not None:
            await _write(context, target_file, chosen, progress)
        else:
            await _put(context, *servers[0], chosen, progress)
            await progress.finish(context)
    return context.tell_left_out(*([walker] if walker is not None else []))


def _check_ephemerals(choice: Choice) -> None:
    if choice.ephemerals == "keep":
        raise wrong(
            PROG, "--ephemerals keep works only for files: on a server ephemerals end with their sessions"
        )


def _chosen(
    nodes: AsyncGenerator[Node, None], choice: Choice, progress: Progress
) -> aclosing[AsyncGenerator[Node, None]]:
    """Yield the znodes, converted as the options say."""

    async def take() -> AsyncGenerator[Node, None]:
        async with aclosing(nodes):
            async for node in nodes:
                taken = choice.take(node)
                if taken is not None:
                    yield taken
                else:
                    progress.left_out += 1

    return aclosing(take())


async def _open(context: Context, stack: AsyncExitStack, *locations: str) -> list[tuple[ZooKeeper, str]]:
    """Open a client for each of two locations, or only one client if both locations are on the same server.
    Yields clients and paths."""
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


async def _nodes(walker: Walker, top: str, with_acl: bool, exact: bool) -> AsyncGenerator[Node, None]:
    """The tree of a server.

    :param exact: whether an ACL is refused if the server hides the digests of the ACL from this client.
    """
    async with walker.read(top, with_acl=with_acl) as znodes:
        async for znode in znodes:
            if exact and znode.acl and any(map(_is_hidden, znode.acl)):
                raise Failure(
                    Status.FORBIDDEN,
                    f"{znode.path}: the server shows the digests of the ACL only to clients that may "
                    "change the ACL; add such an identity with --auth-file, or pass --no-acl",
                )
            owner = znode.stat.ephemeralOwner
            path = znode.path[len(top) if top != "/" else 0 :] or "/"
            kind = "ephemeral" if owner else "persistent"
            yield Node(path, znode.data, znode.acl, kind, owner=owner, stat=stored_stat(znode.stat))


def _is_hidden(entry: ACL) -> bool:
    """Return whether the server hides the digest of an entry: it then sends ``x`` in place of the digest."""
    return entry.id.scheme == "digest" and (entry.id.id or "").endswith(":x")


async def _count(zk: ZooKeeper, top: str) -> int | None:
    """Return the number of znodes, or None if the server cannot count them."""
    try:
        return 1 + await zk.get_all_children_number(top)
    except UnimplementedError:
        return None


# --- writing -----------------------------------------------------------------------------------------------


@attrs.define
class Progress:
    """The progress of a copy, shown at a terminal.

    :ivar total: the number of all znodes; None if it is unknown.
    """

    total: int | None = None
    znodes: int = 0
    size: int = 0
    left_out: int = 0
    _shown_at: float = attrs.field(factory=trio.current_time)

    def add(self, node: Node) -> None:
        """Count a znode, and show the progress at intervals."""
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

    def clear(self) -> None:
        """Clear the progress from the terminal."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    async def finish(self, context: Context) -> None:
        """Say what was done."""
        self.clear()
        if self.left_out:
            say(
                PROG,
                f"left out {self.left_out} ephemeral znodes: they belong to sessions, and end with them;"
                " --ephemerals persist copies them too",
            )
        await context.out(
            f"{self.znodes:,} znodes, {size_text(self.size)}",
            {"znodes": self.znodes, "size": self.size, "left_out": self.left_out},
        )


async def _put(
    context: Context, zk: ZooKeeper, top: str, nodes: AsyncIterator[Node], progress: Progress
) -> None:
    """Create a tree (:mod:`..putting`). If the block fails, print how many znodes exist.

    :raises Failure: a znode exists with other data and ``--overwrite`` is not set.
    """
    overwrite = context.options.overwrite
    if overwrite:
        await context.ask(zk, f"replace the znodes at and below {top}")
    if top != "/":
        await zk.ensure_path(parent(top))

    options = context.options
    putter = Putter(zk, top, overwrite, bool(identities(PROG, options.auth_file)), progress.add)
    try:
        await putter.put(nodes)
    except (Failure, ZooKeeperError):
        progress.clear()
        if progress.znodes:
            of = f" of {progress.total:,}" if progress.total else ""
            say(PROG, f"partial: {progress.znodes:,}{of} znodes exist; run it again to continue")
        raise


# --- comparing ---------------------------------------------------------------------------------------------


async def diff(context: Context) -> int:
    """Compare two trees."""
    options = context.options
    differences = 0
    async with AsyncExitStack() as stack:
        trees, walkers = [], []
        for zk, top in await _open(context, stack, options.left, options.right):
            walkers.append(_walker(zk))
            tree = _nodes(walkers[-1], top, options.acl, exact=False)
            trees.append(await stack.enter_async_context(aclosing(tree)))
        async for left, right in _side_by_side(*trees):
            lines = _differences(left, right)
            differences += len(lines) > 0
            for text, fields in lines:
                await context.out(text, fields)
        refused = context.tell_left_out(*walkers)
    return refused or (Status.NO if differences else 0)


async def _side_by_side(
    left: AsyncGenerator[Node, None], right: AsyncGenerator[Node, None]
) -> AsyncIterator[tuple[Node | None, Node | None]]:
    """Yield each path of two trees, with the znode of each tree at this path."""
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
    choice = _choice(options)
    progress = Progress()
    if options.data is not None:
        nodes = _read(options.data, options.path, progress)
        async with _chosen(nodes, choice, progress) as chosen:
            await _write(context, options.file, chosen, progress)
        return 0
    async with context.connect() as zk:
        walker = _walker(zk)
        progress.total = await _count(zk, options.path)
        nodes = _nodes(walker, options.path, choice.acl, exact=True)
        async with _chosen(nodes, choice, progress) as chosen:
            await _write(context, options.file, chosen, progress)
        return context.tell_left_out(walker)


async def load(context: Context) -> int:
    """Create the znodes of a ``dump``, or of the files of a server."""
    options = context.options
    choice = _choice(options)
    _check_ephemerals(choice)
    progress = Progress()
    async with context.connect() as zk:
        nodes = _read(options.file, choice.subtree, progress)
        async with _chosen(nodes, choice, progress) as chosen:
            await _put(context, zk, options.path, chosen, progress)
    await progress.finish(context)
    return 0


async def _write(context: Context, name: str, nodes: AsyncIterator[Node], progress: Progress) -> None:
    """Write a tree to the path ``name``, which chooses the form: a snapshot, a data directory or a dump.

    :raises Failure: the tree cannot be written.
    """
    if name.endswith("/") or os.path.isdir(name) or os.path.basename(name).startswith("snapshot."):
        found = [node async for node in nodes]
        with _writing(name):
            await trio.to_thread.run_sync(_write_image, name, found, context.options.overwrite)
        for node in found:
            progress.add(node)
        await progress.finish(context)
        return
    with _writing(name), nullcontext() if name == "-" else places.new_file(name) as file:
        async for node in nodes:
            line = fields_of(node)
            if file is None:
                await context.out(as_json(line), line)
            else:
                file.write(f"{as_json(line)}\n".encode())
                progress.add(node)
    if file is not None:
        await progress.finish(context)


def _write_image(name: str, nodes: list[Node], overwrite: bool) -> None:
    places.write_image(image_of(nodes, int(time.time() * 1000)), name, overwrite)


@contextmanager
def _writing(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise wrong(PROG, f"cannot write {name}: {error.strerror or error}") from None


async def _read(name: str, top: str, progress: Progress) -> AsyncGenerator[Node, None]:
    """Yield the znodes of a file, at and below a path; ``-`` is a dump on standard input.

    :raises Failure: the file cannot be read, or has no such path.
    """
    found = False
    if name != "-" and is_data(name):
        image = await trio.to_thread.run_sync(read_image, name)
        nodes = list(nodes_of(image, top))
        progress.total = len(nodes)
        for node in nodes:
            found = True
            yield node
    else:
        with _source(name) as file:
            number = 1
            while lines := await trio.to_thread.run_sync(_lines, file, name, abandon_on_cancel=True):
                try:
                    for node in below(parsed(lines, number), top):
                        found = True
                        yield node
                except ValueError as error:
                    raise Failure(Status.USAGE, f"{name}, {error}") from None
                number += len(lines)
    if not found and top != "/":
        raise Failure(Status.NO, f"{name} has no {top}; pyzk inspect shows what there is")


def _source(name: str) -> AbstractContextManager[TextIO]:
    """A file to read; ``-`` is standard input.

    :raises Failure: it cannot be read.
    """
    try:
        return nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8")
    except OSError as error:
        raise wrong(PROG, f"cannot read {name}: {error.strerror}") from None


def _lines(file: TextIO, name: str) -> list[str]:
    try:
        return file.readlines(_PIECE)
    except UnicodeDecodeError:
        raise Failure(Status.USAGE, f"{name} is not text in UTF-8; pyzk dump shows the form") from None

"""``ls``, ``tree`` and ``find``: listing znodes."""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections.abc import Callable

from ...client import Stat, ZooKeeper
from ...protocol.dump import session_text
from ...protocol.paths import join
from ...protocol.text import printable
from ..arguments import wrong
from ..context import Context
from ..parser import PROG
from ..show import brief, long_row, stat_fields
from ..walking import Found, Walker

_COLUMNS = "{:>9}  {:>7}  {:>8}  {:<19}  {:<18}  {}"


async def ls(context: Context) -> int:
    """List children."""
    options = context.options
    async with context.connect() as zk:
        if not (options.recursive or options.long or options.json):
            for name in sorted(await zk.get_children(options.path)):
                await context.out(printable(join(options.path, name) if options.whole else name), {})
            return 0
        walker = Walker(zk, depth=None if options.recursive else 1)
        if options.long and not options.json:
            await context.out(_COLUMNS.format("SIZE", "VERSION", "CHILDREN", "CHANGED", "OWNER", "NAME"), {})
        async with walker.walk(options.path) as znodes:
            async for found in znodes:
                if found.path != options.path:
                    whole = options.recursive or options.whole
                    await _line(context, found, found.path if whole else _name(found.path))
        return context.tell_left_out(walker)


async def _line(context: Context, found: Found, shown: str) -> None:
    text = printable(shown)
    if context.options.long:
        text = _COLUMNS.format(*long_row(text, found.stat))
    await context.out(text, {"path": found.path, **stat_fields(found.stat)})


def _name(path: str) -> str:
    return path[path.rindex("/") + 1 :]


async def tree(context: Context) -> int:
    """Draw the znodes below a znode."""
    options = context.options
    async with context.connect() as zk:
        walker = Walker(zk, depth=options.depth)
        last: list[bool] = []
        """For each level on the path down: whether the walk has reached the last child of this level."""
        siblings = [[options.path]]
        async with walker.walk(options.path) as znodes:
            async for found in znodes:
                depth = 0 if found.path == options.path else _depth(found.path) - _depth(options.path)
                del last[depth:], siblings[depth + 1 :]
                name = _name(found.path) if depth else found.path
                last.append(name == siblings[depth][-1])
                siblings.append(found.names)
                words = [_branch(last[1:]) + printable(name), *await _tags(zk, found, options)]
                await context.out("  ".join(words), {"path": found.path, **stat_fields(found.stat)})
        return context.tell_left_out(walker)


def _depth(path: str) -> int:
    return path.rstrip("/").count("/")


def _branch(last: list[bool]) -> str:
    """Return the drawn lines in front of a name in the tree."""
    if not last:
        return ""
    return "".join("    " if is_last else "│   " for is_last in last[:-1]) + ("└── " if last[-1] else "├── ")


async def _tags(zk: ZooKeeper, found: Found, options: argparse.Namespace) -> list[str]:
    words = []
    if found.stat.ephemeralOwner:
        words.append(f"(ephemeral of {session_text(found.stat.ephemeralOwner)})")
    if options.data and found.stat.dataLength:
        words.append(brief((await zk.get(found.path))[0]))
    return words


# --- find ---------------------------------------------------------------------------------------------------


async def find(context: Context) -> int:
    """Find znodes by name, owner, size and age."""
    options = context.options
    wanted = _tests(options)
    async with context.connect() as zk:
        walker = Walker(zk)
        async with walker.walk(options.path) as znodes:
            async for found in znodes:
                if all(test(found) for test in wanted):
                    await _line(context, found, found.path)
        return context.tell_left_out(walker)


def _tests(options: argparse.Namespace) -> list[Callable[[Found], bool]]:
    """Return the conditions that a znode must meet."""
    now = time.time()
    tests: list[Callable[[Found], bool]] = []
    if options.name is not None:
        tests.append(lambda found: fnmatch.fnmatchcase(_name(found.path), options.name))
    if options.owner is not None:
        owned = _owner(options.owner)
        tests.append(lambda found: owned(found.stat))
    if options.larger is not None:
        tests.append(lambda found: found.stat.dataLength > options.larger)
    if options.smaller is not None:
        tests.append(lambda found: found.stat.dataLength < options.smaller)
    if options.older is not None:
        tests.append(lambda found: found.stat.mtime < 1000 * (now - options.older))
    if options.newer is not None:
        tests.append(lambda found: found.stat.mtime >= 1000 * (now - options.newer))
    if options.empty:
        tests.append(lambda found: not found.stat.dataLength and not found.names)
    return tests


def _owner(text: str) -> Callable[[Stat], bool]:
    if text == "any":
        return lambda stat: stat.ephemeralOwner != 0
    if text == "none":
        return lambda stat: stat.ephemeralOwner == 0
    try:
        session = int(text, 16)
    except ValueError:
        raise wrong(PROG, f"--owner must be a session such as 0x1a2b, any or none, not {text!r}") from None
    return lambda stat: stat.ephemeralOwner % 2**64 == session

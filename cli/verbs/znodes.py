"""``get``, ``stat``, ``acl``, ``set`` and ``create``: single znodes."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from ...client import ACL, NoNodeError, Pending, SetACL, Stat
from ...protocol.constants import Perms
from ...protocol.dump import acl_fields, data_fields
from ...protocol.records import Id
from ...protocol.text import printable
from ..arguments import wrong
from ..context import Context
from ..parser import PROG
from ..pipeline import Pipeline
from ..show import acl_text, decoded, hex_lines, parse_acl, stat_fields, stat_lines
from ..status import Failure, Status
from ..walking import Walker


async def get(context: Context) -> int:
    """Return data as text if it is text, otherwise as hex digits."""
    options = context.options
    async with context.connect() as zk:
        data, stat = await zk.get(options.path)
    if options.raw and not options.json:
        sys.stdout.buffer.write(data or b"")
        return 0
    text = decoded(data)
    if options.hex or text is None:
        text = hex_lines(data) if data is not None else "(null)"
    more = stat_fields(stat) if options.stat else {"version": stat.version}
    shown = text if text.endswith("\n") or not text else f"{text}\n"
    if options.stat:
        shown += f"\n{stat_lines(options.path, stat)}\n" if shown else f"{stat_lines(options.path, stat)}\n"
    if options.json:
        await context.out("", {"path": options.path, **data_fields(data), **more})
    else:
        print(shown, end="")
    return 0


async def stat(context: Context) -> int:
    """Show the metadata of a znode."""
    options = context.options
    async with context.connect() as zk:
        found = await zk.exists(options.path)
        if found is None:
            raise NoNodeError(options.path)
    await context.out(stat_lines(options.path, found), {"path": options.path, **stat_fields(found)})
    return 0


async def acl(context: Context) -> int:
    """Show or set access control lists."""
    options = context.options
    async with context.connect() as zk:
        walker = Walker(zk, depth=None if options.recursive else 0)
        if options.acl is not None:
            entries = parse_acl(options.acl)
            below = " and of everything below" if options.recursive else ""
            await context.ask(zk, f"set the ACL of {options.path}{below}")

            async def settle(path: str, pending: Pending[Stat]) -> None:
                await pending.wait()

            changes = Pipeline(settle)
            async with walker.walk(options.path) as znodes:
                async for found in znodes:
                    await changes.add(found.path, zk.submit(SetACL(found.path, entries)))
            await changes.finish()
            return context.tell_left_out(walker)
        async with walker.read(options.path) as contents:
            async for znode in contents:
                assert znode.acl is not None
                text = acl_text(znode.acl)
                shown = f"{znode.path}  {text}" if options.recursive else text
                await context.out(printable(shown), {"path": znode.path, "acl": acl_fields(znode.acl)})
        return context.tell_left_out(walker)


_ANYONE: Final = Id("world", "anyone")
_CHANGES: Final = Perms.WRITE | Perms.CREATE | Perms.DELETE | Perms.ADMIN


async def acls(context: Context) -> int:
    """Show who may do what: each znode whose ACL differs from the ACL of its parent."""
    options = context.options
    found_any = False
    above: dict[str, tuple[ACL, ...]] = {}
    async with context.connect() as zk:
        walker = Walker(zk)
        async with walker.read(options.path) as contents:
            async for znode in contents:
                path, entries = znode.path, znode.acl
                assert entries is not None
                while above and not path.startswith(f"{next(reversed(above)).rstrip('/')}/"):
                    above.popitem()
                inherited = above[next(reversed(above))] if above else None
                above[path] = entries
                if options.world_writable:
                    entries = tuple(each for each in entries if each.id == _ANYONE and each.perms & _CHANGES)
                    if not entries:
                        continue
                elif entries == inherited:
                    continue
                found_any = True
                fields = {"path": path, "acl": acl_fields(entries)}
                await context.out(printable(f"{path}  {acl_text(entries)}"), fields)
        left_out = context.tell_left_out(walker)
    return left_out or (Status.NO if options.world_writable and found_any else 0)


async def set_data(context: Context) -> int:
    """Replace data."""
    options = context.options
    data = new_data(options)
    if data is None:
        raise wrong(f"{PROG} set", "no data: give DATA, --file or --hex")
    async with context.connect() as zk:
        await context.ask(zk, f"replace the data of {options.path}")
        changed = await zk.set(options.path, data, version=options.expected)
    await context.out(f"version {changed.version}", {"path": options.path, **stat_fields(changed)})
    return 0


async def create(context: Context) -> int:
    """Create a znode."""
    options = context.options
    data = new_data(options)
    acl = parse_acl(options.acl)
    async with context.connect() as zk:
        try:
            path, stat = await zk.create_with_stat(
                options.path,
                data or b"",
                acl=acl,
                ephemeral=options.ephemeral,
                sequential=options.sequential,
                container=options.container,
                ttl=options.ttl,
                make_parents=options.parents,
            )
        except NoNodeError:
            raise Failure(
                Status.NO, f"{options.path}: its parent does not exist; -p creates the parent too"
            ) from None
        except ValueError as error:
            raise wrong(f"{PROG} create", str(error)) from None
        await context.out(printable(path), {"path": path, **stat_fields(stat)})
        if options.ephemeral:
            await context.flush()
            await zk.session.expired.wait()
            raise Failure(Status.LOST, f"{path} is deleted: the session has expired")
    return 0


def new_data(options: argparse.Namespace) -> bytes | None:
    """Return the data in the arguments; None if the arguments have no data.

    :raises Failure: the data was given twice, or the file with the data cannot be read.
    """
    given = [value for value in (options.data, options.file, options.hex) if value is not None]
    if len(given) > 1:
        raise wrong(f"{PROG} {options.verb}", "give only one of DATA, --file and --hex")
    if options.file is not None:
        try:
            return sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        except OSError as error:
            raise wrong(PROG, f"cannot read {options.file}: {error.strerror}") from None
    if options.hex is not None:
        try:
            return bytes.fromhex(options.hex)
        except ValueError:
            raise wrong(PROG, f"--hex needs pairs of hex digits, not {options.hex!r:.50}") from None
    return os.fsencode(options.data) if options.data is not None else None

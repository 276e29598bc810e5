"""``rm``: the deletion of znodes.

To delete a tree, this module deletes children before their parents. Requests are pipelined: the server
carries out the requests in order. Therefore the delete of a parent can be sent directly after the deletes of
its children. As in every walk, memory is limited by the number of znodes on the path down and by the number
of unanswered requests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...client import BadArgumentsError, Delete, NoAuthError, NoNodeError, NotEmptyError, Pending, ZooKeeper
from ..arguments import wrong
from ..context import Context
from ..parser import PROG
from ..pipeline import Pipeline
from ..walking import RESERVED, Walker


async def rm(context: Context) -> int:
    """Delete znodes."""
    options = context.options
    if options.recursive and options.expected != -1:
        raise wrong(f"{PROG} rm", "--version is the version of one znode; leave out --version or -r")
    async with context.connect() as zk:
        below = " and everything below" if options.recursive else ""
        await context.ask(zk, f"delete {' '.join(options.paths)}{below}")
        for path in options.paths:
            if options.recursive:
                await delete_tree(zk, path)
            else:
                await zk.delete(path, version=options.expected)
    return 0


async def delete_tree(zk: ZooKeeper, top: str) -> None:
    """Delete a znode and all znodes below it. If another client creates znodes below the path in the
    meantime, the deletion begins again.

    :raises NoAuthError: some znodes were not deleted, because this client may not list or delete them.
    :raises NoNodeError: there is no znode at the path.
    """
    while True:
        everything_has_gone = True

        async def settle(path: str, pending: Pending[None]) -> None:
            nonlocal everything_has_gone
            try:
                await pending.wait()
            except NoNodeError:
                pass
            except NotEmptyError:
                everything_has_gone = False

        deletes = Pipeline(settle)
        walker = Walker(zk, leave_out=(RESERVED,))
        async with aclosing(_leaves_first(walker, top)) as paths:
            async for path in paths:
                if path != "/":  # which cannot be deleted
                    await deletes.add(path, zk.submit(Delete(path)))
        await deletes.finish()
        if walker.refused:
            raise NoAuthError(walker.refused[0])
        if walker.forbidden:
            raise BadArgumentsError(
                walker.forbidden[0], "no znode can have such a name, so it cannot be deleted"
            )
        if everything_has_gone:
            return


async def _leaves_first(walker: Walker, top: str) -> AsyncGenerator[str, None]:
    """Yield every path at and below another, children before parents."""
    parents: list[str] = []
    async with walker.walk(top) as znodes:
        async for found in znodes:
            while parents and not f"{found.path}/".startswith(f"{parents[-1].rstrip('/')}/"):
                yield parents.pop()
            parents.append(found.path)
    while parents:
        yield parents.pop()

"""The semaphore: a limited number of leases (recipe-rules.md B.5, D.5).

The rules:

* A contender for leases first acquires a lock, the *gate*. So contenders get leases in the order in which
  they came, and a contender for many leases delays later contenders.
* The holder of the gate waits until enough leases are free, and creates all of its leases in one transaction.
  The transaction also checks that this contender still holds the gate. So there are never more leases than
  the limit (invariant I-10). No contender holds only a part of its leases, so two contenders cannot wait for
  each other's leases (trap E-36).
* Only the holder of the gate watches the leases. All other contenders wait in the queue of the gate.
* If the gate or a new lease is lost before :meth:`Semaphore.acquire` returns, the attempt begins anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Unpack

import attrs
import trio

from ...client import (
    GetData,
    NoNodeError,
    SessionExpiredError,
    Stat,
    Watch,
    ZooKeeper,
    ZooKeeperError,
    paths,
)
from ...client.repeating import repeat
from ..base.bound import Bound, first_of
from ..base.choices import check_choice
from ..base.creating import create_identified
from ..base.tracebacks import SHORT, shorten
from ..base.waiting import waiting_for
from ..errors import RecipeError, WouldBlock
from ..shared_value import SharedValue
from .acquiring import Acquirable, Grants, held
from .grant import Grant, delete
from .lock import Lock
from .options import Holding, HoldingOptions
from .semaphore_layouts import CuratorLeases, KazooLeases, SemaphoreLayout

_LAYOUTS: dict[SemaphoreLayout, type[CuratorLeases | KazooLeases]] = {
    "curator": CuratorLeases,
    "kazoo": KazooLeases,
}


@attrs.frozen
class LeaseHolder:
    """The holder of a lease.

    :ivar path: the path of the znode that is the lease.
    :ivar data: the data of the znode.
    :ivar stat: the Stat of the znode. ``stat.ephemeralOwner`` is the id of the holder's session, and
        ``stat.czxid`` is the token.
    """

    path: str
    data: bytes
    stat: Stat


class Semaphore(Acquirable[Grant]):
    """A limited number of leases, each of which has at most one holder.

        semaphore = Semaphore(zk, "/licences", 5)
        async with semaphore as lease:
            ...
        async with semaphore.acquire_many(2) as leases:  # both leases, or none
            ...

    A lease is a :class:`.Grant` and gives the same guarantees as a lock. The lease ends with the session.
    When the lease may have been lost, the body is cancelled, and the block raises :class:`LockLost`. The
    token of a lease is the czxid of its znode. Leases that were acquired together have the same token. A task
    can hold several leases. Acquiring and releasing a lease costs 8 requests; with ``layout="kazoo"`` it
    costs 9 requests.

    :param path: the path of the semaphore. A missing znode is created.
    :param limit: the number of leases.
    :param layout: the znodes of the semaphore. ``"curator"``: the znodes of Curator's
        InterProcessSemaphoreV2, ``<path>/locks`` and ``<path>/leases``. ``"kazoo"``: the znodes of kazoo's
        Semaphore. In this layout the leases are below the path, the gate is at ``<path>-__lock__``, and the
        limit is the data of the path's znode, which is persistent. The two layouts do not see each other, so
        all users of a path must use the same layout. Children of another layout are logged once. With
        ``"kazoo"`` each of them takes up a lease, as in kazoo.
    :param limit_source: a shared value that holds the number of leases. While it has no value, ``limit`` is
        used. A higher limit takes effect at once. With a lower limit, no lease is granted until enough leases
        were released. ``layout="kazoo"`` does not permit this option, because its limit is fixed.
    :param data: the data of the leases' znodes.
    :param options: the options: see :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that it does not accept.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        limit: int,
        *,
        layout: SemaphoreLayout = "curator",
        limit_source: SharedValue[int] | None = None,
        data: bytes = b"",
        **options: Unpack[HoldingOptions],
    ) -> None:
        super().__init__()
        paths.validate_path(path)
        check_choice("layout", layout, SemaphoreLayout)
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        if limit_source is not None and layout == "kazoo":
            raise ValueError("with layout='kazoo' the limit is fixed; leave out limit_source")
        self.zk = zk
        self.path = path
        self.limit = limit
        self._limit_source = limit_source
        self._data = data
        self._holding = Holding(**options)
        self._leases = _LAYOUTS[layout](path, limit, self._holding)
        # The leases are created only if the gate is still held. So the gate need not be lost early.
        options["suspended"] = "ignore"
        self._gate = Lock(zk, self._leases.gate, data=data, layout=layout, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- holding leases ----------------------------------------------------------------------------------

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire a lease without a block. Code that relies on the lease must run in ``with lease.scope()``.
        Call ``await lease.release()`` at the end.

        :raises WouldBlock: ``wait`` is False, and no lease is free or another contender acquires or waits.
        :raises InconsistentLimit: another limit is stored at the path, with ``layout="kazoo"``.
        :raises SequenceExhausted: the sequence numbers of the contenders or of the leases have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        :raises MalformedValue: ``limit_source`` holds no number.
        """
        try:
            (lease,) = await self._acquire(1, wait)
        except SHORT as error:
            shorten(error)
            raise
        return lease

    def acquire_many(self, count: int, *, wait: bool = True) -> AbstractAsyncContextManager[Grants]:
        """Acquire several leases, all or none: ``async with semaphore.acquire_many(3) as leases``. Each lease
        can be released separately before the block ends. The block raises the errors of :meth:`acquire`.

        :raises ValueError: ``count`` is lower than 1, or higher than a fixed limit.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        if count > self.limit and self._limit_source is None:
            raise ValueError(f"{self.path} has {self.limit} leases: {count} can never be acquired")
        return self._ownership(count, wait)

    @asynccontextmanager
    async def _ownership(self, count: int, wait: bool) -> AsyncIterator[Grants]:
        async with held(await self._acquire(count, wait)) as leases:
            yield leases

    async def _acquire(self, count: int, wait: bool) -> Grants:
        began = trio.current_time()
        retries = 0
        while True:
            try:
                leases = await self._attempt(count, wait, retries, began)
                if leases is not None:
                    return leases
            except SessionExpiredError:
                if self._holding.on_session_loss == "raise":
                    raise
            retries += 1
            await self.zk.session.wait_connected()

    async def _attempt(self, count: int, wait: bool, retries: int, began: float) -> Grants | None:
        """Make one attempt. Returns None if the gate or a new lease was lost."""
        await self._leases.check_limit(Bound(self.zk))
        async with AsyncExitStack() as undo:
            gate = await self._gate.acquire(wait=wait)
            undo.push_async_callback(gate.end)
            # If the session has changed, the gate is gone, and no lease is created.
            bound = Bound(self.zk)
            watch = await self._until_free(bound, gate, count, wait)
            if watch is None:
                return None
            with watch:  # the creation of the leases ends this watch
                nodes = await self._create(bound, gate, count)
            if nodes is None:
                return None
            queued = {
                "sequence": gate.sequence,
                "retries": retries + gate.retries,
                "waited": trio.current_time() - began,
            }
            leases = Grants([self._lease(bound, *node, queued) for node in nodes])
            undo.push_async_callback(leases.end)
            await gate.end()
            undo.pop_all()
            return leases

    async def _until_free(self, bound: Bound, gate: Grant, count: int, wait: bool) -> Watch | None:
        """Wait until this number of leases is free. Returns the watch on all leases, or None if the gate was
        lost."""
        leases, zk = self._leases, self.zk
        while True:
            limit = await self._limit()
            try:
                names, watch = await bound.repeat(lambda: zk.get_children_and_watch(leases.parent))
            except NoNodeError:
                await leases.options.create_parent(bound, leases.parent)
                continue
            leases.warn_about(names)
            if len(leases.counted(names)) + count <= limit:
                return watch
            with watch:
                if not wait:
                    raise WouldBlock(self.path)
                waits: list[Callable[[], Awaitable[object]]] = [watch.wait, gate.lost.wait]
                if self._limit_source is not None:
                    waits.append(partial(self._limit_changed, self._limit_source, limit))
                taken = len(leases.counted(names))
                what, why = f"{self.path} (leases: {count})", f"of {limit} leases {taken} are taken"
                with waiting_for(zk, what, why):
                    await first_of(*waits)
            bound.check()
            if gate.lost.is_set():
                return None

    async def _limit(self) -> int:
        item = None if self._limit_source is None else await self._limit_source.get()
        return self.limit if item is None else item.value

    async def _limit_changed(self, source: SharedValue[int], limit: int) -> None:
        """Wait until the limit has changed. A limit that cannot be read is treated as a change."""
        with suppress(RecipeError, ZooKeeperError):
            async with source.updates() as items:
                async for item in items:
                    if limit != (self.limit if item is None else item.value):
                        return

    async def _create(self, bound: Bound, gate: Grant, count: int) -> list[tuple[str, Stat, Watch]] | None:
        """Create leases and watch them. Returns None if the gate or one of the leases was lost."""
        leases, zk = self._leases, self.zk
        try:
            created = await create_identified(
                bound,
                leases.parent,
                [leases.new_name() for _ in range(count)],
                self._data,
                leases.options,
                sequential=leases.sequential,
                fence=gate.fence(),
            )
        except NoNodeError:
            return None
        nodes: list[tuple[str, Stat, Watch]] = []
        try:
            leases.check_names(created.paths)
            for path in created.paths:
                _, stat, watch = await bound.repeat(partial(zk.get_and_watch, path))
                nodes.append((path, stat, watch))
            await bound.confirm()
            return nodes
        except BaseException as error:
            try:
                await delete(bound, created.paths, self._holding.cleanup_grace)
            finally:
                for _, _, watch in nodes:
                    watch.cancel()
            if isinstance(error, NoNodeError):
                return None
            raise

    def _lease(self, bound: Bound, path: str, stat: Stat, own_watch: Watch, queued: dict[str, Any]) -> Grant:
        ownership = self._holding.ownership(bound, path)
        lease = Grant(
            token=stat.czxid,
            paths=(path,),
            shared=False,
            ownership=ownership,
            bound=bound,
            grace=self._holding.cleanup_grace,
            **queued,
        )
        ownership.guard(own_watch, lease.data_changed)
        return lease

    # --- looking at it -----------------------------------------------------------------------------------

    async def holders(self) -> list[LeaseHolder]:
        """List the holders of leases of all libraries, the oldest lease first. With ``layout="kazoo"`` the
        list has also the other children, because they take up leases.

        This costs one list of the children and one read of each child. A lease that ends during the call is
        left out.
        """
        zk, parent = self.zk, self._leases.parent
        try:
            names = await repeat(zk, lambda: zk.get_children(parent))
        except NoNodeError:
            return []
        children = [paths.join(parent, name) for name in self._leases.counted(names)]
        found = []
        for path, read in [(path, zk.submit(GetData(path))) for path in children]:
            with suppress(NoNodeError):
                data, stat = await read.wait()
                found.append(LeaseHolder(path, data or b"", stat))
        return sorted(found, key=lambda holder: (holder.stat.czxid, holder.path))

"""The semaphore: so many at a time (recipe-rules.md D.5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Literal

import attrs
import trio

from ...client import (
    ACL,
    GetData,
    NoNodeError,
    SessionExpiredError,
    Stat,
    Watch,
    ZooKeeper,
    ZooKeeperError,
    repeat,
)
from ...protocol.paths import join
from ..base.bound import Bound, first_of
from ..base.creating import create_identified
from ..base.hold import Hold, Suspended
from ..base.words import check_word
from ..errors import RecipeError, WouldBlock
from ..shared_value import SharedValue
from .acquiring import Grants, held
from .contender import Contested, Terms, contend
from .grant import Grant, delete
from .semaphore_layouts import CuratorLayout, KazooLayout, LayoutName

_LAYOUTS: dict[LayoutName, type[CuratorLayout | KazooLayout]] = {
    "curator": CuratorLayout,
    "kazoo": KazooLayout,
}


@attrs.frozen
class LeaseHolder:
    """Somebody who holds a lease.

    :ivar path: of the znode that is the lease.
    :ivar data: what the holder has put there.
    :ivar stat: ``stat.ephemeralOwner`` is the holder's session, ``stat.czxid`` the token.
    """

    path: str
    data: bytes
    stat: Stat


class Semaphore(Contested):
    """A number of leases, for each of which one holder is admitted.

        semaphore = Semaphore(zk, "/licences", 5)
        async with semaphore as lease:
            ...
        async with semaphore.acquire_many(2) as leases:  # both or none
            ...

    A lease is a :class:`.Grant` and gives the same guarantees as a lock: it ends with the session, and the
    body is cancelled, and :class:`LockLost` raised, when it may have been lost. Its token is the czxid of its
    znode; leases acquired together share one. A task may hold several.

    Who wants leases first contends for a lock, the gate, so they are had first come, first served; who wants
    many holds up those behind. The leases are created, all in one transaction and on condition that the
    gate is still held, when so many are free: at no time are there more than the limit (invariant I-10), and
    two who want several each cannot block each other halfway (trap E-36). An acquisition and release costs
    8 requests, of a kazoo layout 9; of any number of waiters only the one at the gate watches the leases.

    :param path: created when it is missing.
    :param max_leases: how many there are.
    :param layout: ``"curator"``, with which this is an InterProcessSemaphoreV2 too: ``<path>/locks`` and
        ``<path>/leases``. Or ``"kazoo"``, with which it is a kazoo Semaphore: leases below the path, the gate
        at ``<path>-__lock__``, and the limit stored as the data of the path, which is then persistent. The
        two do not see each other: choose one for all users of a path. Children of another kind are pointed
        out in the log; in kazoo's layout each takes up a lease, as it does for kazoo.
    :param limit_source: a shared value that says how many leases there are; ``max_leases`` counts as long as
        it has none. A raise takes effect at once; after a reduction no more are given out until enough have
        come back. Not in kazoo's layout, whose limit is fixed.
    :param data: what the znodes of leases hold.
    :param parents: how missing parents are created: as containers, which the server removes again some time
        after their last child has gone, or persistent.
    :param suspended: when a lease is lost for want of a connection: ``"deadline"``, once the session may have
        expired; ``"cancel"``, at once; ``"ignore"``, only when it has.
    :param margin: seconds by which the lease is taken to be shorter, see :class:`.Hold`.
    :param on_session_loss: whether one who waits begins anew when its session expires, or raises
        :class:`SessionExpiredError`.
    :param acl: of what is created; everything for everyone if None.
    :param cleanup_grace: seconds that giving up or releasing may wait for the server.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        max_leases: int,
        *,
        layout: LayoutName = "curator",
        limit_source: SharedValue[int] | None = None,
        data: bytes = b"",
        parents: Literal["container", "persistent"] = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        on_session_loss: Literal["requeue", "raise"] = "requeue",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        check_word("layout", layout, LayoutName)
        if max_leases < 1:
            raise ValueError(f"a semaphore has at least one lease, not {max_leases}")
        if limit_source is not None and layout == "kazoo":
            raise ValueError("a semaphore of kazoo's layout has a fixed limit")
        self.max_leases = max_leases
        self._limit_source = limit_source
        super().__init__(
            Terms(
                zk=zk,
                path=path,
                data=data,
                parents=parents,
                acl=acl,
                suspended=suspended,
                margin=margin,
                on_session_loss=on_session_loss,
                cleanup_grace=cleanup_grace,
            )
        )
        self._layout = _LAYOUTS[layout](self._terms, max_leases)
        # What is done at the gate takes effect only if the gate is still ours: no need to leave it early.
        self._gate = attrs.evolve(
            self._terms, path=self._layout.gate, naming=self._layout.naming, suspended="ignore"
        )

    # --- holding leases ----------------------------------------------------------------------------------

    async def acquire(self, *, wait: bool = True) -> Grant:
        """The manual form: acquire a lease, run what relies on it in ``with lease.scope()``, and call
        ``await lease.release()`` in the end.

        Raises :class:`WouldBlock` with ``wait=False`` if none is free, or somebody else is just acquiring or
        waits; :class:`InconsistentLimit`, :class:`SequenceExhausted`, :class:`ClosingError`, what
        ``limit_source`` raises and what the server refuses.
        """
        (lease,) = await self._acquire(1, wait)
        return lease

    def acquire_many(self, count: int, *, wait: bool = True) -> AbstractAsyncContextManager[Grants]:
        """``async with semaphore.acquire_many(3) as leases``: several leases, all or none. Each may be
        released by itself before the block ends.

        Raises ValueError for more than there will ever be; the rest as :meth:`acquire`.
        """
        if count < 1:
            raise ValueError(f"at least one lease can be acquired, not {count}")
        if count > self.max_leases and self._limit_source is None:
            raise ValueError(f"{self.path} has {self.max_leases} leases: {count} are not to be had")
        return held(partial(self._acquire, count, wait))

    async def _acquire(self, count: int, wait: bool) -> Grants:
        began = trio.current_time()
        requeues = 0
        while True:
            try:
                leases = await self._attempt(count, wait, requeues, began)
                if leases is not None:
                    return leases
            except SessionExpiredError:
                if self._terms.on_session_loss == "raise":
                    raise
            requeues += 1
            await self.zk.session.wait_connected()

    async def _attempt(self, count: int, wait: bool, requeues: int, began: float) -> Grants | None:
        """Returns None if the gate, or a new lease, was lost."""
        await self._layout.check_limit(Bound(self.zk))
        async with AsyncExitStack() as undo:
            gate = await contend(self._gate, wait=wait)
            undo.push_async_callback(gate.end)
            # Should the session have changed by now, the gate is gone, and so nothing comes of it.
            bound = Bound(self.zk)
            watch = await self._until_free(bound, gate, count, wait)
            if watch is None:
                return None
            with watch:  # the creation ends it
                nodes = await self._create(bound, gate, count)
            if nodes is None:
                return None
            queued = {
                "sequence": gate.sequence,
                "requeues": requeues + gate.requeues,
                "waited": trio.current_time() - began,
            }
            leases = Grants([self._lease(bound, *node, queued) for node in nodes])
            undo.push_async_callback(leases.end)
            await gate.end()
            undo.pop_all()
            return leases

    async def _until_free(self, bound: Bound, gate: Grant, count: int, wait: bool) -> Watch | None:
        """Wait until so many leases are free. Returns the watch on them, or None if the gate was lost."""
        layout, zk = self._layout, self.zk
        while True:
            limit = await self._limit()
            try:
                names, watch = await bound.repeat(lambda: zk.get_children(layout.leases, watch=True))
            except NoNodeError:
                await layout.parents.create(bound, layout.leases)
                continue
            layout.remark(names)
            if len(layout.counted(names)) + count <= limit:
                return watch
            with watch:
                if not wait:
                    raise WouldBlock(self.path)
                waits: list[Callable[[], Awaitable[object]]] = [watch.wait, gate.lost.wait]
                if self._limit_source is not None:
                    waits.append(partial(self._limit_changed, self._limit_source, limit))
                await first_of(*waits)
            bound.check()
            if gate.lost.is_set():
                return None

    async def _limit(self) -> int:
        item = None if self._limit_source is None else await self._limit_source.get()
        return self.max_leases if item is None else item.value

    async def _limit_changed(self, source: SharedValue[int], limit: int) -> None:
        """Wait until the limit is another one. One that cannot be read is another one."""
        with suppress(RecipeError, ZooKeeperError):
            async with source.updates() as items:
                async for item in items:
                    if limit != (self.max_leases if item is None else item.value):
                        return

    async def _create(self, bound: Bound, gate: Grant, count: int) -> list[tuple[str, Stat, Watch]] | None:
        """Create leases and have them watched. Returns None if the gate was lost, or one of them already."""
        layout, terms, zk = self._layout, self._terms, self.zk
        try:
            created = await create_identified(
                bound,
                layout.leases,
                [layout.new_name() for _ in range(count)],
                terms.data,
                parents=layout.parents,
                acl=terms.acl,
                sequential=layout.sequential,
                fence=gate.fence(),
            )
        except NoNodeError:
            return None
        nodes: list[tuple[str, Stat, Watch]] = []
        try:
            layout.check_names(created.paths)
            for path in created.paths:
                _, stat, watch = await bound.repeat(partial(_get_and_watch, zk, path))
                nodes.append((path, stat, watch))
            await bound.confirm()
            return nodes
        except BaseException as error:
            try:
                await delete(bound, created.paths, terms.cleanup_grace)
            finally:
                for _, _, watch in nodes:
                    watch.cancel()
            if isinstance(error, NoNodeError):
                return None
            raise

    def _lease(self, bound: Bound, path: str, stat: Stat, node: Watch, queued: dict[str, Any]) -> Grant:
        terms = self._terms
        hold = Hold(bound, path, suspended=terms.suspended, margin=terms.margin)
        lease = Grant(
            token=stat.czxid,
            paths=(path,),
            shared=False,
            hold=hold,
            bound=bound,
            terms=terms,
            **queued,
        )
        hold.guard(node, lease.data_changed)
        return lease

    # --- looking at it -----------------------------------------------------------------------------------

    async def holders(self) -> list[LeaseHolder]:
        """Who holds leases, the one who has held his longest first; whoever created them, and in kazoo's
        layout whatever else counts as one. A list, and a read of each; those that go meanwhile are left out.
        """
        zk, parent = self.zk, self._layout.leases
        try:
            names = await repeat(zk, lambda: zk.get_children(parent))
        except NoNodeError:
            return []
        paths = [join(parent, name) for name in self._layout.counted(names)]
        found = []
        for path, read in [(path, zk.submit(GetData(path))) for path in paths]:
            with suppress(NoNodeError):
                data, stat = await read.wait()
                found.append(LeaseHolder(path, data or b"", stat))
        return sorted(found, key=lambda holder: (holder.stat.czxid, holder.path))


async def _get_and_watch(zk: ZooKeeper, path: str) -> tuple[bytes | None, Stat, Watch]:
    return await zk.get(path, watch=True)

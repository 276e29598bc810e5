"""Putting items into a queue, exactly once if the layout permits it.

The rules:

* Several items are put in one transaction, all or none.
* In a *marked* layout the names of each put are unique. The transaction of the put also creates an ephemeral
  marker with a unique name in ``<items>.puts``. After a lost reply the marker shows whether the items were
  put, even if consumers have already taken them. If the session has ended too, the marker is gone. Then the
  producer looks for the items; if they are missing, :class:`AmbiguousResult` is raised.
* In other layouts a lost reply raises :class:`AmbiguousResult`. With ``retry`` the items are put again in
  place of this error.
* If the queue has a limit, the transaction also writes the directory, with a check of the version that was
  read together with the number of items. So if another client puts items in between, the transaction fails
  and is repeated. Only one task of an object waits for room.
* The last number of the server is 2,147,483,647. Items that get this number are removed, and
  :class:`SequenceExhausted` is raised.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import attrs
import trio

from ...client import (
    UNANSWERED,
    BadVersionError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SetData,
    Stat,
    paths,
)
from ...client.repeating import pass_writes
from ..base.bound import Bound
from ..base.running import steady
from ..base.waiting import waiting_for
from ..errors import AmbiguousResult, SequenceExhausted
from .items import QueueFull, QueueLocation


@attrs.define(eq=False)
class Putting:
    """Puts items into one queue.

    :ivar limit: the number of items that the queue can hold; None means any number.
    :ivar retry: whether items are put again after a lost reply, even if they may already be in the queue.
    """

    location: QueueLocation
    limit: int | None
    retry: bool
    _room: trio.Lock = attrs.Factory(trio.Lock)

    async def put(self, middles: Sequence[str], payloads: Sequence[bytes], *, wait: bool) -> None:
        """Put items in one transaction.

        :param middles: the part of each name between the prefix and the number.
        :param wait: if False, raise :class:`QueueFull` instead of waiting for room.
        :raises AmbiguousResult: it is unknown whether the items were put.
        :raises QueueFull: there is no room, and ``wait`` is False.
        :raises SequenceExhausted: the server's numbers have run out. Nothing was put.
        :raises SessionExpiredError: the session has ended. Nothing was put.
        :raises ValueError: there are more new items than the queue may ever hold.
        """
        if not payloads:
            return
        if self.limit is not None and len(payloads) > self.limit:
            raise ValueError(f"{len(payloads)} items never fit into a queue with limit={self.limit}")
        location, layout, acl = self.location, self.location.layout, self.location.options.acl
        operations: list[Operation[Any]] = [
            Create(location.item(layout.prefix + middle), layout.encode(payload), acl=acl, sequential=True)
            for middle, payload in zip(middles, payloads, strict=True)
        ]
        if self.limit is None:
            await self._commit(operations, middles)
            return
        while True:
            data, stat = await steady(self.location.zk, self._directory)
            if stat.numChildren + len(payloads) > self.limit:
                if not wait:
                    raise QueueFull(self.location.items, self.limit)
                await self._wait_for_room(self.limit - len(payloads))
                continue
            try:
                # A put of another client in between changes the version too.
                await self._commit([*operations, SetData(self.location.items, data, stat.version)], middles)
                return
            except BadVersionError:
                pass

    async def _directory(self) -> tuple[bytes | None, Stat]:
        while True:
            try:
                return await self.location.zk.get(self.location.items)
            except NoNodeError:
                await self.location.options.create_parent(Bound(self.location.zk), self.location.items)

    async def _wait_for_room(self, most: int) -> None:
        """Wait until the queue holds ``most`` items or fewer."""
        zk = self.location.zk
        async with self._room:
            while True:
                try:
                    _, stat, watch = await steady(
                        zk, lambda: zk.get_children_stat_and_watch(self.location.items)
                    )
                except NoNodeError:
                    return
                with watch:
                    if stat.numChildren <= most:
                        return
                    why = f"which had {stat.numChildren} items, and the limit is {self.limit}"
                    with waiting_for(zk, f"room in {self.location.items}", why):
                        await watch.wait()

    async def _commit(self, operations: Sequence[Operation[Any]], middles: Sequence[str]) -> None:
        location = self.location
        bound = Bound(location.zk)
        if not location.layout.marked:
            await self._create(bound, operations, None, middles)
            return
        marker = paths.join(f"{location.items}.puts", str(uuid.uuid4()))
        create = Create(marker, acl=location.options.acl, ephemeral=True)
        try:
            await self._create(bound, [*operations, create], marker, middles)
        finally:
            location.zk.cleanup.delete(marker)

    async def _create(
        self, bound: Bound, operations: Sequence[Operation[Any]], marker: str | None, middles: Sequence[str]
    ) -> None:
        while True:
            bound.check()
            try:
                results = await self.location.zk.multi(operations)
            except NoNodeError:
                await self.location.options.create_parent(bound, self.location.items)
                if marker is not None:
                    await self.location.options.create_parent(bound, paths.parent(marker))
            except NodeExistsError:  # only the last number of the server occurs twice
                raise SequenceExhausted(self.location.items) from None
            except UNANSWERED as error:
                if isinstance(error, ConnectionLossError) and not error.sent:
                    await bound.reconnected()
                elif marker is not None:
                    if await self._was_put(bound, marker, middles):
                        return
                elif self.retry:
                    await bound.reconnected()
                else:
                    raise AmbiguousResult(f"putting into {self.location.items}") from error
            else:
                self._check_numbers(results[: len(middles)])
                return

    async def _was_put(self, bound: Bound, marker: str, middles: Sequence[str]) -> bool:
        """Find out whether a put without a reply was carried out.

        :raises AmbiguousResult: the session has ended, and the items are not in the queue.
        """
        zk = self.location.zk
        try:
            await bound.reconnected()
            await bound.repeat(lambda: pass_writes(zk))  # the server may still carry out the put
            return await bound.repeat(lambda: zk.exists(marker)) is not None
        except SessionExpiredError as error:
            # The marker ended with the session. The items may still be there.
            names = await self._names()
            if any(name.startswith(self.location.layout.prefix + middles[0]) for name in names):
                return True
            raise AmbiguousResult(f"putting into {self.location.items}") from error

    async def _names(self) -> list[str]:
        zk = self.location.zk
        try:
            await steady(zk, lambda: zk.sync(self.location.items))
            return await steady(zk, lambda: zk.get_children(self.location.items))
        except (NoNodeError, SessionExpiredError):
            return []

    def _check_numbers(self, created: Sequence[str]) -> None:
        """Check the numbers of new items, and remove the items if the numbers have run out.

        :raises SequenceExhausted: the server's numbers have run out.
        """
        for path in created:
            position = self.location.layout.position(paths.name(path))
            if position is None or position.exhausted:
                self.location.zk.cleanup.delete(*created)
                raise SequenceExhausted(self.location.items)

"""Putting items into a queue, exactly once where the layout allows it."""

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
    CreateMode,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SetData,
    Stat,
)
from ...protocol.paths import join, split
from ..base.bound import Bound
from ..base.running import steady
from ..errors import AmbiguousResult, SequenceExhausted
from .items import Place, QueueFull


@attrs.define(eq=False)
class Putting:
    """
    :ivar limit: how many items it may hold; None for any number.
    :ivar retry: put again what may have been put already.
    :ivar marked: every put has a name of its own, and leaves an ephemeral marker with that name beside the
        items, in the same transaction. Items may be taken before anybody looks for them, but the marker
        stays, and so tells after a lost reply whether they were put.
    """

    place: Place
    limit: int | None
    retry: bool
    marked: bool
    _room: trio.Lock = attrs.Factory(trio.Lock)

    async def put(self, middles: Sequence[str], payloads: Sequence[bytes], *, wait: bool) -> None:
        """Put items in one transaction.

        :param middles: what the layout has between prefix and number, one for each.
        :param wait: if False, raise :class:`QueueFull` instead of waiting for room.
        """
        if not payloads:
            return
        if self.limit is not None and len(payloads) > self.limit:
            raise ValueError(f"{len(payloads)} items never fit into a queue of {self.limit}")
        place, mode = self.place, CreateMode.PERSISTENT_SEQUENTIAL
        operations: list[Operation[Any]] = [
            Create(place.item(place.layout.prefix + middle), place.layout.encode(payload), place.acl, mode)
            for middle, payload in zip(middles, payloads, strict=True)
        ]
        if self.limit is None:
            await self._commit(operations, middles)
            return
        while True:
            data, stat = await steady(self.place.zk, self._directory)
            if stat.numChildren + len(payloads) > self.limit:
                if not wait:
                    raise QueueFull(self.place.items, self.limit)
                await self._wait_for_room(self.limit - len(payloads))
                continue
            try:
                # Whoever puts something in meanwhile changes the version too.
                await self._commit([*operations, SetData(self.place.items, data, stat.version)], middles)
                return
            except BadVersionError:
                pass

    async def _directory(self) -> tuple[bytes | None, Stat]:
        while True:
            try:
                return await self.place.zk.get(self.place.items)
            except NoNodeError:
                await self.place.parents.create(Bound(self.place.zk), self.place.items)

    async def _wait_for_room(self, most: int) -> None:
        """Wait until there are that many items at most; one task of this object at a time."""
        zk = self.place.zk
        async with self._room:
            while True:
                try:
                    _, stat, watch = await steady(
                        zk, lambda: zk.get_children(self.place.items, watch=True, include_stat=True)
                    )
                except NoNodeError:
                    return
                with watch:
                    if stat.numChildren <= most:
                        return
                    await watch.wait()

    async def _commit(self, operations: Sequence[Operation[Any]], middles: Sequence[str]) -> None:
        bound = Bound(self.place.zk)
        if not self.marked:
            await self._create(bound, operations, None, middles)
            return
        marker = join(f"{self.place.items}.puts", str(uuid.uuid4()))
        create = Create(marker, b"", self.place.acl, CreateMode.EPHEMERAL)
        try:
            await self._create(bound, [*operations, create], marker, middles)
        finally:
            self.place.zk.janitor.delete(marker)

    async def _create(
        self, bound: Bound, operations: Sequence[Operation[Any]], marker: str | None, middles: Sequence[str]
    ) -> None:
        while True:
            bound.check()
            try:
                results = await self.place.zk.multi(operations)
            except NoNodeError:
                await self.place.parents.create(bound, self.place.items)
                if marker is not None:
                    await self.place.parents.create(bound, split(marker)[0])
            except NodeExistsError:  # only the last number of all is given twice
                raise SequenceExhausted(self.place.items) from None
            except UNANSWERED as error:
                if isinstance(error, ConnectionLossError) and not error.sent:
                    await bound.reconnected()
                elif marker is not None:
                    if await self._was_put(bound, marker, middles):
                        return
                elif self.retry:
                    await bound.reconnected()
                else:
                    raise AmbiguousResult(f"putting into {self.place.items}") from error
            else:
                self._check_numbers(results[: len(middles)])
                return

    async def _was_put(self, bound: Bound, marker: str, middles: Sequence[str]) -> bool:
        zk = self.place.zk
        try:
            await bound.reconnected()
            # The server that we are connected to now may be behind the one that has lost the reply.
            await bound.repeat(lambda: zk.sync(marker))
            return await bound.repeat(lambda: zk.exists(marker)) is not None
        except SessionExpiredError as error:
            # The marker has gone with the session. The items may be there still.
            names = await self._names()
            if any(name.startswith(self.place.layout.prefix + middles[0]) for name in names):
                return True
            raise AmbiguousResult(f"putting into {self.place.items}") from error

    async def _names(self) -> list[str]:
        zk = self.place.zk
        try:
            await steady(zk, lambda: zk.sync(self.place.items))
            return await steady(zk, lambda: zk.get_children(self.place.items))
        except (NoNodeError, SessionExpiredError):
            return []

    def _check_numbers(self, paths: Sequence[str]) -> None:
        """Raises :class:`SequenceExhausted` if the server's numbers have run out, and removes the items."""
        for path in paths:
            position = self.place.layout.position(split(path)[1])
            if position is None or position.exhausted:
                self.place.zk.janitor.delete(*paths)
                raise SequenceExhausted(self.place.items)

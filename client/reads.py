"""The reads of the client, and its watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from ..protocol.constants import CONFIG_PATH, AddWatchMode
from ..protocol.errors import NoNodeError
from ..protocol.records import ACL, ClientInfo, Stat
from .arguments import check_arguments
from .batch import MultiRead
from .caller import Caller, Data
from .operations import (
    AddWatch,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenAndStat,
    GetData,
    GetEphemerals,
    Sync,
    WhoAmI,
)
from .pending import wait_settled
from .registry import WatchKind
from .watch import Watch, WatchStream


class Reads(Caller):
    """The operations that change nothing, with and without a watch."""

    async def get(self, path: str) -> tuple[Data, Stat]:
        """Read the data and the Stat. Data that is null on the server is None, and empty data is ``b""``.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not allow it.
        """
        return await self._call(GetData(path))

    async def get_and_watch(self, path: str) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get` does, and arm a watch that fires when the data changes or the znode is deleted.
        If this raises, no watch is armed."""
        watch = Watch(path, self.chroot, self._watches)
        data, stat = await self._read_and_watch(GetData, watch, WatchKind.DATA)
        return data, stat, watch

    async def exists(self, path: str) -> Stat | None:
        """Read the Stat; None if there is no such znode."""
        try:
            return await self._call(Exists(path))
        except NoNodeError:
            return None

    async def exists_and_watch(self, path: str) -> tuple[Stat | None, Watch]:
        """Read as :meth:`exists` does, and arm a watch. If there is no such znode, it fires when the znode is
        created, else when the data changes or the znode is deleted."""
        watch = Watch(path, self.chroot, self._watches)
        try:
            return await self._read_and_watch(Exists, watch, WatchKind.DATA, missing=WatchKind.EXIST), watch
        except NoNodeError:
            return None, watch

    async def get_children(self, path: str) -> list[str]:
        """Read the names of the children, which come in no particular order.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not allow it.
        """
        return await self._call(GetChildren(path))

    async def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Read as :meth:`get_children` does, and the Stat of the parent."""
        return await self._call(GetChildrenAndStat(path))

    async def get_children_and_watch(self, path: str) -> tuple[list[str], Watch]:
        """Read as :meth:`get_children` does, and arm a watch that fires when a child is created or deleted,
        or the parent is deleted. If this raises, no watch is armed."""
        watch = Watch(path, self.chroot, self._watches)
        return await self._read_and_watch(GetChildren, watch, WatchKind.CHILD), watch

    async def get_children_stat_and_watch(self, path: str) -> tuple[list[str], Stat, Watch]:
        """Read and watch as :meth:`get_children_and_watch` does, and read the Stat of the parent."""
        watch = Watch(path, self.chroot, self._watches)
        names, stat = await self._read_and_watch(GetChildrenAndStat, watch, WatchKind.CHILD)
        return names, stat, watch

    async def get_acls(self, path: str) -> tuple[list[ACL], Stat]:
        """Read the ACL and the Stat.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL allows neither reading nor administration.
        """
        return await self._call(GetACL(path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """Read the paths of this session's ephemeral znodes that begin with a string. Server 3.6 or later."""
        return await self._call(GetEphemerals(prefix))

    async def get_all_children_number(self, path: str) -> int:
        """Read the number of znodes below a path, at all depths. Server 3.6 or later.

        :raises NoNodeError: there is no such znode.
        :raises NoAuthError: the ACL does not allow it.
        """
        return await self._call(GetAllChildrenNumber(path))

    async def multi_read(self, operations: Iterable[GetData | GetChildren]) -> list[Any]:
        """Carry out several :class:`GetData` and :class:`GetChildren` in one round trip. Server 3.6 or later.

        :returns: for each, in order, what it returns alone, or the error that it raises alone.
        """
        return await self._call(MultiRead(operations))

    async def sync(self, path: str = "/") -> None:
        """Wait until the connected server has everything that the ensemble had committed when this was asked.
        A read submitted after it, even without waiting, sees at least that state."""
        return await self._call(Sync(path))

    async def who_am_i(self) -> list[ClientInfo]:
        """Read the identities of this connection, as the server knows them. Server 3.7 or later."""
        return await self._call(WhoAmI())

    async def get_config(self) -> tuple[Data, Stat]:
        """Read the configuration of the ensemble and its Stat, whose version is what :meth:`reconfig` takes.

        :raises NoAuthError: the ACL does not allow it.
        """
        return await self._call(GetData(CONFIG_PATH), prefix="")

    async def get_config_and_watch(self) -> tuple[Data, Stat, Watch]:
        """Read as :meth:`get_config` does, and arm a watch that fires when the configuration changes."""
        watch = Watch(CONFIG_PATH, "", self._watches)
        data, stat = await self._read_and_watch(GetData, watch, WatchKind.DATA)
        return data, stat, watch

    @asynccontextmanager
    async def watch(
        self, path: str, *, recursive: bool = False, buffer: int = 1024
    ) -> AsyncIterator[WatchStream]:
        """Watch a path for as long as the block lasts. Server 3.6 or later.

            async with zk.watch("/app", recursive=True) as events:
                async for event in events:
                    match event:
                        case Missed(): ...                               # read again what you follow
                        case WatchEvent(type=EventType.CREATED, path=path): ...

        The watch is armed when the block begins: read inside it.

        :param recursive: also report all znodes below. CHILD events come only without it.
        :param buffer: how many unread events are kept. If more come, one Missed takes the place of all.
        """
        check_arguments(buffer=buffer)
        kind = WatchKind.RECURSIVE if recursive else WatchKind.PERSISTENT
        stream = WatchStream(path, self.chroot, self._watches, buffer)
        pending = self._arm(
            lambda asks: AddWatch(path, AddWatchMode(bool(recursive or not asks))), stream, kind
        )
        try:
            await wait_settled(pending, None)
            pending.result()
            yield stream
        finally:
            pending.on_settled(lambda _: stream.leave())

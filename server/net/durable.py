"""The differences of a server with files: the kernel has each transaction before output leaves.

All output leaves in two ways. :meth:`.hub.Hub._send` sends the replies of a turn (:mod:`.durable_hub`), and
:meth:`.connection.Connection.data_to_send` returns all other output, for every transport. So no reply and no
event reveals a transaction that a killed server would have lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..config.settings import Settings
from ..core.engine import Engine
from ..storage.engine import DigestedEngine, JournaledEngine
from ..storage.storage import Storage
from .connection import Connection
from .service import Service


class DurableConnection(Connection):
    """A connection whose output waits for the log.

    A turn of a client with many requests in flight has two parts, 64 requests in all: they share one write
    of the log, and one reply. If the first part has ended early, because of its time or its output, there is
    no second.
    """

    def proceed(self, now: float) -> None:
        super().proceed(now)
        if self.more and not (self.frames or self.is_full):
            super().proceed(now)

    def data_to_send(self) -> bytes:
        if self.output:
            engine = self.engine
            assert isinstance(engine, JournaledEngine)
            engine.write_journal()
        return super().data_to_send()


class DurableService(Service):
    """A service whose data is in files.

    :ivar storage: the storage that has read the files.
    """

    connection_type: ClassVar[type[Connection]] = DurableConnection
    storage: Storage

    def __init__(self, storage: Storage, settings: Settings, **arguments: Any) -> None:
        self.storage = storage
        super().__init__(settings, **arguments)

    def start_engine(self, epoch: int, random_bytes: Callable[[int], bytes] | None = None) -> Engine:
        """Make an engine: the first one with the data of the files, later ones empty."""
        return self.storage.make_engine(
            self.settings, self.engine_type(), now=self.now_ms, epoch=epoch, random_bytes=random_bytes
        )

    def engine_type(self) -> type[JournaledEngine]:
        digests = self.settings.tree_digest
        if self.settings.release.is_default:
            return DigestedEngine if digests else JournaledEngine
        from .durable_emulation import OtherDigestedEngine, OtherJournaledEngine  # for who uses them

        return OtherDigestedEngine if digests else OtherJournaledEngine

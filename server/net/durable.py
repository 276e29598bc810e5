"""What differs where transactions are kept in files: the kernel has them before output leaves.

All output leaves by two ways: :meth:`.hub.Hub._send` sends the replies of a turn (:mod:`.durable_hub`), and
:meth:`.connection.Connection.data_to_send` hands out all else, to every transport. So no reply and no event
tells of a transaction that a killed server would have lost.
"""

from __future__ import annotations

from ..storage.engine import JournaledTree
from .connection import Connection
from .requests import exchange


class DurableConnection(Connection):
    """A connection whose output waits for the log, which tells the sessions that asked for something."""

    def exchange(self, data: bytes, now: float) -> bytes:
        tree = self.engine.tree
        assert isinstance(tree, JournaledTree)
        tree.session = self.session_id
        reply = exchange(self, data, now)
        tree.session = 0
        return reply

    def proceed(self, now: float) -> None:
        tree = self.engine.tree
        assert isinstance(tree, JournaledTree)
        tree.session = self.session_id
        super().proceed(now)
        tree.session = 0

    def data_to_send(self) -> bytes:
        storage = self.service.storage
        if self.output and storage is not None:
            storage.write_journal()
        return super().data_to_send()

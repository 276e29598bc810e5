"""A hub whose replies wait for the log; see :mod:`.durable`.

A turn costs one write for each group of replies, not one for each reply.
"""

from __future__ import annotations

from .hub import Hub


class DurableHub(Hub):
    def _send(self) -> None:
        storage = self._service.storage
        assert storage is not None
        storage.write_journal()
        super()._send()

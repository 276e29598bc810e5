"""A hub whose replies wait for the log; see :mod:`.durable`.

A turn costs one write for each group of replies, not one for each reply.
"""

from __future__ import annotations

from ..storage.engine import JournaledEngine
from .hub import Hub


class DurableHub(Hub):
    def _send(self) -> None:
        engine = self._service.engine
        assert isinstance(engine, JournaledEngine)
        engine.write_journal()
        super()._send()

"""A hub whose replies wait for the log; see :mod:`.durable`.

A turn costs one write for each group of clients, not one for each of them.
"""

from __future__ import annotations

from typing import Final

from ..storage.engine import JournaledEngine
from .hub import Hub

_SHARING: Final = 64
"""The largest number of clients with several requests in flight that share a write: none waits long for the
others."""


class DurableHub(Hub):
    def _send(self) -> None:
        engine = self._service.engine
        assert isinstance(engine, JournaledEngine)
        engine.write_journal()
        super()._send()

    def _send_soon(self) -> None:
        if len(self._dirty) + len(self._answered) >= min(self._ready // 2, _SHARING):
            self._send()

"""A hub whose replies wait for the log; see :mod:`.durable`.

A turn costs one write for each group of replies, not one for each reply; hence the groups are larger here.
"""

from __future__ import annotations

from .hub import Hub

_LEAST_GROUP = 16
"""Replies of a turn that are sent together, if there are so many: a write takes as long as three requests."""


class DurableHub(Hub):
    def _share_turn(self, ready: int) -> None:
        super()._share_turn(ready)
        self._group = max(self._group, _LEAST_GROUP)

    def _send(self) -> None:
        storage = self._service.storage
        assert storage is not None
        storage.write_journal()
        super()._send()

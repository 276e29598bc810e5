"""Engines whose data is in files, of another release than the default one (:mod:`.emulation`)."""

from __future__ import annotations

from ..storage.engine import DigestedEngine, JournaledEngine
from .emulation import OtherEngine


class OtherJournaledEngine(OtherEngine, JournaledEngine):
    """An engine of another release, with a log."""


class OtherDigestedEngine(OtherEngine, DigestedEngine):
    """An engine of another release, with a log whose entries have the digest of the tree."""

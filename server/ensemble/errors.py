"""The error of an ensemble's verbs, in a module that a single server may import."""

from __future__ import annotations


class EnsembleError(RuntimeError):
    """The servers are not in the right state for this."""

"""What an ensemble refuses."""

from __future__ import annotations


class EnsembleError(RuntimeError):
    """The servers are not in a state in which this can be done."""

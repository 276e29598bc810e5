"""What goes wrong with the verbs of an ensemble, in a module that a single server may import."""

from __future__ import annotations


class EnsembleError(RuntimeError):
    """The servers are not in a state in which this can be done."""

"""The error of the controls of an ensemble, in a module that a single server may import."""

from __future__ import annotations


class EnsembleError(RuntimeError):
    """The servers are not in the right state for the control."""

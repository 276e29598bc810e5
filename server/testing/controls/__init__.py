"""The controls of a test: one class for a single server, one for all servers of a pretend ensemble.

:class:`.server.Controls` and :class:`.ensemble.EnsembleControls` consist of a class for each subject. Any
thread may call their methods; :mod:`.base` has the rules.
"""

from .server import Controls

__all__ = ["Controls"]

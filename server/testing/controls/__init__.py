"""What a test does to servers: one class for a single server, one for all servers of a pretend ensemble.

:class:`.server.Controls` is put together of a class for each subject, :class:`.ensemble.EnsembleControls`
likewise. Their methods may be called from any thread; :mod:`.base` has the rules.
"""

from .server import Controls

__all__ = ["Controls"]

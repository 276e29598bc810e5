"""Compiled modules for the processes that are measured or tested."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "build" / "compiled"


def keep_compiled() -> None:
    """Let this process and those that it starts keep compiled modules apart, where the environment forbids
    Python to keep them beside the sources.

    An installed package has them. Else each process compiles every module, for 0.1 to 0.3 s.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(_FOLDER)

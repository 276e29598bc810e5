"""Compiled modules for the processes that are measured or tested."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "build" / "compiled"


def keep_compiled() -> None:
    """Let this process and those that it starts keep compiled modules apart, where the environment forbids
    Python to keep them beside the sources.

    An installed package has them. Else each process compiles every module, for 0.1 to 0.3 s.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        sys.dont_write_bytecode = False
        for name in ("purelib", "stdlib"):
            _take_over(Path(sysconfig.get_path(name)))
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(_FOLDER)


def _take_over(sources: Path) -> None:
    """Link what is compiled already, of Python and of installed packages. Processes that start together would
    compile the same modules, each for itself, for 2 s."""
    apart = _FOLDER / sources.relative_to(sources.anchor)
    if apart.exists():
        return
    for folder, folders, names in os.walk(sources):
        folders[:] = [name for name in folders if name not in ("site-packages", "test", "tests")]
        if folder.endswith("__pycache__"):
            place = apart / Path(folder).parent.relative_to(sources)
            place.mkdir(parents=True, exist_ok=True)
            for name in (name for name in names if ".opt-" not in name):
                with contextlib.suppress(OSError):  # another process is quicker, or it is another disk
                    os.link(f"{folder}/{name}", place / name)

"""Late imports of large modules, while clients are served.

An import of many modules takes some hundred ms. In a thread of its own it shares the interpreter with the
loop, which runs again every few ms. A module that is loaded already costs no thread.
"""

from __future__ import annotations

import importlib
import sys

import trio


async def load(name: str) -> None:
    """Load a module, so that its import takes no time.

    :param name: its whole name.
    """
    module = sys.modules.get(name)
    # It may be half loaded, by the request of another client: whoever imports it then waits for the thread
    if module is None or getattr(module.__spec__, "_initializing", False):
        await trio.to_thread.run_sync(importlib.import_module, name)

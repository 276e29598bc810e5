"""Late imports of large modules, while clients are served.

An import of many modules takes some hundred ms. It is done in a thread, so that the loop of the server still
runs every few ms. A module that is already loaded needs no thread.
"""

from __future__ import annotations

import importlib
import sys

import trio


async def load(name: str) -> None:
    """Load a module, so that a later import of the module takes no time.

    :param name: the whole name of the module.
    """
    module = sys.modules.get(name)
    # If another client's request is loading the module in its thread, the import here waits for that thread.
    if module is None or getattr(module.__spec__, "_initializing", False):
        await trio.to_thread.run_sync(importlib.import_module, name)

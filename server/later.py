"""Modules that others import at once, and this process perhaps never uses.

trio imports ssl, hmac and idna, shutil imports bz2 and lzma. Without TLS, digests, host names beyond ASCII
and archives nobody ever asks them for anything, but they would be a fifth of an idle server's memory.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

_SPARE = 2
"""File descriptors that an import needs at a time."""


class _Later(ModuleType):
    """Stands in for a module until somebody asks it for something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks at modules, but wants nothing of them
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        # An import that runs out of file descriptors on its way may leave half a module for ever: fail before
        for spare in [os.open(os.devnull, os.O_RDONLY) for _ in range(_SPARE)]:
            os.close(spare)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def import_later(*names: str) -> None:
    """Have modules imported at their first use, whoever imports them from now on. For a program to call
    before it imports anything else; those that are there already are left alone."""
    for name in names:
        sys.modules.setdefault(name, _Later(name))

"""The modules that are imported at their first use, although trio imports them at once.

* trio imports ssl, hmac (with hashlib) and idna; shutil imports bz2 and lzma. A server without TLS, digests,
  host names beyond ASCII and archives never uses them.
* Without these modules an idle server has 24.3 MB resident instead of 29.7 MB. Of the difference, 1.6 MB is
  private memory, and the rest is pages of libssl and libcrypto. Its start takes 7 % less CPU time.
* Late imports in our own modules would save only 0.05 MB of this memory, because trio's imports remain. The
  standard library's ``importlib.util.LazyLoader`` loads a module as soon as it is imported a second time, so
  it would save nothing. Therefore this module has its own stand-ins. Only the command uses them; a program
  that imports the server decides about its modules itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

_SPARE = 2
"""The number of file descriptors that an import needs: for a folder and for a file in it."""


class _Later(ModuleType):
    """A stand-in that replaces a module until the first use of one of its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks each module for these
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        # Fail before the import if file descriptors are short: it could leave a part of a module for ever
        for spare in [os.open(os.devnull, os.O_RDONLY) for _ in range(_SPARE)]:
            os.close(spare)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def import_later(*names: str) -> None:
    """Delay the import of these modules to their first use, for any later import.

    Call it before other modules are imported. Modules that are already imported do not change.
    """
    for name in names:
        sys.modules.setdefault(name, _Later(name))

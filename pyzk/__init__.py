"""An in-memory coordination server that speaks the ZooKeeper protocol, its test kit, a client and recipes.

The subpackages of pyzk are the folders at the root of the repository. The links in this folder show them to
editors and type checkers. An installation needs no links: see setup.py.

PYTEST_DONT_REWRITE: pytest finds its plugin in this package, and would warn if pyzk was imported before.
"""

from .protocol.version import __version__

__all__ = ["__version__"]

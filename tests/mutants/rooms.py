"""The rooms: the sources that are changed, and the tests that must notice."""

from __future__ import annotations

from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Room:
    """
    :ivar sources: folders of sources, from the root.
    :ivar tests: what pytest is given.
    :ivar without: the tests left out, as pytest's ``-k`` takes it: those beside real servers, which are slow
        and run little of ours.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    without: str = "test_real.py"

    def files(self) -> list[Path]:
        """The modules, from the root; those that Python runs as a command or that are generated are none."""
        found = (path for source in self.sources for path in (ROOT / source).rglob("*.py"))
        return sorted(path.relative_to(ROOT) for path in found if path.name != "__main__.py")

    def arguments(self) -> list[str]:
        return [*self.tests, "-k", f"not ({self.without})"]


ROOMS = {
    "storage": Room(("server/storage", "protocol/files"), ("tests/server/storage", "tests/protocol")),
    "core": Room(("server/core",), ("tests/server/core",)),
    # A connection is handed over only where the packages for threads and asyncio call.
    "client": Room(
        ("client",),
        ("tests/client", "tests/bridge/test_direct_connections.py", "tests/bridge/test_direct_faults.py"),
    ),
    "ensemble": Room(("server/ensemble",), ("tests/server/ensemble", "tests/ensemble/pretend")),
    "bridge": Room(("bridge", "blocking", "aio"), ("tests/bridge",), "real_ensemble or kills"),
}

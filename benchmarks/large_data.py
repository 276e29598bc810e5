"""Measure how long it takes to load and to write a large tree with ``--data``, and how much memory.

    python -m benchmarks.large_data
    python -m benchmarks.large_data --znodes 100000

A tree of znodes with 100 bytes each, 1,000 to a parent, is written as a snapshot. Another process loads it
and exports it. Memory is what that takes beyond the process before it; its peak is compared with the tree.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyzk.protocol.dump import Node
from pyzk.protocol.files import places
from pyzk.protocol.files.writing import image_of
from pyzk.server.config.settings import Settings

_CHILDREN = 1000
"""Znodes below one parent."""
_SIZE = 100
"""Bytes of data of one znode."""
_LIMITS = {"load": 20.0, "export": 10.0, "peak": 2.0}
"""For a million znodes on two cores: seconds, seconds, and times the tree."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--znodes", type=int, default=1_000_000, help="(default: 1000000)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure)
        return 0
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        make(Path(folder) / "data", arguments.znodes)
        command = [sys.executable, "-m", "benchmarks.large_data", "--measure", folder]
        return subprocess.run(command, check=False).returncode


def make(path: Path, znodes: int) -> None:
    """Write a tree into a data directory."""
    nodes = [Node("/", b"")]
    for number in range(znodes):
        if number % _CHILDREN == 0:
            nodes.append(Node(f"/{number}", b""))
        nodes.append(Node(f"/{number - number % _CHILDREN}/node-{number:010d}", bytes(_SIZE)))
    places.write_image(image_of(nodes, int(time.time() * 1000)), f"{path}/")


def measure(folder: Path) -> None:
    """Load and export a tree, and print what that takes."""
    from pyzk.server.core.engine import Engine
    from pyzk.server.storage.snapshots import export
    from pyzk.server.storage.storage import Storage

    before = _resident()
    began = time.perf_counter()
    storage = Storage(folder / "data", Settings())
    storage.load()
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=int(time.time() * 1000))
    loaded = time.perf_counter() - began
    tree = _resident() - before
    peak = _peak() - before
    _tell("load", loaded, f"{loaded:5.1f} s, {len(engine.tree):,} znodes, {tree / 2**20:.0f} MiB")
    _tell("peak", peak / tree, f"{peak / tree:5.2f} times the tree")
    began = time.perf_counter()
    export(engine, folder / "export")
    exported = time.perf_counter() - began
    _tell("export", exported, f"{exported:5.1f} s")
    peak = _peak() - before
    _tell("peak", peak / tree, f"{peak / tree:5.2f} times the tree, with the export")
    storage.close()


def _tell(what: str, value: float, text: str) -> None:
    limit = _LIMITS[what]
    print(
        f"{what:8} {text}  (a million may take {limit:g}{': exceeded' if value > limit else ''})", flush=True
    )


def _resident() -> float:
    """Return the bytes of memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def _peak() -> float:
    """Return the most bytes of memory that the process has had."""
    usage: Any = resource.getrusage(resource.RUSAGE_SELF)
    return float(usage.ru_maxrss * 1024)


if __name__ == "__main__":
    sys.exit(main())

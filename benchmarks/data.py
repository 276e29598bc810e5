"""Measure what it costs to keep the data in files: pyzk-server with ``--data`` beside pyzk-server without.

    python -m benchmarks.data
    python -m benchmarks.data --rounds 1 --seconds 0.3 --only set

Both servers stay up, every row is measured in turns, A B A B, and the ratio is the median of the rounds'
ratios. The files are on a RAM disk if there is one: what is measured is the work of the server.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from . import servers, tables, workloads
from .workloads import WORKLOADS

_ROWS = ("set", "mixed", "create", "multi")
"""Parts of the names of the rows that write."""
_SHARED_MEMORY = Path("/dev/shm")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="how often each row is measured (default: 5)")
    add("--seconds", type=float, default=1.0, help="how long each time (default: 1)")
    add(
        "--only",
        default=",".join(_ROWS),
        metavar="PARTS",
        help="rows whose name contains one of these (commas)",
    )
    add("--digest", action="store_true", help="with digest.enabled=true")
    arguments = parser.parse_args()
    wanted = [part.strip() for part in arguments.only.split(",")]
    flags = ["--set", "digest.enabled=true"] if arguments.digest else []
    print(f"{'writes per second':48} {'in memory':>10} {'with files':>10} {'ratio':>6}")
    with contextlib.ExitStack() as stack:
        place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-", dir=place))
        rivals = [
            stack.enter_context(servers.ours()),
            stack.enter_context(servers.ours([*servers.OURS, "--data", folder, *flags])),
        ]
        for rival in rivals:
            workloads.prepare(rival.address)
        for work in WORKLOADS:
            if not any(part in work.name for part in wanted):
                continue
            rounds = [
                [workloads.run(work, rival.addresses, arguments.seconds, 1).rate for rival in rivals]
                for _ in range(arguments.rounds)
            ]
            plain, kept = (statistics.median(rates) for rates in zip(*rounds, strict=True))
            ratio = statistics.median(after / before for before, after in rounds)
            print(
                f"{work.name:48} {tables.number(plain):>10} {tables.number(kept):>10} {ratio:6.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run all benchmarks and write what docs/performance.md shows.

    python -m benchmarks.report                      # half an hour on a machine that does nothing else
    python -m benchmarks.report --quick              # some minutes, with figures that are good for nothing

Writes docs/performance-table.md, and the pictures and figures as JSON in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from . import fairness, growth, server, soak, tables

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance-table.md"


def _picture(name: str, title: str) -> str:
    return f"![{title}](../benchmarks/results/{name}.svg)"


def page(sections: list[str]) -> str:
    return "\n\n".join(["<!-- Written by `python -m benchmarks.report`; do not edit. -->", *sections]) + "\n"


def _write(name: str, found: Any, folder: Path) -> None:
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server.add_arguments(parser)
    parser.add_argument("--requests", type=int, default=10_000_000, help="of the long run")
    parser.add_argument("--largest", type=int, default=10**6, help="size of the curves of growth")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="(default: %(default)s)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="(default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="to see that it works")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.2
        arguments.requests, arguments.largest, arguments.znodes = 100_000, 1000, 20_000
    folder = arguments.results
    folder.mkdir(parents=True, exist_ok=True)

    figures, machine = server.measure(arguments)
    _write("server", server.as_json(figures, machine), folder)
    server.draw(figures, machine, folder / "server")

    curves = list(growth.measure(arguments.largest, "", arguments.seconds))
    _write("growth", growth.as_json(curves, machine), folder)
    growth.draw(curves, machine, folder / "growth")

    cases = fairness.measure(1, arguments.rounds, arguments.seconds)
    print(tables.text(fairness.HEAD, fairness.rows_of(cases)))

    found = soak.soak(arguments.requests, arguments.processes, lambda requests, memory: None)
    _write("soak", found, folder)
    print(soak.summary(found))

    arguments.page.write_text(
        page(
            [
                "# What was measured",
                f"{tables.machine_line(machine)}. "
                "[performance.md](performance.md#what-they-mean) says what the figures mean.",
                f"## Beside Apache ZooKeeper\n\nThe median of {arguments.rounds} rounds in turns, "
                f"{arguments.seconds} s each; {arguments.processes} processes of load.",
                server.page(figures),
                _picture("server", "How many times better than Apache ZooKeeper"),
                "## Growth",
                growth.page(curves),
                _picture("growth", "How costs grow"),
                "## One client floods, another waits",
                tables.markdown(fairness.HEAD, fairness.rows_of(cases)),
                f"## The long run\n\n{soak.summary(found)}.",
            ]
        )
    )
    print(f"wrote {arguments.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tables as text and as Markdown, numbers for people, and the folder where results go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

CAVEATS = (
    "Nothing here is durable: pyzk-server keeps its tree in memory, and the real ZooKeeper runs beside it "
    "with its data on a RAM disk and without fsync.",
    "Nothing here is replicated: one server, not an ensemble.",
    "The load is written in Python and shares the machine's cores with the server, so absolute figures are "
    "lower bounds; the ratios are what counts.",
)


def number(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_line(machine: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def pyplot() -> Any:
    """matplotlib's pyplot without a display, or None with a word if it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        print('No picture: matplotlib is not installed; pip install -e ".[bench]" brings it.')
        return None
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "pyzk"  # the same figures give the same file
    import matplotlib.pyplot as plt

    return plt


def save_picture(figure: Any, stem: Path) -> None:
    """Write ``stem``.png and ``stem``.svg."""
    for kind in ("png", "svg"):
        figure.savefig(f"{stem}.{kind}", dpi=120, bbox_inches="tight", metadata=_UNDATED[kind])
        print(f"wrote {stem}.{kind}")


_UNDATED = {"png": {}, "svg": {"Date": None}}

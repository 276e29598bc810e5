"""What the workers of xdist share: real servers, a JVM, a browser, and compiled test files.

With ``--dist loadfile`` each file may go to another worker, and each worker starts its own servers, JVM and
browser. The files of a group go to one worker: what they share starts once.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[2]

GROUPS = {
    "tests/ensemble/recipes/": "ensemble",
    "tests/ensemble/test_everywhere.py": "ensemble",
    "tests/ensemble/test_examples.py": "ensemble",
    "tests/ensemble/test_hosts.py": "ensemble",
    "tests/conformance/": "conformance",
    "tests/recipes/beside/": "beside",
    "tests/server/page/": "page",
}
"""How the paths of shared files begin, and the group of each."""


def group_of(nodeid: str) -> str:
    """Return the group of a test, or its file."""
    file = nodeid.partition("::")[0]
    return next((group for start, group in GROUPS.items() if file.startswith(start)), file)


class SharedScheduling(LoadFileScheduling):
    """Files go to the workers as with ``loadfile``, but a group goes to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def import_a_part(files: Iterable[Path], worker: Mapping[str, Any]) -> None:
    """Import the part of the test files that no other worker begins with.

    In a fresh checkout, workers that begin with the same file compile the same files: at the same time, and
    none finds a file compiled. A file that cannot be imported is left to the collection, which reports it.
    """
    part = sorted(files)[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for file in part:
            with contextlib.suppress(Exception, pytest.skip.Exception):
                import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))

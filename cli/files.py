"""The files of a server as arguments of verbs: a snapshot, a log, or a whole data directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..protocol.files import places
from ..protocol.files.image import Image
from ..protocol.files.names import Listing
from ..protocol.files.restoring import Damaged
from ..protocol.files.streams import FileError
from ..protocol.files.txnlog import MAGIC, Entry, LogReader
from .arguments import wrong
from .parser import PROG
from .status import Failure, Status, say


@contextmanager
def explained(path: str | Path) -> Iterator[None]:
    """Turn an error of a file into a :class:`.status.Failure` that names the file."""
    try:
        yield
    except (FileError, Damaged) as error:
        raise Failure(Status.NO, f"{path}: {error}") from None
    except OSError as error:
        raise wrong(PROG, f"cannot read {path}: {error.strerror}") from None


def is_data(path: str) -> bool:
    """Return whether a path is the path of a snapshot or a data directory. Any other path is the path of a
    tree in JSON.

    :raises Failure: it cannot be read.
    """
    with explained(path):
        return places.is_data(path)


def is_log(path: str) -> bool:
    """Whether a path names a log.

    :raises Failure: it cannot be read.
    """
    with explained(path):
        return not os.path.isdir(path) and places.begins(path) == MAGIC


def image_of(path: str, progress: Callable[[str, int], object] = lambda what, count: None) -> Image:
    """Read a snapshot, or restore a data directory. Harmless faults are reported on standard error.

    :raises Failure: the file cannot be read or is damaged.
    """
    with explained(path):
        return places.image_at(path, lambda line: say(PROG, f"{path}: {line}"), progress)


def entries_of(path: str) -> Iterator[Entry]:
    """Yield the entries of a log, or of all logs of a data directory. Harmless faults are reported on
    standard error.

    :raises Failure: a file cannot be read or is damaged.
    """
    if os.path.isdir(path):
        folder = places.folder_of(path)
        paths = [folder / name.text for name in Listing.of(os.listdir(folder)).logs]
    else:
        paths = [Path(path)]
    for each in paths:
        with explained(each), places.open_regular(each) as file:
            reader = LogReader(file)
            yield from reader.entries()
        if reader.torn is not None:
            say(
                PROG,
                f"{each}: byte {reader.torn:,}: the last entry is incomplete: the server stopped while it "
                "wrote the entry",
            )

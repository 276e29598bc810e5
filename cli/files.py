"""Files of a server, as arguments of verbs: a snapshot, a log, or a whole data directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..protocol.files.image import Image
from ..protocol.files.names import FOLDER, Listing
from ..protocol.files.restoring import Damaged, Restorer, read_image
from ..protocol.files.streams import FileError, begins_snapshot
from ..protocol.files.txnlog import MAGIC, Entry, LogReader
from .arguments import wrong
from .parser import PROG
from .status import Failure, Status, say


def is_data(path: str) -> bool:
    """Whether a path names a snapshot or a data directory: not a tree in JSON.

    :raises Failure: it cannot be read.
    """
    if os.path.isdir(path):
        return True
    return begins_snapshot(_start(path))


def is_log(path: str) -> bool:
    """Whether a path names a log.

    :raises Failure: it cannot be read.
    """
    return not os.path.isdir(path) and _start(path) == MAGIC


def _start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4)
    except OSError as error:
        raise wrong(PROG, f"cannot read {path}: {error.strerror}") from None


def _folder(path: str) -> Path:
    inner = Path(path) / FOLDER
    return inner if inner.is_dir() else Path(path)


def image_of(path: str, progress: Callable[[str, int], object] = lambda what, count: None) -> Image:
    """Read a snapshot, or restore a data directory. What does not matter is told on standard error.

    :raises Failure: it cannot be read, or is damaged.
    """
    try:
        if not os.path.isdir(path):
            with open(path, "rb") as file:
                names = Listing.of([os.path.basename(path)]).snapshots
                image, digest = read_image(file, names[0].zxid if names else -1, progress)
            if digest is not None and digest.zxid == image.zxid and image.count_digest() != digest.digest:
                text = "it does not match its digest: without its log it may hold half a transaction"
                say(PROG, f"{path}: {text}")
            return image
        folder = _folder(path)
        restorer = Restorer(
            os.listdir(folder),
            lambda name: (folder / name).open("rb"),
            tell=lambda line: say(PROG, f"{path}: {line}"),
            progress=progress,
        )
        return restorer.restore().image
    except (FileError, Damaged) as error:
        raise Failure(Status.NO, f"{path}: {error}") from None
    except OSError as error:
        raise wrong(PROG, f"cannot read {path}: {error.strerror}") from None


def entries_of(path: str) -> Iterator[Entry]:
    """Yield the entries of a log, or of all logs of a data directory. What does not matter is told on
    standard error.

    :raises Failure: one cannot be read, or is damaged.
    """
    if os.path.isdir(path):
        folder = _folder(path)
        paths = [folder / name.text for name in Listing.of(os.listdir(folder)).logs]
    else:
        paths = [Path(path)]
    for each in paths:
        try:
            with each.open("rb") as file:
                reader = LogReader(file)
                yield from reader.entries()
        except FileError as error:
            raise Failure(Status.NO, f"{each}: {error}") from None
        except OSError as error:
            raise wrong(PROG, f"cannot read {each}: {error.strerror}") from None
        if reader.torn is not None:
            say(PROG, f"{each}: byte {reader.torn:,}: the last entry is torn: it was never whole")

"""The places of trees on a disk: a snapshot, a data directory, or a dump in JSON (:mod:`pyzk.protocol.dump`).

Only this module of the folder opens files itself. Each function raises :class:`OSError` if a file cannot be
read or written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

from .image import Image
from .names import FOLDER, Listing, snapshot_name
from .restoring import Restorer, read_image
from .streams import COMPRESSIONS, begins_snapshot, compressing
from .writing import encoded

_MODE = 0o600
"""Only the owner may read the files, because access control lists contain digests of passwords."""


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading. Devices and pipes are refused: a device may have no end, and a pipe cannot be
    read from its beginning again."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return open(path, "rb")


def begins(path: str | os.PathLike[str]) -> bytes:
    """Return the first 4 bytes of a file."""
    with open_regular(path) as file:
        return file.read(4)


def is_data(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a snapshot or a data directory, and not a dump."""
    return os.path.isdir(path) or begins_snapshot(begins(path))


def folder_of(path: str | os.PathLike[str]) -> Path:
    """Return the folder inside a data directory that holds the snapshots and logs."""
    inner = Path(path) / FOLDER
    return inner if inner.is_dir() else Path(path)


def image_at(
    path: str | os.PathLike[str],
    tell: Callable[[str], object] = lambda line: None,
    progress: Callable[[str, int], object] = lambda what, count: None,
) -> Image:
    """Read a snapshot, or restore a data directory.

    :param tell: a function that receives a line for each harmless fault.
    :param progress: a function that is called at intervals with two arguments: what is read (``znodes`` or
        ``entries``), and how many were read so far.
    :raises FileError: the snapshot is damaged.
    :raises Damaged: the files of the directory do not fit together.
    """
    if os.path.isdir(path):
        folder = folder_of(path)
        restorer = Restorer(
            os.listdir(folder), lambda name: open_regular(folder / name), tell=tell, progress=progress
        )
        return restorer.restore().image
    with open_regular(path) as file:
        names = Listing.of([os.path.basename(path)]).snapshots
        image, digest = read_image(file, names[0].zxid if names else -1, progress)
    if digest is not None and digest.zxid == image.zxid and image.count_digest() != digest.digest:
        tell("it does not match its digest: without its log it may hold half a transaction")
    return image


def write_image(image: Image, path: str | os.PathLike[str], replace: bool = False) -> Path:
    """Write an image. If the path is a directory or ends with a slash, the image is written into this data
    directory, which must hold no data yet. Otherwise the path is the path of a snapshot. The end of the path
    chooses the compression.

    :param replace: whether a snapshot that exists already may be replaced.
    :returns: the path of the snapshot.
    :raises FileExistsError: the snapshot exists already, or the directory holds data.
    """
    target = Path(path)
    if os.fspath(path).endswith("/") or target.is_dir():
        target = target if target.name == FOLDER else target / FOLDER
        target.mkdir(0o700, parents=True, exist_ok=True)
        if any(Listing.of(os.listdir(target))):
            raise FileExistsError(f"{target} already contains data; name another directory")
        target /= snapshot_name(image.zxid)
    elif target.exists() and not replace:
        raise FileExistsError(f"{target} exists; name another file")
    compression = target.suffix[1:] if target.suffix[1:] in COMPRESSIONS else ""
    with new_file(target) as file, compressing(file, compression) as stream:
        for piece in encoded(image):
            stream.write(piece)
    return target


def new_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for writing; only the owner of the file may read it."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb")

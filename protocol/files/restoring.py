"""Making one image from the files of a data directory (files.md section 4).

1. The newest snapshot that can be read to its end is taken.
2. The log entries after the zxid of the snapshot are applied. These entries begin in the last log whose name
   has the zxid of the snapshot or a smaller zxid.
3. The result must have no gap: each zxid is the previous zxid plus 1, or it begins a new epoch. The epoch is
   the high 32 bits of a zxid.

There are three kinds of faults:

* *Reported*: a torn entry at the end of a log, because no client got an answer for this entry. An unfinished
  snapshot, if an older snapshot and the logs replace the unfinished snapshot. A wrong digest, if a different
  kind of server may have computed the digest in a different way.
* *Damage*: :class:`Damaged` is raised, with file and offset. With ``repair`` the result is everything before
  the damage. The result also names all later files, which the caller must set aside.
* The errors that the caller's ``open_file`` raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import IO, Final, TypeAlias

import attrs

from .digest import LIST, LISTED
from .image import Image, ImageNode
from .names import Listing, Name
from .snapshot import UNBOUNDED, Bounds, SnapshotReader, ZxidDigest
from .streams import FileError
from .txnlog import LogReader

OpenFile: TypeAlias = Callable[[str], IO[bytes]]
_REPORT_EVERY: Final = 20_000
"""The number of znodes or entries between two reports of progress."""


class Damaged(ValueError):
    """The files do not fit together; the message is one line that says why."""


@attrs.define
class Restored:
    """The result of a restore.

    :ivar snapshot: the name of the snapshot that was used; None if the directory has no files.
    :ivar entries: the number of log entries that were applied.
    :ivar aside: the files after a damage, which were not used.
    :ivar digests: pairs of a replayed zxid and the digest of the tree after this zxid, as the word ``hash``
        lists them; the oldest pair first.
    """

    image: Image
    snapshot: str | None = None
    entries: int = 0
    aside: list[str] = attrs.field(factory=list)
    digests: deque[tuple[int, int]] = attrs.field(factory=lambda: deque(maxlen=LIST))


def read_image(
    file: IO[bytes],
    zxid: int,
    progress: Callable[[str, int], object] = lambda what, count: None,
    bounds: Bounds = UNBOUNDED,
) -> tuple[Image, ZxidDigest | None]:
    """Read a whole snapshot.

    :param zxid: the zxid in the name of the file; -1 means the zxid inside the file.
    :param progress: a function that is called at intervals with the word ``znodes`` and the number of znodes
        so far.
    :param bounds: the largest accepted sizes.
    :returns: the image, and the digest from the file.
    :raises FileError: the snapshot is damaged, or too large.
    """
    reader = SnapshotReader(file, bounds)
    image = Image()
    nodes = image.nodes
    for count, (path, data, acl, stat) in enumerate(reader.nodes(), 1):
        nodes[path] = ImageNode(data, acl, stat)
        if count % _REPORT_EVERY == 0:
            progress("znodes", count)
    if "" not in nodes:
        raise FileError(reader.offset, "the tree has no root")
    image.sessions = reader.sessions
    if zxid < 0:
        zxid = (
            reader.last_zxid if reader.last_zxid is not None else reader.digest.zxid if reader.digest else 0
        )
    image.zxid = zxid
    return image, reader.digest


class Restorer:
    """Restores the files of one directory.

    :param names: the names of all files.
    :param open_file: a function that opens the file of a name.
    :param tell: a function that receives a line for each harmless fault.
    :param repair: whether damage is accepted. With True, everything before the damage is used.
    :param progress: a function that is called at intervals with two arguments: what is read (``znodes`` or
        ``entries``), and how many were read so far.
    :param bounds: the largest accepted sizes of a snapshot.
    """

    def __init__(
        self,
        names: Iterable[str],
        open_file: OpenFile,
        *,
        tell: Callable[[str], object] = lambda line: None,
        repair: bool = False,
        progress: Callable[[str, int], object] = lambda what, count: None,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self._listing = Listing.of(names)
        self._open = open_file
        self._tell = tell
        self._repair = repair
        self._progress = progress
        self._bounds = bounds
        self._digest: ZxidDigest | None = None  # the digest in the snapshot
        self._skipped: list[tuple[Name, str]] = []  # snapshots that cannot be read
        self._doubt: str | None = None  # the first place where a digest differs

    def restore(self) -> Restored:
        """:raises Damaged: the files do not fit together, and ``repair`` is false."""
        found = self._take_snapshot()
        self._replay(found)
        image = found.image
        for name, reason in self._skipped:
            if name.zxid > image.zxid:
                self._damage(f"{name.text}, {reason}; the logs end earlier", found, name.text)
            else:
                self._tell(f"{name.text}, {reason}; an older snapshot and the logs replace it")
        if self._doubt is not None:
            if all(path.isascii() for path in image.nodes):
                self._damage(f"{self._doubt}: a part of the tree is missing or wrong", found)
            else:  # a server on a Java before 18 may hash such paths in another way (files.md section 6)
                self._tell(f"{self._doubt}; it has paths beyond ASCII, whose digest differs between servers")
        return found

    def _damage(self, reason: str, found: Restored, *files: str) -> None:
        if not self._repair:
            raise Damaged(reason)
        self._tell(f"{reason}; left out by the repair")
        found.aside.extend(name for name in files if name not in found.aside)

    def _take_snapshot(self) -> Restored:
        for name in reversed(self._listing.snapshots):
            try:
                with self._open(name.text) as file:
                    image, self._digest = read_image(file, name.zxid, self._progress, self._bounds)
            except FileError as error:
                self._skipped.append((name, str(error)))
            else:
                return Restored(image, name.text)
        if self._listing.logs or self._skipped:
            what = "none of the snapshots can be read" if self._skipped else "there are logs and no snapshot"
            first = f" ({self._skipped[0][0].text}, {self._skipped[0][1]})" if self._skipped else ""
            found = Restored(Image.fresh())
            self._damage(f"{what}{first}: the tree at their beginning is unknown", found)
            return found
        return Restored(Image.fresh())

    def _replay(self, found: Restored) -> None:
        image = found.image
        start = image.zxid
        if self._digest is not None and self._digest.zxid >= start:
            image.count_digest()
            self._compare(image, *self._digest, "the snapshot")
        logs = self._listing.logs_from(start)
        for number, name in enumerate(logs):
            try:
                with self._open(name.text) as file:
                    self._replay_log(file, name, found, start)
            except FileError as error:
                rest = [log.text for log in logs[number:]]
                more = f"; {len(rest) - 1} later logs are there" if len(rest) > 1 else ""
                self._damage(f"{name.text}, {error}{more}", found, *rest)
                return

    def _replay_log(self, file: IO[bytes], name: Name, found: Restored, start: int) -> None:
        image = found.image
        reader = LogReader(file)
        last = 0
        for entry in reader.entries():
            zxid = entry.zxid
            if last and zxid <= last:
                raise FileError(entry.offset, f"zxid 0x{zxid:x} comes behind 0x{last:x}")
            last = zxid
            if zxid <= start:
                continue
            if zxid != image.zxid + 1 and zxid >> 32 == image.zxid >> 32:
                if zxid <= image.zxid:
                    raise FileError(entry.offset, f"zxid 0x{zxid:x} comes behind 0x{image.zxid:x}")
                raise FileError(
                    entry.offset, f"the transactions from 0x{image.zxid + 1:x} to 0x{zxid - 1:x} are missing"
                )
            image.apply(entry)
            found.entries += 1
            if found.entries % _REPORT_EVERY == 0:
                self._progress("entries", found.entries)
            if self._digest is not None and self._digest.zxid >= zxid:
                self._compare(image, *self._digest, "the snapshot")  # not valid before this zxid
            elif entry.digest is not None:
                if image.digest is None:
                    image.count_digest()
                self._compare(image, zxid, entry.digest, name.text)
                if zxid % LISTED == 0:
                    found.digests.append((zxid, entry.digest))
        if reader.torn is not None:
            text = "the last entry is incomplete and is left out: the server stopped while it wrote the entry"
            self._tell(f"{name.text}, byte {reader.torn:,}: {text}")

    def _compare(self, image: Image, zxid: int, digest: int, where: str) -> None:
        """Compare the digest of the image with the digest after the transaction ``zxid``.

        The first place where digests differ is noted. Only the last comparison decides, because a snapshot
        that was written while the tree changed becomes right later.
        """
        if image.zxid != zxid:
            return
        if image.digest == digest:
            self._doubt = None
        elif self._doubt is None:
            self._doubt = f"{where}: the tree at 0x{image.zxid:x} does not match its digest"

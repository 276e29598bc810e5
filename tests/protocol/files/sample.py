"""A small history in files, made entry by entry."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from typing import IO

from pyzk.protocol.files import snapshot
from pyzk.protocol.files.image import Image
from pyzk.protocol.files.restoring import Restored, Restorer
from pyzk.protocol.files.snapshot import NodeEncoder, ZxidDigest
from pyzk.protocol.files.txnlog import (
    FILE_HEADER,
    AnyTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    encode,
)
from pyzk.protocol.records import ACL, OPEN_ACL, Id

SESSION = 0x100000000000001
READ_ONLY = (ACL(1, Id("world", "anyone")),)
HISTORY: list[tuple[int, AnyTxn]] = [
    (-10, CreateSessionTxn(30_000)),
    (1, CreateTxn("/a", b"data", OPEN_ACL, False, 1)),
    (5, SetDataTxn("/a", b"other", 1)),
    (1, CreateTxn("/a/e", None, OPEN_ACL, True, 1)),
    (-1, ErrorTxn(-101)),
    (7, SetACLTxn("/a", READ_ONLY, 1)),
    (14, MultiTxn([(1, CreateTxn("/m", b"", READ_ONLY, False, 2)), (2, DeleteTxn("/m"))])),
    (19, CreateContainerTxn("/c", b"", OPEN_ACL, 3)),
    (21, CreateTTLTxn("/t", b"x", OPEN_ACL, 4, 5000)),
    (14, MultiTxn([(1, CreateTxn("/n", b"", OPEN_ACL, False, 5)), (-1, ErrorTxn(-110))])),
    (14, MultiTxn([])),
    (20, DeleteTxn("/c")),
    (-11, CloseSessionTxn(("/a/e",))),
]


def entries(first: int = 1, *, with_digests: bool = True) -> list[Entry]:
    """The history; its zxids begin at ``first``."""
    image = Image.fresh()
    image.count_digest()
    made = []
    for zxid, (type_, txn) in enumerate(HISTORY, first):
        entry = Entry(0, SESSION, 7, zxid, 1_700_000_000_000 + zxid, type_, txn, None)
        image.apply(entry)
        digest = image.digest if with_digests else None
        made.append(Entry(0, SESSION, 7, zxid, entry.time, type_, txn, digest))
    return made


def log(made: list[Entry]) -> bytes:
    return FILE_HEADER + b"".join(map(encode, made))


def written(image: Image, *, with_digest: bool = True) -> bytes:
    """An image as a snapshot."""
    encoder = NodeEncoder()
    body = b"".join(
        encoder.encode(path, node.data, node.acl, node.stat) for path, node in image.nodes.items()
    )
    head = encoder.head(image.sessions)
    digest = ZxidDigest(image.zxid, image.count_digest()) if with_digest else None
    return head + body + snapshot.tail(zlib.adler32(head + body), digest, image.zxid)


class Folder:
    """Files by name."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.told: list[str] = []

    def open(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.files[name])

    def restore(self, *, repair: bool = False) -> Restored:
        self.told.clear()
        return Restorer(self.files, self.open, tell=self.told.append, repair=repair).restore()


def history(first: int = 1, *, with_digests: bool = True) -> Folder:
    """The files of a server that was started once, and killed."""
    made = entries(first, with_digests=with_digests)
    start = Image.fresh()
    start.zxid = first - 1
    return Folder({f"snapshot.{first - 1:x}": written(start), f"log.{first:x}": log(made)})


def prefixes(made: list[Entry]) -> list[dict[str, object]]:
    """What the tree holds after none of the entries, after the first one, and so on."""
    image = Image.fresh()
    states = [state(image)]
    for entry in made:
        image.apply(entry)
        states.append(state(image))
    return states


def state(image: Image) -> dict[str, object]:
    """A copy of all that an image holds."""
    nodes = {path: (node.data, node.acl, node.stat) for path, node in image.nodes.items()}
    return {"nodes": nodes, "sessions": dict(image.sessions), "zxid": image.zxid}

"""Makes a tree of znodes from an image of the files."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...protocol.files.image import Image, ImageNode
from ...protocol.files.snapshot import STAT
from ...protocol.records import ACL
from ..core.acl import shared_acl
from ..core.znode import Children, OwnedZnode, Znode, find_below

_REPORT_EVERY = 50_000
"""The number of znodes between two reports of progress."""


def stored_stat(node: Znode) -> bytes:
    """Return the Stat of a znode in the form that files have."""
    children = node.children
    if children is None:
        created, changed = 0, node.czxid
    else:
        created, changed = children.created, children.changed
    return STAT.pack(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        created,
        node.aversion,
        node.owner,
        changed,
    )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Make many objects without the garbage collector, which would check all objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build(image: Image, progress: Callable[[int], object] = lambda count: None) -> tuple[Znode, list[str]]:
    """Make znodes from an image. The image is emptied meanwhile, so the memory for both is never needed at
    the same time.

    Built-in znodes that are missing are added.

    :param progress: called after every 50,000 znodes with the number of znodes that are made.
    :returns: the root, and the paths whose parents are missing.
    """
    for path, node in Image.fresh().nodes.items():
        image.nodes.setdefault(path, node)
    acls: dict[tuple[ACL, ...], tuple[ACL, ...]] = {}
    root = _znode(image.nodes.pop(""), acls)
    later: list[tuple[str, ImageNode]] = []
    last, parent = "", root
    with collector_paused():
        paths = list(image.nodes)
        for count, path in enumerate(paths, 1):
            node = image.nodes.pop(path)
            above, _, name = path.rpartition("/")
            if above != last:
                found = find_below(root, above)
                if found is None:
                    later.append((path, node))
                    continue
                last, parent = above, found
            _hang(parent, name, _znode(node, acls))
            if count % _REPORT_EVERY == 0:
                progress(count)
    # A snapshot that was written while the tree changed may have parents behind their children.
    lost = []
    for path, node in sorted(later, key=lambda item: item[0].count("/")):
        above, _, name = path.rpartition("/")
        found = find_below(root, above)
        if found is None:
            lost.append(path)
        else:
            _hang(found, name, _znode(node, acls))
    return root, lost


def _znode(node: ImageNode, acls: dict[tuple[ACL, ...], tuple[ACL, ...]]) -> Znode:
    czxid, mzxid, ctime, mtime, version, created, aversion, owner, pzxid = STAT.unpack(node.stat)
    acl = acls.get(node.acl)
    if acl is None:
        acl = acls[node.acl] = shared_acl(node.acl)
    made = OwnedZnode(node.data, acl, czxid, ctime, owner) if owner else Znode(node.data, acl, czxid, ctime)
    if mzxid != czxid:  # equal numbers share one object
        made.mzxid = mzxid
    if mtime != ctime:
        made.mtime = mtime
    made.version, made.aversion = version, aversion
    if created or pzxid != czxid:
        made.children = Children(made.czxid if pzxid == czxid else pzxid)
        made.children.created = created
    return made


def _hang(parent: Znode, name: str, node: Znode) -> None:
    if parent.children is None:
        parent.children = Children(parent.czxid)
    parent.children[name] = node

"""The footprint of a request: what the request reads and writes.

Two requests can change places if their footprints do not touch. A footprint is a set of marks. A mark has an
aspect, a name, and a flag. The flag says whether the step writes the aspect. The aspects of a znode are
``node`` (whether it exists, and its data) and ``children`` (their names, and the counter of sequential
children). The aspect ``client`` is the messages to one client: an event for a client comes before or after
each request of the client. ``point`` is what the scenario's clients share in memory. ``all`` is everything.
``told node`` and ``told children`` are the replies and events about a znode: a late reply to one client comes
before or after the messages about the same znode to other clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ...protocol.constants import CreateMode
from ...protocol.jute import JuteError
from ...protocol.multi import decode_multi
from ...protocol.operations import OpCode
from ..testing.operations import decode, name_of

Mark: TypeAlias = tuple[str, str, bool]
Footprint: TypeAlias = frozenset[Mark]

NOTHING: Final[Footprint] = frozenset()
EVERYTHING: Final[Footprint] = frozenset([("all", "", True)])
OF_A_POINT: Final[Footprint] = frozenset([("point", "", True)])
_SEQUENTIAL: Final = frozenset(mode for mode in CreateMode if "SEQUENTIAL" in mode.name)
_READS: Final = frozenset({"exists", "get_data", "get_acl", "check"})


def of_request(op: int, frame: bytes, ephemerals: Iterable[str] = ()) -> Footprint:
    """Return the footprint of a request.

    :param ephemerals: the paths of the session's ephemerals, which a close of the session deletes.
    """
    name = name_of(op)
    if name == "close_session":
        return frozenset(mark for path in ephemerals for mark in _deleted(path))
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        try:
            items = decode_multi(frame, 8)
        except JuteError:
            return NOTHING
        return frozenset(mark for item in items for mark in _marks(name_of(item.op), item.request))
    return frozenset(_marks(name, decode(op, frame)))


def of_event(client: str, path: str) -> Footprint:
    """Return the footprint of a watch event on its way to a client. A change of the znode caused the event.

    :param client: the client's name.
    :param path: the path of the znode.
    """
    changed = [("node", path, False), ("children", path, False)]
    return frozenset([("client", client, True), *changed, *_told(changed)])


def of_reply(client: str, request: Footprint) -> Footprint:
    """Return the footprint of a reply that is a step of its own.

    :param client: the client's name.
    :param request: the footprint of the request.
    """
    return EVERYTHING if request >= EVERYTHING else frozenset([("client", client, True), *_told(request)])


def dependent(one: Footprint, other: Footprint) -> bool:
    """Return whether the order of two steps matters.

    :param one: the footprint of a step.
    :param other: the footprint of another step.
    """
    if one >= EVERYTHING or other >= EVERYTHING:
        return True
    for aspect, name, written in one:
        if (aspect, name, True) in other or (written and (aspect, name, False) in other):
            return True
    return False


def _told(marks: Iterable[Mark]) -> Iterator[Mark]:
    """Yield the marks of a message that reports to a client what a request has read or written."""
    for aspect, name, written in marks:
        yield f"told {aspect}", name, written


def _marks(name: str, request: object) -> Iterator[Mark]:
    path = getattr(request, "path", None)
    if name == "sync" or request is None:
        return
    if not isinstance(path, str):
        yield from EVERYTHING
    elif name == "create":
        yield "children", _parent(path), True
        yield "node", _parent(path), False
        if getattr(request, "flags", 0) not in _SEQUENTIAL:  # the server chooses those names
            yield "node", path, True
    elif name == "delete":
        yield from _deleted(path)
    elif name in ("set_data", "set_acl"):
        yield "node", path, True
    elif name in _READS:
        yield "node", path, False
    elif name == "get_children":
        yield "node", path, False
        yield "children", path, False
    else:
        yield from EVERYTHING


def _deleted(path: str) -> Iterator[Mark]:
    yield "node", path, True
    yield "children", path, False
    yield "children", _parent(path), True


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"

"""The conditions that a test can wait for. They are about the tree, the sessions and the requests. Python and
HTTP use the same table of conditions.

1. The server checks the condition at each change, not at intervals. So a condition also holds for a znode
   that exists only for a moment.
2. The given values decide which condition is meant (:func:`kind_of`). For example, a path alone means that
   the znode exists.
3. A session with a name is looked up at each check, because the session may begin later.
4. In an ensemble, the conditions use the tree of the server that has applied the most, and the sessions and
   requests of all servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs
import trio

from ...protocol.operations import PING
from ...protocol.text import session_text
from ..core.tree import DataTree
from ..core.znode import Znode
from ..net.connection import Connection
from .finding import address_of, find, live_sessions
from .history import Entry, selector
from .observers import AddressWait, RequestWait, Wait
from .operations import Selection, name_of
from .running import Running
from .running_ensemble import RunningEnsemble

_SHOWN: Final = 10
"""The number of children that a message shows. A message shows ten times as many characters of data."""
_STEP: Final = 10
"""The number of past entries that are counted in one step."""

Values: TypeAlias = Mapping[str, Any]
"""``path``, ``data`` (bytes or None), ``children`` (names, or their number), ``op``, ``session``, ``count``,
``since`` (seconds on the server's clock), ``quiet`` (seconds). Values that were not given are missing."""


@attrs.frozen
class Condition:
    """
    :ivar wait: the observer of the servers.
    :ivar parts: the servers.
    :ivar words: the condition in words, such as ``/x to exist``.
    :ivar instead: describes the present state.
    """

    wait: Wait
    parts: Sequence[Running]
    words: str
    instead: Callable[[], str]

    async def is_met(self, seconds: float, past: Callable[[Wait], Any] | None = None) -> bool:
        """Return True as soon as the condition holds. Return False after ``seconds`` seconds of trio's clock.

        :param past: an async function that counts earlier requests.
        """
        for running in self.parts:
            running.observe(self.wait)
        try:
            for running in self.parts:
                running.receive()
            if past is not None:
                await past(self.wait)
            self.wait.happened()
            return await self.wait.until_met(seconds)
        finally:
            for running in self.parts:
                running.unobserve(self.wait)


def kind_of(given: Collection[str]) -> str:
    """Return the kind of the condition, from the names of the values.

    :raises ValueError: the values name no condition.
    """
    if "session" in given and not {"op", "path", "since"} & set(given):
        return "session"
    for name, kind in _BY_NAME:
        if name in given:
            return kind
    if "path" in given:
        return "owner" if "session" in given else "exists"
    raise ValueError("say what to wait for: path, data, children, op or session")


def begin(running: Running | RunningEnsemble, kind: str, values: Values) -> Condition:
    """Make the condition.

    :param kind: one of :data:`KINDS`.
    :raises ValueError: a value is missing, or a value does not belong to this kind.
    """
    make, needed, taken = KINDS[kind]
    if not needed <= values.keys() <= needed | taken:
        fields = [*sorted(needed), *(f"{name} if you like" for name in sorted(taken))]
        raise ValueError(f"until {kind} takes {', '.join(fields)}; and timeout")
    if values.get("count", 1) < 1:
        raise ValueError(f"count counts from 1, not {values['count']}")
    if not values.get("quiet", 1.0) > 0:
        raise ValueError(f"quiet must be a number of seconds above 0, not {values['quiet']}")
    return make(_Scene(running), values)


class _Scene:
    """The parts of a server or an ensemble that conditions read."""

    def __init__(self, running: Running | RunningEnsemble) -> None:
        self.parts = list(running.each())
        self.running = running

    def tree(self) -> DataTree:
        running = self.running
        return running.engine.tree if isinstance(running, Running) else running.host.ensemble.newest_tree()

    def node(self, path: str) -> Znode | None:
        return self.tree().nodes.get(path)

    def sessions(self, given: str | None) -> set[int]:
        return {session for part in self.parts for session in live_sessions(part, given)}

    def condition(self, look: Callable[[], bool], words: str, instead: Callable[[], str]) -> Condition:
        return Condition(Wait(look), self.parts, words, instead)

    def on_znode(self, path: str, look: Callable[[Znode], bool], words: str) -> Condition:
        """The value of a znode that exists."""

        def found() -> bool:
            node = self.node(path)
            return node is not None and look(node)

        return self.condition(found, f"{path} {words}", lambda: self.describe(path))

    def describe(self, path: str) -> str:
        node = self.node(path)
        if node is None:
            parent = path.rpartition("/")[0] or "/"
            above = self.node(parent)
            where = f"{parent} has {_named(above.children or ())}" if above else f"nor does {parent}"
            return f"it does not exist; {where}"
        owner = f", of session {session_text(node.owner)}" if node.owner > 0 else ""
        return f"it has the data {_shown(node.data)} and {_named(node.children or ())}{owner}"


def _shown(data: bytes | None) -> str:
    return repr(data) if data is None or len(data) <= 10 * _SHOWN else f"{data[: 10 * _SHOWN]!r}.."


def _named(names: Collection[str]) -> str:
    more = len(names) - _SHOWN
    listed = ", ".join(islice(names, _SHOWN)) + (f", and {more:,} more" if more > 0 else "")
    return f"the children {listed}" if names else "no children"


def _exists(scene: _Scene, values: Values) -> Condition:
    return scene.on_znode(values["path"], lambda node: True, "to exist")


def _gone(scene: _Scene, values: Values) -> Condition:
    path = values["path"]
    return scene.condition(
        lambda: scene.node(path) is None, f"{path} to be gone", lambda: scene.describe(path)
    )


def _data(scene: _Scene, values: Values) -> Condition:
    data = values["data"]
    return scene.on_znode(values["path"], lambda node: node.data == data, f"to have the data {_shown(data)}")


def _children(scene: _Scene, values: Values) -> Condition:
    wanted = values["children"]
    if isinstance(wanted, int):
        return scene.on_znode(
            values["path"], lambda node: len(node.children or ()) == wanted, f"to have {wanted:,} children"
        )
    names = set(wanted)
    return scene.on_znode(
        values["path"], lambda node: (node.children or {}).keys() == names, f"to have {_named(sorted(names))}"
    )


def _owner(scene: _Scene, values: Values) -> Condition:
    given = values["session"]

    def is_theirs(node: Znode) -> bool:
        return bool(node.owner) and node.owner in scene.sessions(given)

    return scene.on_znode(values["path"], is_theirs, f"to be of session {given}")


def _session(scene: _Scene, values: Values) -> Condition:
    given, count = values.get("session"), values.get("count", 1)
    address = address_of(given)

    def live() -> int:
        if given is None:
            return len(scene.parts[0].engine.sessions)
        return len(scene.sessions(given))

    def instead() -> str:
        return f"{live():,} of {len(scene.parts[0].engine.sessions):,} sessions match"

    words = f"{_times(count, 'session')}{f' {given}' if given is not None else ''} to live"
    if address is not None and len(scene.parts) == 1:
        wait = AddressWait(address, scene.parts[0].service.connections, count)
        return Condition(wait, scene.parts, words, instead)
    return scene.condition(lambda: live() >= count, words, instead)


class PastRequests(RequestWait):
    """
    :param past: the requests before the wait. They are counted while new requests come.
    :param wanted: returns whether a request counts.
    """

    def __init__(
        self, selection: Selection, count: int, past: Iterable[Entry], wanted: Callable[[Entry], bool]
    ) -> None:
        super().__init__(selection, count)
        self._past, self._wanted = past, wanted

    def count_past(self) -> Generator[None, None, None]:
        """Count the earlier requests in steps. The list of these requests is made before the first step."""
        for n, entry in enumerate(self._past):
            self.seen += self._wanted(entry)
            if n % _STEP == 0:
                yield


def _request(scene: _Scene, values: Values) -> Condition:
    op, path, count = values.get("op"), values.get("path"), values.get("count", 1)
    session = find(scene.parts, values["session"]) if "session" in values else None
    chosen = selector(kind="request", op=op, path=path, session=session, since=values.get("since", 0.0))
    told, selection = scene.running.told, Selection.of(op, path, session)
    wait = PastRequests(
        selection,
        count,
        () if told is None else told.entries(),
        lambda entry: chosen(entry) and (op is not None or entry.op != "ping"),
    )
    words = f"{_times(count, 'request')} to come: {selection.describe('request')}"
    return Condition(wait, scene.parts, words, lambda: f"{wait.seen:,} came")


def _held(scene: _Scene, values: Values) -> Condition:
    count = values.get("count", 1)

    def held() -> int:
        return sum(len(part.gate.held()) for part in scene.parts)

    return scene.condition(
        lambda: held() >= count, f"{_times(count, 'message')} to be held", lambda: f"{held():,} are"
    )


def _outstanding(scene: _Scene, values: Values) -> Condition:
    count = values.get("count", 1)
    return scene.condition(
        lambda: outstanding(scene.parts) >= count,
        f"{_times(count, 'request')} to wait",
        lambda: f"{outstanding(scene.parts):,} wait",
    )


def outstanding(parts: Iterable[Running]) -> int:
    """Return how many requests wait at the servers."""
    return sum(part.service.outstanding() for part in parts)


def _times(count: int, what: str) -> str:
    return f"a {what}" if count == 1 else f"{count:,} {what}s"


class _Idle(Wait):
    """Waits until all requests are answered, and nothing has happened for ``quiet`` seconds."""

    def __init__(self, parts: Sequence[Running], quiet: float) -> None:
        super().__init__(lambda: False)
        self._parts, self._quiet = parts, quiet
        self._last = trio.current_time()
        self.last_op: str | None = None

    def request(self, connection: Connection, op: int, frame: bytes) -> None:
        if op != PING:
            self._last, self.last_op = trio.current_time(), name_of(op)

    def happened(self) -> None:
        self._last = trio.current_time()

    def unanswered(self) -> int:
        return outstanding(self._parts) + sum(len(part.gate.held()) for part in self._parts)

    async def until_met(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            while True:
                left = self._last + self._quiet - trio.current_time()
                if left <= 0 and not self.unanswered():
                    return True
                await trio.sleep(left if left > 0 else self._quiet)
        return False


def _idle(scene: _Scene, values: Values) -> Condition:
    quiet = values.get("quiet", QUIET)
    wait = _Idle(scene.parts, quiet)

    def instead() -> str:
        last = f"the last request was {wait.last_op}" if wait.last_op else "no request has come meanwhile"
        return f"{wait.unanswered():,} messages wait; {last}"

    return Condition(wait, scene.parts, f"the clients to be idle for {quiet:g} s", instead)


QUIET: Final = 0.1
"""The default number of seconds without a request after which clients are idle."""
_BY_NAME: Final = (
    ("op", "request"),
    ("count", "request"),
    ("since", "request"),
    ("gone", "gone"),
    ("quiet", "idle"),
    ("data", "data"),
    ("children", "children"),
)
KINDS: Final[Mapping[str, tuple[Callable[[_Scene, Values], Condition], set[str], set[str]]]] = {
    "exists": (_exists, {"path"}, set()),
    "gone": (_gone, {"path"}, {"gone"}),
    "data": (_data, {"path", "data"}, set()),
    "children": (_children, {"path", "children"}, set()),
    "owner": (_owner, {"path", "session"}, set()),
    "session": (_session, set(), {"session", "count"}),
    "request": (_request, set(), {"op", "path", "session", "count", "since"}),
    "held": (_held, set(), {"count"}),
    "outstanding": (_outstanding, set(), {"count"}),
    "idle": (_idle, set(), {"quiet"}),
}
"""The kinds of conditions. For each kind: its function, the values that it needs, and the values that it can
have."""

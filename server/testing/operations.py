"""The words with which a test selects requests. A test gives operations by name, and paths as a glob."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from ...protocol.jute import JuteError, Record
from ...protocol.multi import decode_multi
from ...protocol.operations import CLIENTS, PING, OpCode
from ...protocol.text import session_text
from ..config.overrides import close_to
from .globs import Glob

_FAMILIES: dict[str, list[int]] = {}  # clients choose among these by themselves: a test need not know which
for _op in sorted(CLIENTS):
    _FAMILIES.setdefault(OpCode(_op).word, []).append(_op)
_ALIASES = {"get": "get_data", "set": "set_data", "close": "close_session"}
_NAMES = {op: name for name, ops in _FAMILIES.items() for op in ops}
_MEMBERS = {OpCode(op).name.lower(): name for op, name in _NAMES.items()}  # create2 is all creates, too
_WORDS = _MEMBERS | {name: name for name in _FAMILIES} | _ALIASES
_BY_WORD = {word.replace("_", ""): name for word, name in _WORDS.items()}
_KNOWN_OPS = {op.name.lower().replace("_", "") for op in OpCode}

_LONGEST = 100  # characters of a wrong word that are compared

ALL_BUT_PING = CLIENTS - {PING}


def name_of(op: int) -> str:
    """Return the word for an op code; all creates are ``create``."""
    return _NAMES.get(op) or (OpCode(op).name.lower() if op in list(OpCode) else f"op {op}")


def op_codes(op: str | Iterable[str] | None) -> frozenset[int]:
    """Return the op codes of one or several words. The argument None means all operations except pings.

    Underscores and capitals do not matter.

    :raises ValueError: a word names no operation.
    """
    if op is None:
        return ALL_BUT_PING
    words = (op,) if isinstance(op, str) else tuple(op)
    return frozenset(op for word in words for op in _FAMILIES[operation_name(word)])


def operation_name(word: str) -> str:
    """Return the name of an operation in the form that this package uses.

    :raises ValueError: the word names no operation, or an operation that does not pass the engine.
    """
    key = word.replace("_", "").lower()
    if key in _BY_WORD:
        return _BY_WORD[key]
    if key in _KNOWN_OPS:
        raise ValueError(
            f"op {word!r} is not a request that passes the engine, so it can be neither matched nor "
            "affected; to refuse clients use refuse_connections()"
        )
    meant = close_to(word[:_LONGEST].lower(), [*_FAMILIES, *_ALIASES])
    raise ValueError(f"unknown op {word!r}{meant}; there are: {', '.join(sorted(_FAMILIES))}")


def decode(op: int, frame: bytes) -> Record | None:
    """Read the record of a request behind its header. None if the request has no record, or if the record is
    malformed."""
    cls = OpCode(op).request if op in CLIENTS else None
    try:
        return cls.read(frame, 8)[0] if cls else None
    except JuteError:
        return None


def paths_in(op: int, frame: bytes) -> list[str]:
    """List the paths in a request. A multi and a setWatches have several paths."""
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        try:
            found = [getattr(item.request, "path", None) for item in decode_multi(frame, 8)]
        except JuteError:
            found = []
    else:
        found = []
        request = decode(op, frame)
        for name in ("path", "prefixPath"):
            found.append(getattr(request, name, None))
        for name in ("dataWatches", "existWatches", "childWatches"):
            found += getattr(request, name, None) or ()
        for name in ("persistentWatches", "persistentRecursiveWatches"):
            found += getattr(request, name, None) or ()
    return [path for path in found if path is not None]


@attrs.frozen
class Selection:
    """The messages that a fault or a hold selects.

    :ivar ops: op codes.
    :ivar pattern: the glob that a path of the message must match; None selects all messages.
    :ivar session: the id of a session; None selects all sessions.
    :ivar named: the names of the operations from the test; empty if the test has selected no operations.
    :ivar path: the pattern from the test.
    """

    ops: frozenset[int]
    pattern: Glob | None
    session: int | None
    named: Sequence[str] = ()
    path: str | None = None

    @classmethod
    def of(cls, op: str | Iterable[str] | None, path: str | None, session: int | None) -> Selection:
        """:raises ValueError: a word is not an operation, or a glob is too long."""
        named = () if op is None else (op,) if isinstance(op, str) else tuple(op)
        pattern = None if path is None else Glob(path)
        return cls(op_codes(op if op is None else named), pattern, session, named, path)

    def describe(self, kind: str) -> str:
        """Describe the selection in words, for messages of a kind."""
        where = "" if self.path is None else f" on {self.path}"
        whose = "" if self.session is None else f" of session {session_text(self.session)}"
        return f"{' or '.join(self.named) or f'any {kind}'}{where}{whose}"

    def has_request(self, session: int, op: int, frame: bytes) -> bool:
        """Return whether a request of this session is selected."""
        return op in self.ops and self.has_paths(session, lambda: paths_in(op, frame))

    def has_paths(self, session: int, paths: Callable[[], Iterable[str]]) -> bool:
        """Return whether a message of this session about one of these paths is selected."""
        if self.session not in (None, session):
            return False
        pattern = self.pattern
        return pattern is None or any(pattern.matches(path) for path in paths())

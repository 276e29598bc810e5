"""Reads each single key of a zoo.cfg, and sets its setting.

A key without effect is noted with the reason. :attr:`Reading.warnings` has lines for the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from . import tls
from .members import ServerAddress
from .overrides import NAMES, close_to
from .properties import ConfigError, Entry, parse
from .settings import check
from .sourced_values import SourcedValue
from .zookeys import (
    AT_CLIENT_PORT,
    CHECKED,
    IGNORED,
    KNOWN,
    NOT_YET,
    NUMBERED,
    PROPERTIES,
    Parser,
    boolean,
    is_off,
    reason_for,
)

_LIMITS = frozenset(("initLimit", "syncLimit"))
_OF_ENSEMBLES = frozenset(("electionAlg", "dynamicConfigFile"))
_OF_PRETENDED = {
    "there is no quorum": "the servers of a pretend ensemble send each other nothing",
    "each request is finished before the next one begins": (
        "the servers of a pretend ensemble let 1000 requests wait, and throttle none"
    ),
}
"""The reasons why a key has no effect with an ensemble, by the reasons for a single server."""


class Reading:
    """The state of reading one file and the keys of environment variables and ``--set``.

    :ivar name: the name of the file in errors and warnings.
    :ivar values: the values by field of :class:`Settings`.
    :ivar idle: the keys without effect, by the reason.
    :ivar unknown: the values of unknown keys, by key.
    :ivar servers: the ``server.N`` lines, by key.
    :ivar groups: the ``group.N`` and ``weight.N`` lines, by key.
    :ivar members: the members of the ensemble; empty for a single server.
    :ivar is_ensemble: whether the file, a flag or an argument requests an ensemble.
    """

    def __init__(self, text: str, name: str, beside: Iterable[Entry]) -> None:
        self.name = name
        self.entries = parse(text, name) | {entry.key: entry for entry in beside}
        self.values = {"config_text": SourcedValue(text, "the text", name)}
        self.idle: dict[str, list[str]] = {}
        self.warnings: list[str] = []
        self.unknown: dict[str, str] = {}
        self.servers: dict[str, Entry] = {}
        self.groups: dict[str, Entry] = {}
        self.members: list[ServerAddress] = []
        self.is_ensemble = False

    def take(self, entry: Entry) -> None:
        """Apply one key.

        :raises ConfigError: the key cannot have an effect.
        """
        key = entry.key
        if key in CHECKED:
            self.parse(entry, CHECKED[key])
        if key in KNOWN:
            field, parser = KNOWN[key]
            self.give(field, self.parse(entry, parser), entry)
        elif key in PROPERTIES:
            self._take_property(entry, *PROPERTIES[key])
        elif key in tls.OPTIONS or key in tls.QUORUM_OPTIONS or key.startswith(NUMBERED):
            pass  # their meaning depends on other keys: see ``rules``
        elif self.is_ensemble and key in _LIMITS:
            pass  # see ``servers.limits``
        elif self.members and (key in _OF_ENSEMBLES or key in self.servers or key in self.groups):
            pass
        elif reason := reason_for(key, IGNORED):
            self.note(reason, key)
        elif reason := reason_for(key, NOT_YET):
            if not is_off(entry.value):
                self.note(reason, key)
        else:
            self._take_unknown(entry)

    def _take_property(self, entry: Entry, field: str | None, parser: Parser) -> None:
        try:
            value = parser(entry.value)
            if field:
                check(field, value, entry.key)
        except ValueError as error:
            self.note("not understood, so the default is used", f"{entry.key} ({entry.place}: {error})")
            if parser is not boolean:
                return
            value = False
        self.give(field, value, entry)

    def _take_unknown(self, entry: Entry) -> None:
        self.unknown[entry.key] = entry.value
        if entry.key.startswith("zookeeper."):
            self.note("the prefix zookeeper. must be dropped", entry.key)
            return
        hint = close_to(entry.key, NAMES)
        self.note("unknown", f"{entry.key} ({entry.place}{hint})")

    def parse(self, entry: Entry, parser: Parser) -> Any:
        """Return the parsed value.

        :raises ConfigError: the value is malformed.
        """
        try:
            return parser(entry.value)
        except ValueError as error:
            self.refuse(entry, str(error))

    def give(self, field: str | None, value: object, entry: Entry) -> None:
        """Set a field of :class:`Settings`. If the field is None, do nothing."""
        if field:
            self.values[field] = SourcedValue(value, entry.key, entry.where)

    def warn(self, entry: Entry, message: str) -> None:
        """Warn of a value that is probably a mistake."""
        self.warnings.append(f"{entry.where}: {entry.key}: {message}")

    def note(self, reason: str, key: str) -> None:
        """Note that a key has no effect."""
        if self.is_ensemble:
            reason = _OF_PRETENDED.get(reason, reason)
        self.idle.setdefault(reason, []).append(key)

    def drop(self, reason: str, beginning: str, field: str) -> None:
        """Reset a field, and note the keys with a prefix that have no effect because another key has not
        enabled their feature.

        :param beginning: the prefix of these keys.
        """
        self.values.pop(field, None)
        used = AT_CLIENT_PORT if self.is_true("httpOnClientPort", default=True) else ()
        for key in self.entries:
            if key.startswith(beginning) and key not in used and (KNOWN | PROPERTIES).get(key, (None,))[0]:
                self.note(reason, key)

    def refuse(self, entry: Entry, message: str) -> NoReturn:
        """
        :raises ConfigError: always.
        """
        raise ConfigError(f"{entry.where}: {entry.key}: {message}") from None

    def is_true(self, key: str, *, default: bool = False) -> bool:
        """Return whether a key is true.

        :param default: its value if it is not there.
        """
        return self.entries[key].value.lower() == "true" if key in self.entries else default

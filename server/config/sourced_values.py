"""Values for settings with their sources: a key in a file, a variable of the environment, a flag.

A server without keys of zoo.cfg does not load the modules that read them (:mod:`.zoocfg`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from .properties import ConfigError
from .settings import Settings, SettingsError, check
from .zookeys import KEY_OF

if TYPE_CHECKING:
    from .members import ServerAddress


@attrs.frozen
class SourcedValue:
    """A value for one field of :class:`Settings`, with its name and place in its source."""

    value: object = attrs.field(repr=False)
    name: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.where})" if self.where else self.name


@attrs.frozen
class Configuration:
    """The contents of a file.

    :ivar values: values by field of :class:`Settings`, for :func:`build`.
    :ivar warnings: lines for the log: one line about all keys without effect, and one line for each value
        that is probably a mistake.
    :ivar members: the servers of an ensemble; none for a single server.
    :ivar sync_limit: the value of syncLimit in ticks; None if the configuration has none. ``init_limit`` is
        the value of initLimit.
    """

    values: Mapping[str, SourcedValue]
    warnings: Sequence[str]
    members: Sequence[ServerAddress] = ()
    sync_limit: int | None = None
    init_limit: int | None = None


def build(sourced: Mapping[str, SourcedValue], names: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """Make the settings from values with their sources.

    :param sourced: the values by field of :class:`Settings`.
    :param names: the names of fields without a value, for errors. The default is the key of each field in
        zoo.cfg.
    :raises ConfigError: a value is out of range, or two values contradict each other.
    """
    values: dict[str, Any] = {field: item.value for field, item in sourced.items()}
    for field, item in sourced.items():
        try:
            check(field, item.value, item.name)
        except ValueError as error:
            raise ConfigError(f"{item.where}: {error}" if item.where else str(error)) from None
    try:
        return Settings(**values)
    except SettingsError as error:
        message = str(error)
        for field in error.fields:
            message = message.replace(field, str(sourced.get(field) or names.get(field) or KEY_OF[field]))
        raise ConfigError(message) from None

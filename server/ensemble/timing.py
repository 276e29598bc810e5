"""The time after which servers of an ensemble notice a silent link, and the time of an election."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from ..config.sourced_values import Configuration


def _at_least(least: int) -> Callable[[object, attrs.Attribute[int], object], None]:
    def check(instance: object, attribute: attrs.Attribute[int], value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{attribute.name} must be a whole number, not {value!r}")
        if value < least:
            raise ValueError(f"{attribute.name} must be at least {least}, not {value}")

    return check


@attrs.frozen(kw_only=True)
class Timing:
    """The times of an ensemble.

    :ivar sync_limit: the number of ticks of silence after which a link is closed.
    :ivar init_limit: the number of ticks in which a server must catch up. This number is only shown, because
        in a pretend ensemble catching up takes no time.
    :ivar election_ms: the time in ms between the moment at which a quorum looks for a leader and the moment
        at which a leader serves.
    """

    sync_limit: int = attrs.field(default=5, validator=_at_least(1))
    init_limit: int = attrs.field(default=10, validator=_at_least(1))
    election_ms: int = attrs.field(default=200, validator=_at_least(0))


def timing_of(found: Configuration, election_ms: int | None = None) -> Timing:
    """Return the times of a configuration. If the configuration does not have a time, the default is used.

    :param election_ms: the time of an election in ms; None: the default.
    :raises ValueError: a time is out of range.
    """
    given = {"sync_limit": found.sync_limit, "init_limit": found.init_limit, "election_ms": election_ms}
    return Timing(**{name: value for name, value in given.items() if value is not None})

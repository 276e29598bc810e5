"""zoo.cfg: from the text of a file to the settings that come of it (operator-surface.md section 4).

What each key means is in ``zookeys``. All that has no effect is named in one warning. What cannot be honoured
raises :class:`ConfigError`, whose one line names the file, the line and the key. Passwords and digests appear
in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from . import rules, servers
from .given import Given
from .members import Member
from .properties import Entry, text_of
from .reading import Reading


@attrs.frozen
class Configuration:
    """The contents of a file.

    :ivar given: values by field of :class:`Settings`, for :func:`build`.
    :ivar warnings: lines for the log: one about all keys without effect, and one for each value that is
        probably a mistake.
    :ivar members: the servers of an ensemble; none for a single server.
    :ivar sync_limit: ticks, of an ensemble; ``init_limit`` likewise.
    """

    given: Mapping[str, Given]
    warnings: Sequence[str]
    members: Sequence[Member] = ()
    sync_limit: int = 0
    init_limit: int = 0


def read(path: str, *, port_given: bool = False, beside: Iterable[Entry] = ()) -> Configuration:
    """Read a file; see :func:`interpret`.

    :raises ConfigError: the file cannot be read, or its text cannot be honoured.
    """
    return interpret(text_of(path), path, port_given=port_given, beside=beside)


def interpret(
    text: str, name: str = "zoo.cfg", *, port_given: bool = False, beside: Iterable[Entry] = ()
) -> Configuration:
    """Interpret the text of a file.

    :param name: the name of the file in errors and warnings.
    :param port_given: the port comes from elsewhere, and the file need not have one.
    :param beside: keys from elsewhere, which win over the file; of equal ones the last.
    :raises ConfigError: the text cannot be honoured.
    """
    reading = Reading(text, name, beside)
    servers.find(reading)
    for entry in reading.entries.values():
        reading.take(entry)
    rules.apply(reading, port_given)
    reading.given["extra"] = Given(reading.unknown, "unknown keys", name)
    if reading.idle:
        reasons = "; ".join(f"{reason}: {', '.join(keys)}" for reason, keys in reading.idle.items())
        reading.warnings.append(f"{name} has keys without effect here; {reasons}")
    return Configuration(reading.given, reading.warnings, reading.members, *servers.limits(reading))

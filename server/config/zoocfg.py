"""Makes settings from the text of a zoo.cfg (operator-surface.md section 4).

``zookeys`` has the meaning of each key. One warning names all keys without effect. A key that cannot be used
raises :class:`ConfigError`, whose one line names the file, the line and the key. Errors and warnings contain
no passwords or digests.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import rules, servers
from .properties import Entry, text_of
from .reading import Reading
from .sourced_values import Configuration, SourcedValue


def read(
    path: str, *, port_given: bool = False, beside: Iterable[Entry] = (), ensemble: bool = False
) -> Configuration:
    """Read a file; see :func:`interpret`.

    :raises ConfigError: the file cannot be read, or the text of the file cannot be used.
    """
    return interpret(text_of(path), path, port_given=port_given, beside=beside, ensemble=ensemble)


def interpret(
    text: str,
    name: str = "zoo.cfg",
    *,
    port_given: bool = False,
    beside: Iterable[Entry] = (),
    ensemble: bool = False,
) -> Configuration:
    """Interpret the text of a file.

    :param name: the name of the file in errors and warnings.
    :param port_given: whether the port comes from a flag or an argument, so that the file needs no port.
    :param beside: the keys of environment variables and ``--set``, which override the file. If a key occurs
        twice, the last value counts.
    :param ensemble: whether a flag or an argument requests a pretend ensemble. Then the keys of ensembles
        count without ``server.N`` lines.
    :raises ConfigError: the text cannot be used.
    """
    reading = Reading(text, name, beside)
    servers.find(reading)
    reading.is_ensemble = ensemble or bool(reading.members)
    for entry in reading.entries.values():
        reading.take(entry)
    rules.apply(reading, port_given)
    reading.values["extra"] = SourcedValue(reading.unknown, "unknown keys", name)
    if reading.idle:
        reasons = "; ".join(f"{reason}: {', '.join(keys)}" for reason, keys in reading.idle.items())
        reading.warnings.append(f"{name} has keys without effect here; {reasons}")
    return Configuration(reading.values, reading.warnings, reading.members, *servers.limits(reading))

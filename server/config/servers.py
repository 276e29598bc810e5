"""The ``server.N`` lines of zoo.cfg, in the file or in a separate file. One line is a standalone server, and
several lines are an ensemble (operator-surface.md section 4.4, ensemble.md section 12). One line with
``standaloneEnabled=false`` is an ensemble too.
"""

from __future__ import annotations

import attrs

from .members import MemberError, ServerAddress, grouped, is_of_groups
from .members import check as check_members
from .properties import ConfigError, parse, text_of
from .reading import Reading
from .zookeys import KNOWN, address, boolean


def find(reading: Reading) -> None:
    """Find the ``server.N`` lines. This must be called before any other key is read, because other keys
    depend on these lines."""
    reading.servers = {key: entry for key, entry in reading.entries.items() if key.startswith("server.")}
    reading.groups = {key: entry for key, entry in reading.entries.items() if is_of_groups(key)}
    if dynamic := reading.entries.get("dynamicConfigFile"):
        for entry in (*reading.servers.values(), *reading.groups.values()):
            reading.refuse(
                entry, "the servers are in the file of dynamicConfigFile; move this line to that file"
            )
        try:
            members = parse(text_of(dynamic.value), dynamic.value)
        except ConfigError as error:
            reading.refuse(dynamic, str(error))
        for key, entry in members.items():
            found = attrs.evolve(dynamic, value=entry.value)
            if key.startswith("server."):
                reading.servers[key] = found
            elif is_of_groups(key):
                reading.groups[key] = found
    least = 2  # that vote
    if "standaloneEnabled" in reading.entries:
        entry = reading.entries["standaloneEnabled"]
        if not reading.parse(entry, boolean):
            least = 1
            if not reading.servers:
                reading.refuse(entry, "an ensemble needs a server.N line; add one, or delete this line")
    if len(reading.servers) < least:
        return
    for key, entry in reading.servers.items():
        try:
            reading.members.append(ServerAddress.parse(key.removeprefix("server."), entry.value))
            check_members(reading.members if len(reading.members) == len(reading.servers) else (), least)
        except MemberError as error:
            reading.refuse(entry, str(error))
    try:
        lines = ((key, entry.value) for key, entry in reading.groups.items())
        reading.members = grouped(sorted(reading.members, key=lambda member: member.number), lines)
    except ValueError as error:
        reading.refuse(next(iter(reading.groups.values())), str(error))


def take_address(reading: Reading) -> None:
    """Read the address for clients from the line of the only server, or from the first line."""
    if reading.members:
        first = reading.members[0]
        if first.client_port and "port" not in reading.values:
            reading.give("port", first.client_port, reading.servers[f"server.{first.number}"])
        return
    for entry in reading.servers.values():
        ensemble, _, client = entry.value.partition(";")  # host:2888:3888:role;address:2181
        if ensemble.strip().lower().endswith(":observer"):
            reading.refuse(entry, "an observer needs servers that vote: add at least two lines")
        client_address, _, port = client.rpartition(":")
        if port and "port" not in reading.values:
            _, parser = KNOWN["clientPort"]
            reading.give("port", reading.parse(attrs.evolve(entry, value=port), parser), entry)
            if client_address and "host" not in reading.values:
                reading.give("host", address(client_address), entry)


def limits(reading: Reading) -> tuple[int | None, int | None]:
    """Return syncLimit and initLimit of an ensemble; None for a missing key. An ensemble with ``server.N``
    lines must have both keys."""
    if not reading.is_ensemble:
        return None, None
    found: list[int | None] = []
    for key in ("syncLimit", "initLimit"):
        entry = reading.entries.get(key)
        ticks = None if entry is None else int(entry.value)
        if (ticks is None and reading.members) or (ticks is not None and ticks < 1):
            first = next(iter(reading.servers.values()), None)
            place = entry or first
            assert place is not None
            reading.refuse(place, f"an ensemble needs {key}, of at least 1 tick")
        found.append(ticks)
    return found[0], found[1]

"""The changes that a client may make in the configuration of an ensemble (ensemble.md section 10). This
module only computes the new configuration. Other modules apply it.

A change has one of two forms. The full form names all members, separated by commas and line ends. A
``version=`` in the full form is ignored. The incremental form names servers that leave and servers that join.
If a server that joins is already a member, it gets the new line. An impossible change is refused:

=================================================================== ==============
case                                                                error
=================================================================== ==============
the change was made for another version                             BadVersion
full form: a key is no server, or a line cannot be parsed           BadArguments
full form: there are observers, and too few servers vote (1)        Marshalling
joining: a line is not ``server.N=...`` or has no port for clients  BadArguments
joining: another server has the same address                        BadArguments
joining or leaving: no number, or a port above 65535                Marshalling
too few servers that vote would be left (1)                         BadArguments
joining or leaving: the configuration has groups                    BadArguments
full form: a server that votes is in no group, or in two groups     BadArguments
full form: a server in a group does not vote, or is no number       Marshalling
=================================================================== ==============

(1) At least 2 servers must vote; with ``standaloneEnabled=false`` at least 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...protocol.constants import CONFIG_PATH
from ...protocol.errors import BadArgumentsError, BadVersionError, MarshallingError
from ...protocol.records import ReconfigFields
from ..config.members import Configuration, MemberError, ServerAddress, check_numbers, grouped, is_of_groups

_LARGEST_PORT = 65535
_EVERYWHERE = re.compile(r"127\..*|0\.0\.0\.0|localhost|(0*:)*:?0*1?")
"""Hosts that several servers may share: loopback addresses, and hosts that mean all addresses."""


def changed(before: Configuration, request: ReconfigFields, zxid: int, least: int) -> Configuration:
    """Return the configuration after a client's change.

    :param zxid: the zxid of the transaction, which is the new version.
    :param least: the least number of servers that must vote.
    :raises ZooKeeperError: the change is impossible.
    """
    joining, leaving, new_members, version = request
    if version not in (-1, before.version):
        raise BadVersionError(CONFIG_PATH, f"the version is {before.version:x}, not {version & 2**64 - 1:x}")
    if new_members is not None:
        members = _full(new_members, least)
    elif before.groups:
        raise _refused("the servers have groups: only new_members can change that, all lines in one")
    else:
        members = dict(before.members)
        for text in _parts(leaving or "", ","):
            members.pop(_number(text), None)
        for text in _parts(joining or "", ","):
            member = _joiner(text)
            for other in members.values():
                if other.number != member.number and _addresses(other) & _addresses(member):
                    raise _refused(f"server {other.number} has an address of {text}")
            members[member.number] = member
    after = Configuration(members, zxid)
    if len(after.voters) < least:
        raise _refused(f"at least {least} servers must vote, and {len(after.voters)} would be left")
    try:
        check_numbers(members)
    except MemberError as error:
        raise _refused(str(error)) from None
    return after


def _full(text: str, least: int) -> dict[int, ServerAddress]:
    members: dict[int, ServerAddress] = {}
    groups: list[tuple[str, str]] = []
    for line in _parts(text.replace(",", "\n"), "\n"):
        key, _, value = (part.strip() for part in line.partition("="))
        if line.startswith("#") or key == "version":
            continue
        if is_of_groups(key):
            groups.append((key, value))
            continue
        if not key.startswith("server."):
            raise _refused(f"a line is server.N=host:quorum:election[:role][;[host:]port], not {line!r}")
        member = _parse(key, value)
        members[member.number] = member
    voters = sum(member.votes for member in members.values())
    if len(members) > voters and voters < least:
        raise MarshallingError(CONFIG_PATH, f"observers need {least} servers that vote, not {voters}")
    try:
        return {member.number: member for member in grouped(members.values(), groups)}
    except MemberError as error:
        raise _refused(str(error)) from None
    except ValueError as error:
        raise MarshallingError(CONFIG_PATH, str(error)) from None


def _joiner(text: str) -> ServerAddress:
    parts = list(_parts(text, "="))
    if len(parts) != 2:
        raise _refused(f"a server that joins is server.N=host:quorum:election[:role];port, not {text!r}")
    member = _parse(*parts)
    if not member.client:
        raise _refused(f"{text!r} needs a port for clients at its end, as in ;2181")
    return member


def _parse(key: str, value: str) -> ServerAddress:
    """Read the line of a server."""
    number = str(_number(key.rpartition(".")[2]))
    try:
        member = ServerAddress.parse(number, value)
    except MemberError as error:
        raise _refused(str(error)) from None
    if max(member.quorum, member.election, member.client_port or 0) > _LARGEST_PORT:
        raise MarshallingError(CONFIG_PATH, f"a port is at most {_LARGEST_PORT}: {value!r}")
    return member


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise MarshallingError(CONFIG_PATH, f"{text!r} is not the number of a server")
    return int(text)


def _parts(text: str, separator: str) -> Iterator[str]:
    return (part.strip() for part in text.split(separator) if part.strip())


def _addresses(member: ServerAddress) -> set[tuple[str, str]]:
    host, _, port = member.client.rpartition(":")
    ends = {(member.host, str(member.quorum)), (member.host, str(member.election)), (host.strip("[]"), port)}
    return {end for end in ends if not _EVERYWHERE.fullmatch(end[0])}


def _refused(problem: str) -> BadArgumentsError:
    return BadArgumentsError(CONFIG_PATH, problem)

"""The members of an ensemble, as ``zoo.cfg`` and ``/zookeeper/config`` write them (ensemble.md sections 9.3
and 12).

A pretend ensemble shows the ports for quorum and election, but does not listen at them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

_QUORUM, _ELECTION = 2887, 3887
"""The numbers from which the shown ports of a server without a line in the configuration are made: the number
of the server is added."""
MOST = 254
"""The largest number of servers. It is also the highest last byte of a server's number. This byte is the top
byte of session ids, where 255 is the mark of a TTL znode."""
_LARGEST = 2**31 - 1
"""The highest number of a server. Real numbers are far below it."""
_ADDRESS = re.compile(r"(\[[^\]]+\]|[^:\[\]|]+):([0-9]+):([0-9]+)\s*(?::(.*))?")
_ROLE = ("participant", "observer")


class MemberError(ValueError):
    """A member is malformed, or the members together cannot be an ensemble."""


@attrs.frozen
class ServerAddress:
    """One ``server.N`` line.

    :ivar host: the shown host of the server.
    :ivar quorum: the port for the followers, which is only shown. ``election`` is the port for elections,
        which is only shown too.
    :ivar votes: whether the server votes; False for an observer.
    :ivar client: the host and the port for clients; empty if the line has none.
    :ivar group: the number of the server's group; None if all voting servers are one group.
    :ivar weight: the weight of the server's vote in its group.
    """

    number: int
    host: str
    quorum: int
    election: int
    votes: bool
    client: str = ""
    group: int | None = None
    weight: int = 1

    @classmethod
    def parse(cls, number: str, text: str) -> ServerAddress:
        """
        :param number: the number N in ``server.N``.
        :param text: ``host:quorum:election[:role][;[host:]port]``.
        :raises MemberError: the text or the number has another form.
        """
        if not re.fullmatch(r"[0-9]{1,10}", number) or int(number) > _LARGEST or int(number) % 256 > MOST:
            raise MemberError(
                f"server.{number}: a server is numbered from 0 to {_LARGEST}; its last byte is not 255"
            )
        address, semicolon, client = (part.strip() for part in text.partition(";"))
        if "|" in address:
            raise MemberError("several addresses of one server are not supported: keep one")
        match = _ADDRESS.fullmatch(address)
        if match is None or (semicolon and not re.fullmatch(r"(.*:)?[0-9]+", client)):
            raise MemberError(f"not host:quorum:election[:role][;[host:]port]: {text!r}")
        host, quorum, election, role = match.groups()
        role = (role or _ROLE[False]).strip().lower()
        if role not in _ROLE:
            raise MemberError(f"a role must be participant or observer, not {role!r}")
        if quorum == election:
            raise MemberError(f"the ports for quorum and election are both {quorum}; change one")
        client = client if ":" in client or not client else f"0.0.0.0:{client}"
        return cls(int(number), host.strip("[]"), int(quorum), int(election), role == _ROLE[False], client)

    @property
    def client_port(self) -> int | None:
        """The port for clients; None if the line has none."""
        return int(self.client.rpartition(":")[2]) if self.client else None

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        line = f"server.{self.number}={host}:{self.quorum}:{self.election}:{_ROLE[not self.votes]}"
        return f"{line};{self.client}" if self.client else line


def made_up(participants: int, observers: int = 0) -> list[ServerAddress]:
    """Return the members of an ensemble without a configuration, numbered from 1, the observers last.

    :raises TypeError: one of the arguments is not a number.
    :raises MemberError: no server votes, or there are too many servers.
    """
    for name, count in (("participants", participants), ("observers", observers)):
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"{name} must be a number of servers, not {count!r}")
    if participants < 1 or observers < 0 or participants + observers > MOST:
        raise MemberError(
            f"an ensemble must have 1 to {MOST} servers, and at least 1 must vote: not {participants} and "
            f"{observers} observers"
        )
    return [joiner(number, number > participants) for number in range(1, participants + observers + 1)]


def joiner(number: int, observes: bool = False) -> ServerAddress:
    """Return the line of a server without a line in the configuration.

    :raises MemberError: a server cannot have this number.
    """
    return ServerAddress.parse(
        str(number), f"127.0.0.1:{_QUORUM + number}:{_ELECTION + number}:{_ROLE[observes]}"
    )


def chosen(
    written: Sequence[ServerAddress], participants: int | None, observers: int
) -> Sequence[ServerAddress]:
    """Return the members of the requested ensemble; none for a single server.

    :param written: the members of the configuration.
    :param participants: the number of voting servers that a flag or an argument requests; None for no
        request.
    :raises MemberError: no ensemble can have these members.
    """
    if participants is None:
        if observers:
            raise MemberError("observers need an ensemble: give the number of servers that vote")
        return written
    asked = made_up(participants, observers)
    if written and [member.votes for member in written] != [member.votes for member in asked]:
        raise MemberError(f"the configuration has {len(written)} server lines; ask for no other number")
    return written or asked


def check(members: Sequence[ServerAddress], least: int = 2) -> None:
    """
    :param least: the number of voting servers that observers need.
    :raises MemberError: the rules of the real server forbid this ensemble (ensemble.md section 12.4), or two
        servers would give the same ids to sessions.
    """
    check_numbers(member.number for member in members)
    voters = sum(member.votes for member in members)
    if voters < least and len(members) > voters:
        raise MemberError(f"observers need at least {least} servers that vote, and there are {voters}")


def check_numbers(numbers: Iterable[int]) -> None:
    """
    :raises MemberError: two servers with these numbers would give the same ids to sessions.
    """
    of_bytes: dict[int, int] = {}
    for number in numbers:
        other = of_bytes.setdefault(number % 256, number)
        if other != number:
            raise MemberError(f"servers {other} and {number} end in the same byte, and so would session ids")


def is_of_groups(key: str) -> bool:
    """Return whether a key is ``group.N`` or ``weight.N``."""
    return key.startswith(("group.", "weight."))


def grouped(members: Iterable[ServerAddress], lines: Iterable[tuple[str, str]]) -> list[ServerAddress]:
    """Set the groups and the weights of servers. Without lines about groups or weights the servers do not
    change.

    :param lines: pairs of a key and a value, such as ``group.1`` and ``1:2:3``, or ``weight.1`` and ``2``.
    :raises MemberError: a voting server is in no group or in two groups, or all weights are 0.
    :raises ValueError: a text is not a number, or the number belongs to a server that does not vote.
    """
    groups: dict[int, int] = {}
    weights: dict[int, int] = {}
    for key, value in lines:
        kind, _, number = key.partition(".")
        if kind == "weight":
            weights[_whole(number)] = _whole(value)
            continue
        for server in map(_whole, value.split(":")):
            if server in groups:
                raise MemberError(f"server {server} is in two groups")
            groups[server] = _whole(number)
    found = list(members)
    if not groups and not weights:
        return found
    voters = {member.number for member in found if member.votes}
    if missing := sorted(voters - groups.keys()):
        raise MemberError(f"server {missing[0]} is in no group; with groups or weights it must be in one")
    if others := sorted((groups.keys() | weights.keys()) - voters):
        raise ValueError(f"server {others[0]} has a group or a weight, and does not vote")
    if not any(weights.get(number, 1) for number in voters):
        raise MemberError("all weights are 0: no vote counts")
    return [
        attrs.evolve(one, group=groups.get(one.number), weight=weights.get(one.number, 1)) for one in found
    ]


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


@attrs.frozen
class Configuration:
    """The members of an ensemble.

    A quorum is a majority of the voting servers. With groups, a quorum has the majority of the weight in each
    group of a majority of the groups. A group of servers with the weight 0 does not count.

    :ivar members: the servers, by their numbers.
    :ivar version: the zxid of the last change; 0 if there was none.
    :ivar voters: the numbers of the voting servers.
    :ivar groups: for each group with a weight above 0, the numbers of its servers; empty if there are no
        groups.
    """

    members: Mapping[int, ServerAddress]
    version: int = 0
    voters: frozenset[int] = attrs.field(init=False)
    groups: Sequence[frozenset[int]] = attrs.field(init=False)

    @voters.default
    def _who_votes(self) -> frozenset[int]:
        return frozenset(number for number, member in self.members.items() if member.votes)

    @groups.default
    def _who_decides(self) -> Sequence[frozenset[int]]:
        groups: dict[int, set[int]] = {}
        for number in self.voters:
            if (group := self.members[number].group) is not None:
                groups.setdefault(group, set()).add(number)
        return [frozenset(group) for group in groups.values() if self._weight(group)]

    @classmethod
    def of(cls, members: Iterable[ServerAddress], version: int = 0) -> Configuration:
        return cls({member.number: member for member in members}, version)

    def has_quorum(self, numbers: Iterable[int]) -> bool:
        """Return whether these servers are a quorum."""
        present = self.voters.intersection(numbers)
        if not self.groups:
            return 2 * len(present) > len(self.voters)
        won = sum(2 * self._weight(group & present) > self._weight(group) for group in self.groups)
        return 2 * won > len(self.groups)

    def _weight(self, numbers: Iterable[int]) -> int:
        return sum(self.members[number].weight for number in numbers)

    @property
    def quorum(self) -> str:
        """The definition of a quorum, for messages."""
        if self.groups:
            return f"a majority of the weight in most of {len(self.groups)} groups"
        return f"{len(self.voters) // 2 + 1} of {len(self.voters)} servers"

    def may_lead(self, number: int) -> bool:
        """Return whether a server votes with a weight above 0."""
        return number in self.voters and self.members[number].weight > 0

    def keeps(self, leader: ServerAddress) -> bool:
        """Return whether a leader may continue: it votes, and its addresses are the same."""
        line = self.members.get(leader.number)
        return line is not None and line.votes and (line.host, line.quorum) == (leader.host, leader.quorum)

    @property
    def text(self) -> str:
        """The data of ``/zookeeper/config``."""
        lines = sorted(member.text for member in self.members.values())
        if self.groups:
            lines += self._lines_of_groups()
        return "\n".join([*lines, f"version={self.version:x}"])

    def _lines_of_groups(self) -> Iterator[str]:
        in_order = [self.members[number] for number in sorted(self.voters)]
        for group in sorted({member.group for member in in_order if member.group is not None}):
            yield f"group.{group}={':'.join(str(m.number) for m in in_order if m.group == group)}"
        for member in in_order:
            yield f"weight.{member.number}={member.weight}"

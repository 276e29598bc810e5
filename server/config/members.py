"""The members of an ensemble, as ``zoo.cfg`` and ``/zookeeper/config`` write them (ensemble.md sections 9.3
and 12).

The addresses are read and shown. A pretend ensemble has no ports for quorum and election: nobody listens
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

_QUORUM, _ELECTION = 2887, 3887
"""The ports that are shown for a server that is written nowhere: these, and its number added."""
MOST = 254
"""The most servers, and the greatest byte that a number may end in. It is the top byte of session ids, where
255 is the mark of a TTL znode."""
_LARGEST = 2**31 - 1
"""The greatest number of a server: far above any that is in use."""
_ADDRESS = re.compile(r"(\[[^\]]+\]|[^:\[\]|]+):([0-9]+):([0-9]+)\s*(?::(.*))?")
_ROLE = ("participant", "observer")


class MemberError(ValueError):
    """A member, or all of them together, that make no ensemble."""


@attrs.frozen
class Member:
    """One ``server.N`` line.

    :ivar host: where the server is said to run.
    :ivar quorum: the port for the other servers, which is shown only; ``election`` likewise.
    :ivar votes: False for an observer.
    :ivar client: host and port for clients, if the line has them.
    """

    number: int
    host: str
    quorum: int
    election: int
    votes: bool
    client: str = ""

    @classmethod
    def parse(cls, number: str, text: str) -> Member:
        """
        :param number: N.
        :param text: ``host:quorum:election[:role][;[host:]port]``.
        :raises MemberError: it has another form.
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
            raise MemberError(f"a role is participant or observer, not {role!r}")
        if quorum == election:
            raise MemberError(f"the ports for quorum and election are both {quorum}; change one")
        client = client if ":" in client or not client else f"0.0.0.0:{client}"
        return cls(int(number), host.strip("[]"), int(quorum), int(election), role == _ROLE[False], client)

    @property
    def client_port(self) -> int | None:
        """The port for clients, if the line has one."""
        return int(self.client.rpartition(":")[2]) if self.client else None

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        line = f"server.{self.number}={host}:{self.quorum}:{self.election}:{_ROLE[not self.votes]}"
        return f"{line};{self.client}" if self.client else line


def made_up(participants: int, observers: int = 0) -> list[Member]:
    """Return the members of an ensemble that is written nowhere, numbered from 1, the observers last.

    :raises MemberError: nobody votes, or they are too many.
    """
    if participants < 1 or observers < 0 or participants + observers > MOST:
        raise MemberError(
            f"an ensemble has 1 to {MOST} servers, of which at least 1 votes: "
            f"not {participants} and {observers} observers"
        )
    return [joiner(number, number > participants) for number in range(1, participants + observers + 1)]


def joiner(number: int, observes: bool = False) -> Member:
    """Return the line of a server that is written nowhere.

    :raises MemberError: the number cannot be.
    """
    return Member.parse(str(number), f"127.0.0.1:{_QUORUM + number}:{_ELECTION + number}:{_ROLE[observes]}")


def chosen(written: Sequence[Member], participants: int | None, observers: int) -> Sequence[Member]:
    """Return the members of the ensemble that is asked for; none for a single server.

    :param written: those that a configuration has.
    :param participants: how many servers that vote are asked for beside that; None is no such wish.
    :raises MemberError: that is not possible.
    """
    if participants is None:
        if observers:
            raise MemberError("observers are for an ensemble: say how many servers vote")
        return written
    asked = made_up(participants, observers)
    if written and [member.votes for member in written] != [member.votes for member in asked]:
        raise MemberError(f"the configuration has {len(written)} server lines; ask for no other number")
    return written or asked


def check(members: Sequence[Member]) -> None:
    """
    :raises MemberError: these are no ensemble by the real server's rules (ensemble.md section 12.4), or two
        would give the same ids to sessions.
    """
    check_numbers(member.number for member in members)
    voters = sum(member.votes for member in members)
    if voters < 2 and len(members) > voters:
        raise MemberError(f"observers need at least two servers that vote, and there are {voters}")


def check_numbers(numbers: Iterable[int]) -> None:
    """
    :raises MemberError: two servers with these numbers would give the same ids to sessions.
    """
    of_bytes: dict[int, int] = {}
    for number in numbers:
        other = of_bytes.setdefault(number % 256, number)
        if other != number:
            raise MemberError(f"servers {other} and {number} end in the same byte, and so would session ids")


@attrs.frozen
class Configuration:
    """Who belongs to an ensemble.

    :ivar members: the servers, by their numbers.
    :ivar version: the zxid of the change that has made it; 0 if there was none.
    :ivar voters: the numbers of those who vote.
    """

    members: Mapping[int, Member]
    version: int = 0
    voters: frozenset[int] = attrs.field(init=False)

    @voters.default
    def _who_votes(self) -> frozenset[int]:
        return frozenset(number for number, member in self.members.items() if member.votes)

    @classmethod
    def of(cls, members: Iterable[Member], version: int = 0) -> Configuration:
        return cls({member.number: member for member in members}, version)

    @property
    def quorum(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def has_quorum(self, numbers: Iterable[int]) -> bool:
        """Return whether these servers are enough to decide."""
        return len(self.voters.intersection(numbers)) >= self.quorum

    def keeps(self, leader: Member) -> bool:
        """Return whether a leader may go on: it votes, and the others find it where they did."""
        line = self.members.get(leader.number)
        return line is not None and line.votes and (line.host, line.quorum) == (leader.host, leader.quorum)

    @property
    def text(self) -> str:
        """The data of ``/zookeeper/config``."""
        lines = sorted(member.text for member in self.members.values())
        return "\n".join([*lines, f"version={self.version:x}"])

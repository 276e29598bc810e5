"""The links between servers, in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol


class Numbered(Protocol):
    """A server, of which its number counts."""

    @property
    def number(self) -> int: ...


class Links:
    """At first all links work. A cut link is silent, or was reset; then both ends notice at once.

    :ivar are_whole: whether no link is cut.
    """

    def __init__(self) -> None:
        self._cuts: dict[frozenset[int], bool] = {}  # whether silently, by the pair
        self.are_whole = True

    def is_cut(self, one: Numbered, other: Numbered) -> bool:
        return frozenset((one.number, other.number)) in self._cuts

    def is_reset(self, one: Numbered, other: Numbered) -> bool:
        return not self._cuts.get(frozenset((one.number, other.number)), True)

    def is_apart(self, member: Numbered) -> bool:
        """Return whether a server is cut off from any other."""
        return any(member.number in pair for pair in self._cuts)

    def cuts_of(self, member: Numbered) -> Iterator[tuple[int, bool]]:
        """Yield the number of each server that this server is cut off from, and whether silently."""
        for pair, silent in self._cuts.items():
            if member.number in pair:
                [other] = pair - {member.number}
                yield other, silent

    def part(self, members: Iterable[int], groups: Sequence[Iterable[Numbered]], silent: bool) -> None:
        """Cut the links between groups. Servers in none of them are one more group.

        :param members: the numbers of all servers.
        :raises ValueError: a server is in two groups.
        """
        place: dict[int, int] = {}
        for index, group in enumerate(groups):
            for member in group:
                if place.setdefault(member.number, index) != index:
                    raise ValueError(f"server {member.number} is in two groups")
        numbers = list(members)
        for one in numbers:
            for other in numbers:
                if one < other and place.get(one, -1) != place.get(other, -1):
                    self._cuts[frozenset((one, other))] = silent
        self.are_whole = not self._cuts

    def join(self, members: Iterable[Numbered]) -> None:
        """Restore all cut links of these servers."""
        numbers = {member.number for member in members}
        self._cuts = {pair: silent for pair, silent in self._cuts.items() if not pair & numbers}
        self.are_whole = not self._cuts

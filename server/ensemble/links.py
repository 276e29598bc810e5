"""The links between pairs of servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol


class Numbered(Protocol):
    """The part of a server that this module uses."""

    @property
    def number(self) -> int:
        """The number of the server."""


class Links:
    """The state of each link: open, silent or reset. At first all links work. A cut link is silent or was
    reset. If it was reset, both ends notice it immediately.

    :ivar are_whole: whether all links work.
    """

    def __init__(self) -> None:
        self._cuts: dict[frozenset[int], bool] = {}  # cut pairs of servers; True: the link is silent
        self.are_whole = True

    def is_cut(self, one: Numbered, other: Numbered) -> bool:
        """Return whether the link between two servers is cut."""
        return frozenset((one.number, other.number)) in self._cuts

    def is_reset(self, one: Numbered, other: Numbered) -> bool:
        """Return whether the link between two servers is cut and was reset."""
        return not self._cuts.get(frozenset((one.number, other.number)), True)

    def is_apart(self, member: Numbered) -> bool:
        """Return whether a server is cut off from any other server."""
        return any(member.number in pair for pair in self._cuts)

    def cuts_of(self, member: Numbered) -> Iterator[tuple[int, bool]]:
        """Yield the number of each server from which a server is cut off, and whether the link is silent."""
        for pair, silent in self._cuts.items():
            if member.number in pair:
                [other] = pair - {member.number}
                yield other, silent

    def part(self, members: Iterable[int], groups: Sequence[Iterable[Numbered]], silent: bool) -> None:
        """Cut the links between groups. All servers that are in no group are one more group.

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

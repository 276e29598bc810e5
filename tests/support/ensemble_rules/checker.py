"""Takes the facts in their order, and raises at the first that breaks a rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .clients import ClientRules
from .facts import Fact
from .log import LogRules
from .sessions import SessionRules


class Checker:
    """
    :param tick: of the servers, in ms.
    """

    def __init__(self, tick: int) -> None:
        self.log = LogRules()
        self._takers: defaultdict[type, list[Callable[[Any], None]]] = defaultdict(list)
        for rules in (self.log, ClientRules(self.log), SessionRules(self.log, tick)):
            for kind, taker in rules.takers().items():
                self._takers[kind].append(taker)

    def take(self, fact: Fact) -> None:
        """
        :raises AssertionError: a rule is broken.
        """
        for taker in self._takers[type(fact)]:
            taker(fact)

"""Strategies of waiting for the turn (recipe-rules.md A.2): the part of contending that can be exchanged.

The rules:

* A contender looks at the list of children again when what it watches has changed, or when the period is
  over.
* The strategy decides how many events and requests a wait costs, never the winner: the list of children
  decides that.
"""

from __future__ import annotations

import math
from typing import Literal

import attrs

from ..base.words import one_of

Watched = Literal["predecessor", "parent", "nothing"]


@attrs.frozen
class Strategy:
    """
    :ivar watches: what a waiting contender watches.
    :ivar period: seconds after which it looks again in any case.
    :raises ValueError: ``watches`` is not one of :data:`Watched`.
    """

    watches: Watched = attrs.field(validator=one_of(Watched))
    period: float = math.inf


PREDECESSOR = Strategy("predecessor")
"""Watch the contender just before: its end wakes one contender. N contenders cost 5N-2 requests and N-1
events; N more of each if they watch their own znodes too (``monitor``)."""

PARENT = Strategy("parent")
"""Watch the parent: every child that comes or goes wakes all contenders, and each lists the children again:
N(N-1) events, and as many lists. For comparison; not for use."""


def polling(period: float) -> Strategy:
    """List the children every ``period`` seconds. Costs no event, but one list for each waiting contender and
    period; after a release the next holder waits 0.5 periods on average. For comparison, and for servers
    that do not offer watches."""
    return Strategy("nothing", period)

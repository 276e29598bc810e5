"""How a contender waits for its turn (recipe-rules.md A.2): the part of the engine that can be exchanged."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from ..base.words import one_of

Watched = Literal["predecessor", "parent", "nothing"]


@attrs.frozen
class Strategy:
    """
    :ivar watches: what a waiting contender has the server watch.
    :ivar period: seconds after which it looks again, whatever happens.
    """

    watches: Watched = attrs.field(validator=one_of(Watched))
    period: float = math.inf


PREDECESSOR = Strategy("predecessor")
"""Watch the contender just before: whoever goes wakes one. N contenders cost 5N-2 requests and N-1 events; N
more of each where they watch their own znodes too (``monitor``)."""

PARENT = Strategy("parent")
"""Watch the directory: whoever comes or goes wakes everybody, and everybody reads the whole list: N(N-1)
events, as many lists. For comparison; not for use."""


def polling(period: float) -> Strategy:
    """Look every ``period`` seconds. No events, but a list per waiter and period, and a hand-over takes half
    a period. For comparison, and for places where watches are not to be had."""
    return Strategy("nothing", period)

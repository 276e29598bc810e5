"""The ways in which contenders wait for their turn (recipe-rules.md A.2).

The rules:

* A contender lists the children again when its watch has fired, or when the period is over.
* The strategy decides how many events and requests a wait costs. The list of children decides the winner, not
  the strategy.
"""

from __future__ import annotations

import math
from typing import Literal

import attrs

from ..base.choices import one_of

Watched = Literal["predecessor", "parent", "nothing"]


@attrs.frozen
class Strategy:
    """
    :ivar watches: the znode that a waiting contender watches, if any.
    :ivar period: the time in seconds after which a contender lists the children again without an event.
    :raises ValueError: ``watches`` is not one of :data:`Watched`.
    """

    watches: Watched = attrs.field(validator=one_of(Watched))
    period: float = math.inf


PREDECESSOR = Strategy("predecessor")
"""Watch the contender directly before. The end of a contender then wakes only one contender. N contenders
cost 5N-2 requests and N-1 events. With ``monitor`` they cost N more requests and N more events."""

PARENT = Strategy("parent")
"""Watch the parent. Each new or deleted child then wakes all contenders, and each contender lists the
children again: N(N-1) events and N(N-1) lists. Use this only for comparisons."""


def polling(period: float) -> Strategy:
    """List the children every ``period`` seconds. This costs no events, but one list in each period for each
    waiting contender. After a release the next holder waits 0.5 periods on average. Use this for comparisons,
    and for servers without watches."""
    return Strategy("nothing", period)

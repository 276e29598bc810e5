"""Which clients move when the list of servers changes, so that all servers have equally many (wire.md
section 16). Pure: chance is an argument."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rebalance(old: Sequence[T], new: Sequence[T], current: T, rng: random.Random) -> list[T] | None:
    """Decide whether a client moves, and where to. The rules are those of the Java client:

    * The server is in the new list. If the list has grown, the client moves to an added server with the
      probability 1 - old/new, else it stays.
    * The server is not in the new list. If the list has grown, the client moves to an added server. Else it
      moves to a server that was kept with the probability kept * (old - new) / (new * (old - kept)), and to
      an added server otherwise.

    :param old: the servers before; ``new``: those to come.
    :param current: the server to which the client is connected.
    :returns: the order in which to try the servers; None to stay.
    """
    before = set(old)
    kept = [server for server in new if server in before]
    added = [server for server in new if server not in before]
    grown = len(new) > len(before)
    if current in new:
        if not grown or rng.random() >= 1 - len(before) / len(new):
            return None
        to_kept = 0.0
    elif grown or len(kept) == len(before):
        to_kept = 0.0
    else:
        to_kept = len(kept) * (len(before) - len(new)) / (len(new) * (len(before) - len(kept)))
    rng.shuffle(kept)
    rng.shuffle(added)
    order = []
    while kept and added:
        order.append(kept.pop() if rng.random() < to_kept else added.pop())
    return order + kept + added

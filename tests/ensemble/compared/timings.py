"""How long servers take to notice what has happened, and to serve again (ensemble.md section 11).

A case yields what it has measured: what it is, how many seconds it took, and the least and the most that the
rules allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .script import EPHEMERAL, SILENCE
from .sides import TICK, Side
from .speaker import Speaker

T = TICK / 1000
AT_ONCE = 0.0
ELECTION = 0.2
"""Seconds of the rules; a real one was measured to take up to 0.5 s longer (the tolerance has that)."""
READ_ONLY = 2.0
"""Seconds without a leader after which a server is read-only, with ticks that are no longer."""
RETRY = 2.5
"""Seconds in which a server that is back serves again, at most."""


class Measured(NamedTuple):
    what: str
    seconds: float
    least: float
    most: float


Case = Callable[[Side], Iterator[Measured]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def _idle(e: Side, roles: str) -> dict[str, Speaker]:
    return {role: e.client(f"idle at {role}", role) for role in roles}


def _closed(
    e: Side, since: float, clients: dict[str, Speaker], **rules: tuple[float, float]
) -> Iterator[Measured]:
    """When the connections of clients ended, by the roles of their servers."""
    ends = e.ends_of({role: clients[role] for role in rules})
    for role, rule in rules.items():
        yield Measured(f"clients of {role} closed", ends[role] - since, *rule)


def _led_again(e: Side, since: float, least: float, most: float) -> Iterator[Measured]:
    """When a client of a new session has written."""
    client = e.client("writer", e.leader())
    client.set("/", b"")
    yield Measured("first write", e.now() - since, least, most)


def _serves_again(e: Side, role: str, since: float, most: float) -> Iterator[Measured]:
    e.until(lambda: e.zxid(role) >= 0)
    yield Measured(f"{role} serves again", e.now() - since, AT_ONCE, most)


@case
def the_leader_is_killed(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LFGO")
    since = e.now()
    e.kill("L")
    yield from _closed(e, since, clients, **dict.fromkeys("LFGO", (AT_ONCE, AT_ONCE)))
    yield from _led_again(e, since, ELECTION, ELECTION)


@case
def the_leader_is_frozen(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "FGO")
    since = e.now()
    e.freeze("L")
    yield from _closed(e, since, clients, **dict.fromkeys("FGO", (SILENCE, SILENCE)))
    e.away.add("O")  # it tries the frozen leader first, for so long as initLimit allows
    yield from _led_again(e, since, SILENCE + ELECTION, SILENCE + ELECTION)
    since = e.now()
    e.thaw("L")
    e.until(lambda: e.mode("L") != "leader")
    yield Measured("the old leader leads on", e.now() - since, AT_ONCE, T)


@case
def the_leader_is_silent(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LFG")
    since = e.now()
    e.isolate("L")
    silence = (SILENCE, SILENCE)
    yield from _closed(e, since, clients, F=silence, G=silence, L=(SILENCE, SILENCE + T))


@case
def the_leader_is_cut_by_resets(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LFG")
    since = e.now()
    e.isolate("L", silent=False)
    at_once = (AT_ONCE, AT_ONCE)
    yield from _closed(e, since, clients, F=at_once, G=at_once, L=(AT_ONCE, T))


@case
def both_followers_die(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LO")
    since = e.now()
    for role in "FG":
        e.kill(role)
    yield from _closed(e, since, clients, **dict.fromkeys("LO", (AT_ONCE, T)))


@case
def both_followers_freeze(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LO")
    since = e.now()
    for role in "FG":
        e.freeze(role)
    yield from _closed(e, since, clients, **dict.fromkeys("LO", (SILENCE, SILENCE + T)))
    since = e.now()
    for role in "FG":
        e.thaw(role)
    yield from _led_again(e, since, AT_ONCE, RETRY)


@case
def a_follower_is_cut_by_resets(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "F")
    since = e.now()
    e.isolate("F", silent=False)
    yield from _closed(e, since, clients, F=(AT_ONCE, AT_ONCE))
    since = e.now()
    e.heal("F")
    yield from _serves_again(e, "F", since, RETRY)


@case
def a_server_is_silent(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "FO")
    for role in "FO":
        since = e.now()
        e.isolate(role)
        yield from _closed(e, since, clients, **{role: (SILENCE, SILENCE)})
        since = e.now()
        e.heal(role)
        yield from _serves_again(e, role, since, RETRY)


@case
def all_links_are_silent(e: Side) -> Iterator[Measured]:
    clients = _idle(e, "LFG")
    since = e.now()
    for role in "LFGO":
        e.isolate(role)
    silence = (SILENCE, SILENCE)
    yield from _closed(e, since, clients, F=silence, G=silence, L=(SILENCE, SILENCE + T))
    e.pass_time(1)
    since = e.now()
    for role in "LFGO":
        e.heal(role)
    e.away.add("O")  # it may wait for a leader for so long as initLimit allows
    yield from _led_again(e, since, AT_ONCE, RETRY)


@case
def sessions_expire(e: Side) -> Iterator[Measured]:
    """2.6: from the last request: more than the timeout, and at most 1.5 ticks later."""
    for role in "LF":
        watcher = e.client("watcher", "G")
        client = e.client("A", role, timeout=2000)
        client.create("/mine", flags=EPHEMERAL)
        watcher.exists("/mine", watch=True)
        client.ping()
        since = e.now()
        watcher.next()
        yield Measured(f"expiry at {role}", e.now() - since, 2.0, 2.0 + 1.5 * T)


@case
def a_new_leader_starts_the_clocks_afresh(e: Side) -> Iterator[Measured]:
    """2.10"""
    client, gone = e.client("watcher", "G"), e.client("A", "F", timeout=4000)
    gone.create("/mine", flags=EPHEMERAL)
    gone.drop()
    e.pass_time(2)
    since = e.now()
    e.kill("L")
    client.until_closed()
    watcher = e.client("watcher again", e.leader(), client)
    watcher.exists("/mine", watch=True)
    watcher.next()
    least = ELECTION + 4.0
    yield Measured("expiry behind a new leader's start", e.now() - since, least, least + 1.5 * T)


def read_only(e: Side) -> Iterator[Measured]:
    """7.1: on servers that are read-only without a quorum"""
    since = e.now()
    for role in "LG":
        e.kill(role)
    for role in "FO":
        e.until_read_only(role)
        yield Measured(
            f"{role} is read-only", e.now() - since, READ_ONLY, READ_ONLY + (T if role == "O" else 0)
        )


@case
def a_new_leader_knows_the_timeouts_of_the_log(e: Side) -> Iterator[Measured]:
    """1.3, 2.10: what was negotiated since its begin is known to the leader of that time alone"""
    client, first = e.client("watcher", "F"), e.client("A", "F", timeout=8000)
    first.create("/mine", flags=EPHEMERAL)
    moved = e.client("A at G", "G", first, timeout=2000)
    moved.ping()
    moved.drop()
    since = e.now()
    e.kill("L")
    client.until_closed()
    watcher = e.client("watcher again", e.leader(), client)
    watcher.exists("/mine", watch=True)
    watcher.next()
    least = ELECTION + 8.0
    yield Measured("expiry behind a new leader's start", e.now() - since, least, least + 1.5 * T)

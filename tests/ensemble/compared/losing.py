"""Servers that are cut off, stand still or die, and a quorum that is lost."""

from __future__ import annotations

from .script import EPHEMERAL, SILENCE, quick, slow
from .sides import Side


def _probe(e: Side, role: str) -> None:
    for word in ("srvr", "stat", "cons", "dump", "conf", "wchs", "mntr", "ruok", "isro"):
        e.note(f"{role} {word}: {e.word(role, word)!r}")
    e.client(f"new at {role}", role)
    e.client(f"read-only at {role}", role, read_only=True)


@quick
def quorum_lost(e: Side) -> None:
    """1.6, 2.10, 3.18, 6.2 to 6.5, 14.15"""
    a, b = e.client("A", "L"), e.client("B", "O")
    a.create("/x", b"0")
    a.create("/mine", flags=EPHEMERAL)
    b.get("/x")
    for role in "FG":
        e.kill(role)
    a.later.set("/x", b"1")
    a.until_closed()
    b.until_closed()
    _probe(e, "L")
    _probe(e, "O")
    for role in "FG":
        e.start(role)
    new = e.note_leader()
    a = e.client("A again", new, a)
    a.sync("/")
    a.get("/x")
    a.exists("/mine")
    b = e.client("B again", "O", b, last_zxid=0)
    b.sync("/")
    b.get("/x")


@quick
def minority(e: Side) -> None:
    """2.8, 2.9, 6.1, 6.2, 14.10, 14.17"""
    a, b, c = e.client("A", "F", timeout=1500), e.client("B", "L"), e.client("C", "F")
    a.create("/mine", flags=EPHEMERAL)
    b.create("/x", b"0")
    b.exists("/mine", watch=True)
    e.isolate("F")
    b.set("/x", b"1")
    c.get("/x")
    c.later.sync("/x")
    c.waits()
    a.exists("/mine")
    d = e.asking("D", "F")
    d.waits()
    a.ping_until_closed(0.3)
    b.next()
    c.until_closed()
    d.until_closed()
    _probe(e, "F")
    e.client("A at G", "G", a)
    e.heal("F")
    e.note_leader()
    e.client("C again", "F", c).get("/x")


@quick
def held_up(e: Side) -> None:
    """6.9: acks and writes of a follower are late, and its reads are not; another server makes the quorum"""
    a, b = e.client("A", "F"), e.client("B", "L")
    b.create("/x", b"0")
    a.get("/x")
    e.hold_up("F")
    b.set("/x", b"1")
    a.get("/x")
    a.later.set("/x", b"2")
    a.waits()
    c = e.asking("C", "F")
    c.waits()
    b.set("/x", b"3")
    b.get("/x")
    e.release_up("F")
    a.next()
    c.next()
    a.get("/x")
    b.sync("/x")
    b.get("/x")


@quick
def all_held_up(e: Side) -> None:
    """6.9: without the acks of any follower nothing is committed, although all have it in their logs"""
    a, b = e.client("A", "L"), e.client("B", "F")
    a.create("/x", b"0")
    for role in "FG":
        e.hold_up(role)
    a.later.set("/x", b"1")
    a.waits()
    b.get("/x")
    e.kill("L")
    a.until_closed()
    b.until_closed()
    for role in "FG":
        e.release_up(role)
    new = e.note_leader()
    b = e.client("B again", new, b)
    b.get("/x")


@slow
def held_up_for_long(e: Side) -> None:
    """6.9: the leader gives the server up, which hears of that at once, and joins when it is heard again"""
    a, b = e.client("A", "F"), e.client("B", "L")
    a.create("/mine", flags=EPHEMERAL)
    b.exists("/mine")
    e.hold_up("F")
    e.away.add("F")
    a.ping_until_closed(0.3)
    _probe(e, "F")
    b.set("/mine", b"1")
    again = e.client("A at G", "G", a)
    again.get("/mine")
    e.release_up("F")
    e.note_leader()
    e.client("A at F", "F", again).get("/mine")


@slow
def timers_restart(e: Side) -> None:
    """2.10, 14.9: its client has been gone for 2.5 s when the next leader begins; 3 s later it still lives"""
    a, b = e.client("A", "F", timeout=4000), e.client("B", "G", timeout=4000)
    a.create("/mine", flags=EPHEMERAL)
    a.drop()
    b.ping()
    e.pass_time(2.5)
    b.ping()
    e.kill("L")
    b.until_closed()
    new = e.note_leader()
    b = e.client("B again", new, b)
    b.exists("/mine")
    e.pass_time(2.5)
    b.exists("/mine", watch=True)
    b.next()
    e.client("A again", new, a)


@slow
def old_leader(e: Side) -> None:
    """3.9, 14.18"""
    a, b = e.client("A", "L"), e.client("B", "F", timeout=4000)
    a.create("/x", b"0")
    e.freeze("L")
    e.away.add("O")  # it tries the frozen leader first, for so long as initLimit allows
    b.until_closed()
    new = e.note_leader()
    b = e.client("B again", new, b)
    b.set("/x", b"1")
    e.thaw("L")
    a.until_closed()
    e.note_leader()
    e.client("A again", "L", a).get("/x")


@slow
def frozen_follower(e: Side) -> None:
    """6.1: shorter than the limit, nothing happens; longer, its clients are closed once it goes on"""
    a, b = e.client("A", "F"), e.client("B", "L")
    b.create("/x", b"0")
    e.freeze("F")
    b.set("/x", b"1")
    a.later.sync("/x")
    a.later.get("/x")
    e.pass_time(1)
    a.waits()
    e.thaw("F")
    a.all_of(2)
    e.freeze("F")
    e.pass_time(SILENCE + 1)
    a.waits()
    b.set("/x", b"2")
    e.thaw("F")
    a.until_closed()
    e.note_leader()
    e.client("A again", "F", a).get("/x")


@slow
def frozen_followers(e: Side) -> None:
    """3.18: what the leader has proposed to servers that stand still is committed much later"""
    a = e.client("A", "L")
    a.create("/x", b"0")
    for role in "FG":
        e.freeze(role)
    a.later.set("/x", b"1")
    a.later.get("/x")
    a.until_closed()
    for role in "FG":
        e.thaw(role)
    e.leader()  # any of them, as far as each has come with what was in its sockets
    again = e.client("A again", "O", a)
    again.sync("/x")
    again.get("/x")


@slow
def killed(e: Side) -> None:
    """3.20, 6.1: processes that die, one after the other, and come back"""
    clients = {role: e.client(role, role) for role in "LFGO"}
    clients["F"].create("/mine", flags=EPHEMERAL)
    e.kill("F")
    clients["F"].until_closed()
    again = e.client("F at G", "G", clients["F"])
    again.create("/mine", flags=EPHEMERAL)
    clients["L"].ping()
    e.start("F")
    e.note_leader()
    e.client("F at F", "F", again).exists("/mine")
    e.kill("L")
    for role in "LGO":
        clients[role].until_closed()
    new = e.note_leader()
    e.client("again", new, again).exists("/mine")
    e.start("L")
    e.note_leader()
    e.client("at L", "L").children("/")

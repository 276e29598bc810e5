"""What a server that lags shows, watches, and writes that are proposed and not committed."""

from __future__ import annotations

from pyzk.protocol.constants import AddWatchMode

from .script import EPHEMERAL, SEQUENTIAL, quick, slow
from .sides import Side


@quick
def lag(e: Side) -> None:
    """1.7, 1.8, 3.1 to 3.3, 14.1, 14.3, 14.6"""
    for role in "FO":
        b = e.client("B", "L")
        b.create(f"/{role}", b"0")
        a, c, moving = e.client("A", role), e.client("C", role), e.client("M", "G")
        e.lag(role)
        b.set(f"/{role}", b"1")
        moving.get(f"/{role}")
        a.get(f"/{role}")
        a.ping()
        e.client("from the future", role, moving)
        new = e.asking("new", role)
        new.waits()
        known = e.asking("known", role, moving, last_zxid=0)
        known.waits()
        a.later.sync(f"/{role}")
        a.later.get(f"/{role}")
        a.waits()
        c.later.create(f"/{role}2", b"")
        c.later.create(f"/{role}", b"")
        c.later.get(f"/{role}")
        c.later.ping()
        c.waits()
        e.release(role)
        for each, count in ((new, 1), (known, 1), (a, 2), (c, 4)):
            each.all_of(count)
        known.get(f"/{role}")


@quick
def late_watch(e: Side) -> None:
    """4.1, 4.2, 14.5, 14.24"""
    a, b = e.client("A", "F"), e.client("B", "L")
    b.create("/w", b"0")
    a.get("/w", watch=True)
    a.add_watch("/w", AddWatchMode.PERSISTENT)
    b.get("/w", watch=True)
    e.lag("F")
    b.later.set("/w", b"1")
    b.all_of(2)
    a.later.create("/own")
    a.waits()
    b.exists("/own")
    b.later.set("/w", b"2")
    b.next()
    e.release("F")
    a.all_of(3)
    a.get("/w")
    a.ping()


@quick
def watches_move(e: Side) -> None:
    """4.3, 4.4, 14.23"""
    b = e.client("B", "L")
    for path in ("/changed", "/again", "/gone", "/parent", "/parent/c", "/same", "/lost"):
        b.create(path, b"0")
    a = e.client("A", "F")
    a.get("/same", watch=True)
    for path in ("/again", "/parent/c"):
        b.delete(path)
        b.create(path, b"0")
    b.set("/changed", b"1")
    b.create("/new", b"")
    for path in ("/gone", "/lost"):
        b.delete(path)
    moved = e.client("A at G", "G", a)
    moved.later.set_watches(
        a.seen,
        data=["/changed", "/again", "/gone", "/same"],
        exist=["/new", "/none"],
        child=["/parent", "/gone", "/same"],
        persistent=["/changed"],
        recursive=["/lost"],
    )
    moved.all_of(7)
    moved.ping()
    b.set("/same", b"1")
    a.next()
    moved.next()
    b.create("/none", b"")
    moved.next()
    b.set("/changed", b"2")
    moved.next()
    b.create("/lost", b"")
    moved.next()
    moved.ping()


@quick
def sync_details(e: Side) -> None:
    """3.7"""
    for role in "LFO":
        a = e.client("A", role)
        for path in ("/", "/none", "", None, "no-slash"):
            a.sync(path)
        a.request(9, b"\0\0")
        a.create(f"/{role}")
        a.sync("/")


@quick
def expiry_at_a_lagging_server(e: Side) -> None:
    """2.6, 2.8, 5.1, 5.2, 14.13"""
    a, b, c = e.client("A", "G", timeout=2000), e.client("B", "L"), e.client("C", "F")
    a.create("/mine", flags=EPHEMERAL)
    a.create("/mine2", flags=EPHEMERAL)
    c.get("/mine", watch=True)
    b.exists("/mine", watch=True)
    e.lag("F")
    b.next()
    b.exists("/mine")
    b.ephemerals()
    c.exists("/mine")
    a.until_closed()
    e.client("A at G", "G", a)
    e.client("A at L", "L", a)
    e.release("F")
    c.next()
    c.exists("/mine")
    e.client("A at F", "F", a)


# --- proposals ------------------------------------------------------------------------------------------


@quick
def unseen_write(e: Side) -> None:
    """3.4, 3.8, 3.19, 14.2"""
    a, b = e.client("A", "L"), e.client("B", "L")
    a.create("/x", b"0")
    b.get("/x", watch=True)
    e.hold_acks()
    a.later.set("/x", b"1")
    a.later.create("/new")
    a.waits()
    b.sync("/x")
    b.get("/x")
    b.later.multi()
    b.waits()
    moved = e.client("A at O", "O", a)
    moved.get("/x")
    moved.exists("/new")
    moved.later.sync("/x")
    moved.later.get("/x")
    moved.waits()
    new = e.asking("new", "O")
    new.waits()
    e.release_acks()
    b.all_of(2)
    moved.all_of(2)
    new.next()
    moved.exists("/new")


@quick
def write_lost(e: Side) -> None:
    """3.12, 3.16, 5.3, 14.8"""
    a, b = e.client("A", "L"), e.client("B", "F")
    a.create("/p")
    a.create("/p/n-", flags=SEQUENTIAL)
    e.hold_proposals()
    a.later.create("/p/n-", flags=SEQUENTIAL)
    a.waits()
    e.kill("L")
    a.until_closed()
    b.until_closed()
    new = e.note_leader()
    a = e.client("A again", new, a)
    a.children2("/p")
    a.create("/p/n-", flags=SEQUENTIAL)
    e.start("L")
    e.note_leader()
    old = e.client("A at the old leader", "L", a)
    old.children2("/p")
    old.create("/p/n-", flags=SEQUENTIAL)


@quick
def reply_lost(e: Side) -> None:
    """3.17, 3.20, 14.7, 14.14"""
    a = e.client("A", "L")
    a.create("/x", b"0")
    a.create("/y", b"0")
    e.hold_acks()
    a.later.create("/mine", flags=EPHEMERAL)
    a.later.set("/x", b"1", 0)
    a.later.delete("/y")
    a.waits()
    e.kill("L")
    a.until_closed()
    new = e.note_leader()
    a = e.client("A again", new, a)
    a.exists("/mine")
    a.create("/mine", flags=EPHEMERAL)
    a.set("/x", b"1", 0)
    a.delete("/y")
    a.get("/x")
    e.start("L")
    e.note_leader()
    e.client("B", "L").get("/x")


@quick
def new_epoch(e: Side) -> None:
    """1.5, 3.12 to 3.14, 14.4"""
    a = e.client("A", "F")
    a.create("/x", b"0")
    e.kill("L")
    a.until_closed()
    new = e.note_leader()
    e.start("L")
    e.note_leader()
    behind = e.client("behind", "O", a)
    behind.get("/x")
    behind.ping()
    a = e.client("A at the new leader", new, a)
    a.get("/x")
    a.ping()
    for role in "FLO":
        if role != new:
            e.client(f"A at {role}", role, a)
    for role in "LFGO":
        e.note(f"{role} stands at {e.masks.zxid(e.zxid(role))}")
    behind.set("/x", b"1")
    for role in "FLO":
        if role != new:
            e.client(f"A at {role} now", role, a).get("/x")


@slow
def sequence(e: Side) -> None:
    """5.3"""
    clients = [e.client(role, role) for role in "LFGO"]
    clients[0].create("/p")
    for client in clients:
        client.create("/p/n-", flags=SEQUENTIAL)
    e.kill("L")
    for client in clients:
        client.until_closed()
    new = e.note_leader()
    e.start("L")
    e.note_leader()
    a = e.client("A", new)
    a.create("/p/n-", flags=SEQUENTIAL)
    e.client("B", "L").create("/p/n-", flags=SEQUENTIAL)
    a.exists("/p")

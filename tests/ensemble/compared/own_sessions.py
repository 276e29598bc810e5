"""Sessions that one server alone knows of (ensemble.md section 8)."""

from __future__ import annotations

from ...support.requests import create_op, delete_op, set_op
from .script import EPHEMERAL, SEQUENTIAL, local
from .sessions import masked
from .sides import Side


@local
def what_they_can_do(e: Side) -> None:
    """8.1 to 8.3"""
    for role in "LFO":
        a = e.client("A", role)
        a.create(f"/{role}", b"0")
        a.set(f"/{role}", b"1")
        a.create(f"/{role}/s-", flags=SEQUENTIAL)
        a.sync("/")
        e.note(f"{role} dump: {masked(e, e.word(role, 'dump'))}")
        a.multi(set_op(f"/{role}", b"2"))
        a.multi(set_op("/none", b"2"), create_op("/x", flags=EPHEMERAL))
        a.multi(set_op(f"/{role}", b"3"), create_op(f"/{role}-own", flags=EPHEMERAL), delete_op("/none"))
        a.get(f"/{role}")
        b = e.client("B", role)
        b.create("no-slash", flags=EPHEMERAL)
        c = e.client("C", role)
        c.create(f"/{role}-mine", flags=EPHEMERAL)
        c.create(f"/{role}-mine", flags=EPHEMERAL)
        c.exists(f"/{role}-mine")
        c.ephemerals()
        for each in (a, b, c):
            each.close_session()
        a.until_closed()


@local
def where_they_are_known(e: Side) -> None:
    """8.4, 8.6"""
    for role, other in (("L", "F"), ("F", "L"), ("O", "G")):
        a = e.client("A", role)
        a.create(f"/{role}")
        e.client("A elsewhere", other, a)
        again = e.client("A again", role, a, timeout=3000)
        a.until_closed()
        again.create("/own", flags=EPHEMERAL)
        moved = e.client("A moved", other, again)
        moved.exists("/own")
        moved.close_session()
        again.until_closed()
    a, b = e.client("A", "F"), e.client("B", "L")
    b.create("/mine", flags=EPHEMERAL)
    e.kill("L")
    a.until_closed()
    b.until_closed()
    e.leader()
    e.client("A again", "F", a, last_zxid=0)
    e.client("B again", "F", b, last_zxid=0)
    e.start("L")
    e.leader()


@local
def how_they_end(e: Side) -> None:
    """8.5"""
    for role in "LFO":
        a = e.client("A", role)
        a.later.create("/x")
        a.later.close_session()
        a.all_of(2)
        a.until_closed()
        e.client("A again", role, a)
        b = e.client("B", role, timeout=1000)
        b.until_closed()
        e.client("B again", role, b)
        e.client("C", role).delete("/x")

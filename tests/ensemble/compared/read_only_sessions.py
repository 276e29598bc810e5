"""Servers that are read-only without a quorum, and have local sessions (ensemble.md sections 7 and 8)."""

from __future__ import annotations

from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import WRITES, OpCode

from ...support.requests import get_op
from .read_only import lose_the_quorum, regain_it
from .script import EPHEMERAL, without_quorum_with_local_sessions
from .sessions import masked
from .sides import Side


@without_quorum_with_local_sessions
def local_sessions_without_a_quorum(e: Side) -> None:
    """7.2 (second column), 7.3 to 7.5, 7.7"""
    a, gone = e.client("A", "F"), e.client("gone", "G")
    a.create("/x", b"0")
    a.create("/mine", flags=EPHEMERAL)  # its session is global from now on
    gone.get("/x")
    lose_the_quorum(e)
    a.until_closed()
    gone.until_closed()
    for role in "FO":
        e.until_read_only(role)
        e.client("read-write", role)
        e.client("from the future", role, a, read_only=True, last_zxid=a.seen + 5)
        e.client("global", role, a, read_only=True)
        e.client("local to another", role, gone, read_only=True)
        b = e.client("B", role, read_only=True)
        b.get("/x", watch=True)
        b.exists("/none", watch=True)
        b.children("/")
        b.add_watch("/x", AddWatchMode.PERSISTENT)
        b.remove_watches("/none", 3)
        b.set_watches(0, data=["/x"])
        b.multi_read(get_op("/x"), get_op("/none"))
        b.ephemerals()
        b.who_am_i()
        b.auth("digest", "a:b")
        b.ping()
        for op in sorted(WRITES - {OpCode.CLOSE_SESSION.value} | {OpCode.SYNC.value}):
            b.request(op, b"\0")
        again = e.client("B again", role, b, read_only=True)
        b.until_closed()
        e.client("B, wrong password", role, again, read_only=True, password=bytes(16))
        c = e.client("C", role, read_only=True)
        c.close_session()
        c.until_closed()
        e.client("C again", role, c, read_only=True)
        e.client("short", role, read_only=True, timeout=1000).until_closed()
        e.note(f"{role} dump: {masked(e, e.word(role, 'dump'))}")
    regain_it(e)
    again.until_closed()
    e.client("B behind it", "O", again, last_zxid=0)
    e.client("B at F", "F", again, last_zxid=0)
    e.client("A again", "F", a).exists("/mine")

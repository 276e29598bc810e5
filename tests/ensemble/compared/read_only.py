"""Servers that are read-only without a quorum (ensemble.md section 7)."""

from __future__ import annotations

import re

from .script import EPHEMERAL, without_quorum
from .sides import ROLES, Side

_SAID = re.compile(r"^(READ-ONLY.*|Mode: .*|Zxid: .*|zk_server_state.*|zk_peer_state.*|membership.*)$", re.M)


def lose_the_quorum(e: Side) -> None:
    """F and O go on alone."""
    for role in "LG":
        e.kill(role)


def regain_it(e: Side) -> None:
    """All serve again."""
    for role in "LG":
        e.start(role)
    e.until(lambda: {e.try_mode(role) for role in ROLES} == {"leader", "follower", "observer"})


def note_words(e: Side, role: str) -> None:
    for word in ("isro", "ruok"):
        e.note(f"{role} {word}: {e.word(role, word)}")
    for word in ("srvr", "mntr", "conf"):
        said = [line for line in _SAID.findall(e.word(role, word)) if not line.startswith("Zxid")]
        e.note(f"{role} {word}: {said}")
    e.note(f"{role} stands at {e.masks.zxid(e.zxid(role))}")


@without_quorum
def read_only(e: Side) -> None:
    """7.1, 7.2 (first column), 7.6 to 7.8, 6.4"""
    a, b = e.client("A", "F"), e.client("B", "O")
    a.create("/x", b"0")
    a.create("/mine", flags=EPHEMERAL)
    b.get("/x")
    e.note(f"L isro: {e.word('L', 'isro')}")
    lose_the_quorum(e)
    for each in (a, b):
        each.until_closed()
    for role in "FO":
        e.until_read_only(role)
        note_words(e, role)
        e.client("read-write", role, read_only=False)
        e.client("without the last byte", role, read_only=None)
        mute = e.client("read-only", role, read_only=True)
        mute.waits()
        e.client("from the future", role, a, read_only=True, last_zxid=a.seen + 5)
        e.client("of the ensemble", role, a, read_only=True)
        e.client("with a wrong password", role, a, read_only=True, password=bytes(16))
        e.client("unknown", role, a, read_only=True, session_id=a.session_id + 77)
        e.client("unknown, read-write", role, a, read_only=False, session_id=a.session_id + 77)
    regain_it(e)
    mute.until_closed()
    a = e.client("A again", "F", a)
    a.get("/x")
    a.exists("/mine")
    a.set("/x", b"1")
    e.note(f"F isro: {e.word('F', 'isro')}")

"""Handshakes and sessions across servers, and what servers say of themselves."""

from __future__ import annotations

import re

from ...support.requests import create_op, set_op
from .script import EPHEMERAL, quick, slow
from .sides import Side


@quick
def handshake(e: Side) -> None:
    """1.1 to 1.4, 1.9"""
    for role in "LFGO":
        e.client(role, role)
    a = e.client("A", "F")
    a.create("/x")
    for role in "LGO":
        e.client(f"future at {role}", role, a, last_zxid=a.seen + 5)
        e.client(f"next epoch at {role}", role, a, last_zxid=a.seen + (1 << 32))
        e.client(f"wrong password at {role}", role, a, password=bytes(16))
        e.client(f"no password at {role}", role, a, password=None)
        e.client(f"unknown id at {role}", role, a, session_id=a.session_id + 1)
        e.client(f"ready for read-only at {role}", role, read_only=True)
        e.client(f"without the last byte at {role}", role, read_only=None)
    a.exists("/x")
    e.client("short", "F", timeout=1)
    e.client("long", "O", timeout=10**8)
    e.client("A again", "G", a, timeout=5000).ping()


@quick
def moved(e: Side) -> None:
    """2.1 to 2.3"""
    setup = e.client("setup", "L")
    setup.create("/x", b"0")
    for old, new in (("F", "G"), ("F", "L"), ("O", "F")):
        a = e.client("A", old)
        b = e.client("B", new, a)
        a.get("/x", watch=True)
        a.exists("/none")
        a.ping()
        a.sync("/x")
        b.set("/x", b"1")
        a.next()
        back = e.client("C", old, b)
        a.until_closed()
        b.get("/x")
        b.create("/y")
        e.level()
        back.create("/z")
        back.delete("/z")
    for old, new in (("F", "L"), ("O", "G")):
        a = e.client("A", old)
        e.client("B", new, a)
        a.multi(set_op("/x", b"2"), create_op("/n"))
        e.level()
        setup.exists("/n")
        setup.get("/x")


@quick
def moved_from_the_leader(e: Side) -> None:
    """2.2, the last column"""
    setup = e.client("setup", "G")
    setup.create("/x", b"0")
    for ask in ("get", "sync", "ping", "set"):
        a = e.client("A", "L")
        b = e.client("B", "F", a)
        if ask == "set":
            a.set("/x", b"1")
        elif ask == "ping":
            a.ping()
        else:
            getattr(a, ask)("/x")
        a.until_closed()
        e.level()
        b.get("/x")
        b.set("/x", b"2")


@quick
def close_elsewhere(e: Side) -> None:
    """2.4, 2.5, 14.20"""
    watcher = e.client("W", "O")
    for ghost_at, at in (("F", "G"), ("L", "F"), ("G", "L")):
        ghost = e.client("ghost", ghost_at)
        ghost.create("/mine", flags=EPHEMERAL)
        watcher.exists("/mine", watch=True)
        new = e.client("new", at, ghost)
        new.exists("/mine")
        ghost.close_session()
        ghost.until_closed()
        new.until_closed()
        watcher.next()
        watcher.exists("/mine")
        e.client("late", "O", ghost)


@slow
def attach_again_at_the_same_server(e: Side) -> None:
    """2.1, 2.13: requests of one session wait for its write, those of others do not"""
    other = e.client("B", "O")
    other.create("/x", b"0")
    a = e.client("A", "O")
    e.hold_acks()
    a.later.set("/x", b"1")
    a.waits()
    again = e.client("A again", "O", a)
    a.until_closed()
    again.later.get("/x")
    again.waits()
    other.get("/x")
    e.release_acks()
    again.next()
    other.get("/x")


# --- what operators see ---------------------------------------------------------------------------------

_BY_ROLE = re.compile(
    r"^zk_(server_state|peer_state|learners|synced_\w+|pending_syncs|leader_uptime|quorum_size|observer_master_id"
    r"|global_sessions|(last|min|max)_proposal_size)\t(.*)$",
    re.M,
)


@quick
def words(e: Side) -> None:
    """9.1"""
    a = e.client("A", "F", timeout=10_000)
    a.create("/mine", flags=EPHEMERAL)
    for role in "LFGO":
        srvr = [
            line for line in e.word(role, "srvr").splitlines() if line.startswith(("Mode", "Zxid", "Prop"))
        ]
        e.note(f"{role} srvr: {[line.partition(':')[0] for line in srvr]}")
        e.note(f"{role} isro: {e.word(role, 'isro')}")
        found = sorted(match[1] for match in _BY_ROLE.finditer(e.word(role, "mntr")))
        e.note(f"{role} mntr: {found}")
        for key in ("server_state", "peer_state", "learners", "synced_followers", "synced_observers"):
            value = re.search(rf"^zk_{key}\t(.*)$", e.word(role, "mntr"), re.M)
            e.note(f"{role} {key}: {value and value[1]}")
        e.note(f"{role} dump: {masked(e, e.word(role, 'dump'))}")
        conf = e.word(role, "conf").split("membership: ")
        e.note(f"{role} conf: {re.sub(r'[0-9]+', 'N', conf[-1])!r}")
        keys = [line.partition("=")[0] for line in conf[0].splitlines()]
        e.note(f"{role} conf: {keys}")
    e.client("B", "O").exists("/zookeeper/config")


def masked(e: Side, text: str) -> str:
    def named(found: re.Match[str]) -> str:
        return e.masks.session(int(found[0], 16))

    text = re.sub(r"0x[0-9a-f]{6,}", named, text.partition("Connections dump")[0])
    # the real one also shows the times of buckets that are empty by now
    return re.sub(r"^((?:\w+ )?Session Sets) \(\d+\)|^\d+ expire at .*\n", r"\1", text, flags=re.M)

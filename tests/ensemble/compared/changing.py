"""The members of the ensemble change (ensemble.md section 10)."""

from __future__ import annotations

import re
import socket

from ...support.links import HOST
from ...support.ports import kept_ports
from .script import members, slow_members
from .sides import ROLES, SUPER, Side
from .speaker import Speaker

CONFIG = "/zookeeper/config"
ELSEWHERE = "10.9.9.9:1:2;3"
"""A server that nobody will find."""


def _super(e: Side, name: str, role: str) -> Speaker:
    speaker = e.client(name, role)
    speaker.auth("digest", SUPER)
    return speaker


def _watchers(e: Side) -> dict[str, Speaker]:
    """A client at each server that watches the configuration."""
    watchers = {role: e.client(f"W at {role}", role) for role in ROLES}
    for watcher in watchers.values():
        watcher.get(CONFIG, watch=True)
    return watchers


@members
def refusals(e: Side) -> None:
    """10.1"""
    two, three = f"{e.line('L')},{e.line('F')}", f"server.9={ELSEWHERE}"
    numbers = f"{e.number('L')},{e.number('F')}"
    requests: list[tuple[str | None, str | None, str | None, int]] = [
        (None, None, None, 5),
        (None, None, "", -1),
        (None, None, "x=1", -1),
        (None, None, "# nothing", -1),
        (None, None, "server.1=nonsense", -1),
        (None, None, "server.x=127.0.0.1:1:2;3", -1),
        (None, None, e.line("L"), -1),
        (None, None, f"{e.line('L')},{e.line('O')}", -1),
        (None, None, e.line("O"), -1),
        (None, None, two.replace(":participant", ":boss"), -1),
        ("nonsense", "x", e.line("L"), -1),
        ("nonsense", None, None, -1),
        ("server.9", None, None, -1),
        ("server.x=127.0.0.1:1:2;3", None, None, -1),
        ("server.9=127.0.0.1:1:2", None, None, -1),
        ("server.9=127.0.0.1:1:1;3", None, None, -1),
        ("server.9=127.0.0.1:1:2:boss;3", None, None, -1),
        ("server.9=127.0.0.1:x:2;3", None, None, -1),
        ("server.9=127.0.0.1:70000:2;3", None, None, -1),
        ("server.9=127.0.0.1:1:2;70000", None, None, -1),
        ("server.9=127.0.0.1:1:2;x", None, None, -1),
        (f"server.8={ELSEWHERE},server.9=10.9.9.9:1:4;5", None, None, -1),
        (f"server.8={ELSEWHERE},server.9=10.9.9.9:4:2;5", None, None, -1),
        (",".join(f"server.{n}=10.9.9.{n}:1:2;3" for n in range(6, 10)), None, None, -1),
        (None, "x", None, -1),
        (None, "server.1", None, -1),
        (None, numbers, None, -1),
        (None, "1,2,3", None, -1),
    ]
    for role in "LFO":
        a, b = _super(e, "super", role), e.client("anybody", role)
        for request in requests:
            of_these = any(part == numbers or "127" in str(part) for part in request)
            e.note("with numbers or addresses of these servers" if of_these else f"{request}")
            a.reconfig(*request)
            b.reconfig(*request)
        b.reconfig()
        b.reconfig(three)
        a.get(CONFIG)


@members
def nothing_changes(e: Side) -> None:
    """10.1, 10.2: a new version, and the event"""
    watchers = _watchers(e)
    for role in "LFO":
        a = _super(e, "A", role)
        a.exists(CONFIG, watch=True)
        a.reconfig()
        for watcher in watchers.values():
            watcher.next()
            watcher.get(CONFIG, watch=True)
        a.reconfig("", " , ", None)
        a.reconfig(leaving="77, 78")
        a.get_acl(CONFIG)
        for watcher in watchers.values():
            watcher.next()
            watcher.get(CONFIG, watch=True)


@members
def versions(e: Side) -> None:
    """10.1: a change that was made for another configuration"""
    a = _super(e, "A", "G")
    first = a.change_config()
    second = a.change_config(first)
    a.reconfig(from_config=first)
    a.change_config(second)


@members
def a_follower_leaves_and_joins(e: Side) -> None:
    """10.3: nobody is closed"""
    watchers = _watchers(e)
    a = _super(e, "A", "L")
    for change in ({"leaving": e.number("F")}, {"joining": e.line("F")}):
        a.reconfig(**change)
        for role, watcher in watchers.items():
            watcher.next()
            watcher.get(CONFIG, watch=True)
            e.note(f"{role} {e.mode(role)} {e.figures(role)}")
    watchers["F"].create("/x")


@members
def an_observer_leaves(e: Side) -> None:
    """10.3, 14.21"""
    watchers = _watchers(e)
    a = _super(e, "A", "G")
    a.reconfig(leaving=e.number("O"))
    for role in "LFG":
        watchers[role].next()
        watchers[role].ping()
    watchers["O"].until_closed()
    e.leader()
    for role in ROLES:
        e.note(f"{role} {e.mode(role)} {e.figures(role)}")
    e.client("again", "O", watchers["O"], last_zxid=0).get(CONFIG)
    e.client("new", "O").create("/x")


@members
def roles_change(e: Side) -> None:
    """10.3: an observer votes, and a follower does not any more"""
    for role, votes in (("O", True), ("F", False)):
        watchers = _watchers(e)
        a = _super(e, "A", "L")
        a.reconfig(joining=e.line(role, votes=votes))
        for other, watcher in watchers.items():
            if other == role:
                watcher.until_closed()
            else:
                watcher.next()
                watcher.get(CONFIG)
        e.leader()
        for each in ROLES:
            e.note(f"{each} {e.mode(each)} {e.figures(each)}")
        e.client("again", role, watchers[role], last_zxid=0).get(CONFIG)


@members
def the_leader_leaves(e: Side) -> None:
    """10.3, 14.21"""
    watchers = _watchers(e)
    a = _super(e, "A", "L")
    a.create("/mine", flags=1)
    a.later.reconfig(leaving=e.number("L"))  # the reply may come or not
    for watcher in watchers.values():
        watcher.until_closed()
    again = e.at_leader("again", a)
    e.note(f"the old leader is a {e.mode('L')}")
    again.get(CONFIG)
    again.exists("/mine")
    again.create("/x")
    e.client("at the old leader", "L", again).get(CONFIG)


@members
def a_port_for_clients_changes(e: Side) -> None:
    """10.3: those that are connected stay"""
    a = _super(e, "A", "L")
    b = e.client("B", "F")
    old = e.address("F")
    e.away.add("F")  # nobody finds it at its port
    with kept_ports(1) as (port,):
        a.reconfig(joining=e.line("F", port=port))
        e.settle()
        b.ping()
        e.note("the old port lets clients in" if _is_open(old) else "the old port refuses")
        e.note("the new port lets clients in" if _is_open((HOST, port)) else "the new port refuses")
        a.reconfig(joining=e.line("F"))
        e.settle()
    e.away.discard("F")
    b.get(CONFIG)
    e.client("C", "F")


@members
def groups_and_weights(e: Side) -> None:
    """9.3, 10.1, 12.5: a quorum is a majority of weight in a majority of groups"""
    watcher = e.client("W", "O")
    a = _super(e, "A", "L")
    servers = "\n".join(e.line(role) for role in ROLES)

    def change(*more: str) -> None:
        e.note(" ".join(more))
        for role in ROLES:
            more = tuple(re.sub(rf"\b{role}\b", e.number(role), line) for line in more)
        a.reconfig(new_members="\n".join([servers, *more]))

    change("group.1=L:F")
    change("weight.L=3")
    change("group.1=L:F:G", "group.2=G")
    change("group.1=L:F:G", "group.2=x")
    change("group.x=L:F:G")
    change("group.1=L:F:G:77")
    change("group.1=L:F:G:O")
    change("group.1=L:F:G", "weight.L=x")
    watcher.get(CONFIG, watch=True)
    change("group.1=L:F:G", "weight.L=3", "weight.F=0")
    watcher.next()
    watcher.get(CONFIG)
    a.reconfig()
    a.reconfig(joining=e.line("F"))
    a.reconfig(leaving="77")
    e.note(f"{e.mode('F')} {e.figures('L')} {e.figures('F')}")
    e.kill("F")
    e.kill("G")
    a.create("/one-is-enough")
    e.start("F")
    e.start("G")
    e.leader()
    change("group.1=L", "group.2=F:G")
    a.get(CONFIG)
    e.kill("G")
    a.until_closed()
    e.start("G")
    e.at_leader("A again", a).create("/all-are-needed")


@members
def without_weight(e: Side) -> None:
    """12.5: a leader whose weight becomes 0 goes on leading, and is not elected again"""
    a = _super(e, "A", "L")
    servers = [e.line(role) for role in ROLES]
    group = ":".join(e.number(role) for role in "LFG")
    a.reconfig(new_members="\n".join([*servers, f"group.1={group}", f"weight.{e.number('L')}=0"]))
    a.create("/x")
    e.note(f"{e.mode('L')} {e.figures('L')}")
    e.level()
    e.kill("L")
    a.until_closed()
    e.note_leader()
    e.start("L")
    e.leader()
    b, c = e.client("B", "L"), e.client("C", "F")
    e.kill("G")
    b.until_closed()
    c.until_closed()
    e.pass_time(1)
    e.note(f"L {e.mode('L')}, F {e.mode('F')}")
    e.start("G")
    e.note_leader()
    e.note(f"{e.mode('L')}")


@slow_members
def a_server_that_does_not_run_joins(e: Side) -> None:
    """10.3: it counts for the quorum"""
    a, b = _super(e, "A", "L"), e.client("B", "O")
    a.reconfig(joining=f"server.9={ELSEWHERE}")
    e.kill("F")
    a.until_closed()
    b.until_closed()
    e.start("F")
    again = e.at_leader("A again", a)
    again.auth("digest", SUPER)
    again.reconfig(leaving="9")
    e.kill("F")
    again.create("/x")
    e.start("F")


def _is_open(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=5):
            return True
    except ConnectionRefusedError:
        return False

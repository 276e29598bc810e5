"""The arguments of ``pyzk ensemble``: one table of verbs. Each is a verb of the control API, with a dash for
each underscore, and its arguments have the names of the fields there."""

from __future__ import annotations

from typing import Final

from .arguments import number
from .units import duration
from .verb import Add, Verb

LEADER: Final = "leader"
"""What may stand for the number of the server that leads."""
SESSION: Final = "an id, a name that a test gave, the address of a client, or owner-of:PATH"


def _number(text: str) -> int | str:
    return LEADER if text == LEADER else number(text)


def _group(text: str) -> list[int]:
    return [number(part) for part in text.split(",")]


def _zxid(text: str) -> int:
    return int(text, 0)


def _nothing(add: Add) -> None:
    pass


def _server(add: Add) -> None:
    add("server", metavar="SERVER", type=_number, help=f"its number, or {LEADER}")


def _servers(add: Add) -> None:
    add("servers", metavar="SERVER", type=number, nargs="*", help="their numbers (default: all)")


def _reset(add: Add) -> None:
    help = "by resets, which both sides notice at once (default: silently)"
    add("--reset", dest="silent", action="store_false", default=None, help=help)


def _lag(add: Add) -> None:
    _server(add)
    help = "it does not stand, but takes what the leader sends so much later: 0.2, 5s"
    add("seconds", metavar="TIME", type=duration, nargs="?", help=help)
    add("--upto", metavar="ZXID", type=_zxid, help="where it stands: 0x100000002 (default: where it is)")


def _isolate(add: Add) -> None:
    _server(add)
    _reset(add)


def _partition(add: Add) -> None:
    add("groups", metavar="N,N", type=_group, nargs="+", help="who reach each other; the rest is one more")
    _reset(add)


def _kill(add: Add) -> None:
    _server(add)
    help = "of a leader: what becomes of writes under way (default: it depends on who has them)"
    add("--pending", choices=["lost", "applied"], help=help)


def _start(add: Add) -> None:
    _server(add)
    help = "of a further server, with a new number: it does not vote (default: it will, once it joins)"
    add("--observer", action="store_true", default=None, help=help)


def _reconfig(add: Add) -> None:
    line = "N=HOST:QUORUM:ELECTION[:ROLE];PORT"
    add("--joining", metavar=f"server.{line},...", help="servers that join, or change")
    add("--leaving", metavar="N,...", help="the numbers of servers that leave")
    add("--new-members", metavar=f"server.{line},...", help="all servers, instead of the other two")
    help = "the version that the configuration must have: 0x100000002 (default: any)"
    add("--from-config", metavar="VERSION", type=_zxid, help=help)


def _elect(add: Add) -> None:
    add("to", metavar="SERVER", type=number, nargs="?", help="who leads next (default: another one)")


def _session(add: Add) -> None:
    add("session", metavar="SESSION", help=SESSION)


def _move(add: Add) -> None:
    _session(add)
    _server(add)


def _nemesis(add: Add) -> None:
    add("seed", metavar="SEED", type=int, help="the same one makes the same trouble")
    add("--rate", metavar="N", type=float, help="how often, per second, on average (default: 1)")


def _advance(add: Add) -> None:
    add("seconds", metavar="TIME", type=duration, help="90, 30s, 5m, 2h, 1d")
    help = "as if connected clients had sent their pings meanwhile"
    add("--keep-alive", action="store_true", default=None, help=help)


_ACT: Final = "ensemble:act"
VERBS: Final[dict[str, Verb]] = {
    "lag": Verb("let a server stand still in the log, or apply it late: reads show old data", _ACT, _lag),
    "release": Verb("end that", _ACT, _servers),
    "isolate": Verb("cut a server off from all others", _ACT, _isolate),
    "partition": Verb("cut the links between groups of servers", _ACT, _partition),
    "heal": Verb("join what was cut", _ACT, _servers),
    "freeze": Verb("stop a process: it reads and writes nothing", _ACT, _server),
    "thaw": Verb("end that", _ACT, _server),
    "kill": Verb("end a process: its port refuses", _ACT, _kill),
    "start": Verb("start it again, or a further server", _ACT, _start),
    "reconfig": Verb("change the members", _ACT, _reconfig),
    "roll": Verb("restart each server, the leader last", _ACT, _nothing),
    "elect": Verb("let the leader resign, and the next epoch begin", _ACT, _elect),
    "hold-proposals": Verb("let writes stay in the leader alone", _ACT, _nothing),
    "hold-acks": Verb("let writes stay proposals that all servers have logged", _ACT, _nothing),
    "release-acks": Verb("end either", _ACT, _nothing),
    "expire": Verb("end a session at the leader, as if by time", _ACT, _session),
    "disconnect": Verb("cut the connection of a session", _ACT, _session),
    "move": Verb("have the client of a session go on at another server", _ACT, _move),
    "nemesis": Verb("let trouble come by chance, until calm", _ACT, _nemesis),
    "calm": Verb("end all trouble", _ACT, _nothing),
    "advance": Verb("let the time of all servers jump", _ACT, _advance),
}

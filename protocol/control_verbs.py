"""The verbs of a pretend ensemble, and their arguments: one table for all interfaces that offer them.

From it the routes of the control API are made (``POST /api/v1/ensemble/VERB``), and the parser of ``pyzk
ensemble VERB``. The methods of the test kit check their arguments by it, and tests compare their signatures
and docs/ensemble.md with it.

1. A verb has the name of its method: ``hold_acks``. A terminal has a dash for each underscore, and
   takes the underscore too.
2. An argument, the parameter of its method and its field in JSON have the same name.
3. A server is named by its number, or by ``leader``: the server that leads when the verb begins.
4. Arguments that are not given are not sent: then the default of the method holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

LEADER: Final = "leader"
"""A word that means the number of the server that leads."""
SESSION: Final = "an id, a name, the address of a client, owner-of:PATH or holder-of:PATH"

ServerRef: TypeAlias = int | Literal["leader"]
"""The number of a server, or ``leader``."""
Kind: TypeAlias = Literal[
    "server", "servers", "groups", "session", "seconds", "number", "integer", "zxid", "text", "boolean"
]

_WANTED: Final[Mapping[Kind, str]] = {
    "server": "the number of a server, such as 1, or 'leader'",
    "servers": "the number of a server, such as 1, or 'leader'",
    "groups": "a list of numbers of servers, such as [1, 2]",
    "session": "a session id, a text such as holder-of:/lock, a SessionInfo, or a client",
    "seconds": "a number of seconds",
    "number": "a number",
    "integer": "a whole number",
    "zxid": "a zxid, which is a whole number",
    "text": "text",
    "boolean": "True or False",
}


@attrs.frozen
class Argument:
    """One argument of a verb.

    :ivar kind: the kind of its value.
    :ivar help: its meaning.
    :ivar required: whether it must be given.
    :ivar default: the default, in words.
    :ivar choices: the values that it may have, if not all of its kind.
    :ivar flag: its option in a terminal; None if its place gives its meaning.
    :ivar sets: the value that the option of a boolean gives.
    :ivar metavar: the word for its value in the help of a terminal.
    """

    kind: Kind
    help: str
    required: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()
    flag: str | None = None
    sets: bool = True
    metavar: str = ""

    @property
    def whole_help(self) -> str:
        return f"{self.help} (default: {self.default})" if self.default else self.help

    def check(self, name: str, value: object) -> None:
        """
        :raises TypeError: a value of another kind.
        :raises ValueError: a value that is none of the choices.
        """
        if self.kind in ("servers", "groups") and isinstance(value, tuple):  # all that were given
            for each in value:
                self.check(name, each)
        elif not _is(self.kind, value):
            raise TypeError(f"{name} must be {_WANTED[self.kind]}, not {value!r}")
        elif self.choices and value not in self.choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, self.choices))}, not {value!r}")


def _is(kind: Kind, value: object) -> bool:
    if kind == "groups":
        return not isinstance(value, str) and isinstance(value, Iterable)
    if kind in ("text", "boolean"):
        return isinstance(value, str if kind == "text" else bool)
    if kind == "session":
        return True  # who looks for it says what it can be
    if isinstance(value, bool):
        return False
    if kind in ("seconds", "number"):
        return isinstance(value, int | float)
    return isinstance(value, int) or (kind in ("server", "servers") and value == LEADER)


@attrs.frozen
class ControlVerb:
    """
    :ivar summary: one sentence, without its full stop.
    :ivar arguments: by name, in the order of a terminal.
    """

    summary: str
    arguments: Mapping[str, Argument] = attrs.field(factory=dict)

    def check(self, given: Mapping[str, Any]) -> None:
        """Check the arguments of a method; None means that an argument was not given.

        :raises TypeError: an argument has the wrong kind.
        :raises ValueError: an argument is none of its choices.
        """
        for name, argument in self.arguments.items():
            if (value := given.get(name)) is not None:
                argument.check(name, value)
            elif argument.required and name in given:
                raise TypeError(f"{name} must be {_WANTED[argument.kind]}, not None")


SERVER: Final = Argument("server", f"its number, or {LEADER}", required=True, metavar="SERVER")
_SERVERS: Final = Argument("servers", "their numbers", default="all", metavar="SERVER")
_OF_SESSION: Final = Argument("session", SESSION, required=True, metavar="SESSION")
_SILENT: Final = Argument(
    "boolean",
    "whether the links are silent, so that both sides notice late; resets are noticed at once",
    default="silent",
    flag="--reset",
    sets=False,
)

VERBS: Final[Mapping[str, ControlVerb]] = {
    "lag": ControlVerb(
        "let a server stand still in the log, or apply it late: reads show old data",
        {
            "server": SERVER,
            "seconds": Argument(
                "seconds",
                "the server does not stop, but takes entries of the leader so much later: 0.2, 5s in a "
                "terminal",
                metavar="TIME",
            ),
            "upto": Argument(
                "zxid",
                "the zxid where it stops, as in 0x100000002",
                default="where it is, unless it is late by seconds",
                flag="--upto",
                metavar="ZXID",
            ),
        },
    ),
    "catch_up": ControlVerb("end lag: apply the waiting entries", {"servers": _SERVERS}),
    "isolate": ControlVerb("cut a server off from all others", {"server": SERVER, "silent": _SILENT}),
    "partition": ControlVerb(
        "cut the links between groups of servers",
        {
            "groups": Argument(
                "groups",
                "servers that reach each other; the rest is one more group",
                required=True,
                metavar="N,N",
            ),
            "silent": _SILENT,
        },
    ),
    "heal": ControlVerb("join the links that isolate and partition have cut", {"servers": _SERVERS}),
    "holdup": ControlVerb(
        "hold back messages from a follower to its leader; messages from the leader arrive",
        {"server": SERVER},
    ),
    "releaseup": ControlVerb("end holdup", {"servers": _SERVERS}),
    "freeze": ControlVerb("stop a process: it reads and writes nothing", {"server": SERVER}),
    "thaw": ControlVerb("end freeze", {"server": SERVER}),
    "kill": ControlVerb(
        "end a process: its connections are closed, and its port refuses",
        {
            "server": SERVER,
            "pending": Argument(
                "text",
                "of a leader: what happens to writes under way",
                default="it depends on which servers have them",
                choices=("lost", "applied"),
                flag="--pending",
            ),
        },
    ),
    "start": ControlVerb(
        "start a process that was killed, or a further server with a new number",
        {
            "server": SERVER,
            "observer": Argument(
                "boolean",
                "of a further server: whether it is an observer, which never votes",
                default="it will vote, once it joins",
                flag="--observer",
            ),
        },
    ),
    "reconfig": ControlVerb(
        "change the members, as a client that may do everything would",
        {
            "joining": Argument(
                "text",
                "lines of servers that join or change, separated by commas",
                flag="--joining",
                metavar="server.N=HOST:QUORUM:ELECTION[:ROLE];PORT,...",
            ),
            "leaving": Argument(
                "text",
                "the numbers of servers that leave, separated by commas",
                flag="--leaving",
                metavar="N,...",
            ),
            "new_members": Argument(
                "text",
                "the lines of all servers, instead of the other two",
                flag="--new-members",
                metavar="server.N=HOST:QUORUM:ELECTION[:ROLE];PORT,...",
            ),
            "from_config": Argument(
                "zxid",
                "the version that the configuration must have, as in 0x100000002",
                default="any",
                flag="--from-config",
                metavar="VERSION",
            ),
        },
    ),
    "roll": ControlVerb("restart each server, the leader last"),
    "elect": ControlVerb(
        "let the leader resign, and the next epoch begin at once",
        {"to": Argument("server", "who leads next", default="another server", metavar="SERVER")},
    ),
    "hold_proposals": ControlVerb("let writes stay in the leader alone"),
    "hold_acks": ControlVerb("let writes stay proposals that all servers have logged"),
    "release_acks": ControlVerb("end hold_proposals and hold_acks"),
    "expire": ControlVerb("end a session at the leader, as if by time", {"session": _OF_SESSION}),
    "disconnect": ControlVerb("cut the connection of a session", {"session": _OF_SESSION}),
    "move": ControlVerb(
        "make the client of a session move to another server: until it has come, all others refuse it",
        {"session": _OF_SESSION, "server": SERVER},
    ),
    "nemesis": ControlVerb(
        "let trouble come by chance from now on, until calm",
        {
            "seed": Argument(
                "integer", "the same seed makes the same trouble", required=True, metavar="SEED"
            ),
            "rate": Argument(
                "number",
                "how often, per second of the servers' clock, on average",
                default="1",
                flag="--rate",
                metavar="N",
            ),
        },
    ),
    "calm": ControlVerb("end all trouble: all servers run, reach each other and follow a leader"),
    "advance": ControlVerb(
        "let the time of all servers jump ahead",
        {
            "seconds": Argument(
                "seconds", "how far: 90, or 30s, 5m, 2h, 1d in a terminal", required=True, metavar="TIME"
            ),
            "keep_alive": Argument(
                "boolean",
                "whether connected clients count as having sent their pings meanwhile",
                default="they do not",
                flag="--keep-alive",
            ),
        },
    ),
}
"""The verbs, in the order of the help."""

"""The verbs of a pretend ensemble, and their arguments: one table for all interfaces that offer the verbs.

The routes of the control API (``POST /api/v1/ensemble/VERB``) and the parser of ``pyzk ensemble VERB`` are
made from this table. The methods of the test kit check their arguments with the table. Tests compare the
table with the signatures of the methods and with docs/ensemble.md.

1. A verb has the same name as its method, such as ``hold_acks``. A terminal shows a dash for each underscore,
   and also accepts the underscore.
2. An argument has the same name as the parameter of its method and as its field in JSON.
3. A server is named by its number, or by ``leader``: the server that leads when the verb begins.
4. An argument that the user does not give is not sent. The method then uses the default of the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

LEADER: Final = "leader"
"""The word that names the present leader in place of a server's number."""
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

    :ivar kind: the kind of the argument's value.
    :ivar help: its meaning.
    :ivar required: whether the argument must be given.
    :ivar default: a description of the default.
    :ivar choices: the values that are allowed; empty if all values of the kind are allowed.
    :ivar flag: the option in a terminal; None if the argument is positional.
    :ivar sets: the value that the option sets, for a boolean.
    :ivar metavar: the word for the value in the help of a terminal.
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
        :raises TypeError: a value has the wrong type.
        :raises ValueError: a value is not one of the allowed values.
        """
        if self.kind in ("servers", "groups") and isinstance(value, tuple):  # all values that were given
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
        return True  # the code that looks up the session checks the value
    if isinstance(value, bool):
        return False
    if kind in ("seconds", "number"):
        return isinstance(value, int | float)
    return isinstance(value, int) or (kind in ("server", "servers") and value == LEADER)


@attrs.frozen
class ControlVerb:
    """
    :ivar summary: one sentence without a full stop.
    :ivar arguments: the arguments by name, in the order in which a terminal takes them.
    """

    summary: str
    arguments: Mapping[str, Argument] = attrs.field(factory=dict)

    def check(self, given: Mapping[str, Any]) -> None:
        """Check the arguments of a method; None means that an argument was not given.

        :raises TypeError: an argument has the wrong type.
        :raises ValueError: an argument is not one of its allowed values.
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
        "stop a server from applying the log, or let it apply the log late: its reads show old data",
        {
            "server": SERVER,
            "seconds": Argument(
                "seconds",
                "the time by which the server gets the entries of the leader late: 0.2, or 5s in a terminal",
                metavar="TIME",
            ),
            "upto": Argument(
                "zxid",
                "the zxid where the server stops, such as 0x100000002",
                default="the zxid where it is now; none if a time is given",
                flag="--upto",
                metavar="ZXID",
            ),
        },
    ),
    "catch_up": ControlVerb("end lag: apply all entries that wait", {"servers": _SERVERS}),
    "isolate": ControlVerb("cut a server off from all others", {"server": SERVER, "silent": _SILENT}),
    "partition": ControlVerb(
        "cut the links between groups of servers",
        {
            "groups": Argument(
                "groups",
                "servers that reach each other; all other servers are one more group",
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
        "end a process: its connections are closed, and its port refuses new ones",
        {
            "server": SERVER,
            "pending": Argument(
                "text",
                "what happens to unfinished writes, if a leader is killed",
                default="it depends on which servers have the writes",
                choices=("lost", "applied"),
                flag="--pending",
            ),
        },
    ),
    "start": ControlVerb(
        "start a server that was killed, or add a server with a new number",
        {
            "server": SERVER,
            "observer": Argument(
                "boolean",
                "whether an added server is an observer, which never votes",
                default="it votes after it has joined",
                flag="--observer",
            ),
        },
    ),
    "reconfig": ControlVerb(
        "change the members, as a client with all rights",
        {
            "joining": Argument(
                "text",
                "the lines of servers that join or change, separated by commas",
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
                "the lines of all servers, in place of the servers that join and leave",
                flag="--new-members",
                metavar="server.N=HOST:QUORUM:ELECTION[:ROLE];PORT,...",
            ),
            "from_config": Argument(
                "zxid",
                "the version that the configuration must have, such as 0x100000002",
                default="any",
                flag="--from-config",
                metavar="VERSION",
            ),
        },
    ),
    "roll": ControlVerb("restart each server, the leader last"),
    "elect": ControlVerb(
        "let the leader resign; the next epoch begins at once",
        {"to": Argument("server", "who leads next", default="another server", metavar="SERVER")},
    ),
    "hold_proposals": ControlVerb("let the leader keep new writes to itself, as proposals"),
    "hold_acks": ControlVerb("let new writes stay proposals, which all servers log"),
    "release_acks": ControlVerb("end hold_proposals and hold_acks"),
    "expire": ControlVerb("end a session at the leader, as after its timeout", {"session": _OF_SESSION}),
    "disconnect": ControlVerb("cut the connection of a session", {"session": _OF_SESSION}),
    "move": ControlVerb(
        "move the client of a session to another server; until it is there, all others refuse it",
        {"session": _OF_SESSION, "server": SERVER},
    ),
    "nemesis": ControlVerb(
        "make random trouble from now on, until calm",
        {
            "seed": Argument(
                "integer",
                "the seed of the trouble; the same seed makes the same trouble",
                required=True,
                metavar="SEED",
            ),
            "rate": Argument(
                "number",
                "the average number of troubles per second of the servers' clock",
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
                "seconds",
                "the time of the jump: 90, or 30s, 5m, 2h, 1d in a terminal",
                required=True,
                metavar="TIME",
            ),
            "keep_alive": Argument(
                "boolean",
                "whether the servers treat connected clients as if they had sent pings during the jump",
                default="they do not",
                flag="--keep-alive",
            ),
        },
    ),
}
"""The verbs, in the order of the help."""

"""The faults of a sweep: each is a row, and a function.

Only what a network, a client that stands still, and a restart can do to a client of a real ZooKeeper; and on
demand what ClickHouse Keeper does, which gives no session back. A session ends as it does there: its client
is cut off for as long as the session lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from ..net.connection import Connection

if TYPE_CHECKING:
    from .stage import Stage


@attrs.frozen
class Fault:
    """
    :ivar words: what happens, as the head of a column.
    :ivar ends_session: whether the client's session does not survive it: then its program may end with an
        error that says so.
    :ivar of_keeper: whether only ClickHouse Keeper does it.
    :ivar do: makes it happen at a request, of which the number of the held message is given; returns what
        has happened.
    """

    words: str
    ends_session: bool
    do: Callable[[Stage, Connection, int], str]
    of_keeper: bool = False


def _lost(stage: Stage, connection: Connection, request: int) -> str:
    stage.cut(connection, "the request is lost")
    return "REQUEST LOST, connection cut"


def _reply_lost(stage: Stage, connection: Connection, request: int) -> str:
    stage.apply(connection, request)
    stage.cut(connection, "the reply is lost")
    return "APPLIED, REPLY LOST, connection cut"


def _cut_after(stage: Stage, connection: Connection, request: int) -> str:
    reply = stage.answer(connection, request)
    stage.cut(connection, "cut behind the reply")
    return f"ANSWERED ({stage.words(reply)}), then the connection cut"


def _gone_before(stage: Stage, connection: Connection, request: int) -> str:
    stage.server.lose(request)
    stage.cut_off(connection)
    return "REQUEST LOST, cut off until its session has expired"


def _gone_mid(stage: Stage, connection: Connection, request: int) -> str:
    stage.apply(connection, request)
    stage.cut_off(connection)
    return "APPLIED, REPLY LOST, cut off until its session has expired"


def _gone_after(stage: Stage, connection: Connection, request: int) -> str:
    reply = stage.answer(connection, request)
    stage.cut_off(connection)
    return f"ANSWERED ({stage.words(reply)}), then cut off until its session has expired"


def _restart(stage: Stage, connection: Connection, request: int) -> str:
    stage.apply(connection, request)
    stage.server.restart(keep_data=True)
    return "APPLIED, REPLY LOST, the server restarts with its data"


def _ghost(stage: Stage, connection: Connection, request: int) -> str:
    stage.apply(connection, request)
    stage.ghost(connection)
    return "APPLIED, REPLY LOST, the client must begin a new session while the old one is alive"


def _swap(stage: Stage, connection: Connection, request: int) -> str:
    stage.apply(connection, request)
    stage.ghost(connection, swap=True)
    return "APPLIED, REPLY LOST, the client asks for its session and gets another one"


FAULTS: Final = {
    "lost": Fault("the request is lost, the connection cut", False, _lost),
    "reply-lost": Fault("it is applied, the reply lost, the connection cut", False, _reply_lost),
    "cut-after": Fault("it is answered, then the connection cut", False, _cut_after),
    "gone-before": Fault("it is lost, the client cut off until its session has expired", True, _gone_before),
    "gone-mid": Fault("it is applied, the reply lost, the client cut off likewise", True, _gone_mid),
    "gone-after": Fault("it is answered, then the client cut off likewise", True, _gone_after),
    "restart": Fault("it is applied, the reply lost, all connections cut", False, _restart),
    "ghost": Fault("the client gets a new session while its old one is alive", True, _ghost),
    "swap": Fault("the client asks for its session and gets another one", True, _swap, of_keeper=True),
}
OF_ZOOKEEPER: Final = tuple(name for name, fault in FAULTS.items() if not fault.of_keeper)
FIRST: Final = ("reply-lost", "gone-mid", "cut-after")
"""Those that come first where there is no time for all."""


def chosen(faults: Iterable[str]) -> list[str]:
    """Return the names of faults in the order of the table.

    :param faults: names; or ``"keeper"`` for all.
    :raises ValueError: for an unknown one.
    """
    wanted = set(FAULTS if faults == "keeper" else faults)
    if unknown := sorted(wanted - FAULTS.keys()):
        raise ValueError(f"there is no fault {unknown[0]!r}; there are: {', '.join(FAULTS)}")
    return [name for name in FAULTS if name in wanted]

"""The faults of a sweep: each fault is a row of a table, and a function.

A sweep tries only what a network, a paused client and a restart can do to a client of a real ZooKeeper. On
demand a sweep also tries the faults of two other kinds of servers. ClickHouse Keeper may give a client a new
session in place of its old session. The other kind keeps no data after a restart. A session ends in the same
way as at a real server: its client is cut off until the session has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal

import attrs

from ...protocol.control_verbs import LEADER
from ..testing.controls.member import MemberControls
from .servers import Held

if TYPE_CHECKING:
    from .stage import Stage


@attrs.frozen
class Fault:
    """A fault that can happen at a request.

    :ivar words: what happens.
    :ivar ends_session: whether the fault ends the client's session. Then the client's program may end with an
        error that says so.
    :ivar of: where the fault happens: with any ZooKeeper, only in an ensemble, only with ClickHouse Keeper
        (``keeper``), or with a server that keeps no data (``memory``).
    :ivar do: the function that makes the fault happen at a held request, and returns what happened, in words.
    """

    words: str
    ends_session: bool
    do: Callable[[Stage, Held], str]
    of: Literal["zookeeper", "ensemble", "keeper", "memory"] = "zookeeper"


def _lost(stage: Stage, request: Held) -> str:
    stage.cut(request, "the request is lost")
    return "REQUEST LOST, connection cut"


def _reply_lost(stage: Stage, request: Held) -> str:
    stage.apply(request)
    stage.cut(request, "the reply is lost")
    return "APPLIED, REPLY LOST, connection cut"


def _cut_after(stage: Stage, request: Held) -> str:
    reply = stage.answer(request)
    stage.cut(request, "cut behind the reply")
    return f"ANSWERED ({stage.words(reply)}), then the connection is cut"


def _gone_before(stage: Stage, request: Held) -> str:
    request.lose()
    stage.cut_off(request)
    return "REQUEST LOST, the client is cut off until its session has expired"


def _gone_mid(stage: Stage, request: Held) -> str:
    stage.apply(request)
    stage.cut_off(request)
    return "APPLIED, REPLY LOST, the client is cut off until its session has expired"


def _gone_after(stage: Stage, request: Held) -> str:
    reply = stage.answer(request)
    stage.cut_off(request)
    return f"ANSWERED ({stage.words(reply)}), then the client is cut off until its session has expired"


def _restart(stage: Stage, request: Held) -> str:
    stage.apply(request)
    request.server.restart(keep_data=True)
    return "APPLIED, REPLY LOST, the server restarts with its data"


def _ghost(stage: Stage, request: Held) -> str:
    stage.apply(request)
    stage.ghost(request)
    return "APPLIED, REPLY LOST, the client must begin a new session while the old one is alive"


def _swap(stage: Stage, request: Held) -> str:
    stage.apply(request)
    stage.ghost(request, swap=True)
    return "APPLIED, REPLY LOST, the client asks for its session and gets a new session"


def _restart_empty(stage: Stage, request: Held) -> str:
    stage.apply(request)
    request.server.restart(keep_data=False)
    return "APPLIED, REPLY LOST, the server restarts without its data"


def _leader_before(stage: Stage, request: Held) -> str:
    request.lose()
    _lose_leader(request)
    return "REQUEST LOST, the leader dies"


def _leader_mid(stage: Stage, request: Held) -> str:
    stage.apply(request)
    _lose_leader(request)
    return "APPLIED, REPLY LOST, the leader dies"


def _leader_after(stage: Stage, request: Held) -> str:
    reply = stage.answer(request)
    request.server.running.gate.settle(request.connection)
    _lose_leader(request)
    return f"ANSWERED ({stage.words(reply)}), then the leader dies"


def _lag_own(stage: Stage, request: Held) -> str:
    own = _member(request)
    own.ensemble.lag(own.number, stage.lag)
    reply = stage.words(stage.answer(request)) or "answered later"
    return f"HANDLED ({reply}), from here on the client's server lags by {stage.lag:g} s"


def _lag_others(stage: Stage, request: Held) -> str:
    own = _member(request)
    for number in own.ensemble.numbers:
        if number != own.number and own.ensemble.role(number) == "follower":
            own.ensemble.lag(number, stage.lag)
    reply = stage.words(stage.answer(request))
    return f"ANSWERED ({reply}), the other followers lag by {stage.lag:g} s from here on"


def _lose_leader(request: Held) -> None:
    """Kill the leader, which stays down. The other servers elect a new leader, and all clients reconnect."""
    _member(request).ensemble.kill(LEADER)


def _member(request: Held) -> MemberControls:
    assert isinstance(request.server, MemberControls), "chosen() allows this fault only in an ensemble"
    return request.server


FAULTS: Final = {
    "lost": Fault("the request is lost, the connection is cut", False, _lost),
    "reply-lost": Fault(
        "the request is applied, the reply is lost, the connection is cut", False, _reply_lost
    ),
    "cut-after": Fault("the request is answered, then the connection is cut", False, _cut_after),
    "gone-before": Fault(
        "the request is lost, the client is cut off until its session has expired", True, _gone_before
    ),
    "gone-mid": Fault(
        "the request is applied, the reply is lost, the client is cut off until its session has expired",
        True,
        _gone_mid,
    ),
    "gone-after": Fault(
        "the request is answered, then the client is cut off until its session has expired", True, _gone_after
    ),
    "restart": Fault(
        "the request is applied, the reply is lost, the client's server restarts", False, _restart
    ),
    "ghost": Fault("the client gets a new session while its old one is alive", True, _ghost),
    "leader-before": Fault("the request is lost, the leader dies", False, _leader_before, "ensemble"),
    "leader-mid": Fault(
        "the request is applied, the reply is lost, the leader dies", False, _leader_mid, "ensemble"
    ),
    "leader-after": Fault("the request is answered, then the leader dies", False, _leader_after, "ensemble"),
    "lag-own": Fault("the client's server lags from here on", False, _lag_own, "ensemble"),
    "lag-others": Fault("the other followers lag from here on", False, _lag_others, "ensemble"),
    "swap": Fault("the client asks for its session and gets a new session", True, _swap, "keeper"),
    "restart-empty": Fault(
        "the request is applied, the server restarts without data", True, _restart_empty, "memory"
    ),
}
FIRST: Final = ("reply-lost", "gone-mid", "cut-after", "leader-mid", "lag-others")
"""The faults that are tried first, because the time may be too short for all faults."""


def chosen(faults: str | Iterable[str], *, in_ensemble: bool = False) -> list[str]:
    """Return the names of faults in the order of the table.

    :param faults: the names. ``"zookeeper"`` means all faults that a ZooKeeper shows; ``"keeper"`` adds the
        faults that only ClickHouse Keeper shows.
    :param in_ensemble: whether there is more than one server.
    :raises ValueError: a fault is unknown, or needs an ensemble, or is only for a single server.
    """
    of_zookeeper = {"zookeeper", "ensemble"} if in_ensemble else {"zookeeper"}
    groups = {
        group: [name for name, fault in FAULTS.items() if fault.of in {group, *of_zookeeper}]
        for group in ("zookeeper", "keeper")
    }
    given = [faults] if isinstance(faults, str) else faults
    wanted = {name for each in given for name in groups.get(each, [each])}
    if unknown := sorted(wanted - FAULTS.keys()):
        raise ValueError(f"there is no fault {unknown[0]!r}. The faults are: {', '.join(FAULTS)}")
    for name in sorted(wanted):
        check(name, in_ensemble=in_ensemble)
    return [name for name in FAULTS if name in wanted]


def check(name: str, *, in_ensemble: bool = False) -> None:
    """Check that a fault can happen.

    :param in_ensemble: whether there is more than one server.
    :raises ValueError: the fault needs an ensemble, or is only for a single server.
    """
    if FAULTS[name].of == "ensemble" and not in_ensemble:
        raise ValueError(f"{name} needs an ensemble: sweep(scenario, ensemble=3), or pyzk-sweep --ensemble 3")
    if FAULTS[name].of == "memory" and in_ensemble:
        raise ValueError(
            f"{name} is only for a single server: in an ensemble the other servers have the data"
        )

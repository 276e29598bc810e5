"""Random requests, most of them odd, to a real server and to ours while it emulates the release of that one.

Every reply and every event must agree. ``HYPOTHESIS_PROFILE=nightly`` asks far more, and something else each
time. What is left out:

* what ours answers otherwise on purpose (semantics.md section 16);
* a create mode with a TTL in a multi behind an operation that fails: before 3.8.3 that one is reported;
* ACLs that hide a znode from its watchers: Debian's 3.8.0 does not tell them, as if it were 3.8.4.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from ..support.wire import Reply, WireClient
from .conftest import running
from .lockstep import FIXED_XIDS, Side
from .servers import CONFIG
from .talking import Talk, fresh, says

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
CONVERSATIONS = 2500 if NIGHTLY else 40
REQUESTS = 40


def converse(sides: list[Side], talk: Talk) -> None:
    with contextlib.ExitStack() as stack:
        _converse(sides, [stack.enter_context(side.connect()) for side in sides], talk)


def _converse(sides: list[Side], clients: list[WireClient], talk: Talk) -> None:
    for side, client in zip(sides, clients, strict=True):
        side.sessions = {client.session_id: 0}
        side.base = client.ping().zxid
    before: list[Any] = []
    for number, (op, body) in enumerate(talk.requests(REQUESTS)):
        for client in clients:
            client.send(op, body, FIXED_XIDS.get(op, 1000 + number))
        ours, real = (says(side, client, op, number) for side, client in zip(sides, clients, strict=True))
        assert ours == real, f"{op.name} {body!r}: ours {ours}, real {real}; before: {before}"
        before.append((op.name, body, ours))
    for client in clients:
        assert isinstance(client.close_session(), Reply)


@pytest.fixture(scope="module")
def sides() -> Iterator[list[Side]]:
    config = {**CONFIG, "znode.container.checkIntervalMs": "600000"}
    with running("real", config) as real:
        release = ".".join(map(str, real.version))
        with running("ours", {**config, "emulate": release}) as ours:
            yield [Side(ours), Side(real)]


def test_every_reply_and_event_agrees(sides: list[Side]) -> None:
    seed = random.SystemRandom().getrandbits(32) if NIGHTLY else 1
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(CONVERSATIONS):
        path = f"/random-{number}"
        with fresh(sides[0].server, path), fresh(sides[1].server, path):
            converse(sides, Talk(chance, f"{path}/t"))

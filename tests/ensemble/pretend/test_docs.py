"""The examples of docs/ensemble.md and docs/ensemble-examples.md, run one by one."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kazoo.client")
import trio
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NotReadOnlyCallError
from kazoo.handlers.threading import KazooTimeoutError
from trio.testing import MockClock

import pyzk.blocking
from pyzk.client import connect
from pyzk.recipes import Lock, LockLost
from pyzk.server.testing import EmbeddedEnsemble, Timing, open_ensemble

PAGES = ("ensemble.md", "ensemble-examples.md")
TEXT = "".join((Path(__file__).parents[3] / "docs" / name).read_text() for name in PAGES)
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "KazooClient": KazooClient,
        "ConnectionLoss": ConnectionLoss,
        "NotReadOnlyCallError": NotReadOnlyCallError,
        "KazooTimeoutError": KazooTimeoutError,
        "pytest": pytest,
        "time": time,
    }
    space = {"EmbeddedEnsemble": EmbeddedEnsemble, **names}
    exec(example, space)
    for client in space.values():
        if isinstance(client, KazooClient):
            client.close()
    if "print" in example:
        assert capsys.readouterr().out.endswith("3 observer\n")


def test_the_example_with_the_fixture(zk_ensemble: EmbeddedEnsemble) -> None:
    (example,) = [example for example in EXAMPLES if example.startswith("def ")]
    space: dict[str, Any] = {}
    made: list[KazooClient] = []

    def client(hosts: str) -> KazooClient:
        made.append(KazooClient(hosts, connection_retry={"max_tries": -1, "delay": 0.01, "backoff": 1}))
        return made[-1]

    space["KazooClient"] = client
    exec(example, space)
    space["test_a_session_survives_the_leader"](zk_ensemble)
    made[0].close()


def test_the_example_with_our_client() -> None:
    (example,) = [example for example in EXAMPLES if example.startswith("async def ")]
    names = (trio, suppress, open_ensemble, connect, Lock, LockLost)
    space: dict[str, Any] = {name.__name__: name for name in names}
    exec(example, space)
    trio.run(space["test_one_holder_at_a_time"], None, clock=MockClock(autojump_threshold=0))


def test_two_holders_on_a_frozen_clock() -> None:
    """What the page says of our recipes there: the time of the servers has passed, that of the client not."""
    timing = Timing(sync_limit=50)  # long timeouts, so that a slow machine is no reason to lose a lease
    with (
        EmbeddedEnsemble(3, clock="frozen", timing=timing) as ensemble,
        pyzk.blocking.connect(ensemble[1].hosts, session_timeout=30, on_expired="new_session") as one,
        pyzk.blocking.connect(ensemble[3].hosts, session_timeout=40) as two,
        suppress(pyzk.blocking.LockLost),
        pyzk.blocking.Lock(one, "/leader") as first,
    ):
        ensemble.isolate(1)
        ensemble.advance(34)
        with pyzk.blocking.Lock(two, "/leader") as second:
            assert not first.lost.is_set()
            assert not second.lost.is_set()
        ensemble.heal()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3

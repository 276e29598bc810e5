"""The examples of docs/ensemble.md, run one by one."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kazoo.client")
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError

from pyzk.server.testing import EmbeddedEnsemble

TEXT = (Path(__file__).parents[3] / "docs" / "ensemble.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "KazooClient": KazooClient,
        "ConnectionLoss": ConnectionLoss,
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


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3

"""What the table of wrappers says of members is said of members that are there."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from pyzk import aio, blocking
from pyzk.bridge import wrapped
from pyzk.server.testing import EmbeddedServer

TYPES = {cls.__name__: cls for cls in wrapped.WRAPPED}


@pytest.mark.parametrize("table", ["IN_LOOP", "UNTIL_LIMIT", "UP_TO_DATE", "DIRECT", "CALLS_BACK"])
def test_each_member_is_there(table: str) -> None:
    for where in getattr(wrapped, table):
        cls, dot, member = where.rpartition(".")
        if dot:
            assert member in vars(TYPES[cls]), where
        else:
            assert member in {function.__name__ for function in wrapped.FUNCTIONS}, where


@pytest.mark.parametrize("cls", wrapped.WRAPPED)
def test_what_is_hidden_is_there(cls: type) -> None:
    source = "".join(inspect.getsource(each) for each in cls.__mro__ if each.__module__.startswith("pyzk"))
    missing = {name for name in wrapped.WRAPPED[cls] if not re.search(rf"\b(def |self\.)?{name}\b", source)}
    assert not missing


def test_what_sends_one_request_after_the_other_may_be_done_by_the_caller() -> None:
    assert {"get", "set", "ensure_path", "create", "get_config", "multi"} <= {
        where.removeprefix("ZooKeeper.") for where in wrapped.DIRECT
    }
    for name in ("delete", "get_and_watch", "update_hosts", "watch"):
        assert f"ZooKeeper.{name}" not in wrapped.DIRECT


def test_classes_that_wait_for_requests_are_there() -> None:
    assert set(TYPES) >= wrapped.WAIT_FOR_REQUESTS


@pytest.mark.parametrize("api", [aio, blocking])
@pytest.mark.parametrize("name", ["Pending", "SharedValue"])
def test_generic_classes_are_generic_in_each_face(api: Any, name: str) -> None:
    made = getattr(api, name)
    assert made[int].__origin__ is made
    assert made[int].__args__ == (int,)


def test_what_is_hidden_is_no_member_of_a_face(server: EmbeddedServer) -> None:
    with blocking.connect(server.hosts) as zk:
        for name in ("cleanup", "keep_lease", "start_soon", "source", "on_submit", "_trio_token"):
            with pytest.raises(AttributeError, match=f"ZooKeeper of pyzk.blocking has no '{name}'"):
                getattr(zk, name)
        assert zk.chroot == ""

"""``pyzk-lock`` waits for its turn, with every kind of lock."""

from __future__ import annotations

import json
import re
import select
import signal
import sys
import uuid
from collections.abc import Callable
from functools import partial

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer

from ...support.waiting import wait_until
from .process import Start, contenders, holding, occupy, queue_up

PROGRAM = ["PROGRAM"] if sys.platform == "linux" else []
"""The column that only Linux fills."""


def test_it_waits_for_its_turn(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    process = start("-v", "/x", "--", "echo", "mine")
    assert re.fullmatch(
        r"pyzk-lock: waiting: /x is held by somebody \(session 0x[0-9a-f]+, for \d+ s\)", process.complaint()
    )
    other.delete(held)
    status, output, complaints = process.end()
    assert (status, output) == (0, "mine\n")
    assert re.fullmatch(r"pyzk-lock: /x was granted, token \d+\npyzk-lock: /x was released\n", complaints)


def test_it_does_not_wait_if_told_so(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    for limit in (["--try"], ["--timeout", "2"]):  # which has to do for a session as well
        status, output, complaint = start(*limit, "/x", "--", "echo", "mine").end()
        assert (status, output) == (75, "")
        assert complaint.startswith("pyzk-lock: /x is held by somebody (session 0x")
        assert complaint.endswith("; try again later, or wait longer: --timeout\n")
        assert contenders(server) == [held]
    other.delete(held)
    assert start("--try", "/x", "--", "echo", "mine").end() == (0, "mine\n", "")


def test_a_wait_outlives_the_session(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    process = start("/x", "--", "echo", "mine")
    wait_until(lambda: len(contenders(server)) == 2)
    server.expire(next(s for s in server.sessions() if held not in s.ephemerals))
    wait_until(lambda: len(contenders(server)) == 2)
    other.delete(held)
    assert process.end() == (0, "mine\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait(
    number: signal.Signals, server: EmbeddedServer, start: Start, other: KazooClient
) -> None:
    held = occupy(other)
    process = start("/x", "--", "echo", "mine")
    wait_until(lambda: len(contenders(server)) == 2)
    process.popen.send_signal(number)
    assert process.end() == (128 + number, "", "")
    assert contenders(server) == [held]
    assert len(server.sessions()) == 1


def test_readers_hold_it_side_by_side(start: Start, other: KazooClient) -> None:
    queue_up(other, "-__READ__")
    reader, session = holding(start, "--shared", "/x")
    assert start("--try", "/x", "--", "true").end()[0] == 75
    status, listing, _ = start("--list", "/x").end()
    assert status == 0
    title, header, first, second = listing.splitlines()
    assert title == "/x: 2 holding, 0 waiting"
    assert header.split() == ["STATE", "AS", "LIBRARY", "SESSION", "CLIENT", *PROGRAM, "AGE", "ZNODE", "DATA"]
    assert re.fullmatch(r"1  holds  read  curator  0x[0-9a-f]+ +\S+:\d+ .* +\d+ s  \S+ +Zoë", first)
    assert re.fullmatch(
        rf"2  holds  read  curator  0x{session:x} +\S+:\d+ .* +\d+ s  \S+ +.* pid {reader.popen.pid}: sh",
        second,
    )
    assert not PROGRAM or f"(pid {reader.popen.pid})" in second


def take_slot(other: KazooClient, layout: str) -> Callable[[], object]:
    """Let somebody else have one of two slots; returns what gives it back."""
    if layout == "kazoo":
        semaphore = other.Semaphore("/x", max_leases=2)
        semaphore.acquire()
        return semaphore.release  # type: ignore[no-any-return]
    name = f"/x/leases/_c_{uuid.uuid4()}-lease-"
    return partial(other.delete, other.create(name, ephemeral=True, sequence=True, makepath=True))


@pytest.mark.parametrize("layout", ["curator", "kazoo"])
def test_slots(layout: str, server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    options = ["--layout", layout, "--slots", "2", "/x"]
    give_back = take_slot(other, layout)
    holding(start, *options)
    waiting = start(*options, "--", "echo", "mine")
    wait_until(lambda: any(re.search(r"lock(-|__)\d{10}$", path) for path in server.dump()))
    found = json.loads(start("--list", "--json", "/x").end()[1])
    assert [(c["holds"], c["position"], c["kind"], c["libraries"]) for c in found["contenders"]] == [
        (True, 0, "lease", [layout]),
        (True, 0, "lease", [layout]),
        (False, 1, "lock", [layout]),
    ]
    give_back()
    assert waiting.end() == (0, "mine\n", "")


def test_no_slot(start: Start, other: KazooClient) -> None:
    for _ in range(2):
        take_slot(other, "curator")
    status, _, complaint = start("--slots", "2", "--try", "/x", "--", "true").end()
    assert status == 75
    assert " and 1 more; try again later" in complaint


def test_a_semaphore_has_one_limit(start: Start, other: KazooClient) -> None:
    take_slot(other, "kazoo")
    status, _, complaint = start("--slots", "3", "--layout", "kazoo", "/x", "--", "true").end()
    assert status == 70
    assert complaint == "pyzk-lock: /x allows 2 leases, not 3; use the same limit in all clients\n"


def test_kazoo_and_we_wait_for_each_other(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    lock = other.Lock("/x", "kazoo")
    lock.acquire()
    process = start("--layout", "both", "/x", "--", "sh", "-c", "echo mine; read line")
    wait_until(lambda: len(contenders(server)) == 3)
    assert select.select([process.popen.stdout], [], [], 0)[0] == []
    lock.release()
    assert process.line() == "mine"
    assert not other.Lock("/x").acquire(blocking=False)
    process.write("\n")
    assert process.end()[0] == 0
    assert other.Lock("/x").acquire(blocking=False)


def test_a_command_is_told_of_both_znodes_of_a_bridge(start: Start) -> None:
    status, output, _ = start("--layout", "both", "/x", "--", "sh", "-c", 'echo "$PYZK_LOCK_NODE"').end()
    curator, kazoo = output.splitlines()
    assert status == 0
    assert curator.startswith("/x/_c_")
    assert kazoo.startswith("/x/z")

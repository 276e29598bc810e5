"""read-without-sync: what clients make of a read at a server that is behind."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.errors import BadVersionError, NodeExistsError, NoNodeError
from pyzk.server.testing import EmbeddedEnsemble
from pyzk.server.testing.advisor.behind import ReadWithoutSync
from tests.support.requests import delete_op

from .ensembles import (
    Act,
    Scene,
    counters,
    is_refused_a_create,
    is_refused_a_version,
    is_refused_what_has_gone,
    overwrites,
)

NAME = ReadWithoutSync.name
SEEN: dict[Act, str] = {
    overwrites: (
        "/count was overwritten 1 times by a client that had read the state of 0x3 at server 1, 1 "
        "transaction behind the set_data 0x4 that server 3 had answered before"
    ),
    is_refused_a_version: (
        "set_data of /count was refused with BadVersionError 1 times by a client that had read the "
        "state of 0x3 at server 1, 1 transaction behind the set_data 0x4 that server 3 had answered "
        "before"
    ),
    is_refused_a_create: (
        "create of /leader was refused with NodeExistsError 1 times by a client that had read the "
        "state of 0x2 at server 1, 1 transaction behind the create 0x3 that server 3 had answered "
        "before"
    ),
    is_refused_what_has_gone: (
        "set_data of /tasks/1 was refused with NoNodeError 1 times by a client that had read the "
        "state of 0x4 at server 1, 1 transaction behind the delete 0x5 that server 3 had answered "
        "before"
    ),
}


@pytest.mark.parametrize("act", SEEN)
def test_the_faulty_client_is_found(scene: Scene, act: Act) -> None:
    act(scene, lambda: None)
    (finding,) = scene.ensemble.advice()
    assert (finding.rule, finding.count) == (NAME, 1)
    assert counters(finding.evidence) == SEEN[act]
    assert finding.sessions == (scene.reader.session_id, scene.writer.session_id)
    assert len(finding.paths) == 1


@pytest.mark.parametrize("act", SEEN)
def test_with_sync_it_is_not(scene: Scene, act: Act) -> None:
    act(scene, scene.sync)
    assert scene.found() == []
    assert scene.ensemble.history(op="sync")


# --- what is no fault --------------------------------------------------------------------------------------


def test_who_writes_with_the_version_and_reads_again(scene: Scene) -> None:
    """The loop of a counter: the refusal brings its server up to date."""
    reader = scene.reader
    scene.writer.create("/count", b"0")
    scene.behind(lambda writer: writer.set("/count", b"1"))
    stale = reader.get("/count").record.stat.version
    scene.catch_up()
    assert reader.set("/count", b"1", version=stale).err == BadVersionError.code
    version = reader.get("/count").record.stat.version
    assert not reader.set("/count", b"2", version=version).err
    for _ in range(20):
        reader.exists("/other", watch=True)
    reader.close_session()
    assert NAME not in scene.found()


def test_who_was_refused_has_time_to_look(scene: Scene) -> None:
    scene.writer.create("/count", b"0")
    scene.behind(lambda writer: writer.set("/count", b"1"))
    version = scene.reader.get("/count").record.stat.version
    scene.catch_up()
    assert scene.reader.multi(delete_op("/count", version)).results[0].err == BadVersionError.code
    for number in range(9):
        scene.reader.create(f"/{number}")
        assert scene.found() == []
    scene.reader.create("/9")
    assert scene.found() == [NAME]


def test_who_only_reads(scene: Scene) -> None:
    scene.writer.create("/x", b"0")
    scene.behind(lambda writer: writer.set("/x", b"1"))
    assert scene.reader.data("/x") == b"0"
    scene.catch_up()
    assert scene.reader.data("/x") == b"1"
    scene.reader.set("/x", b"2")
    assert scene.found() == []


def test_who_is_told_by_an_event(scene: Scene) -> None:
    """What follows was not written on the strength of the old value alone: the client knew of the new one."""
    scene.writer.create("/x", b"0")
    scene.behind(lambda writer: writer.set("/x", b"1"))
    scene.reader.get("/x", watch=True)
    scene.catch_up()
    assert scene.reader.wait_event().path == "/x"
    scene.reader.set("/x", b"2")
    assert scene.found() == []


def test_a_write_that_was_not_answered_yet(scene: Scene) -> None:
    """Then the read may well come before it, and sync does not help: check-then-act sees what follows."""
    scene.writer.create("/x", b"0")
    scene.ensemble.hold_acks()
    scene.writer.later.set("/x", b"1")
    assert scene.reader.data("/x") == b"0"
    scene.ensemble.release_acks()
    assert len(scene.writer.arrivals()) == 1
    scene.reader.set("/x", b"1")
    assert scene.found() == ["check-then-act"]


def test_a_later_write_would_have_refused_a_fresh_read_too(scene: Scene) -> None:
    scene.writer.create("/x", b"0")
    scene.behind(lambda writer: writer.set("/x", b"1"))
    version = scene.reader.get("/x").record.stat.version
    scene.catch_up()
    scene.writer.set("/x", b"2")
    assert scene.reader.set("/x", b"1", version=version).err == BadVersionError.code
    scene.reader.close_session()
    assert scene.found() == []


def test_parents_and_deletes_twice(scene: Scene) -> None:
    """Who makes sure that a parent is there, or that a znode is not, has what it wants."""
    reader, writer = scene.reader, scene.writer
    writer.create("/old")
    scene.ensemble.lag(1)
    writer.create("/parent")
    writer.delete("/old")
    assert reader.exists("/parent").err == NoNodeError.code
    assert not reader.exists("/old").err
    scene.catch_up()
    assert reader.create("/parent").err == NodeExistsError.code
    assert reader.delete("/old").err == NoNodeError.code
    reader.close_session()
    assert scene.found() == []


def test_an_epoch_behind(scene: Scene) -> None:
    scene.writer.create("/x", b"0")
    scene.ensemble.elect(to=3)
    reader, writer = scene.at(1, scene.reader), scene.at(3, scene.writer)
    scene.ensemble.lag(1)
    writer.set("/x", b"1")
    assert reader.data("/x") == b"0"
    scene.catch_up()
    reader.set("/x", b"1")
    (finding,) = scene.ensemble.advice()
    assert finding.rule == NAME
    assert "at server 1, an epoch behind the set_data" in finding.evidence


def test_a_sequential_create_is_its_own(scene: Scene) -> None:
    scene.behind(lambda writer: writer.create("/n-", flags=CreateMode.PERSISTENT_SEQUENTIAL))
    assert scene.reader.exists("/n-0000000000").err == NoNodeError.code
    scene.catch_up()
    assert scene.reader.create("/n-0000000000", b"1").err == NodeExistsError.code
    scene.reader.close_session()
    assert scene.found() == [NAME]


def test_kazoos_recipes_while_servers_lag() -> None:
    """They take a refusal for what it is, and look again."""
    with EmbeddedEnsemble(3) as ensemble:

        def work(client: KazooClient) -> None:
            counter, lock, queue = client.Counter("/counter"), client.Lock("/lock"), client.Queue("/queue")
            for number in range(10):
                counter += 1
                with lock:
                    queue.put(b"x")
                    queue.get()
                client.ensure_path(f"/parents/{number}")

        clients = [KazooClient(ensemble[server].hosts) for server in (1, 2, 3)]
        for client in clients:
            client.start()
        with ThreadPoolExecutor() as pool:
            working = [pool.submit(work, client) for client in clients]
            while not all(each.done() for each in working):
                ensemble.lag(1)
                ensemble.lag(2)
                time.sleep(0.005)
                ensemble.catch_up()
        for each in working:
            each.result()
        for client in clients:
            client.stop()
            client.close()
        assert ensemble.dump()["/counter"] == b"30"
        assert NAME not in [found.rule for found in ensemble.advice()]

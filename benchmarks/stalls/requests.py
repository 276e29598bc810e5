"""What is asked for: each operation at its largest."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode, CreateMode
from pyzk.protocol.operations import OpCode

from .. import wire
from .case import case, one_multi
from .scene import (
    BATCH,
    MEGABYTE,
    NO_NODE,
    PIPELINE,
    Scene,
    batches,
    create_op,
    delete_op,
    exchange,
    fitting,
    get_op,
    set_op,
    until,
)
from .states import owner, tree, watches

# --- reads ----------------------------------------------------------------------------------------------


@case("children", 300_000, "a list of N children, right after a change", transaction=True, state=None)
def children(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/c", *(f"/c/child-{n:07}" for n in range(size))])
    client = scene.client()
    client.ask(wire.create("/c/another"))
    yield
    client.ask(wire.children("/c"))
    scene.elements = size


@case("children-pipelined", PIPELINE, "N lists of 100,000 children in flight, with changes between", quick=8)
def children_pipelined(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/c", *(f"/c/child-{n:07}" for n in range(scene.size(100_000)))])
    client = scene.client()
    yield
    pairs = [(wire.create(f"/c/more-{n}"), wire.children("/c")) for n in range(size)]
    client.ask(*itertools.chain(*pairs))


@case("descendants", 1, "getAllChildrenNumber over 1,000,000 znodes", quick=1, state=tree)
@case("descendants-pipelined", PIPELINE, "N times getAllChildrenNumber over 1,000,000 znodes", state=tree)
def descendants(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    yield
    count = wire.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest("/t"))
    client.ask(*[count] * size)


@case("ephemerals", PIPELINE, "N times getEphemerals of 100,000", quick=PIPELINE)
def ephemerals(scene: Scene, size: int) -> Iterator[None]:
    client = owner(scene, scene.size(100_000))
    yield
    client.ask(*[wire.request(OpCode.GET_EPHEMERALS, r.GetEphemeralsRequest("/"))] * size)


@case("large-data", PIPELINE, "N reads in flight of a znode of 1 MB", quick=PIPELINE)
def large_data(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    client.ask(wire.create("/large", bytes(MEGABYTE)))
    yield
    client.ask(*[wire.get("/large")] * size)


@case("multi-read", MEGABYTE, "one multiRead of N bytes", transaction=True)
def multi_read(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    client.make("/a")
    ops = fitting(lambda n: get_op("/a"), size)
    scene.elements = len(ops)
    request = wire.multi_of(ops, OpCode.MULTI_READ)
    yield
    client.ask(request)


# --- writes ---------------------------------------------------------------------------------------------


@case("multi-create", MEGABYTE, "one multi of N bytes of creates", transaction=True)
def multi_create(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/m"])
    return one_multi(scene, fitting(lambda n: create_op(f"/m/{n:05}"), size))


@case("multi-set", MEGABYTE, "one multi of N bytes of sets", transaction=True)
def multi_set(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/m"])
    return one_multi(scene, fitting(lambda n: set_op("/m"), size))


@case("multi-check", MEGABYTE, "one multi of N bytes of checks", transaction=True)
def multi_check(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/m"])
    return one_multi(scene, fitting(lambda n: (OpCode.CHECK, r.CheckVersionRequest("/m", -1)), size))


@case("multi-delete", MEGABYTE, "one multi of N bytes of deletes", transaction=True)
def multi_delete(scene: Scene, size: int) -> Iterator[None]:
    ops = fitting(lambda n: delete_op(f"/{n:05}"), size)
    scene.fill(f"/{n:05}" for n in range(len(ops)))
    return one_multi(scene, ops)


@case("multi-refused", MEGABYTE, "one multi of N bytes of creates whose last step fails", transaction=True)
def multi_refused(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/m"])
    ops = [*fitting(lambda n: create_op(f"/m/{n:05}"), size - 100), delete_op("/missing")]
    client = scene.client()
    request = wire.multi_of(ops)
    scene.elements = len(ops)
    yield
    client.ask(request, may_fail=[NO_NODE])


@case("writes-pipelined", 50_000, "N creates in flight of one client")
def writes_pipelined(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/w"])
    client = scene.client()
    requests = b"".join(wire.create(f"/w/{n}", b"") for n in range(size))
    yield
    exchange(client, requests, size)


@case("reaper", 50_000, "N TTL znodes that have run out", extendedTypesEnabled="true",
      **{"znode.container.checkIntervalMs": 2500, "znode.container.maxPerMinute": 10_000_000})  # fmt: skip
def reaper(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    client.make("/x")
    for batch in batches((f"/x/{n}" for n in range(size)), BATCH):
        mode = CreateMode.PERSISTENT_WITH_TTL
        client.ask(
            wire.multi_of(
                (OpCode.CREATE_TTL, r.CreateTTLRequest(path, b"", r.OPEN_ACL, mode, 1)) for path in batch
            )
        )
    yield
    until(scene, lambda: not wire.names_in(client.ask(wire.children("/x"))[0]))


# --- watches --------------------------------------------------------------------------------------------


@case("set-watches", 80_000, "setWatches with N paths")
def set_watches(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    paths = [f"/{n:05}" for n in range(size)]
    request = wire.request(OpCode.SET_WATCHES, r.SetWatches(0, [], paths, []))
    scene.elements = size
    yield
    client.ask(request)


@case("set-watches-missed", 80_000, "setWatches with N paths that all have changed")
def set_watches_missed(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client()
    paths = [f"/{n:05}" for n in range(size)]
    request = wire.request(OpCode.SET_WATCHES, r.SetWatches(0, paths, [], []))
    scene.elements = size
    yield
    client.ask(request)


@case("watch-events", 500, "one multi of 35,000 sets of a znode that N connections watch", transaction=True)
def watch_events(scene: Scene, size: int) -> Iterator[None]:
    scene.fill(["/f"])
    watch = wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/f", AddWatchMode.PERSISTENT))
    for client in scene.clients(size):
        client.ask(watch)
    client = scene.client()
    ops = fitting(lambda n: set_op("/f"), MEGABYTE)
    request = wire.multi_of(ops)
    scene.elements = size * len(ops)
    yield
    client.ask(request)


@case("deep-watch", 12_000, "a multi of 40 sets at depth N, a recursive watch at the root", transaction=True)
def deep_watch(scene: Scene, size: int) -> Iterator[None]:
    client = scene.client(patience=60)
    path, paths = "", []
    for _ in range(size):
        path += "/d"
        paths.append(path)
    client.ask_all(wire.create(path, b"") for path in paths)
    client.ask(wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/", AddWatchMode.PERSISTENT_RECURSIVE)))
    request = wire.multi_of(set_op(path) for path in paths[-MEGABYTE // (2 * size + 30) :][:40])
    client = scene.client()
    scene.elements = 40
    yield
    client.ask(request)


@case("close-watches", 1, "a connection of 1,000,000 watches ends", quick=1, state=watches, spoils=True)
def close_watches(scene: Scene, size: int) -> Iterator[None]:
    yield
    scene.kept["watcher"].socket.shutdown(socket.SHUT_RDWR)  # the bystander's process has it open, too
    until(scene, lambda: scene.word(b"wchs").startswith("0 connections watching 0 paths"))

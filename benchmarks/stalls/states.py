"""The states that several cases begin with."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode

from .. import wire
from ..wire import Client
from .scene import BATCH, LONG, Scene, batches, entries, portions


def tree(scene: Scene) -> None:
    """A million znodes below /t, a thousand in each of a thousand."""
    parents = [f"/t/{n:03}" for n in range(scene.size(1000))]
    scene.fill(["/t", *parents])
    scene.fill(f"{parent}/{n:03}" for parent in parents for n in range(1000))


def small_tree(scene: Scene) -> None:
    """A hundred thousand znodes below /t."""
    scene.fill(["/t", *(f"/t/{n}" for n in range(scene.size(100_000)))])


def watches(scene: Scene) -> None:
    """A million watches of one connection, on as many paths."""
    scene.kept["watcher"] = client = scene.client(patience=60)
    for batch in batches((f"/watched/{n:07}" for n in range(scene.size(1_000_000))), 20_000):
        client.ask(wire.request(OpCode.SET_WATCHES, r.SetWatches(0, [], batch, [])))


def crowd(scene: Scene) -> None:
    """Ten thousand clients."""
    scene.kept["clients"] = scene.clients(scene.size(10_000))


def sessions(scene: Scene) -> None:
    """A hundred thousand sessions whose clients are gone, and which all expire in the same tick."""
    some = scene.size(1000)
    began = time.monotonic()
    _open_sessions(scene, some, lambda: 4000)
    needed = 2 * (time.monotonic() - began) * scene.size(100_000) / some
    end = time.monotonic() + max(scene.size(40), needed) + 2.5
    _open_sessions(scene, scene.size(100_000), lambda: int(1000 * (end - time.monotonic())))
    scene.kept["end"] = end + 1.0


def residents(scene: Scene) -> None:
    """A hundred thousand sessions whose clients are gone, and which last."""
    _open_sessions(scene, scene.size(100_000), lambda: LONG)


def _open_sessions(scene: Scene, count: int, timeout: Callable[[], int]) -> None:
    """:param timeout: returns the timeout of a session that begins, in ms."""
    for size in portions(count, 100):
        socks = []
        for _ in range(size):
            sock = scene.connect()
            sock.sendall(wire.hello(timeout()))
            socks.append(sock)
        for sock in socks:
            sock.recv(100)
        scene.reset(*socks)


def owner(scene: Scene, size: int) -> Client:
    """A client with so many ephemeral znodes below /e."""
    client = scene.client()
    client.make("/e")
    for batch in batches((f"/e/{n}" for n in range(size)), BATCH):
        mode = CreateMode.EPHEMERAL
        client.ask(wire.multi_of((OpCode.CREATE, r.CreateRequest(p, b"", r.OPEN_ACL, mode)) for p in batch))
    return client


def guarded(scene: Scene) -> None:
    """A znode whose ACL has 40,000 entries of scheme ip, of which the last speaks of this client."""
    mine = [r.ACL(2, r.Id("ip", "127.0.0.1"))]  # it may write, and not read
    acl = [*entries(scene.size(40_000)), *mine]
    scene.client().ask(wire.request(OpCode.CREATE, r.CreateRequest("/g", b"", acl, 0)))

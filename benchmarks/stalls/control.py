"""What somebody asks of the control API: each route whose cost grows with the state of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .. import wire
from ..wire import BenchmarkError
from . import bystander
from .case import FOLDER, State, case
from .scene import BATCH, Scene, batches, delete_op
from .states import residents, small_tree, tree, watches

_HEAD = "{} /api/v1{} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"


def ask(scene: Scene, method: str, path: str, body: Any = None) -> bytes:
    """Ask the control API, and return the answer with its headers.

    :raises BenchmarkError: it is no answer with a status of 200.
    """
    head, content = _HEAD.format(method, path), b""
    if body is not None:
        content = json.dumps(body).encode()
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
    pieces = []
    with scene.connect() as sock:
        sock.sendall(head.encode() + b"\r\n" + content)
        while piece := sock.recv(1 << 20):
            if not pieces and b" 200 " not in piece.partition(b"\r\n")[0]:
                raise BenchmarkError(f"{method} {path}: {piece[:300]!r}")
            pieces.append(piece)
    return pieces[0] if pieces else b""


def _route(name: str, method: str, path: str, state: State | None, what: str, **more: Any) -> None:
    """:param more: as for :func:`.case.case`, and the ``body`` of the request."""
    body = more.pop("body", {} if method == "POST" else None)

    @case(f"api-{name}", 1, f"{method} {path} with {what}", quick=1, state=state, **more)
    def run(scene: Scene, size: int) -> Iterator[None]:
        yield
        ask(scene, method, path, body)


def wide(scene: Scene) -> None:
    """A znode with 300,000 children."""
    scene.fill(["/wide", *(f"/wide/{n}" for n in range(scene.size(300_000)))])


def busy(scene: Scene) -> None:
    """Requests of many kinds by 100 sessions: a history full of them."""
    scene.fill(["/busy"])
    for number, client in enumerate(scene.clients(100)):
        path = f"/busy/{number}"
        changes = [wire.get(path, watch=True), wire.set_data(path, b"y")] * (BATCH // 10)
        client.ask(wire.create(path, b"x"), *changes)


_NO_ZNODES = {"znodes": {}}

_route("search", "GET", "/search?text=nothing", tree, "1,000,000 znodes")
_route("locks", "GET", "/locks", tree, "1,000,000 znodes")
_route("tree", "GET", "/tree", small_tree, "100,000 znodes")
_route("tree-diff", "POST", "/tree/diff", small_tree, "100,000 znodes", body=_NO_ZNODES)
_route("children", "GET", "/children?path=/wide", wide, "300,000 children")
_route("watches", "GET", "/watches", watches, "1,000,000 watches")
_route("watches-never", "GET", "/watches?never=true", watches, "1,000,000 watches")
_route("sessions", "GET", "/sessions", residents, "100,000 sessions")
_route("clients", "GET", "/clients", residents, "100,000 sessions")
_route("leaks", "GET", "/leaks", residents, "100,000 sessions")
_route("history", "GET", "/history", busy, "20,000 entries")
_route("timeline", "GET", "/timeline", busy, "20,000 entries")
_route("advice", "GET", "/advice", busy, "20,000 entries")


@case("api-snapshot", 100_000, "POST /snapshots of N znodes", state=small_tree)
def snapshot(scene: Scene, size: int) -> Iterator[None]:
    yield
    ask(scene, "POST", "/snapshots", {})


def _restore(name: str, what: str, arguments: tuple[str, ...]) -> None:
    @case(f"api-restore{name}", 100_000, f"POST /snapshots/1/restore of N znodes that were deleted{what}",
          state=small_tree, transaction=True, spoils=True, arguments=arguments)  # fmt: skip
    def run(scene: Scene, size: int) -> Iterator[None]:
        scene.client().make(bystander.PATH)  # so that the snapshot has it
        taken = json.loads(ask(scene, "POST", "/snapshots", {}).rpartition(b"\r\n")[2])
        client = scene.client(patience=60)
        paths = (f"/t/{n}" for n in range(size))
        client.ask_all(wire.multi_of(map(delete_op, batch)) for batch in batches(paths, BATCH))
        scene.elements = size
        yield
        ask(scene, "POST", f"/snapshots/{taken['snapshot']}/restore", {})


_restore("", "", ())
_restore("-data", ", with --data", ("--data", FOLDER))
_restore("-ensemble", ", with --ensemble 3", ("--ensemble", "3"))

"""The table of the cases, and how one gets there.

A case is a generator: up to its ``yield`` it prepares, and behind it it attacks and waits for the answers.
What several cases begin with is a state: a function that brings a server there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from pyzk.protocol.jute import Record

from .. import wire
from .scene import LONG, Scene

State = Callable[[Scene], None]
Run = Callable[[Scene, int], Iterator[None]]


@attrs.frozen
class Case:
    """
    :ivar what: in words, with ``N`` for the size.
    :ivar transaction: it must be done in one go.
    :ivar spoils: no other case can begin where this one ended.
    :ivar memory_each: bytes that may be left or needed per unit of the size; 0 if nobody asks.
    :ivar tls: whether the server speaks TLS, too.
    :ivar arguments: of the server's command; :data:`FOLDER` is an empty folder.
    """

    name: str
    what: str
    run: Run
    full: int
    quick: int
    state: State | None
    transaction: bool
    spoils: bool
    memory_each: int
    stderr: int | None
    tls: bool
    arguments: tuple[str, ...]
    config: dict[str, object]

    @property
    def stage(self) -> tuple[object, ...]:
        """What two cases must have in common to be carried out on one server."""
        return self.state, self.stderr, self.tls, self.arguments, repr(self.config)


FOLDER = "FOLDER"
CASES: list[Case] = []
_CONFIG: dict[str, object] = {
    "maxSessionTimeout": LONG,
    "4lw.commands.whitelist": "*",
    "admin.enableServer": "true",
    "admin.serverPort": 0,
}


def case(
    name: str,
    full: int,
    what: str,
    *,
    quick: int | None = None,
    state: State | None = None,
    transaction: bool = False,
    spoils: bool = False,
    memory_each: int = 0,
    stderr: int | None = None,
    tls: bool = False,
    arguments: tuple[str, ...] = (),
    **config: object,
) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        small = max(1, full // 10) if quick is None else quick
        settings = {**_CONFIG, **config}
        CASES.append(
            Case(
                *(name, what, run, full, small, state, transaction),
                *(spoils, memory_each, stderr, tls, arguments, settings),
            )
        )
        return run

    return add


def one_multi(scene: Scene, ops: Sequence[tuple[int, Record]], elements: int = 0) -> Iterator[None]:
    """The attack that is one transaction.

    :param elements: how many parts it has, if not one for each operation.
    """
    client = scene.client()
    request = wire.multi_of(ops)
    scene.elements = elements or len(ops)
    yield
    client.ask(request)

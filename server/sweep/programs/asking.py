"""The requests that a program may send to the sweep, by ``POST http://127.0.0.1:PORT/sweep/...``.

=========================================  ================================================================
``/sweep/start``                           from here on, requests are steps
``/sweep/stop``                            from here on, requests are not steps
``/sweep/point?client=a``                  a step without a request: in some runs, other clients act first
``/sweep/enter?client=a&what=lock&most=1`` assert that at most ``most`` clients are inside of ``what``
``/sweep/leave?client=a&what=lock``        the client is outside of ``what`` again
``/sweep/next``                            the last run is over. The body says what was wrong in the run; an
                                           empty body means that the run passed. The answer comes when the
                                           next run begins: its addresses, ``NAME=HOST:PORT`` a line; or the
                                           status 204, when there is no next run
=========================================  ================================================================

Each answer comes when the program may continue. A request of a web page is refused, as in the server's HTTP
API.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from ...control.guard import check_page
from ...control.routes import ApiError
from ...net.http import Request, Response, plain
from ..lab import BaseLab
from ..model import Outcome
from ..stage import Stage

_SHOWN: Final = 500  # characters of what a program says


class Scene:
    """The part of a run that the requests of programs read and change.

    :ivar starts: whether a program has sent ``/sweep/start``.
    """

    def __init__(self, stage: Stage, lab: BaseLab, outcome: Outcome, hosts: Mapping[str, str]) -> None:
        self.stage = stage
        self.lab = lab
        self.outcome = outcome
        self.hosts = hosts
        self.starts = False


class Desk:
    """Answers the requests of programs.

    :ivar scene: the present run.
    :ivar asked: how many requests have come.
    :ivar waiting: an event that is set while a program waits for the next run.
    :ivar verdict: the program's message about the last run; empty if the run passed.
    """

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.asked = 0
        self.waiting = trio.Event()
        self.verdict = ""
        self._go = trio.Event()
        self._over = False
        self._end_former: Callable[[], Awaitable[None]] | None = None
        self._routes: dict[str, Callable[[Scene, Request], Awaitable[Response]]] = {
            "start": self._start,
            "stop": self._stop,
            "point": self._point,
            "enter": self._enter,
            "leave": self._leave,
            "next": self._next,
        }

    # --- for the side that makes the runs ----------------------------------------------------------------

    async def serve(self, end: Callable[[], Awaitable[None]]) -> None:
        """Prepare for a run: first end the programs of another subject.

        :param end: a function that ends the programs of this run's subject.
        """
        if self._end_former not in (None, end):
            await self._end_former()
        self._end_former = end

    async def hand_out(self) -> str:
        """Have a kept program make the current run; return the program's verdict."""
        await self.waiting.wait()
        self.waiting = trio.Event()
        self._go.set()
        await self.waiting.wait()
        return self.verdict

    async def close(self) -> None:
        """Tell a waiting program that there is no further run, and end the program."""
        self._over = True
        self._go.set()
        if self._end_former is not None:
            await self._end_former()

    def forget(self) -> None:
        """Forget the program that has ended, and wait for the next program."""
        self._go.set()
        self._go = trio.Event()
        self.waiting = trio.Event()

    # --- for programs ------------------------------------------------------------------------------------

    async def answer(self, request: Request) -> Response:
        """Answer a request of a program."""
        self.asked += 1
        try:
            check_page(request, ["127.0.0.1"])
            route = self._routes.get(request.path.removeprefix("/sweep/"))
            if route is None:
                raise ApiError(404, f"use one of /sweep/{', /sweep/'.join(self._routes)}")
            if request.method != "POST":
                raise ApiError(405, "use POST")
            if self.scene is None:
                raise ApiError(409, "there is no run")
            return await route(self.scene, request)
        except ApiError as error:
            return _said(error.status, error.detail)

    async def _start(self, scene: Scene, request: Request) -> Response:
        scene.starts = True
        if not scene.stage.is_open:
            scene.stage.open()
        return plain(200)

    async def _stop(self, scene: Scene, request: Request) -> Response:
        scene.stage.close()
        return plain(200)

    async def _point(self, scene: Scene, request: Request) -> Response:
        await scene.stage.point(_client(scene, request))
        return plain(200)

    async def _enter(self, scene: Scene, request: Request) -> Response:
        client, most = _client(scene, request), request.arguments.get("most", "1")
        if not (most.isascii() and most.isdecimal()):
            raise ApiError(400, f"most must be a number of clients, not {most[:_SHOWN]!r}")
        await scene.stage.point(client)
        try:
            scene.lab.enter(_what(request), int(most), client)
        except AssertionError as error:
            scene.outcome.judge("wrong", str(error))
            return _said(409, str(error))
        await scene.stage.point(client)
        return plain(200)

    async def _leave(self, scene: Scene, request: Request) -> Response:
        client = _client(scene, request)
        there = scene.lab.inside_of(_what(request))
        if client in there:
            there.remove(client)
        return plain(200)

    async def _next(self, scene: Scene, request: Request) -> Response:
        if self.waiting.is_set():
            raise ApiError(409, "another program already waits for the next run")
        self.verdict = request.body.decode("utf-8", "replace").strip()[:_SHOWN]
        self._go = go = trio.Event()
        self.waiting.set()
        await go.wait()
        if self._over or self.scene is None or go is not self._go:
            return Response(204)
        return _said(200, "".join(f"{name}={hosts}\n" for name, hosts in self.scene.hosts.items()))


def _client(scene: Scene, request: Request) -> str:
    """Return the client's name from the request.

    :raises ApiError: the request names no client of this run.
    """
    name = request.arguments.get("client", "")
    if name not in scene.hosts:
        raise ApiError(400, f"client must be one of {', '.join(scene.hosts)}, not {name[:_SHOWN]!r}")
    return name


def _what(request: Request) -> str:
    return request.arguments.get("what", "it")[:_SHOWN]


def _said(status: int, text: str) -> Response:
    return Response(status, text.encode(), {"content-type": "text/plain; charset=utf-8"})

"""The control API: each call of the test kit's server as a route below ``/api/v1``.

Whatever a request changes has happened when its answer comes: events have been sent, connections closed, the
ephemerals of an expired session deleted. :data:`ROUTES` is the table of contents.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Final

from ...protocol.errors import ZooKeeperError
from ..net.http import Request, Response
from ..testing.controls import Controls
from ..testing.faults import Fault
from ..testing.sessions import SessionInfo, UnknownSessionError
from ..testing.snapshots import Snapshot
from . import forms, openapi
from .calls import messages, past, server, sessions, tree
from .routes import ApiError, Route, answer_json, find, problem

PREFIX: Final = "/api/v1"
_OWNER_OF: Final = "owner-of:"


class Control:
    """What one server's control API knows, beside the server.

    :param controls: the server in a test's hands.
    """

    def __init__(self, controls: Controls) -> None:
        self.controls = controls
        self.faults: dict[int, Fault] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number that nothing else of this server has."""
        return next(self._numbers)

    async def answer(self, request: Request) -> Response:
        """Answer a request below :data:`PREFIX`, or for ``/openapi.json``."""
        try:
            if request.path == "/openapi.json":
                return answer_json(openapi.document(ROUTES, PREFIX))
            path = request.target.partition("?")[0].removeprefix(PREFIX)
            route, names = find(ROUTES, request.method, path)
            result = route.handler(self, route.read(request, names))
            if inspect.isawaitable(result):
                result = await result
        except ApiError as error:
            return problem(error)
        except UnknownSessionError as error:
            return problem(ApiError(404, str(error)))
        except ZooKeeperError as error:
            return problem(ApiError(409, str(error), code=error.code))
        except (ValueError, TypeError) as error:
            return problem(ApiError(400, str(error)))
        return result if isinstance(result, Response) else answer_json(result)

    def find(self, given: str) -> SessionInfo:
        """The live session that a request names: by id, by ``owner-of:/path``, or by the address of its
        client. Raises :class:`.UnknownSessionError`."""
        sessions = self.controls.sessions()
        if given.startswith(_OWNER_OF):
            path = given.removeprefix(_OWNER_OF)
            found = [info for info in sessions if path in info.ephemerals]
        else:
            try:
                number = int(given, 0)
            except ValueError:
                found = [info for info in sessions if info.peer and forms.address_form(info.peer) == given]
            else:
                found = [info for info in sessions if info.id == number]
        if found:
            return found[0]
        live = ", ".join(forms.session_form(info.id) for info in sessions) or "none"
        raise UnknownSessionError(f"there is no session {given}; live sessions: {live}")


ROUTES: Final[tuple[Route, ...]] = (
    *server.ROUTES,
    *sessions.ROUTES,
    *messages.ROUTES,
    *tree.ROUTES,
    *past.ROUTES,
)

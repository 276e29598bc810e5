"""The control API: each call of the test kit's server as a route below ``/api/v1``.

Whatever a request changes has happened when its answer comes: events have been sent, connections closed, the
ephemerals of an expired session deleted. :data:`ROUTES` is the table of contents.
"""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any, Final

from ...protocol.errors import ZooKeeperError
from ...protocol.text import session_text
from ..ensemble.errors import EnsembleError
from ..net.http import Request, Response
from ..testing.chaos import Chaos
from ..testing.controls import Controls
from ..testing.faults import Fault
from ..testing.origin import over_http
from ..testing.sessions import SessionInfo, UnknownSessionError
from ..testing.snapshots import Snapshot
from . import forms, openapi
from .calls import chaos, ensemble, following, messages, past, server, servers, sessions, tree, waits
from .finding import live_sessions
from .routes import ApiError, Route, answer_json, find, problem
from .servers import Servers
from .views import copying, live, locks, watches, writes
from .views import sessions as clients
from .views import tree as znodes

if TYPE_CHECKING:
    from ..testing.controls.ensemble import EnsembleControls

PREFIX: Final = "/api/v1"


class Control:
    """The state of one server's control API, beside the server.

    :param controls: the server in a test's hands.
    :param servers: the others that were started from here, if it may start some.
    :ivar faults: planned by requests, by number.
    :ivar chaos: likewise.
    :ivar waiting: how many requests wait now.
    :ivar followers: how many clients follow the trace now.
    :ivar watchers: how many clients follow the figures now.
    """

    def __init__(self, controls: Controls, servers: Servers | None = None) -> None:
        self.controls: Controls = controls
        self.servers = servers
        self.faults: dict[int, Fault] = {}
        self.chaos: dict[int, Chaos] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.waiting = 0
        self.followers = 0
        self.watchers = 0
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number that nothing else of this server has."""
        return next(self._numbers)

    def reset(self) -> None:
        """Make the server as a fresh one."""
        self.controls.reset()
        self.faults.clear()
        self.chaos.clear()
        self.snapshots.clear()

    async def answer(self, request: Request) -> Response:
        """Answer a request below :data:`PREFIX`, or for ``/openapi.json``."""
        try:
            if request.path == "/openapi.json":
                return answer_json(openapi.document(ROUTES, PREFIX))
            path = request.target.partition("?")[0].removeprefix(PREFIX)
            route, names = find(ROUTES, request.method, path)
            if route.needs_history:
                self.controls.running.begin_history()
            with over_http():
                result = route.handler(self, route.read(request, names))
                if inspect.isawaitable(result):
                    result = await result
        except ApiError as error:
            return problem(error)
        except UnknownSessionError as error:
            return problem(ApiError(404, str(error)))
        except ZooKeeperError as error:
            return problem(ApiError(409, str(error), code=error.code))
        except EnsembleError as error:
            return problem(ApiError(409, str(error)))
        except (ValueError, TypeError) as error:
            return problem(ApiError(400, str(error)))
        return result if isinstance(result, Response) else answer_json(result)

    def find(self, given: str) -> SessionInfo:
        """Find the live session that a request names, as :mod:`.finding` says.

        :raises UnknownSessionError: if there is none.
        """
        live = {info.id: info for info in self.controls.sessions()}
        for session in live_sessions(self.controls.running, given):
            return live[session]
        known = ", ".join(map(session_text, live)) or "none"
        raise UnknownSessionError(f"there is no session {given}; live sessions: {known}")

    def scope(self, whole: bool) -> Controls | EnsembleControls:
        """Return the controls of the server, or of the ensemble that it is one of.

        :raises ApiError: 409, if it is a single server.
        """
        if not whole:
            return self.controls
        if self.controls.ensemble is None:
            raise ApiError(409, "this is a single server; use --ensemble, or POST /servers with ensemble")
        return self.controls.ensemble

    def find_any(self, given: str, whole: bool = False) -> int:
        """Return the id of a session, which may be over if it is given by its name or id.

        :param whole: whether it may be known to another server of the ensemble alone.
        :raises ValueError: if there is none.
        """
        for part in self.scope(whole).running.each():
            for session in live_sessions(part, given):
                return session
        named = self.controls.running.names.session(given)
        return forms.read_session_id(given) if named is None else named

    def session_form(self, info: SessionInfo) -> Any:
        return forms.info_form(info, self.controls.running.names[info.id])


ROUTES: Final[tuple[Route, ...]] = (
    *server.ROUTES,
    *sessions.ROUTES,
    *waits.ROUTES,
    *messages.ROUTES,
    *chaos.ROUTES,
    *tree.ROUTES,
    *past.ROUTES,
    *following.ROUTES,
    *servers.ROUTES,
    *ensemble.ROUTES,
    *znodes.ROUTES,
    *writes.ROUTES,
    *copying.ROUTES,
    *clients.ROUTES,
    *watches.ROUTES,
    *locks.ROUTES,
    *live.ROUTES,
)

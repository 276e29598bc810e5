"""The control API: each method of the test kit's server has a route below ``/api/v1``.

When the answer is sent, the change is complete: events are sent, connections are closed, and the ephemerals
of an expired session are deleted. :data:`ROUTES` lists all routes.
"""

from __future__ import annotations

import inspect
from typing import Final

from ...protocol.errors import ZooKeeperError
from ..ensemble.errors import EnsembleError
from ..net.http import Request, Response
from ..testing.origin import over_http
from ..testing.sessions import UnknownSessionError
from . import openapi
from .calls import (
    chaos,
    endpoints,
    ensemble,
    following,
    messages,
    past,
    server,
    servers,
    sessions,
    tree,
    waits,
)
from .control import Control
from .routes import ApiError, Route, answer_json, find, problem
from .views import live, locks, tree_export, watches, writes
from .views import sessions as clients
from .views import tree as znodes

PREFIX: Final = "/api/v1"


ROUTES: Final[tuple[Route, ...]] = (
    *server.ROUTES,
    *sessions.ROUTES,
    *endpoints.ROUTES,
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
    *tree_export.ROUTES,
    *clients.ROUTES,
    *watches.ROUTES,
    *locks.ROUTES,
    *live.ROUTES,
)


async def answer(control: Control, request: Request) -> Response:
    """Answer a request for a path below :data:`PREFIX`, or for ``/openapi.json``."""
    try:
        if request.path == "/openapi.json":
            return answer_json(openapi.document(ROUTES, PREFIX))
        path = request.target.partition("?")[0].removeprefix(PREFIX)
        route, names = find(ROUTES, request.method, path)
        ask = route.read(request, names)
        if route.needs_history and ask.values.get("begin", True):
            control.controls.running.begin_history()
        with over_http():
            result = route.handler(control, ask)
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

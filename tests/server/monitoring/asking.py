"""Requests to the admin server of a world."""

from __future__ import annotations

from typing import Any

import attrs

from pyzk.server.monitoring.admin import answer
from pyzk.server.net.http import Request, Response

from ...support.requests import acl
from ...support.world import World

OPERATORS = [acl(31), acl(31, "ip", "127.0.0.1")]


def operated(**more: Any) -> World:
    """A world with clients at 127.0.0.1 as its operators; the keywords of :class:`World`."""
    world = World(**more)
    client = world.connect()
    client.set_acl("/", OPERATORS)
    client.close_session()
    return world


def ask(
    world: World, target: str, method: str = "GET", body: bytes = b"", auth: str | None = None
) -> Response:
    """Ask the admin server; the body of the answer is whole."""
    headers = {} if auth is None else {"authorization": auth}
    response = answer(Request(method, target, headers, body), world.service, world.now)
    return attrs.evolve(response, body=response.body + b"".join(response.rest))

"""Access control: which requests may read, and which may change the server.

A web page that the developer visits must not reach the server. Other machines must not reach the server
without the token. The checks are made in this order:

1. The ``Host`` header must name a loopback address, ``localhost``, or the address that the request came to. A
   page with a domain name that resolves to this machine (DNS rebinding) sends another name. The status is
   403.
2. The headers ``Origin`` and ``Referer`` must name this server, if the request has them. ``Sec-Fetch-Site``
   must not name another site. The status is 403. A window can open the page itself (``GET /``) by a link from
   another port of the same host, because the pages of an ensemble have links to each other. The page itself
   contains no data, and the requests of the page come from this site.
3. Requests that change something need ``content-type: application/json``. For a page of another site, a
   browser sends this header only if the server allows it in the answer to ``OPTIONS``. This server never
   allows it. The status is 415.
4. If the server listens on an address that is not a loopback address, control needs ``control.token`` in the
   header ``Authorization: Bearer TOKEN``. Without the setting ``control.token``, control is off. The status
   is 401 or 403.

Nothing sets a cookie, and no answer allows another origin.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable

import attrs

from ..net.http import Request, host_name, web_page_behind
from .routes import ApiError

_SHOWN = 100
"""The number of characters of a header that an answer shows."""
_NAMES = frozenset(("localhost", "ip6-localhost"))
_LINK = {"site": "same-site", "mode": "navigate", "dest": "document"}
"""The headers that a browser sends when a window follows a link from another port of the same host."""


def is_loopback(host: str) -> bool:
    """Return whether an address, from a listener or a URL, is a loopback address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in _NAMES


def check_page(request: Request, hosts: Iterable[str]) -> None:
    """Rules 1 and 2; raises :class:`ApiError`.

    :param hosts: the addresses that the server listens on.
    """
    name = host_name(request)
    if all(map(is_loopback, hosts)) and not is_loopback(name):
        page: str | None = f"it is for {name[:_SHOWN]!r}"
    else:
        page = web_page_behind(_without_link(request), _NAMES, strict=True)
    if page is not None:
        raise ApiError(
            403,
            f"refused, {page}: a web page may have sent it. Use http://127.0.0.1 or http://localhost, "
            "and no Origin or Referer of another site",
        )


def _without_link(request: Request) -> Request:
    """Return the request. If a window follows a link to the page from this host, the headers of the site are
    removed, as if the user had typed the address."""
    headers = request.headers
    if (request.method, request.path, headers.keys() & {"origin", "referer"}) != ("GET", "/", set()):
        return request
    if any(headers.get(f"sec-fetch-{name}") != value for name, value in _LINK.items()):
        return request
    return attrs.evolve(request, headers={**headers, "sec-fetch-site": "none"})


def check_control(request: Request, hosts: Iterable[str], token: str | None) -> None:
    """Rule 4; raises :class:`ApiError`.

    :param hosts: the addresses that the server listens on.
    :param token: the setting ``control.token``.
    """
    if token is None:
        if all(map(is_loopback, hosts)):
            return
        raise ApiError(
            403,
            "control is off while the server listens on other addresses than loopback; "
            "set control.token, and send it as `Authorization: Bearer TOKEN`",
        )
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise ApiError(401, "control needs the header `Authorization: Bearer TOKEN`, with control.token")

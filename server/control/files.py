"""The files of the page. The files are read again for each request.

The files contain no data of clients. The page reads data through the API, which checks access. The headers of
a file allow only scripts and styles from these files. They also forbid other sites to show the page in a
frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from ..net.http import Request, Response, method_refused
from .routes import ApiError

PREFIX: Final = "/page/"
_FOLDER: Final = resources.files(__package__) / "page"  # a folder, or a part of a zip file
_START: Final = "index.html"
_NAME: Final = re.compile(r"[a-z]+\.(?P<kind>html|css|js|svg)")
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
SAFE: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    # the guard wants to know the site of the page behind a request
    "referrer-policy": "same-origin",
}
"""The headers of every answer on the port. With these headers, a browser that opens an answer runs no script
in it."""


def wants_page(request: Request) -> bool:
    """Return whether a request for ``/`` comes from a browser. Other programs get text."""
    return "text/html" in request.headers.get("accept", "")


def answer(request: Request) -> Response:
    """Answer a request for ``/`` or for a path below :data:`PREFIX`.

    :raises ApiError: 404: there is no such file.
    """
    if refused := method_refused(request.method, "GET", "HEAD"):
        return refused
    name = request.path.removeprefix(PREFIX) if request.path != "/" else _START
    match = _NAME.fullmatch(name)
    try:
        if match is None:
            raise FileNotFoundError
        body = (_FOLDER / name).read_bytes()
    except OSError:
        raise ApiError(404, f"there is no {request.path[:100]}; the page is at /") from None
    return Response(
        200,
        body,
        {
            "content-type": _TYPES[match["kind"]],
            "content-security-policy": _POLICY,
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-cache",
        },
    )

"""The admin server without its sockets (operator-surface.md section 2): answers one HTTP request.

URLs, methods, statuses, names and values are the same as in the real server. The JSON is on one line. A
request passes these checks, in this order:

1. The path must be below ``admin.commandURL``. Otherwise the status is 404. The method must be GET, HEAD or
   POST. Otherwise the status is 405 (TRACE: 403).
2. A web page of another site must not have made the request. Otherwise the status is 403
   (:func:`..net.http.web_page_behind`).
3. The command must exist. Otherwise the answer says that it does not exist, with the status 200.
4. A guarded command needs the credentials of the super user, or of an identity that has all permissions in
   the ACL of ``/``. Otherwise the status is 401 or 403.
5. The method must be the method of the command. Otherwise the status is 500.

The commands are in :data:`.commands.COMMANDS`.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...protocol.errors import AuthFailedError, NoAuthError
from ..config.tls import subject_text
from ..logger import logger
from ..net.http import Request, Response, method_refused, plain, web_page_behind
from ..net.service import java_address
from .commands import BY_NAME, COMMANDS, Ask, Command, CommandRefused, Data, Rows, Stream
from .four_letter_words import NOT_SERVING, in_pieces

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..net.service import Service


_MAX_TREE = 2**30
"""The largest number of bytes of a snapshot that is restored."""


def answer(request: Request, service: Service, now: float) -> Response:
    """Answer one request, given the monotonic time in seconds."""
    url = service.settings.admin_url.rstrip("/")
    path = request.path
    if path != url and not path.startswith(f"{url}/"):
        return plain(404)
    if refusal := method_refused(request.method, "GET", "HEAD", "POST"):
        return refusal
    name = path[len(url) + 1 :]
    command = BY_NAME.get(name)
    release = service.settings.release
    if command is not None and not command.is_in(release):
        command = None
    strict = command is not None and command.changes
    if page := web_page_behind(request, _own_names(service.settings), strict=strict):
        logger.warning(
            "the admin server refused a request from %s that a web page may have made: %s; "
            "admin.allowedHosts adds names of this machine",
            request.peer,
            page,
        )
        return plain(403)
    if not name:
        names = sorted(command.names.split()[0] for command in COMMANDS if command.is_in(release))
        links = (f'<a href="{url}/{name}">{name}</a>\n<br/>\n' for name in names)
        return Response(200, "".join(links).encode())
    if command is None:
        return _json(200, name, {}, f"Unknown command: {name}")
    if command.guarded and (refused := _unauthorized(request, service)):
        text = (
            "the admin command %s was refused to %s: %s; the client needs all permissions on /, or "
            "the super user's credentials (DigestAuthenticationProvider.superDigest)"
        )
        logger.warning(text, name, request.peer, refused[1])
        return _json(refused[0], name, {}, refused[1])
    if command.method != request.method.replace("HEAD", "GET"):
        return plain(500)  # as the real server, which finds no result to show
    if command.limited and (status := _limited(command, service, now)):
        return _json(status, command.primary, {})
    is_get = command.method == "GET"
    ask = Ask(service, now, request.arguments if is_get else {}, request.body)
    if not service.serves and not command.always:
        return _json(200, command.primary, {}, NOT_SERVING)
    try:
        found = service.commands.get(command.primary, command.run)(ask)
    except CommandRefused as error:
        return _json(error.status, command.primary, error.data)
    if isinstance(found, Stream):
        return _streamed(command, found)
    return _json(200, command.primary, found)


def body_limit(request: Request, service: Service, most: int) -> int:
    """Return the largest number of bytes of a request. A tree is accepted only from clients that may restore
    it.

    :param most: for all others.
    """
    url = service.settings.admin_url.rstrip("/")
    command = BY_NAME.get(request.path[len(url) + 1 :]) if request.path.startswith(f"{url}/") else None
    if command is None or not command.takes_tree or _unauthorized(request, service):
        return most
    return _MAX_TREE


def _limited(command: Command, service: Service, now: float) -> int:
    """Return the status with which a costly command is refused now; 0 if the command is executed."""
    settings = service.settings
    enabled, interval = {
        "snapshot": (settings.admin_snapshot, settings.admin_rate_interval / 1e6),
        "restore": (settings.admin_restore, settings.admin_rate_interval / 1e3),
    }[command.primary]
    if not enabled:
        return 503
    before = service.asked_at.get(command.primary, -math.inf)
    if now - before < interval:
        stats = service.engine.stats
        (stats.snapshots if command.primary == "snapshot" else stats.restores).limited += 1
        return 429
    service.asked_at[command.primary] = now
    return 0


def _streamed(command: Command, found: Stream) -> Response:
    """Return the answer with a snapshot. The snapshot is made while other clients are served."""
    headers = {"content-type": "application/octet-stream" if found.whole else "application/json"}

    def pieces() -> Iterator[bytes]:
        size = 0
        for zxid, piece in found.pieces:
            size += len(piece)
            headers["last_zxid"], headers["snapshot_size"] = f"0x{zxid:x}", str(size)
            yield piece if found.whole else b""
        if not found.whole:
            yield _json(200, command.primary, {}).body

    return Response(200, b"", headers, pieces())


def _own_names(settings: Settings) -> frozenset[str]:
    own = ("localhost", socket.gethostname(), settings.admin_host, *settings.admin_allowed_hosts)
    return frozenset(name.lower() for name in own)


def _unauthorized(request: Request, service: Service) -> tuple[int, str] | None:
    """Return the status and the error with which a guarded command is refused; None if the client may use the
    command."""
    credentials = request.headers.get("authorization")
    if credentials is None:
        return 401, "Auth info is missing for the command"
    scheme, *auth = credentials.rstrip(" ").split(" ")
    access = service.engine.access
    root = service.engine.tree.nodes["/"]
    try:
        if len(auth) > 1:
            raise AuthFailedError
        if scheme == "x509" and request.certificate:
            identities = access.certificate_identities(subject_text(request.certificate))
        else:
            secret = auth[0].encode("latin-1") if auth else None
            identities = access.authenticate(scheme, secret, java_address(request.peer))
        if any(identity.scheme == "super" for identity in identities):
            return None
        # An entry for everybody does not count: it would make any digest an operator's
        named = tuple(entry for entry in root.acl if entry.id.scheme != "world")
        if not named or service.settings.skip_acl:
            raise NoAuthError
        for bit in range(5):  # every single one: any would do for allows() (section 9, trap 30)
            access.check(named, 1 << bit, identities, "/")
    except AuthFailedError:
        return 401, "Not authenticated"
    except NoAuthError:
        return 403, "Not authorized"
    return None


def _json(status: int, command: str, data: Data | Rows, error: str | None = None) -> Response:
    """Return an answer in JSON. While a long answer is made, other clients are served."""
    rows = data.rows if isinstance(data, Rows) else iter(data.items())
    has_error = "error" in data if isinstance(data, dict) else False
    last = {"command": command} if has_error else {"command": command, "error": error}
    whole = Rows(chain(rows, last.items()))
    # A path may hold what UTF-8 cannot encode: it becomes an escape of JSON
    body = (piece.encode("utf-8", "backslashreplace") for piece in in_pieces(_texts(whole)))
    return Response(status, next(body), {"content-type": "application/json"}, body)


def _texts(value: Any) -> Iterator[str]:
    """Yield the JSON of a value in pieces. An iterator becomes a list, and a double that is not a number
    becomes "NaN"."""
    if isinstance(value, dict):
        value = Rows(iter(value.items()))
    if isinstance(value, Rows):
        before = "{"
        for key, item in value.rows:
            if key is None:
                yield ""
            else:
                yield f"{before}{_quoted(str(key))}: "
                yield from _texts(item)
                before = ", "
        yield "}" if before == ", " else "{}"
    elif isinstance(value, list | Iterator):
        before = "["
        for item in value:
            yield before
            yield from _texts(item)
            before = ", "
        yield "]" if before == ", " else "[]"
    else:
        yield _quoted(value if value == value else "NaN")


_quoted = json.JSONEncoder(ensure_ascii=False).encode
"""The function json.dumps(), but with one encoder for all calls."""

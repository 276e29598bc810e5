"""A route: a method, a path, the fields of its body and query, and the function that answers.

The same table is used to match requests, to check their input, and to make the OpenAPI document.

1. A path is compared segment by segment. ``{name}`` matches one segment. A ``/`` in the value of this segment
   must be percent-encoded.
2. Unknown fields and fields of a wrong type are refused. Otherwise a test with a misspelled field could
   succeed without testing anything.
3. An error is an :class:`ApiError`. Its answer has the type ``application/problem+json`` (RFC 9457).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import unquote

import attrs

from ..config.overrides import NAMES, close_to
from ..net.http import Request, Response

T = TypeVar("T")

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_SHOWN: Final = 100
"""The number of characters of a wrong value that an answer shows."""
_JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"


class ApiError(Exception):
    """:param detail: what is wrong, and what to do.
    :param more: further members of the answer's JSON object."""

    def __init__(self, status: int, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more


@attrs.frozen
class Field:
    """One field of a body or of a query.

    :ivar kind: a JSON type, or several JSON types with ``|`` between them. ``any`` means all JSON types.
    :ivar help: the meaning of the field, with its unit.
    :ivar required: whether the field must be given.
    :ivar choices: the values that the field can have. Empty if the field can have all values.
    :ivar items: the type of the items of the array, if the field can be an array.
    """

    kind: str
    help: str
    required: bool = False
    choices: tuple[str, ...] = ()
    items: str = "any"

    def check(self, name: str, value: Any) -> Any:
        """Return the value. Raises :class:`ApiError` 400 if the value has a wrong type or is not one of the
        choices."""
        if not _is(self.kind, value):
            raise ApiError(400, f"{name} is of type {self.kind.replace('|', ' or ')}, not {_shown(value)}")
        if isinstance(value, list) and not all(_is(self.items, item) for item in value):
            raise ApiError(400, f"{name} holds items of type {self.items}, not {_shown(value)}")
        if self.choices and value not in self.choices:
            meant = close_to(value[:_SHOWN], self.choices) if isinstance(value, str) else ""
            raise ApiError(400, f"{name} is one of {', '.join(self.choices)}, not {_shown(value)}{meant}")
        return value

    def read(self, name: str, text: str) -> Any:
        """Return the value of a text in a query. Raises :class:`ApiError` 400 like :meth:`check`."""
        if self.kind == "string":
            return self.check(name, text)
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        return self.check(name, value)


def _is(kinds: str, value: Any) -> bool:
    """Return whether a value has one of these types. A whole number must have at most 64 bits."""
    if kinds == "any":
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    types = tuple(each for kind in kinds.split("|") for each in _TYPES[kind])
    return isinstance(value, types) and (not isinstance(value, int) or -(2**63) <= value < 2**63)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."


@attrs.frozen
class Ask:
    """One request, checked.

    :ivar values: the values of the path, the query and the body, by name. Values that were not given are
        missing.
    """

    request: Request
    values: Mapping[str, Any]


Handler: TypeAlias = Callable[[Any, Ask], Any | Awaitable[Any]]
"""A function that answers a request. It gets the server's control and the request, and returns JSON or a
:class:`Response`."""


@attrs.frozen
class Route:
    """
    :ivar path: the path below ``/api/v1``.
    :ivar summary: the description of the route, one line for the OpenAPI document.
    :ivar fields: the fields of the body. For GET and DELETE, the fields of the query.
    :ivar serves: the methods of the test kit's controls that the route calls.
    :ivar answer: the description of the answer, one line for the OpenAPI document.
    :ivar needs_history: whether a request of this route starts the recording of the history.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    fields: Mapping[str, Field] = attrs.field(factory=dict)
    serves: tuple[str, ...] = ()
    answer: str = "Done; effects on other connections have been sent."
    needs_history: bool = True

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PUT")

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of the names in the path. None if the path does not belong to this route."""
        ours, theirs = self.path.split("/"), path.split("/")
        if len(ours) != len(theirs):
            return None
        found = {}
        for mine, other in zip(ours, theirs, strict=True):
            if mine.startswith("{"):
                found[mine[1:-1]] = unquote(other)
            elif mine != other:
                return None
        return found

    def read(self, request: Request, path: Mapping[str, str]) -> Ask:
        """Return the checked values of the request; raises :class:`ApiError` 400 or 415."""
        given: dict[str, Any]
        if self.has_body:
            given = _body(request)
            values = {name: field.check(name, given[name]) for name, field in self._known(given)}
        else:
            given = dict(request.arguments)
            values = {name: field.read(name, given[name]) for name, field in self._known(given)}
        return Ask(request, {**values, **path})

    def _known(self, given: Mapping[str, Any]) -> Iterable[tuple[str, Field]]:
        unknown = given.keys() - self.fields.keys()
        if unknown:
            known = ", ".join(self.fields) or "none"
            raise ApiError(
                400,
                f"unknown {', '.join(f'{name}{self._guess(name)}' for name in sorted(unknown))}; "
                f"{self.method} {self.path} has: {known}",
            )
        missing = [name for name, field in self.fields.items() if field.required and name not in given]
        if missing:
            raise ApiError(400, f"missing {', '.join(missing)}")
        return [(name, field) for name, field in self.fields.items() if name in given]

    def _guess(self, name: str) -> str:
        fields = [field for field in self.fields if close_to(name, [field])]
        if not fields and "config" in self.fields and close_to(name, NAMES):
            fields = ["a key of config"]
        return f" (perhaps {fields[0]})" if fields else ""


def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        # a web page of another site cannot send this type without asking first, which is never granted
        raise ApiError(415, f"a request that changes something must have the header content-type: {_JSON}")
    try:
        body = json.loads(request.body or b"{}")
        if b"\\ud" in request.body.lower():  # half a character cannot be written anywhere
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict | None):
        raise ApiError(400, "the body must be a JSON object")
    return body or {}  # null: an empty map, as some languages write it


def find(routes: Sequence[Route], method: str, path: str) -> tuple[Route, dict[str, str]]:
    """Return the route of a request and the values in its path; raises :class:`ApiError` 404 or 405."""
    allowed = []
    for route in routes:
        found = route.match(path)
        if found is None:
            continue
        if route.method == method or (method == "HEAD" and route.method == "GET"):
            return route, found
        allowed.append(route.method)
    if allowed:
        raise ApiError(405, f"{path} has {', '.join(allowed)}", allow=", ".join(allowed))
    meant = close_to(path[:_SHOWN], [route.path for route in routes])
    raise ApiError(404, f"there is no {path}; /openapi.json lists what there is{meant}")


def look_up(things: Mapping[int, T], given: str, what: str) -> tuple[int, T]:
    """Find an object by the number in a path. Raises :class:`ApiError` 404."""
    try:
        return int(given), things[int(given)]
    except (KeyError, ValueError):
        known = ", ".join(map(str, things)) or "none"
        raise ApiError(404, f"there is no {what} {given}; there are: {known}") from None


def answer_json(value: Any, status: int = 200) -> Response:
    return Response(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", {"content-type": _JSON})


def answer_text(text: str) -> Response:
    return Response(200, text.encode() + b"\n", {"content-type": "text/plain; charset=utf-8"})


def problem(error: ApiError) -> Response:
    """Return the answer to a request that was refused."""
    more = dict(error.more)
    headers = {"content-type": _PROBLEM}
    if "allow" in more:
        headers["allow"] = more.pop("allow")
    form = {"title": HTTPStatus(error.status).phrase, "status": error.status, "detail": error.detail, **more}
    return Response(error.status, json.dumps(form).encode() + b"\n", headers)

"""Forms and fields that several views have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import NoNodeError
from ....protocol.text import session_text
from ...core.sessions import Session
from ...core.znode import Znode
from ...net.connection import Connection
from ...testing.controls.sessions import client_of
from ..forms import address_form
from ..routes import ApiError, Field

if TYPE_CHECKING:
    from ...testing.running import Running
    from ..control import Control

_MOST: Final = 1000
"""Things in one answer."""
_FEW: Final = 100
"""The number of results if the request gives no limit."""

LIMIT: Final = Field("integer", f"the largest number of results, at most {_MOST} (default: {_FEW})")
PATH: Final = Field("string", "the path of a znode (default: /)")
TEXT: Final = Field("string", "only results that contain this text; upper and lower case are the same")
AFTER: Final = Field("string", "only results after this result; give the last result of the previous answer")


def limit_of(values: Any) -> int:
    """:raises ApiError: 400: the limit is out of range."""
    limit: int = values.get("limit", _FEW)
    if not 1 <= limit <= _MOST:
        raise ApiError(400, f"limit is a number from 1 to {_MOST}, not {limit}")
    return limit


def text_filter(values: Any) -> Callable[[str], bool]:
    """Return a function that returns whether a text contains the text of the request."""
    text: str = values.get("text", "").lower()
    return (lambda given: text in given.lower()) if text else (lambda given: True)


def znode_at(control: Control, path: str) -> Znode:
    """:raises NoNodeError: if there is none."""
    node = control.controls.running.engine.tree.find(path) if path else None
    if node is None:
        raise NoNodeError(path)
    return node


def zxid_form(zxid: int) -> str:
    """Return a number as text, because many JSON parsers would round the number."""
    return f"0x{zxid:x}"


def session_label(control: Control, session: int) -> Any:
    """Return the id and the name of the session to which a znode or a watch belongs. None if there is no
    session."""
    if not session:
        return None
    return {"id": session_text(session), "name": control.controls.running.names[session]}


def servers_of(control: Control) -> Iterable[Running]:
    """Return the server, or all servers of its ensemble."""
    ensemble = control.controls.ensemble
    return (control.controls.running,) if ensemble is None else ensemble.running.each()


def connected_at(control: Control, session: Session) -> tuple[Running, Connection | None]:
    """Return the connection of a session, and the server of the ensemble that has this connection.

    If the session has no connection, the server that gets the request is returned.
    """
    at, client = client_of(control.controls.running, session, servers_of(control))
    return at, client if isinstance(client, Connection) else None


def client_forms(control: Control, session: Session | None) -> dict[str, str | None]:
    """The address of a session's client, and the program of the client. An unknown one is None."""
    connection = None if session is None else connected_at(control, session)[1]
    if connection is None:
        return {"peer": None, "program": None}
    return {"peer": address_form(connection.peer), "program": connection.program or None}


def masked(scheme: str | None, name: str | None) -> str:
    """Return the id of an ACL entry or of a client's identity, without the digest of a password."""
    user, colon, _ = (name or "").partition(":")
    return f"{user}:***" if scheme == "digest" and colon else name or ""


def identity_forms(identities: Iterable[Any]) -> list[dict[str, str]]:
    return [{"scheme": each.scheme or "", "id": masked(each.scheme, each.id)} for each in identities]

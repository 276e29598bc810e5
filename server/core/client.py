"""The part of a connection that the engine and its operations use."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from ...protocol.records import Id
from .watches import Notification


class Client(Hashable, Protocol):
    """The connection of one client, as the engine sees it.

    :ivar session_id: the id of the session; 0 before the handshake.
    :ivar identities: the identities that the client has proved, for ACLs.
    :ivar close_expected: whether the connection is over, and takes no more events.
    """

    session_id: int
    identities: list[Id]
    close_expected: bool

    def notify(self, events: Sequence[Notification], frames: bytes) -> None:
        """Queue watch events. The client gets them before all later replies.

        :param frames: the same events, encoded, each with its frame length.
        """

    def abort(self, reason: str) -> None:
        """End the connection without sending another packet."""

    def reject(self, reason: str) -> None:
        """End the connection because of the client's input, and log the reason as a warning."""

    def fail(self) -> None:
        """End the connection because of the present exception. This method raises nothing."""

    def turn_is_over(self, ahead: float = 0.0) -> bool:
        """Return whether the turn of this client is over. Then other clients must be served before the next
        step of its operation.

        If this method never returns True, every request is processed to its end.

        :param ahead: the time in seconds that the next step will take.
        """

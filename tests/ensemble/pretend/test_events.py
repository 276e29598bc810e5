"""Events reach the clients of each server at once."""

from __future__ import annotations

import pytest

from pyzk.protocol.constants import EventType
from pyzk.server.testing import EmbeddedEnsemble

from ...support.wire import Event
from .client import Clients


@pytest.mark.parametrize("server", [1, 2, 3])
def test_the_last_watch_of_another_server_fires(ensemble: EmbeddedEnsemble, at: Clients, server: int) -> None:
    """Its client sends nothing, no time passes, and no test looks: only the write makes the server send."""
    waiting, other = at(server), at(server % 3 + 1)
    waiting.exists("/x", watch=True)
    created = other.create("/x")
    assert waiting.wait_event() == Event(created.zxid, EventType.CREATED, "/x")


def test_a_session_that_ends_elsewhere_is_closed(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """Its old connection, too, at once."""
    old = at(1)
    new = at(2, old)
    assert new.close_session().err == 0
    assert old.is_closed()

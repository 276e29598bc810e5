"""How the test kit says that a test has failed."""

from __future__ import annotations

from typing import Final

TEST_ENDED: Final = "the test ended here"
"""What the last line of a timeline says."""


class LimitExceeded(AssertionError):
    """A client has needed more than a test allows."""


class NotInTime(AssertionError):
    """What a test has waited for was not the case in time.

    :ivar hosts: the connect string of the server, or of the ensemble.
    :ivar why: what was waited for, and what was the case instead.
    :ivar timeline: what has happened.
    """

    def __init__(self, hosts: str, why: str, timeline: str) -> None:
        super().__init__(f"{why}\n\n{timeline}")
        self.hosts, self.why, self.timeline = hosts, why, timeline

"""The errors of the test kit for a failed test."""

from __future__ import annotations

from typing import Final

TEST_ENDED: Final = "the test ended here"
"""The last line of a timeline."""


class LimitExceeded(AssertionError):
    """A client has exceeded a limit of the test."""


class NotInTime(AssertionError):
    """A condition did not hold in time.

    :ivar hosts: the connect string of the server, or of the ensemble.
    :ivar why: the condition of the test, and the present state.
    :ivar timeline: the timeline of the server, or of the ensemble.
    """

    def __init__(self, hosts: str, why: str, timeline: str) -> None:
        super().__init__(f"{why}\n\n{timeline}")
        self.hosts, self.why, self.timeline = hosts, why, timeline

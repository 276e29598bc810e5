"""What the operator's commands count (operations.md section 3)."""

from __future__ import annotations


class Latency:
    """Minimum, average and maximum in ms of how long requests took, from arrival to answer."""

    __slots__ = ("count", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.minimum = 0
        self.maximum = 0

    def add(self, ms: int, count: int = 1) -> None:
        if not self.count or ms < self.minimum:
            self.minimum = ms
        if ms > self.maximum:
            self.maximum = ms
        self.count += count
        self.total += ms * count

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


class ServerStats:
    """Everything ``srst`` resets."""

    def __init__(self) -> None:
        self.latency = Latency()
        self.packets_received = 0
        self.packets_sent = 0
        self.bytes_received = 0
        self.connections_accepted = 0
        self.connections_rejected = 0
        self.sessionless_expired = 0
        self.sessions_expired = 0
        self.auth_failed = 0
        self.last_response_size = -1
        self.min_response_size = -1
        self.max_response_size = -1

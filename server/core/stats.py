"""The figures of the server, which the commands for operators show (operator-surface.md section 3). The
rules:

* Figures are whole numbers: counts, bytes, ms. ``srst`` resets all figures together.
* A request is counted by its latency, in one of the two histograms. So the number of requests is the sum of
  the two counts. Nearly all latencies are 0 ms. A histogram counts latencies of 0 ms in one number
  (``zeros``). Frequent code may add to this number directly.
* This module keeps no figure that the tree, the sessions or the watches can give.
"""

from __future__ import annotations

from ...protocol.constants import EventType

_SIZES = 1000
"""The largest number of remembered sizes of replies. A reply with a remembered size is not compared with the
least and the greatest size."""


class Summary:
    """The count, the sum, the least and the greatest of some whole numbers."""

    __slots__ = ("count", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.minimum = 0
        self.maximum = 0

    def add(self, value: int, count: int = 1) -> None:
        """Add the same value ``count`` times."""
        if not self.count or value < self.minimum:
            self.minimum = value
        if value > self.maximum:
            self.maximum = value
        self.count += count
        self.total += value * count

    @property
    def average(self) -> float:
        """The average of the numbers."""
        return self.total / self.count if self.count else 0.0


class Histogram:
    """Whole numbers, counted by value, with percentiles.

    :ivar zeros: the count of the value 0, which is the most frequent value. A caller may add to this count.
    """

    __slots__ = ("_counts", "zeros")

    def __init__(self) -> None:
        self.zeros = 0
        self._counts: dict[int, int] = {}

    def add(self, value: int, count: int = 1) -> None:
        """Add the same value ``count`` times."""
        if count:
            self._counts[value] = self._counts.get(value, 0) + count

    def __len__(self) -> int:
        return self.zeros + sum(self._counts.values())

    def counts(self) -> dict[int, int]:
        """Return the count of each value, the least value first."""
        counts = {0: self.zeros} if self.zeros else {}
        return counts | dict(sorted(self._counts.items()))

    def summary(self) -> Summary:
        """Return the summary of all values."""
        summary = Summary()
        for value, count in self.counts().items():
            summary.add(value, count)
        return summary

    def percentile(self, share: float) -> int:
        """Return the smallest value that at least the part ``share`` (0 to 1) of all values does not
        exceed."""
        counts = self.counts()
        left = share * sum(counts.values())
        for value, count in counts.items():
            left -= count
            if left <= 0:
                return value
        return 0


class Outcomes:
    """The counters of an action with a limit of its rate: the number of refusals by the limit, and the number
    of failures."""

    __slots__ = ("failed", "limited")

    def __init__(self) -> None:
        self.failed = 0
        self.limited = 0


class ServerStats:
    """All figures that ``srst`` resets. A latency is the time in ms from the arrival of a request to its
    answer.

    :ivar more_received: the number of received frames that are not requests: handshakes and commands.
    :ivar more_sent: the number of frames that were sent and answer no request: handshakes and watch events.
    :ivar response_sizes: the sizes of replies that are remembered; for any other size call
        :meth:`new_response_size`.
    :ivar others: counters, by name, that the default release does not have.
    """

    def __init__(self) -> None:
        self.others: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Set all figures to their start values."""
        self.others = dict.fromkeys(self.others, 0)
        self.read_latency = Histogram()
        self.update_latency = Histogram()
        # the numbers of notified watchers, by event
        self.watchers = {event: Summary() for event in EventType if event > 0}
        self.more_received = 0
        self.more_sent = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.watch_bytes = 0
        self.connect_requests = 0
        self.connections_rejected = 0
        self.sessionless_expired = 0
        self.sessions_expired = 0
        self.auth_failed = 0
        self.throttled = 0
        self.large_rejected = 0
        self.ensemble_auth = {"success": 0, "fail": 0, "skip": 0}
        self.tls_failed = 0  # TLS handshakes
        self.connections_dropped = 0  # connections that their clients ended without closing the session
        self.snapshot_time = Summary()  # ms
        self.restore_time = Summary()  # ms
        self.snapshots = Outcomes()
        self.restores = Outcomes()
        self.plain_admin = 0  # clients that reached an admin server with TLS, but used no TLS
        self.last_response = -1  # the size in bytes of a reply or event with its header; -1 at first
        self.min_response = -1
        self.max_response = -1
        self.response_sizes: set[int] = set()

    def new_response_size(self, size: int) -> None:
        """Note a size of a reply that is not in ``response_sizes``."""
        if len(self.response_sizes) == _SIZES:
            self.response_sizes.clear()
        self.response_sizes.add(size)
        self.max_response = max(self.max_response, size)
        self.min_response = size if self.min_response < 0 else min(self.min_response, size)

    @property
    def requests(self) -> int:
        """The number of answered requests. Each request has added one latency to a histogram."""
        return len(self.read_latency) + len(self.update_latency)

    @property
    def packets_received(self) -> int:
        """The number of all received frames."""
        return self.requests + self.more_received

    @property
    def packets_sent(self) -> int:
        """The number of all frames that were sent."""
        return self.requests + self.more_sent

    @property
    def latency(self) -> Summary:
        """The latencies of reads and updates together."""
        both = Summary()
        for histogram in (self.read_latency, self.update_latency):
            for value, count in histogram.counts().items():
                both.add(value, count)
        return both

"""The server's figures, which the operator's commands show (operator-surface.md section 3). The rules:

* Figures are whole numbers: counts, bytes, ms. ``srst`` resets all of them together.
* A request is counted once, by its latency: the number of requests is the size of the two histograms. Nearly
  all latencies are 0 ms, so a histogram counts these in one number (``zeros``), which hot paths may raise
  directly.
* A figure that can be read from the tree, the sessions or the watches is not kept here.
"""

from __future__ import annotations

from ...protocol.constants import EventType

_SIZES = 1000
"""The number of remembered sizes of replies, so that most replies need no comparison with the extremes."""


class Summary:
    """Count, sum, least and greatest of some whole numbers."""

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
        return self.total / self.count if self.count else 0.0


class Histogram:
    """Whole numbers, counted by value, with percentiles.

    :ivar zeros: the number of values 0, the most frequent one; a caller may add to it directly.
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
        """Return how often each value came, the least value first."""
        counts = {0: self.zeros} if self.zeros else {}
        return counts | dict(sorted(self._counts.items()))

    def summary(self) -> Summary:
        summary = Summary()
        for value, count in self.counts().items():
            summary.add(value, count)
        return summary

    def percentile(self, share: float) -> int:
        """Return the least value that a ``share`` (0 to 1) of all values does not exceed."""
        counts = self.counts()
        left = share * sum(counts.values())
        for value, count in counts.items():
            left -= count
            if left <= 0:
                return value
        return 0


class Outcomes:
    """The counters of a rate-limited action: how often it was refused because it came too often, and how
    often it failed."""

    __slots__ = ("failed", "limited")

    def __init__(self) -> None:
        self.failed = 0
        self.limited = 0


class ServerStats:
    """Everything ``srst`` resets. Latencies are ms from the arrival of a request to its answer.

    :ivar more_received: frames received that are no requests: handshakes, and the operator's commands.
    :ivar more_sent: frames sent that answer no request: handshakes, and watch events.
    :ivar response_sizes: sizes that came already; for any other size call :meth:`new_response_size`.
    :ivar others: counters, by name, that only releases other than the default have.
    """

    def __init__(self) -> None:
        self.others: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        self.others = dict.fromkeys(self.others, 0)
        self.read_latency = Histogram()
        self.update_latency = Histogram()
        # by event, the numbers of watchers that were told
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
        self.tls_failed = 0  # handshakes
        self.connections_dropped = 0  # by their clients, without a word
        self.snapshot_time = Summary()  # ms
        self.restore_time = Summary()  # ms
        self.snapshots = Outcomes()
        self.restores = Outcomes()
        self.plain_admin = 0  # clients without TLS of an admin server that has TLS
        self.last_response = -1  # bytes of a reply or an event, header included; -1 while there was none
        self.min_response = -1
        self.max_response = -1
        self.response_sizes: set[int] = set()

    def new_response_size(self, size: int) -> None:
        """Note a size that is not among the ``response_sizes``."""
        if len(self.response_sizes) == _SIZES:
            self.response_sizes.clear()
        self.response_sizes.add(size)
        self.max_response = max(self.max_response, size)
        self.min_response = size if self.min_response < 0 else min(self.min_response, size)

    @property
    def requests(self) -> int:
        """Requests answered; each added one sample to a histogram."""
        return len(self.read_latency) + len(self.update_latency)

    @property
    def packets_received(self) -> int:
        return self.requests + self.more_received

    @property
    def packets_sent(self) -> int:
        return self.requests + self.more_sent

    @property
    def latency(self) -> Summary:
        """The latencies of reads and updates together."""
        both = Summary()
        for histogram in (self.read_latency, self.update_latency):
            for value, count in histogram.counts().items():
                both.add(value, count)
        return both

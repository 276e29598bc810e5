"""The figures of one connection (``cons``, ``/connections``). Each figure is also added to the figures of the
server.

Each request and each reply is counted twice. ``crst`` resets the counts here. ``srst`` resets the counts in
:class:`.stats.ServerStats`. The latency of a request is the time from its arrival to its answer, in whole ms.
Nearly all requests are answered in the turn in which they arrive. So latencies of 0 ms are only counted, and
other latencies are added to a sum.
"""

from __future__ import annotations

from copy import copy
from typing import TypeAlias

from ...protocol.operations import WRITES, OpCode
from ..core.stats import ServerStats, Summary

Last: TypeAlias = tuple[int | None, int | None, int, int, float, int]
"""The last answered request: its op code and xid, the zxid and the error code of the reply, the time of the
reply in monotonic seconds, and the latency in ms."""

_NONE_YET: Last = (None, None, 0, 0, 0.0, 0)


class ConnectionStats:
    """The figures of one connection.

    :param established: the time at which the client connected, in seconds since the epoch.
    :ivar stats: the figures of the whole server.
    :ivar at_once: the number of requests that were answered within 1 ms. Their latency counts as 0.
    :ivar last: the last answered request, as one tuple, because the short way writes it for every request.
    """

    __slots__ = ("_delayed", "_more_received", "_more_sent", "at_once", "established", "last", "stats")

    def __init__(self, stats: ServerStats, established: float) -> None:
        self.stats = stats
        self.established = established
        self.reset()

    def reset(self) -> None:
        """Set all figures of this connection to their start values."""
        self.at_once = 0
        self.last: Last = _NONE_YET
        self._delayed = Summary()  # latencies of 1 ms and more
        self._more_received = 0
        self._more_sent = 0

    # --- counting ----------------------------------------------------------------------------------------

    def answered(self, requests: int, writes: int, waited: float) -> int:
        """Count requests that were answered together.

        :param writes: the number of zxids that the requests took. If a new epoch has begun, this number may
            be higher than the number of requests.
        :param waited: the time in seconds since the requests arrived.
        :returns: the latency of the requests in ms.
        """
        if writes > requests:
            writes = requests
        stats = self.stats
        latency = int(waited * 1000)
        if latency:
            self._delayed.add(latency, requests)
            stats.read_latency.add(latency, requests - writes)
            stats.update_latency.add(latency, writes)
        else:
            self.at_once += requests
            stats.read_latency.zeros += requests - writes
            stats.update_latency.zeros += writes
        return latency

    def received_no_request(self) -> None:
        """Count a handshake or a four-letter word."""
        self._more_received += 1
        self.stats.more_received += 1

    def sent_welcome(self, now: float) -> None:
        """Count the answer to a handshake, which was sent at ``now`` (monotonic seconds)."""
        self._more_sent += 1
        self.stats.more_sent += 1
        self.last = (OpCode.CREATE_SESSION, None, 0, 0, now, 0)

    def sent_events(self, count: int) -> None:
        """Count watch events of this connection. The engine has already counted them for the server."""
        self._more_sent += count

    # --- the figures -------------------------------------------------------------------------------------

    @property
    def latency(self) -> Summary:
        """The latency of all answered requests, in ms."""
        latency = copy(self._delayed)
        if self.at_once:
            latency.add(0, self.at_once)
        return latency

    @property
    def received(self) -> int:
        """The number of received frames: answered requests, handshakes and four-letter words."""
        return self.at_once + self._delayed.count + self._more_received

    @property
    def sent(self) -> int:
        """The number of frames that were sent: replies, answers to handshakes and watch events."""
        return self.at_once + self._delayed.count + self._more_sent

    @property
    def last_op(self) -> int | None:
        """The op code of the last request; None before the first request, and after a refused write."""
        op, _, _, err, _, _ = self.last
        return None if err and op in WRITES else op

    @property
    def last_xid(self) -> int | None:
        """The last xid that was not negative."""
        return self.last[1]

    @property
    def last_zxid(self) -> int:
        """The zxid of the last reply."""
        return self.last[2]

    @property
    def last_response(self) -> float:
        """The time at which the last request was answered, in seconds of the monotonic clock."""
        return self.last[4]

    @property
    def last_latency(self) -> int:
        """The latency of the last request, in ms."""
        return self.last[5]

"""Figures of a client for Prometheus: latency by operation, reconnects, time without a connection.

pip install prometheus-client
python examples/blocking/client_metrics.py 127.0.0.1:2181
"""

import sys

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pyzk.blocking import Host, Observer, SessionState, StateChange, ZooKeeper, connect


class Metrics(Observer):
    """Keeps the figures of one client; they need a registry of their own if there are several clients.

    The methods are called by the client's own thread, and must return at once.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._latency = Histogram(
            "zk_request_seconds", "From the call to the outcome.", ["operation", "error"], registry=registry
        )
        self._states = Counter("zk_states", "How often each state began.", ["state"], registry=registry)
        self._suspended = Counter("zk_suspended_seconds", "Without a connection.", registry=registry)
        self._failures = Counter("zk_server_failures", "Attempts that failed.", ["server"], registry=registry)
        self._in_flight = Gauge("zk_requests_in_flight", "Sent and not answered.", registry=registry)
        self._waiting = Gauge("zk_requests_waiting", "Not sent yet.", registry=registry)

    def read(self, zk: ZooKeeper) -> None:
        """Have the gauges read from a client whenever Prometheus asks."""
        self._in_flight.set_function(lambda: zk.requests_in_flight)
        self._waiting.set_function(lambda: zk.requests_waiting)

    def state_changed(self, change: StateChange) -> None:
        self._states.labels(change.state.name).inc()
        if change.previous is SessionState.SUSPENDED:
            self._suspended.inc(change.seconds)

    def server_failed(self, server: Host, reason: str) -> None:
        self._failures.labels(str(server)).inc()

    def request_settled(self, operation: str, seconds: float, error: Exception | None) -> None:
        self._latency.labels(operation, type(error).__name__ if error else "").observe(seconds)


def main(servers: str) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    with connect(servers, session_timeout=10, observer=metrics) as zk:
        metrics.read(zk)
        zk.create("/example", b"...")
        zk.get("/example")
        zk.delete("/example")
        print(generate_latest(registry).decode())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2181")

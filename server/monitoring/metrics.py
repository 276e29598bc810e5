"""The metrics of ``mntr``, with the names and formats of release 3.9 (operator-surface.md section 3).

Figures that have no meaning for a single process in memory (quorum, disk, JVM) are a constant zero, because
monitoring templates read them.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.constants import EventType
from ...protocol.paths import parent
from ..core.stats import Histogram, Summary
from ..net import descriptors

if TYPE_CHECKING:
    from ..net.service import Service


def _names(text: str) -> list[str]:
    return text.split()


_IDLE_COUNTERS = [
    "connection_revalidate_count",
    "cnxn_closed_without_zk_server_running",
    "commit_count",
    "prep_processor_request_queued",
    "sync_processor_request_queued",
    "outstanding_changes_queued",
    "outstanding_changes_removed",
    "request_commit_queued",
    "requests_not_forwarded_to_commit_processor",
    "stale_requests",
    "stale_requests_dropped",
    "stale_replies",
    "request_throttle_wait_count",
    "response_packet_cache_hits",
    "response_packet_cache_misses",
    "response_packet_get_children_cache_hits",
    "response_packet_get_children_cache_misses",
    "tls_handshake_exceeded",
    "snap_count",
    "diff_count",
    "digest_mismatches_count",
    "unrecoverable_error_count",
    "dead_watchers_queued",
    "dead_watchers_cleared",
    "add_dead_watcher_stall_time",
    "looking_count",
    "revalidate_count",
    "learner_proposal_received_count",
    "learner_commit_received_count",
    "proposal_count",
    "quit_leading_due_to_disloyal_voter",
    "skip_learner_request_to_next_processor_count",
]
_IDLE_SUMMARIES = [
    "fsynctime",
    "follower_sync_time",
    "observer_sync_time",
    "election_time",
    "connection_token_deficit",
    "inflight_snap_count",
    "inflight_diff_count",
    "prep_processor_queue_size",
    "prep_process_time",
    "proposal_process_time",
    "unavailable_time",
    "leader_unavailable_time",
    "requests_in_session_queue",
    "pending_session_queue_size",
    "reads_after_write_in_session_queue",
    "reads_issued_from_session_queue",
    "session_queues_drained",
    "time_waiting_empty_pool_in_commit_processor_read_ms",
    "write_batch_time_in_commit_processor",
    "concurrent_request_processing_in_commit_processor",
    "read_commit_proc_req_queued",
    "write_commit_proc_req_queued",
    "commit_commit_proc_req_queued",
    "read_commit_proc_issued",
    "write_commit_proc_issued",
    "commit_process_time",
    "startup_txns_load_time",
    "startup_snap_load_time",
    "sync_processor_queue_size",
    "sync_process_time",
    "sync_processor_batch_size",
    "netty_queued_buffer_capacity",
    "learner_request_processor_queue_size",
    "socket_closing_time",
]
_IDLE_HISTOGRAMS = [
    "propagation_latency",
    "dead_watchers_cleaner_latency",
    "prep_processor_queue_time_ms",
    "close_session_prep_time",
    "read_commitproc_time_ms",
    "write_commitproc_time_ms",
    "local_write_committed_time_ms",
    "server_write_committed_time_ms",
    "om_proposal_process_time_ms",
    "om_commit_process_time_ms",
    "read_final_proc_time_ms",
    "write_final_proc_time_ms",
    "proposal_latency",
    "proposal_ack_creation_latency",
    "commit_propagation_latency",
    "sync_processor_queue_and_flush_time_ms",
    "sync_processor_queue_time_ms",
    "sync_processor_queue_flush_time_ms",
    "quorum_ack_latency",
    "request_throttle_queue_time_ms",
    "jvm_pause_time_ms",
]


def metrics(service: Service, now: float) -> Iterator[tuple[str, str | int]]:
    """Yield each metric as (name without its prefix, printed value)."""
    yield from gauges(service, now)
    for name, namespace, value in gauge_sets(service):
        yield f"{namespace}_{name}" if name else "", value
    yield from counters(service)
    for name, summary in summaries(service).items():
        yield from _summary(name, summary)


def gauges(service: Service, now: float) -> Iterator[tuple[str, str | int]]:
    """Yield the gauges, which are the present values."""
    engine = service.engine
    stats = engine.stats
    latency = stats.latency
    yield "avg_latency", java_double(latency.average)
    yield "max_latency", latency.maximum
    yield "min_latency", latency.minimum
    yield "packets_received", stats.packets_received
    yield "packets_sent", stats.packets_sent
    yield "num_alive_connections", len(service.connections)
    yield "outstanding_requests", service.outstanding()
    yield "uptime", service.at(now) - engine.started
    yield "znode_count", len(engine.tree)
    yield "watch_count", engine.watches.count()
    yield "ephemerals_count", engine.tree.ephemeral_count()
    yield "approximate_data_size", engine.tree.data_size
    yield "global_sessions", len(engine.sessions) - len(engine.sessions.local)
    yield "local_sessions", len(engine.sessions.local)
    used, most = _file_descriptors()
    yield "open_file_descriptor_count", used
    yield "max_file_descriptor_count", most
    yield "connection_drop_probability", "0.0"
    yield "last_client_response_size", stats.last_response
    yield "max_client_response_size", stats.max_response
    yield "min_client_response_size", stats.min_response
    yield "outstanding_tls_handshake", service.shaking_hands
    yield "auth_failed_count", stats.auth_failed
    yield "non_mtls_remote_conn_count", 0
    yield "non_mtls_local_conn_count", 0
    yield from service.role_figures()


def counters(service: Service) -> Iterator[tuple[str, int]]:
    """Yield the counters, which grow until they are reset."""
    stats = service.engine.stats
    yield "connection_request_count", stats.connect_requests
    yield "connection_rejected", stats.connections_rejected
    yield "sessionless_connections_expired", stats.sessionless_expired
    yield "stale_sessions_expired", stats.sessions_expired
    yield "bytes_received_count", stats.bytes_received
    yield "response_bytes", stats.bytes_sent
    yield "watch_bytes", stats.watch_bytes
    yield "throttled_ops", stats.throttled
    yield "large_requests_rejected", stats.large_rejected
    yield "connection_drop_count", stats.connections_dropped
    for what, outcomes in (("snapshot", stats.snapshots), ("restore", stats.restores)):
        yield f"{what}_error_count", outcomes.failed
        yield f"{what}_rate_limited_count", outcomes.limited
    for result, count in stats.ensemble_auth.items():
        yield f"ensemble_auth_{result}", count
    yield "unsuccessful_handshake", stats.tls_failed
    yield "insecure_admin_count", stats.plain_admin
    for name in _IDLE_COUNTERS:
        yield name, 0
    yield from stats.others.items()


def summaries(service: Service) -> dict[str, Summary | Histogram]:
    """Yield the distributions. Each :class:`.stats.Histogram` has percentiles too."""
    stats = service.engine.stats
    found: dict[str, Summary | Histogram] = {
        "readlatency": stats.read_latency,
        "updatelatency": stats.update_latency,
        "node_created_watch_count": stats.watchers[EventType.CREATED],
        "node_deleted_watch_count": stats.watchers[EventType.DELETED],
        "node_changed_watch_count": stats.watchers[EventType.CHANGED],
        "node_children_watch_count": stats.watchers[EventType.CHILD],
        "snapshottime": stats.snapshot_time,
        "restore_time": stats.restore_time,
        "dbinittime": Summary(),
        "startup_txns_loaded": Summary(),
    }
    if service.storage is not None:
        found["dbinittime"].add(service.storage.load_time)
        found["startup_txns_loaded"].add(service.storage.entries_loaded)
    found.update((name, Summary()) for name in _IDLE_SUMMARIES)
    found.update((name, Histogram()) for name in _IDLE_HISTOGRAMS)
    return found


def _summary(name: str, of: Summary | Histogram) -> Iterator[tuple[str, str | int]]:
    summary = of.summary() if isinstance(of, Histogram) else of
    yield f"avg_{name}", java_double(summary.average)
    yield f"min_{name}", summary.minimum
    yield f"max_{name}", summary.maximum
    yield f"cnt_{name}", summary.count
    yield f"sum_{name}", summary.total
    if isinstance(of, Histogram):
        for label, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
            yield f"{label}_{name}", of.percentile(share)


def gauge_sets(service: Service) -> Iterator[tuple[str, str, int]]:
    """Yield the limits and the usage of quotas as gauges for each top-level znode: (name, znode without its
    slash, value). A hard limit is shown before a soft one. Quotas can change meanwhile. A quota without a
    name belongs to no top-level znode."""
    quotas = service.engine.tree.quotas
    for prefix in list(quotas.prefixes):
        if parent(prefix) != "/" or prefix not in quotas.prefixes:
            yield "", "", 0
            continue
        limits, usage = quotas.limits(prefix) or {}, quotas.usage(prefix) or {}
        for what, hard in (("count", "countHardLimit"), ("bytes", "byteHardLimit")):
            limit = limits.get(hard, -1)
            limit = limit if limit > -1 else limits.get(what, -1)
            yield f"quota_{what}_limit_per_namespace", prefix[1:], limit
            yield f"quota_{what}_usage_per_namespace", prefix[1:], usage.get(what, 0)


def _file_descriptors() -> tuple[int, int]:
    most = descriptors.limit()
    try:
        return len(os.listdir("/dev/fd")) - 1, most
    except OSError as error:  # to list the directory takes a descriptor itself
        return most if error.errno == errno.EMFILE else -1, most


def java_double(value: float) -> str:
    """Return the text that Java prints for a double, rounded to four decimals."""
    rounded = math.floor(value * 10_000 + 0.5) / 10_000
    if rounded == 0 or 1e-3 <= abs(rounded) < 1e7:
        return repr(rounded)
    mantissa, _, power = repr(abs(rounded)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = f"{whole}{fraction}".lstrip("0")
    exponent = int(power or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' * (rounded < 0)}{digits[0]}.{digits[1:] or '0'}E{exponent}"

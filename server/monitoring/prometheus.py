"""The metrics for Prometheus, with the names of the emulated release (operator-surface.md section 3.1).

Up to release 3.9 the help text of a metric is its name, and the names of counters have no suffix. From
release 3.10 on the names of counters end in ``_total``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..core.stats import Histogram, Summary
from ..net.http import Request, Response, method_refused, plain
from .metrics import counters, gauge_sets, gauges, java_double, summaries

if TYPE_CHECKING:
    from ..net.service import Service

_TEXT: Final = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
_QUANTILES: Final = {False: ("0.5", "0.9", "0.99"), True: ("0.5", "0.95", "0.99")}
"""The quantiles of a distribution, by whether the release has the names of 3.10."""


def answer(request: Request, service: Service, now: float) -> Response:
    """Answer one request.

    :param now: the monotonic time in seconds.
    """
    if request.path != "/metrics":
        return plain(404)
    if refusal := method_refused(request.method, "GET", "HEAD", "POST"):
        return refusal
    metrics = _Metrics(service, now)
    text = generate_latest(metrics) if metrics.is_new else _exposition(metrics)
    if service.settings.metrics_of_process:
        text += generate_latest(_process())
    return Response(200, text, _TEXT)


def dump(service: Service, now: float) -> Iterator[tuple[str, str]]:
    """Yield the lines of ``mntr`` while this provider is enabled, with every sample as a double."""
    for metric in _Metrics(service, now).collect():
        for sample in metric.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            value = "NaN" if math.isnan(sample.value) else java_double(sample.value)
            yield f"{sample.name}{{{labels}}}" if labels else sample.name, value


class _Metrics(Collector):
    """The collector with which prometheus-client reads the present metrics of a server."""

    def __init__(self, service: Service, now: float) -> None:
        self._service = service
        self._now = now
        self.is_new = service.settings.release.has("prometheus-names")

    def collect(self) -> Iterator[Metric]:
        for name, value in gauges(self._service, self._now):
            yield _metric(name, "gauge", value)
        sets: dict[str, Metric] = {}
        for name, namespace, value in gauge_sets(self._service):
            if not name:
                continue
            gauge_set = sets.setdefault(name, Metric(name, name, "gauge"))
            gauge_set.add_sample(name, {"key": namespace}, float(value))
        yield from sets.values()
        for name, value in counters(self._service):
            yield self._counter(name, value)
        for name, of in summaries(self._service).items():
            yield _summary(name, of, self.is_new)

    def _counter(self, name: str, value: int) -> Metric:
        if not self.is_new:
            return _metric(name, "counter", value)
        metric = Metric(name.removesuffix("_total"), f"{name} counter", "counter")
        metric.add_sample(f"{name.removesuffix('_total')}_total", {}, float(value))
        return metric


def _metric(name: str, kind: str, value: str | int) -> Metric:
    metric = Metric(name, name, kind)
    metric.add_sample(name, {}, float(value))
    return metric


def _summary(name: str, of: Summary | Histogram, is_new: bool) -> Metric:
    """Make a basic summary. The real server shows a median. This server shows a median only for a
    histogram."""
    metric = Metric(name, f"{name} summary" if is_new else name, "summary")
    quantiles: dict[str, float] = {"0.5": math.nan}
    if isinstance(of, Histogram):
        total = of.summary()
        quantiles = {q: of.percentile(float(q)) if total.count else math.nan for q in _QUANTILES[is_new]}
    else:
        total = of
    for quantile, value in quantiles.items():
        metric.add_sample(name, {"quantile": quantile}, value)
    metric.add_sample(f"{name}_count", {}, total.count)
    metric.add_sample(f"{name}_sum", {}, total.total)
    return metric


def _exposition(metrics: _Metrics) -> bytes:
    """Print the metrics without the suffix ``_total`` of counters, which release 3.9 does not have."""
    return re.sub(rb"(?m)^(# HELP|# TYPE) (\w+)_total (\2|counter)$", rb"\1 \2 \3", generate_latest(metrics))


@cache
def _process() -> CollectorRegistry:
    """Return a registry of the metrics of this process, which replace the metrics of a JVM."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry

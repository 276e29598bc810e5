"""Spans of the requests of unmodified clients, sent as OTLP over HTTP with JSON.

* Each request is a span in its own trace, from the arrival of the request to its reply. If the connection
  ends before the reply, the span says so. Pings make no spans.
* In an ensemble, each transaction makes only one span, at the server that applies it first. This concerns the
  beginning and the end of sessions, and the deletes of containers and TTL znodes.
* A session is a resource. The beginning of a session, its end, and each watch event are spans without a
  length. The span of a watch event has a link to the span of its cause: a write, or the end of a session.
* The server puts spans into a queue of at most :data:`MOST` and never waits. A thread sends them. If the
  queue is full, or the collector does not accept a span, the span is lost and counted.
* Secrets are not sent, because auth packets do not pass the recorder. The data of znodes is not sent.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs

from ...protocol.operations import WRITES
from ...protocol.text import session_text
from ..logger import logger
from .describe import error_name
from .history import Entry
from .operations import name_of
from .running import Running

if TYPE_CHECKING:
    from .running_ensemble import RunningEnsemble

MOST: Final = 10_000
"""The largest number of spans that wait to be sent."""
_BATCH: Final = 500
_REST: Final = 0.2
"""A batch of spans is sent after this number of seconds."""
_PATIENCE: Final = 5.0
"""The number of seconds in which the collector must answer. At the end, it is also the number of seconds for
the remaining spans."""
_MOST_OPEN: Final = 10_000
"""The largest number of remembered requests without a reply, and the largest number of remembered causes of
events."""
_SERVER, _PRODUCER = 2, 4
_ERROR: Final = 2
_PATH: Final = "/v1/traces"
_WRITES: Final = frozenset(map(name_of, WRITES))
_SERVICE: Final = "zookeeper-client"
_Ids = tuple[str, str]


@attrs.frozen
class Span:
    """One span.

    :ivar resource: the id of its session, and its name.
    :ivar ids: the ids of its trace and of the span.
    :ivar start: the time at which the span begins, in ns since the epoch. ``end`` has the same unit.
    :ivar error: the error; empty for none.
    :ivar link: the ids of its cause.
    """

    resource: tuple[int, str]
    ids: _Ids
    name: str
    kind: int
    start: int
    end: int
    attributes: Mapping[str, str | int]
    error: str = ""
    link: _Ids | None = None

    def form(self) -> dict[str, Any]:
        """Return the span as an object for JSON."""
        form = {
            "traceId": self.ids[0],
            "spanId": self.ids[1],
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": str(self.start),
            "endTimeUnixNano": str(self.end),
            "attributes": _attributes(self.attributes),
            "status": {"code": _ERROR, "message": self.error} if self.error else {},
        }
        if self.link is not None:
            form["links"] = [{"traceId": self.link[0], "spanId": self.link[1]}]
        return form


def document(spans: Iterable[Span]) -> dict[str, Any]:
    """Return an ``ExportTraceServiceRequest`` in the JSON of OTLP."""
    by_resource: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for span in spans:
        by_resource.setdefault(span.resource, []).append(span.form())
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(_resource(*resource))},
                "scopeSpans": [{"scope": {"name": "pyzk-server"}, "spans": forms}],
            }
            for resource, forms in by_resource.items()
        ]
    }


def _resource(session: int, name: str) -> dict[str, str | int]:
    found: dict[str, str | int] = {"service.name": name or _SERVICE}
    if session:
        found["zookeeper.session"] = session_text(session)
    return found


def _attributes(values: Mapping[str, str | int]) -> Sequence[dict[str, Any]]:
    """Return attributes in the JSON of OTLP. There, numbers of 64 bits are strings."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def _new_ids() -> _Ids:
    return os.urandom(16).hex(), os.urandom(8).hex()


class Exporter:
    """Sends spans to a collector, in a separate thread.

    :param url: the URL of the collector, such as ``http://127.0.0.1:4318``; if the URL has no path,
        ``/v1/traces`` is added.
    :param most: the largest number of spans that wait to be sent.
    :raises ValueError: the URL is not the URL of a collector.
    :ivar sent: the number of spans that the collector has accepted.
    :ivar dropped: how many are lost.
    """

    def __init__(self, url: str, most: int = MOST) -> None:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # not shown: it may hold a password
            raise ValueError("leave out the user and the password of the collector's URL: they are not sent")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of a collector must be like http://127.0.0.1:4318, not {url!r}")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path if parts.path.strip("/") else _PATH
        if parts.query:
            self._path += f"?{parts.query}"
        self._collector = f"{parts.scheme}://{parts.netloc}"  # for the log: a query may be a secret
        self._queue: queue.Queue[Span | None] = queue.Queue(most)
        self._queued = self._refused = 0  # counted in the server's thread
        self._lost = 0  # by the collector; counted in the thread that sends
        self.sent = 0
        self._failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send, name="pyzk-otlp", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        return self._refused + self._lost

    def put(self, span: Span) -> None:
        """Send a span soon. Never waits."""
        try:
            self._queue.put_nowait(span)
            self._queued += 1
        except queue.Full:
            self._refused += 1

    def close(self) -> None:
        """Send the remaining spans, for at most 5 s."""
        until = time.monotonic() + _PATIENCE
        self._ending.set()
        try:
            self._queue.put(None, timeout=_PATIENCE)
        except queue.Full:
            logger.debug("the collector of spans does not accept the spans")
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            self._refused += self._queued - self.sent - self._lost
        if self.dropped:
            logger.warning("%d spans are lost: %s did not take them in time", self.dropped, self._collector)

    def _send(self) -> None:
        ended = False
        while not ended:
            batch = [self._queue.get()]
            self._ending.wait(_REST)
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            ended = None in batch
            spans = [span for span in batch if span is not None]
            if spans:
                self._post(spans)

    def _post(self, spans: Sequence[Span]) -> None:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        try:
            connection = make(self._host, self._port, timeout=_PATIENCE)
            try:
                body = json.dumps(document(spans)).encode("utf-8", "replace")
                connection.request("POST", self._path, body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            finally:
                connection.close()
            if answer.status >= 300:
                raise OSError(f"it answers {answer.status}")
        except Exception as error:  # whatever it is, the next batch is tried
            self._lost += len(spans)
            if not self._failing:
                logger.warning("spans are lost: %s: %s; the next ones are tried", self._collector, error)
            self._failing = True
        else:
            self.sent += len(spans)
            self._failing = False


class Spans:
    """Makes spans of the new entries of a server, or of an ensemble.

    :param exporter: gets them.
    """

    def __init__(self, running: Running | RunningEnsemble, exporter: Exporter) -> None:
        self._running, self._exporter = running, exporter
        # When a request came, by server and connection, then by xid
        self._open: dict[tuple[int, int], dict[int, tuple[int, Entry]]] = {}
        self._count = 0
        self._causes: OrderedDict[int, _Ids] = OrderedDict()  # by zxid
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()  # transactions, by kind and zxid
        running.listen(self._listen)

    def stop(self) -> None:
        """Make no more spans. The second call does nothing."""
        self._running.stop_listening(self._listen)

    def _listen(self, entry: Entry) -> None:
        now = time.time_ns()
        if entry.op == "ping":
            return
        if entry.kind == "request":
            self._begin(entry, now)
        elif entry.kind == "reply":
            start, _ = self._take((entry.server, entry.connection), entry.xid) or (now, entry)
            self._reply(entry, start, now)
        elif entry.kind == "event":
            link = self._cause(entry.zxid) if entry.zxid else None
            self._put(entry, f"watch event: {entry.facts.step}", _PRODUCER, now, now, link=link)
        elif entry.kind in ("session", "reaper") and self._is_first(entry):
            name = "reaped" if entry.kind == "reaper" else f"session {entry.facts.step}"
            self._put(entry, name, _SERVER, now, now, ids=self._cause(entry.zxid))
        elif entry.kind == "connection" and entry.facts.step == "over":
            self._end_all(entry, now)

    def _begin(self, entry: Entry, now: int) -> None:
        asked = self._open.setdefault((entry.server, entry.connection), {})
        self._count += entry.xid not in asked
        asked[entry.xid] = now, entry
        if self._count > _MOST_OPEN:
            oldest = next(iter(self._open))
            self._take(oldest, next(iter(self._open[oldest])))

    def _take(self, connection: tuple[int, int], xid: int) -> tuple[int, Entry] | None:
        """Return the time of arrival of a request, and forget the request."""
        asked = self._open.get(connection, {})
        found = asked.pop(xid, None)
        self._count -= found is not None
        if not asked:
            self._open.pop(connection, None)
        return found

    def _reply(self, entry: Entry, start: int, now: int) -> None:
        wrote = not entry.err and entry.zxid and entry.op in _WRITES
        ids = self._cause(entry.zxid) if wrote else None
        error = error_name(entry.err) if entry.err else ""
        self._put(entry, entry.op or "request", _SERVER, start, now, error=error, ids=ids)

    def _end_all(self, over: Entry, now: int) -> None:
        """End the spans of the requests that a connection leaves without a reply."""
        asked = self._open.pop((over.server, over.connection), {})
        self._count -= len(asked)
        for start, entry in asked.values():
            self._put(entry, entry.op or "request", _SERVER, start, now, error=f"no reply: {over.text}")

    def _cause(self, zxid: int) -> _Ids:
        """Return the ids of the span of the request whose write has this zxid. A watch event can be sent
        before the span of its request ends, so the ids exist before the span."""
        if zxid not in self._causes:
            self._causes[zxid] = _new_ids()
            if len(self._causes) > _MOST_OPEN:
                self._causes.popitem(last=False)
        return self._causes[zxid]

    def _is_first(self, entry: Entry) -> bool:
        """Return whether no server has recorded this transaction before."""
        key = entry.kind, entry.zxid
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > _MOST_OPEN:
            self._known.popitem(last=False)
        return True

    def _put(
        self,
        entry: Entry,
        name: str,
        kind: int,
        start: int,
        end: int,
        *,
        error: str = "",
        ids: _Ids | None = None,
        link: _Ids | None = None,
    ) -> None:
        attributes: dict[str, str | int] = {"db.system.name": "zookeeper"}
        if entry.op:
            attributes |= {"db.operation.name": entry.op, "zookeeper.xid": entry.xid}
        if entry.path:
            attributes["zookeeper.path"] = entry.path
        if entry.zxid:
            attributes["zookeeper.zxid"] = f"0x{entry.zxid:x}"
        if entry.client:
            attributes["client.address"] = entry.client
        if error:
            attributes["error.type"] = error if entry.err else "no reply"
        if entry.server:
            attributes["zookeeper.server"] = entry.server
        resource = entry.session, self._running.names[entry.session] or ""
        span = Span(resource, ids or _new_ids(), name, kind, start, end, attributes, error, link)
        self._exporter.put(span)

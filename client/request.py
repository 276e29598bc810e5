"""One request on its way: queued, sent, settled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_HEADER_SIZE = 8
"""Bytes: xid and op code."""

_NOTHING: Any = object()


def no_result(reply: bytes) -> None:
    """The parser of a reply without a body."""


class Request(Generic[T]):
    """A request and what became of it: a result or an error, exactly once.

    The caller may lose interest in it at any time; the session still keeps track of it until it is settled.

    :ivar body: the encoded record behind the request header.
    :ivar path: the path that errors name.
    :ivar parse: makes the result of a whole reply frame; raises :class:`~pyzk.protocol.jute.JuteError`.
    :ivar retry: whether the request may be sent again after its reply was lost (reads).
    :ivar sent: whether it was handed to a connection, ever: it may have been applied.
    :ivar error: why there is no result.
    """

    __slots__ = (
        "_listeners",
        "_result",
        "body",
        "error",
        "give_up_at",
        "opcode",
        "parse",
        "path",
        "retry",
        "sent",
        "sent_at",
        "settled",
        "xid",
    )

    def __init__(
        self,
        opcode: int,
        body: bytes = b"",
        path: str | None = None,
        parse: Callable[[bytes], T] = no_result,  # type: ignore[assignment]
        *,
        retry: bool = False,
    ) -> None:
        self.opcode = opcode
        self.body = body
        self.path = path
        self.parse = parse
        self.retry = retry
        self.sent = False
        self.settled = False
        self.error: Exception | None = None
        self._result: T = _NOTHING
        self._listeners: list[Callable[[Any], object]] = []
        # Kept by the session, times in seconds of its clock:
        self.xid = 0
        self.sent_at = 0.0
        self.give_up_at: float | None = None  # without a connection; counts from the first moment without one

    def on_settled(self, listener: Callable[[Any], object]) -> None:
        """Call ``listener(self)`` once settled: at once if it is already. Listeners run in order and must
        not raise: what one raises later on is logged, and the others are called all the same."""
        if self.settled:
            listener(self)
        else:
            self._listeners.append(listener)

    def forget(self, listener: Callable[[Any], object]) -> None:
        """Take a listener back."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def result(self) -> T:
        """The result, or raises the error; RuntimeError if the request is not settled."""
        if self.error is not None:
            raise self.error
        if self._result is _NOTHING:
            raise RuntimeError("the request is not settled")
        return self._result

    def succeed(self, result: T) -> None:
        self._result = result
        self._settle()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._settle()

    def _settle(self) -> None:
        self.settled = True
        while self._listeners:  # one by one: a listener may make another forget about it
            listener = self._listeners.pop(0)
            try:
                listener(self)
            except Exception:
                logger.exception("%r must not raise; it was to be told of the end of a request.", listener)

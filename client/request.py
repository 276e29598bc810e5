"""One request: queued, sent, settled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..protocol.errors import MarshallingError, ZooKeeperError, error_for

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_HEADER_SIZE = 8
"""The size of the request header in bytes: xid and op code."""

_NOTHING: Any = object()


def no_result(reply: bytes) -> None:
    """Parse a reply without a body."""


class Request(Generic[T]):
    """A request and its outcome, which is set once: a result or an error.

    The caller can drop the request at any time. The session keeps the request until it is settled.

    :ivar body: the encoded record that follows the request header.
    :ivar path: the path that errors name.
    :ivar parse: makes the result from a whole reply frame. It raises ZooKeeperError for an error of the
        operation. Any other exception means that the reply is malformed, and ends the connection.
    :ivar refusal: a function that makes the error for a code of the server; None for the plain error of the
        code.
    :ivar retry: whether the request can be sent again after its reply was lost (reads).
    :ivar sent: whether a connection has sent the request. If so, the request may have been applied.
    :ivar settled: whether the request has an outcome.
    :ivar error: the error of the request; None if there is none.
    :ivar xid: the number of the request on the present connection; 0 until this connection has sent the
        request.
    :ivar sent_at: the time at which the request was sent last, in seconds by the session's clock.
    :ivar give_up_at: the time at which the request fails if there is still no connection, in seconds by the
        session's clock; None if there was a connection all the time.
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
        "refusal",
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
        refusal: Callable[[int], Exception] | None = None,
        retry: bool = False,
    ) -> None:
        self.opcode = opcode
        self.body = body
        self.path = path
        self.parse = parse
        self.refusal = refusal
        self.retry = retry
        self.sent = False
        self.settled = False
        self.error: Exception | None = None
        self._result: T = _NOTHING
        self._listeners: list[Callable[[Any], object]] = []
        self.xid = 0
        self.sent_at = 0.0
        self.give_up_at: float | None = None

    def on_settled(self, listener: Callable[[Any], object]) -> None:
        """Call ``listener(self)`` when the request is settled; at once if it is.

        Listeners are called in order. Listeners must not raise: an exception of a later call is logged, and
        the other listeners are called.
        """
        if self.settled:
            listener(self)
        else:
            self._listeners.append(listener)

    def forget(self, listener: Callable[[Any], object]) -> None:
        """Do not call a listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def result(self) -> T:
        """Return the result.

        :raises Exception: the error, if there is one.
        :raises RuntimeError: the request is not settled.
        """
        if self.error is not None:
            raise self.error
        if self._result is _NOTHING:
            raise RuntimeError("the request is not settled")
        return self._result

    def take_reply(self, code: int, reply: bytes) -> None:
        """Settle the request with the reply of the server.

        :param code: the error code of the reply.
        :raises Exception: the reply is malformed; the request has failed, and the connection must end.
        """
        if code:
            self.refuse(code)
            return
        try:
            self._result = self.parse(reply)
        except ZooKeeperError as error:
            self.fail(error)
        except Exception as error:
            self.fail(MarshallingError(self.path, f"the reply cannot be decoded: {error}"))
            raise
        else:
            self._settle()

    def succeed(self, result: T) -> None:
        """Settle it with a result."""
        self._result = result
        self._settle()

    def fail(self, error: Exception) -> None:
        """Settle the request with an error."""
        self.error = error
        self._settle()

    def refuse(self, code: int) -> None:
        """Settle the request with the error for a code of the server."""
        self.fail(error_for(code, self.path) if self.refusal is None else self.refusal(code))

    def _settle(self) -> None:
        self.settled = True
        while self._listeners:  # one by one: a listener may take another one out
            listener = self._listeners.pop(0)
            try:
                listener(self)
            except Exception:
                logger.exception(
                    "The listener %r of a request must not raise. Handle the exception in the listener.",
                    listener,
                )

"""One hierarchy of errors for server and client: each class has one code of the protocol (wire.md section
13).

The rules:

* The names are kazoo's, except :class:`NotReadOnlyError`. Both sides use the same classes: the server raises
  an error to answer a request with its code, and the client raises the error for a reply with this code.
* The first line of a class's docstring is its message, unless the raiser gives another one.
* Codes that this library does not know become :class:`UnknownCodeError`, which keeps the number.
* :class:`ConnectionLossError` says whether the request was ever sent. A request that was never sent can be
  repeated safely. For any other request, the caller must first find out whether the request was applied.
"""

from __future__ import annotations

from typing import ClassVar


class ZooKeeperError(Exception):
    """Base of every error that has a code of the protocol.

    :ivar code: the code of the error, an int32.
    :ivar path: the path of the znode, if it is known.
    :ivar index: the position of the failed operation in its transaction; None outside a transaction.
    """

    code: ClassVar[int] = 0
    index: int | None = None

    def __init__(self, path: str | None = None, message: str | None = None) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    @property
    def words(self) -> str:
        """The message without the path."""
        return self.message or (self.__doc__ or type(self).__name__).partition("\n")[0].rstrip(".")

    def __str__(self) -> str:
        return f"{self.words}: {self.path}" if self.path is not None else self.words


class UnknownCodeError(ZooKeeperError):
    """The server answered with a code this library does not know."""

    def __init__(self, code: int, path: str | None = None) -> None:
        super().__init__(path, f"unknown error code {code}")
        self.code = code  # type: ignore[misc]


class SystemZooKeeperError(ZooKeeperError):
    """System error."""

    code = -1


class RuntimeInconsistencyError(ZooKeeperError):
    """Not tried: an earlier operation of the same multi failed."""

    code = -2


class DataInconsistencyError(ZooKeeperError):
    """Data inconsistency."""

    code = -3


class ConnectionLossError(ZooKeeperError):
    """The connection to the server was lost.

    :ivar sent: False if the request was never sent; then the request can be repeated safely. True if the
        server may have applied the request.
    """

    code = -4

    def __init__(self, path: str | None = None, message: str | None = None, *, sent: bool = False) -> None:
        super().__init__(path, message)
        self.sent = sent


class MarshallingError(ZooKeeperError):
    """The request or reply could not be decoded."""

    code = -5


class UnimplementedError(ZooKeeperError):
    """The server does not implement this operation."""

    code = -6


class OperationTimeoutError(ZooKeeperError):
    """The operation took too long."""

    code = -7


class BadArgumentsError(ZooKeeperError):
    """Invalid arguments."""

    code = -8


class UnknownSessionError(ZooKeeperError):
    """The server does not know this session."""

    code = -12


class NewConfigNoQuorumError(ZooKeeperError):
    """No quorum of the new configuration is connected."""

    code = -13


class ReconfigInProgressError(ZooKeeperError):
    """Another reconfiguration is in progress."""

    code = -14


class APIError(ZooKeeperError):
    """API error."""

    code = -100


class NoNodeError(ZooKeeperError):
    """The znode does not exist."""

    code = -101


class NoAuthError(ZooKeeperError):
    """Not allowed by the znode's ACL."""

    code = -102


class BadVersionError(ZooKeeperError):
    """The version does not match.

    :ivar expected: the version that the request named; None if it is not known. The server does not send the
        version of the znode.
    """

    code = -103
    expected: int | None = None


class NoChildrenForEphemeralsError(ZooKeeperError):
    """Ephemeral znodes cannot have children."""

    code = -108


class NodeExistsError(ZooKeeperError):
    """The znode exists already."""

    code = -110


class NotEmptyError(ZooKeeperError):
    """The znode has children."""

    code = -111


class SessionExpiredError(ZooKeeperError):
    """The session has expired."""

    code = -112


class InvalidCallbackError(ZooKeeperError):
    """Invalid callback."""

    code = -113


class InvalidACLError(ZooKeeperError):
    """The ACL is empty, malformed, or names an identity that is not there."""

    code = -114


class AuthFailedError(ZooKeeperError):
    """Authentication failed."""

    code = -115


class ClosingError(ZooKeeperError):
    """The client is closing."""

    code = -116


class SessionMovedError(ZooKeeperError):
    """The session has moved to another server."""

    code = -118


class NotReadOnlyError(ZooKeeperError):
    """A write was sent to a read-only server."""

    code = -119


class EphemeralOnLocalSessionError(ZooKeeperError):
    """A local session cannot own ephemeral znodes."""

    code = -120


class NoWatcherError(ZooKeeperError):
    """No such watch is registered."""

    code = -121


class RequestTimeoutError(ZooKeeperError):
    """The request timed out."""

    code = -122


class ReconfigDisabledError(ZooKeeperError):
    """Reconfiguration is disabled."""

    code = -123


class SessionClosedRequireAuthError(ZooKeeperError):
    """The session was closed: the server demands authentication."""

    code = -124


class QuotaExceededError(ZooKeeperError):
    """A quota would be exceeded."""

    code = -125


class ThrottledOpError(ZooKeeperError):
    """The operation waited too long in the server's queue."""

    code = -127


_BY_CODE: dict[int, type[ZooKeeperError]] = {
    cls.code: cls for cls in ZooKeeperError.__subclasses__() if cls is not UnknownCodeError
}


def error_for(code: int, path: str | None = None) -> ZooKeeperError:
    """Return the exception for a code of the protocol; :class:`UnknownCodeError` for an unknown code."""
    cls = _BY_CODE.get(code)
    return cls(path) if cls else UnknownCodeError(code, path)

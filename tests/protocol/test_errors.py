"""Error codes (wire.md section 13): one class each, with the code of the protocol."""

from __future__ import annotations

import pytest

from pyzk.protocol import errors
from pyzk.protocol.errors import UnknownCodeError, ZooKeeperError, error_for

CODES = {
    -1: "SystemZooKeeperError",
    -2: "RuntimeInconsistencyError",
    -3: "DataInconsistencyError",
    -4: "ConnectionLossError",
    -5: "MarshallingError",
    -6: "UnimplementedError",
    -7: "OperationTimeoutError",
    -8: "BadArgumentsError",
    -12: "UnknownSessionError",
    -13: "NewConfigNoQuorumError",
    -14: "ReconfigInProgressError",
    -100: "APIError",
    -101: "NoNodeError",
    -102: "NoAuthError",
    -103: "BadVersionError",
    -108: "NoChildrenForEphemeralsError",
    -110: "NodeExistsError",
    -111: "NotEmptyError",
    -112: "SessionExpiredError",
    -113: "InvalidCallbackError",
    -114: "InvalidACLError",
    -115: "AuthFailedError",
    -116: "ClosingError",
    -118: "SessionMovedError",
    -119: "NotReadOnlyError",
    -120: "EphemeralOnLocalSessionError",
    -121: "NoWatcherError",
    -122: "RequestTimeoutError",
    -123: "ReconfigDisabledError",
    -124: "SessionClosedRequireAuthError",
    -125: "QuotaExceededError",
    -127: "ThrottledOpError",
}


@pytest.mark.parametrize(("code", "name"), CODES.items(), ids=CODES.values())
def test_each_code_has_its_class(code: int, name: str) -> None:
    error = error_for(code, "/p")
    assert type(error) is getattr(errors, name)
    assert (error.code, error.path) == (code, "/p")


def test_no_class_is_missing_from_the_table() -> None:
    classes = set(ZooKeeperError.__subclasses__()) - {UnknownCodeError}
    assert {cls.code: cls.__name__ for cls in classes} == CODES


@pytest.mark.parametrize("code", [-9, -117, -126, 1, 12345])
def test_a_code_that_nobody_knows_is_kept(code: int) -> None:
    error = error_for(code)
    assert isinstance(error, UnknownCodeError)
    assert error.code == code
    assert str(code) in str(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.NoNodeError("/a"), "The znode does not exist: /a"),
        (errors.NoNodeError(), "The znode does not exist"),
        (errors.BadVersionError("/a", "the version is 3, not 2"), "the version is 3, not 2: /a"),
        (errors.BadArgumentsError("", "empty"), "empty: "),
    ],
)
def test_messages(error: ZooKeeperError, text: str) -> None:
    assert str(error) == text

"""The checks of the client's arguments, and the errors for wrong arguments.

Arguments are checked only where the check costs no time: when a client is made, and when an operation could
not be encoded. At both times no request has been sent.
"""

from __future__ import annotations

import math
import random
import ssl
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

from ..protocol.constants import INT_MAX
from ..protocol.errors import BadArgumentsError
from ..protocol.records import ACL, Id
from .auth import Credential
from .observer import Observer

Test = Callable[[Any], bool]


def _is(*types: type) -> Test:
    return lambda value: isinstance(value, types)


def _int_from(least: int, most: int) -> Test:
    return lambda value: isinstance(value, int) and least <= value <= most


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


_is_text = _is(str)
_is_bytes = _is(bytes, bytearray, memoryview)
_is_int, _is_long = _int_from(-(2**31), INT_MAX), _int_from(-(2**63), 2**63 - 1)
_is_count = _int_from(1, INT_MAX)


def _is_id(value: Any) -> bool:
    return isinstance(value, Id) and _or_none(_is_text)(value.scheme) and _or_none(_is_text)(value.id)


def _is_acl(value: Any) -> bool:
    return isinstance(value, Sequence) and all(
        isinstance(entry, ACL) and _is_int(entry.perms) and _is_id(entry.id) for entry in value
    )


def _is_credential(value: Any) -> bool:
    try:
        Credential("", value)
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _is_auth(value: Any) -> bool:
    return isinstance(value, Sequence) and all(
        _is_pair(entry) and _is_text(entry[0]) and _is_credential(entry[1]) for entry in value
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_user(value: Any) -> bool:
    return (
        _is_pair(value) and all(_is_text(text) and _is_credential(text) for text in value) and value[0] != ""
    )


def _is_session(value: Any) -> bool:
    return _is_pair(value) and _is_long(value[0]) and isinstance(value[1], bytes)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, Real) and float(value) >= 0  # False for NaN


def _is_some_seconds(value: Any) -> bool:
    return _is_seconds(value) and 0 < value < math.inf


def _is_ttl(value: Any) -> bool:
    return _is_some_seconds(value) and value < 10**15  # in ms an int of 64 bits


_INT32, _INT64 = "an int of 32 bits", "an int of 64 bits"
_COUNT = f"an int from 1 to {INT_MAX:,}"
_OPTIONAL_TEXT = (_or_none(_is_text), "a str or None")
_ON_EXPIRED = ("cancel", "new_session")

RULES: dict[str, tuple[Test, str]] = {
    # of operations
    "path": (_is_text, "a str"),
    "data": (_or_none(_is_bytes), "bytes or None"),
    "version": (_is_int, _INT32),
    "acl": (_is_acl, "a list of ACL(perms, Id(scheme, id)), of an int of 32 bits and two str"),
    "ttl": (_is_ttl, "a number of seconds above 0 and below 10**15"),
    "joining": _OPTIONAL_TEXT,
    "leaving": _OPTIONAL_TEXT,
    "new_members": _OPTIONAL_TEXT,
    "from_config": (_is_long, _INT64),
    "operations": (_is(Iterable), "a list of operations"),
    # of other methods
    "scheme": (_is_text, "a str"),
    "credential": (_is_credential, "bytes or a str"),
    "moved": (callable, "a function without arguments"),
    "buffer": (_is_count, _COUNT),
    "function": (callable, "a function"),
    "prefix": _OPTIONAL_TEXT,
    "paths": (bool, "one path or more"),
    # of connect
    "hosts": (_is_text, "a str"),
    "session_timeout": (_is_some_seconds, "a number of seconds above 0"),
    "connect_timeout": (_is_seconds, "a number of seconds, 0 or more"),
    "close_grace": (_is_seconds, "a number of seconds, 0 or more"),
    "auth": (_is_auth, "a list of (scheme, credential): a str, and bytes or a str"),
    "sasl": (_or_none(_is_user), "(name, password), two str, or None"),
    "on_expired": (lambda value: value in _ON_EXPIRED, " or ".join(map(repr, _ON_EXPIRED))),
    "resume": (_or_none(_is_session), "(session id, password): an int of 64 bits and bytes"),
    "ssl_context": (_or_none(_is(ssl.SSLContext)), "an ssl.SSLContext or None"),
    "connector": (_or_none(callable), "a function of a host name and a port, or None"),
    "request_limit": (_is_count, _COUNT),
    "reply_limit": (_is_count, _COUNT),
    "follow_config": (_is(bool), "True or False"),
    "read_only": (_is(bool), "True or False"),
    "observer": (_or_none(_is(Observer)), "an Observer or None"),
    "rng": (_or_none(_is(random.Random)), "a random.Random or None"),
}
_ADVICE = {
    "data": "encode text with .encode()",
    "version": "-1 stands for any version",
    "operations": 'as in [Check("/a", version=3), SetData("/b", b"...")]',
    "hosts": 'as in "host1:2181,host2:2181/chroot"; join a list with ","',
    "session_timeout": "as in 10 or 2.5, without quotes",
    "connect_timeout": "as in 10 or 2.5, without quotes",
    "auth": 'as in [("digest", "user:password")]',
    "sasl": 'as in ("user", "password")',
}
"""How to correct a wrong argument, for parameters whose type is not explanation enough."""
_NOT_SHOWN = ("data", "credential", "auth", "sasl", "resume")
"""The arguments with values that errors do not repeat, because the values may be large or secret."""


def complaint(arguments: dict[str, Any]) -> str | None:
    """Describe the first wrong argument; return None if all arguments are right."""
    for name, value in arguments.items():
        test, expected = RULES[name]
        if not test(value):
            shown = f"this {type(value).__name__}" if name in _NOT_SHOWN else f"{value!r:.100}"
            advice = f" ({_ADVICE[name]})" if name in _ADVICE else ""
            return f"{name} must be {expected}, not {shown}{advice}"
    return None


def check_arguments(**arguments: Any) -> None:
    """Check arguments by their names.

    :raises BadArgumentsError: an argument has a wrong type or value.
    """
    words = complaint(arguments)
    if words is not None:
        raise BadArgumentsError(None, words)

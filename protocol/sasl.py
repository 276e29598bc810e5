"""The parts of SASL DIGEST-MD5 that both sides of a connection use: directives and hashes (sasl.md sections 2
to 4).

Tokens are lists of directives, ``key=value`` or ``key="value"``. With :func:`proof` each side proves that it
knows the password: the client sends its proof as ``response``, and the server answers with its own proof as
``rspauth``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from .errors import AuthFailedError

REALM: Final = "zk-sasl-md5"
"""The realm is a constant, and not the name of a host (sasl.md, trap 4)."""
URI: Final = b"zookeeper/zk-sasl-md5"
NONCE_COUNT: Final = b"00000001"
MAX_TOKEN: Final = 4096
"""The number of bytes that are read of a token. The real server reads the same number of bytes (sasl.md
section 4)."""

_BLANKS = b" \t\r\n"
_COMMA, _EQUALS, _QUOTE, _ESCAPE = b',="\\'


def directives(token: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the directives of a token: each key in lower case, and its value without quotes.

    :raises AuthFailedError: the token cannot be read.
    """
    at = _skip(token, 0)
    while at < len(token):
        if token[at] == _COMMA:
            at = _skip(token, at + 1)
            continue
        start = at
        while at < len(token) and token[at] not in (_EQUALS, _COMMA) and token[at] not in _BLANKS:
            at += 1
        key = token[start:at].decode("latin-1").lower()
        if at == len(token):
            yield key, b""  # as the real server reads it
            return
        at = _skip(token, at)
        if not key or token[at : at + 1] != b"=":
            raise AuthFailedError(message="a directive of the token has no key or no value")
        at = _skip(token, at + 1)
        if at == len(token):
            raise AuthFailedError(message="the last directive of the token has no value")
        value, at = _quoted(token, at + 1) if token[at] == _QUOTE else _plain(token, at)
        yield key, value
        at = _skip(token, at)


def _skip(token: bytes, at: int) -> int:
    while at < len(token) and token[at] in _BLANKS:
        at += 1
    return at


def _plain(token: bytes, at: int) -> tuple[bytes, int]:
    start = at
    while at < len(token) and token[at] != _COMMA and token[at] not in _BLANKS:
        at += 1
    return token[start:at], at


def _quoted(token: bytes, at: int) -> tuple[bytes, int]:
    value = bytearray()
    while at < len(token):
        if token[at] == _QUOTE:
            at += 1
            if at < len(token) and token[at] != _COMMA and token[at] not in _BLANKS:
                raise AuthFailedError(message="text follows a closing quote in the token")
            return bytes(value), at
        if token[at] == _ESCAPE:
            at += 1
        value += token[at : at + 1]
        at += 1
    raise AuthFailedError(message="a quote of the token is not closed")


def quoted(value: bytes) -> bytes:
    """Write a value in quotes."""
    return b'"%b"' % value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def secret(user: str, realm: str, password: str, *, unicode: bool = True) -> bytes:
    """Hash a user's password. The hash has 16 bytes.

    :param unicode: whether the client has sent the directive ``charset=utf-8``. Even then, text that ISO
        8859-1 can represent is hashed in ISO 8859-1 (sasl.md section 3).
    :raises UnicodeEncodeError: a character is not in ISO 8859-1, and ``unicode`` is false.
    """
    return _md5(b":".join(_encoded(text, unicode) for text in (user, realm, password))).digest()


def _encoded(text: str, unicode: bool) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        if not unicode:
            raise
        return text.encode()


def proof(
    secret: bytes,
    nonce: bytes,
    cnonce: bytes,
    *,
    of_client: bool,
    uri: bytes = URI,
    authzid: bytes | None = None,
) -> bytes:
    """Return the proof that a side knows the password: 32 hexadecimal digits.

    :param secret: the result of :func:`secret`.
    :param of_client: True for the client's ``response``, False for the server's ``rspauth``.
    :param uri: the ``digest-uri`` as the client writes it.
    :param authzid: the value of the directive ``authzid``, or None.
    """
    a1 = b":".join((secret, nonce, cnonce)) + (b"" if authzid is None else b":" + authzid)
    a2 = (b"AUTHENTICATE:" if of_client else b":") + uri
    parts = (_hex(a1), nonce, NONCE_COUNT, cnonce, b"auth", _hex(a2))
    return _hex(b":".join(parts))


def _hex(data: bytes) -> bytes:
    return _md5(data).hexdigest().encode()


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)  # without this argument a system in FIPS mode has no MD5

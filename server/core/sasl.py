"""The server's side of a login by SASL DIGEST-MD5 (sasl.md). A login takes tokens and returns tokens. It uses
no I/O and no clock.

The rules:

* Each connection has its own :class:`Login` with its own nonce. A login takes two tokens. The answer to the
  first token is the challenge. The second token must prove the password. Then the login is over.
* A token without a valid proof raises :class:`.AuthFailedError`, and the server answers with a refusal. A
  token at which the real server fails without an answer raises :class:`.JuteError`, and the server closes
  the connection.
* The checks are in the order of the real server, because the first check that fails decides which of the two
  errors is raised.
* A login of an unknown user takes as long as a login of a known user, and proofs are compared in constant
  time. So neither the time nor the answer reveals the existence of a user.

In two cases this server is safe and the real server is not (semantics.md section 16). A user with a name of
the form ``user@REALM`` gets no other name by an ``authzid``. An unknown user never has the password of
another user.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final

from ...protocol.constants import INT_MAX, INT_MIN
from ...protocol.errors import AuthFailedError
from ...protocol.jute import JuteError
from ...protocol.sasl import MAX_TOKEN, REALM, URI, directives, proof, secret
from .acl import sasl_valid

_NONCE_SIZE: Final = 30  # the size in bytes, as of the real server: 40 characters of base64
_ONCE: Final = (
    *("username", "realm", "nonce", "cnonce", "nonce-count", "qop", "digest-uri", "response"),
    *("maxbuf", "charset", "cipher", "authzid", "auth-param"),
)
"""The directives that may not occur twice, as in the real server. It does not refuse a second ``nc``."""
_GSSAPI: Final = b"\x60"
"""The first byte of a GSSAPI token (RFC 2743)."""
_NOBODY: Final = "nobody's password"
"""The text that is hashed in place of a password for a user that does not exist."""


class Login:
    """One login, on one connection.

    :param users: passwords by user name.
    :param random_bytes: makes the nonce.
    :ivar over: whether the login has succeeded or failed.
    :ivar user: the user who has logged in; None before that.
    """

    def __init__(self, users: Mapping[str, str], random_bytes: Callable[[int], bytes]) -> None:
        self._users = users
        self._random_bytes = random_bytes
        self._nonce = b""
        self.over = False
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        """Answer a token of the client.

        :raises AuthFailedError: the proof is not valid; the login is over.
        :raises JuteError: the real server closes the connection at such a token.
        """
        if self.over:
            raise AuthFailedError(message="the login on this connection is over; connect again for another")
        if len(token) > MAX_TOKEN:
            self.over = True
            raise AuthFailedError(message=f"the token has {len(token):,} bytes; {MAX_TOKEN:,} are read")
        if not self._nonce:
            self._nonce = base64.b64encode(self._random_bytes(_NONCE_SIZE))
            return b'realm="%b",nonce="%b",charset=utf-8,algorithm=md5-sess' % (REALM.encode(), self._nonce)
        self.over = True
        if token.startswith(_GSSAPI):
            raise AuthFailedError(
                message="it speaks GSSAPI (Kerberos); there is DIGEST-MD5 here: use a name and a password"
            )
        given: dict[str, bytes] = {}
        for key, value in directives(token):
            if key in _ONCE and key in given:
                raise AuthFailedError(message=f"the token has the directive {key} twice")
            given[key] = value
        self.user, answer = self._check(given)
        return answer

    def _check(self, given: Mapping[str, bytes]) -> tuple[str, bytes]:
        """Return the user who has logged in, and the proof of the server."""
        unicode = "charset" in given
        if given.get("charset", b"utf-8") != b"utf-8":
            raise AuthFailedError(message="the charset must be utf-8")
        _check_number("maxbuf", given.get("maxbuf", b"1"), 10)
        name = _needed(given, "username").decode("utf-8" if unicode else "latin-1", "replace")
        if _needed(given, "realm") != REALM.encode():
            raise AuthFailedError(message=f"the realm must be {REALM}")
        if not hmac.compare_digest(_needed(given, "nonce"), self._nonce):
            raise AuthFailedError(message="the nonce is not the nonce of this connection's challenge")
        cnonce = _needed(given, "cnonce")
        if _check_number("nonce-count", given.get("nonce-count", b"1"), 16) != 1:
            raise AuthFailedError(message="the nonce-count must be 1")
        if given.get("qop", b"auth") != b"auth":
            raise AuthFailedError(message="the qop must be auth")
        uri, authzid = _needed(given, "digest-uri"), given.get("authzid")
        if uri.lower() != URI:
            raise AuthFailedError(message=f"the digest-uri must be {URI.decode()}")
        response = _needed(given, "response")
        if not name:
            raise JuteError("a SASL login with an empty user name")
        password = self._users.get(name)
        try:
            a1 = secret(name, REALM, _NOBODY if password is None else password, unicode=unicode)
        except UnicodeEncodeError:  # the real server hashes such a character as "?", so "??" is a password
            raise AuthFailedError(
                message=f"the password of {name!r:.60} needs the directive charset=utf-8"
            ) from None
        right = proof(a1, self._nonce, cnonce, of_client=True, uri=uri, authzid=authzid)
        if not hmac.compare_digest(response, right) or password is None:
            raise AuthFailedError(message=f"there is no user {name!r:.60} with this password")
        if not sasl_valid(name):
            raise JuteError(f"a SASL login by the user name {name!r:.60}: with an @, it must be name@realm")
        if authzid is not None and "@" in name and authzid != name.encode():
            raise AuthFailedError(
                message=f"the user {name!r:.60} may not log in under another name (authzid)"
            )
        return name, b"rspauth=" + proof(a1, self._nonce, cnonce, of_client=False, uri=uri, authzid=authzid)


class NoLogin(Login):
    """A login in FIPS mode, as in releases since ZOOKEEPER-5043 (sasl.md section 9). No user can log in by
    DIGEST-MD5."""

    def answer(self, token: bytes) -> bytes:
        """Refuse the login.

        :raises AuthFailedError: always.
        """
        self.over = True
        raise AuthFailedError(message="fips-mode is on, and allows no DIGEST-MD5; set fips-mode=false")


def _needed(given: Mapping[str, bytes], key: str) -> bytes:
    if key not in given:
        raise AuthFailedError(message=f"the token lacks the directive {key}")
    return given[key]


def _check_number(key: str, value: bytes, base: int) -> int:
    """Check that a text is a number, as Java's Integer.parseInt() does.

    :raises JuteError: the text is not a number; the real server closes the connection.
    """
    text = value.decode("utf-8", "replace")
    try:
        number = int(text, base) if re.fullmatch(r"[+-]?[\da-fA-F]+", text) else None
    except ValueError:
        number = None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise JuteError(f"a SASL token whose {key} is no number of 32 bits")
    return number

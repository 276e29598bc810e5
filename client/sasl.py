"""The client's side of a login by SASL DIGEST-MD5 (sasl.md sections 2, 3 and 11). No I/O and no clock.

The rules:

* A login takes two rounds: an empty token, which is answered with a challenge; then the proof that the client
  has the password, which is answered with the proof that the server has it.
* Whatever else the server answers is final for the name and the password. That includes a null token, which
  says that the server knows no SASL.
* The password is never sent. Who listens without TLS can try passwords on what is sent, and takes over the
  connection after the login: where others can listen, TLS is needed all the same.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

import attrs

from ..protocol.errors import AuthFailedError
from ..protocol.sasl import MAX_TOKEN, NONCE_COUNT, URI, directives, proof, quoted, secret

_CNONCE_SIZE = 15
"""Bytes of chance in the client's nonce, which has 30 characters."""


@attrs.frozen
class SaslUser:
    """A name and a password to log in by on every connection."""

    name: str
    password: str = attrs.field(repr=False)
    random_bytes: Callable[[int], bytes] = attrs.field(default=os.urandom, repr=False, eq=False)


class SaslLogin:
    """The login on one connection.

    :ivar over: whether it has succeeded.
    """

    def __init__(self, user: SaslUser) -> None:
        self._user = user
        self._expected: bytes | None = None
        self.over = False

    def answer(self, token: bytes | None) -> bytes:
        """Return what to send after a token of the server; after the last one nothing.

        :raises AuthFailedError: the server refuses the login, or does not prove that it has the password.
        """
        if token is None:
            raise AuthFailedError(message="the server has no SASL users, or the password is wrong")
        if len(token) > MAX_TOKEN:
            raise AuthFailedError(message=f"the server's SASL token has {len(token):,} bytes")
        if self._expected is None:
            return self._respond(token)
        if not hmac.compare_digest(token, self._expected):
            raise AuthFailedError(message="the server does not prove that it has the password (rspauth)")
        self.over = True
        return b""

    def _respond(self, challenge: bytes) -> bytes:
        given: dict[str, bytes] = {}
        for key, value in directives(challenge):
            if key == "nonce" and key in given:
                raise AuthFailedError(message="the server's challenge has two nonces")
            given.setdefault(key, value)  # of several realms the first
        if given.get("algorithm") != b"md5-sess" or not given.get("nonce"):
            raise AuthFailedError(
                message="the server's challenge is not of DIGEST-MD5, the only mechanism here: is it GSSAPI?"
            )
        if b"auth" not in given.get("qop", b"auth").replace(b" ", b"").split(b","):
            raise AuthFailedError(message="the server asks for a qop other than auth, which is not there")
        user, unicode, realm = self._user, "charset" in given, given.get("realm", b"")
        cnonce = self._user.random_bytes(_CNONCE_SIZE).hex().encode()
        try:
            name = user.name.encode("utf-8" if unicode else "latin-1")
            text = realm.decode("utf-8" if unicode else "latin-1")
            hashed = secret(user.name, text, user.password, unicode=unicode)
        except UnicodeError:
            raise AuthFailedError(
                message="the name, the password or the realm has letters that the server's charset lacks"
            ) from None
        self._expected = b"rspauth=" + proof(hashed, given["nonce"], cnonce, of_client=False)
        said = {
            b"username": quoted(name),
            b"realm": quoted(realm),
            b"nonce": quoted(given["nonce"]),
            b"nc": NONCE_COUNT,
            b"cnonce": quoted(cnonce),
            b"digest-uri": quoted(URI),
            b"qop": b"auth",
            b"response": proof(hashed, given["nonce"], cnonce, of_client=True),
        }
        if unicode:
            said[b"charset"] = b"utf-8"
        return b",".join(b"%b=%b" % directive for directive in said.items())

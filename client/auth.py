"""The identities of the client: credentials, the SASL login, and ACLs that are needed often. No I/O and no
clock.

The rules:

* If the client has a SASL user, each connection begins with the SASL login. After the login the client sends
  all other credentials together (sasl.md section 11). Watches are armed last, because a server sends events
  only to clients that may read the znode.
* A SASL login takes two rounds. The client sends an empty token, and the server sends a challenge. Both the
  client and the server prove that they have the password.
* Any other answer of the server means that the server refuses the name and the password. A null token means
  that the server does not support SASL.
* The password is never sent. Without TLS, an eavesdropper can still guess passwords from the sent bytes, and
  can take over the connection after the login.
"""

from __future__ import annotations

import hmac
import os
from collections import deque
from collections.abc import Callable, Sequence

import attrs

from ..protocol.constants import AUTH_XID, Perms
from ..protocol.digest import digest_id
from ..protocol.errors import AuthFailedError
from ..protocol.operations import OpCode
from ..protocol.records import ACL, AuthPacket, GetSASLRequest, Id, ReplyHeader, SetSASLResponse
from ..protocol.sasl import MAX_TOKEN, NONCE_COUNT, URI, directives, proof, quoted, secret

CREATOR_ALL_ACL: tuple[ACL, ...] = (ACL(Perms.ALL, Id("auth", "")),)
"""All permissions for the identities of the client that creates the znode, and no permissions for other
clients. A client without an identity gets an :class:`InvalidACLError`."""


def make_digest_acl(
    user: str, password: str, perms: Perms = Perms.ALL, *, algorithm: str = "sha1"
) -> tuple[ACL, ...]:
    """Make an ACL for one user. The ACL matches each client that has added the identity ``("digest",
    "user:password")``.

    Join several ACLs with ``+``: ``make_digest_acl("ann", "...") + READ_ACL``.

    :param algorithm: the name of the hash in hashlib. It must be equal to
        ``DigestAuthenticationProvider.digestAlg`` of the servers.
    :raises ValueError: the name of the user has a colon, or the algorithm does not exist.
    """
    if ":" in user:
        raise ValueError(f"the name of a user must not have a colon: {user!r}")
    return (ACL(perms, Id("digest", digest_id(f"{user}:{password}", algorithm))),)


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(memoryview(text))


@attrs.frozen
class Credential:
    """An identity to add to every connection: ``Credential("digest", b"user:password")``."""

    scheme: str
    auth: bytes = attrs.field(repr=False, converter=_to_bytes)

    def packet(self) -> bytes:
        """Return the body of the request that adds the identity (wire.md section 12.1)."""
        return AuthPacket(0, self.scheme, self.auth).encode()


_CNONCE_SIZE = 15
"""The random bytes in the client's nonce, which has 30 characters."""


@attrs.frozen
class SaslUser:
    """The name and the password for the login on every connection."""

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
        """Return the answer to a token of the server. The answer to the last token has no bytes.

        :raises AuthFailedError: the server refuses the login, or does not prove that it has the password.
        """
        if token is None:
            raise AuthFailedError(
                message="the SASL login failed: the server has no SASL users, or the password is wrong"
            )
        if len(token) > MAX_TOKEN:
            raise AuthFailedError(
                message=f"the server's SASL token has {len(token):,} bytes; the limit is {MAX_TOKEN:,}"
            )
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
                message="the server's challenge is not DIGEST-MD5 (perhaps it is GSSAPI): configure "
                "DIGEST-MD5 on the server, or leave out sasl"
            )
        if b"auth" not in given.get("qop", b"auth").replace(b" ", b"").split(b","):
            raise AuthFailedError(
                message="the server requires a qop that this client does not support: allow qop=auth on "
                "the server"
            )
        user, unicode, realm = self._user, "charset" in given, given.get("realm", b"")
        cnonce = self._user.random_bytes(_CNONCE_SIZE).hex().encode()
        try:
            name = user.name.encode("utf-8" if unicode else "latin-1")
            text = realm.decode("utf-8" if unicode else "latin-1")
            hashed = secret(user.name, text, user.password, unicode=unicode)
        except UnicodeError:
            raise AuthFailedError(
                message="the name, password or realm has characters that are not in the server's "
                "charset: use other characters"
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


class Authentication:
    """The requests for authentication of one connection, and their answers.

    :param user: the user who logs in by SASL; None without a SASL login.
    :param credentials: the other credentials to send.
    :param next_xid: returns the number of the next request.
    :param send: sends a request, given its xid, op code and body.
    """

    def __init__(
        self,
        user: SaslUser | None,
        credentials: Sequence[Credential],
        next_xid: Callable[[], int],
        send: Callable[[int, OpCode, bytes], None],
    ) -> None:
        self._credentials = credentials
        self._next_xid = next_xid
        self._send = send
        self._login = SaslLogin(user) if user is not None else None
        self._login_xid = 0
        self._unanswered: deque[Credential] = deque()  # those without an answer
        if self._login is not None:
            self._send_token(b"")
        else:
            self._send_credentials()

    @property
    def over(self) -> bool:
        """Whether the server has accepted the login and all credentials."""
        return self._login is None and not self._unanswered

    def expects(self, xid: int) -> bool:
        """Return whether a reply with this xid can come now."""
        return xid == (AUTH_XID if self._login is None else self._login_xid)

    def receive(self, code: int, payload: bytes) -> None:
        """Handle an expected reply.

        :raises AuthFailedError: the server refuses the user or a credential.
        :raises JuteError: the reply cannot be read.
        """
        if self._login is None:
            credential = self._unanswered.popleft()
            if code:
                raise AuthFailedError(message=f"the server refused the {credential.scheme} credential")
            return
        if code:
            raise AuthFailedError(message="the server refused the SASL login: wrong name or password")
        _, body = ReplyHeader.read(payload)
        answer = self._login.answer(SetSASLResponse.decode(payload, body).token)
        if not self._login.over:
            self._send_token(answer)
            return
        self._login = None
        self._send_credentials()

    def _send_token(self, token: bytes) -> None:
        self._login_xid = self._next_xid()
        self._send(self._login_xid, OpCode.SASL, GetSASLRequest(token).encode())

    def _send_credentials(self) -> None:
        for credential in self._credentials:
            self._unanswered.append(credential)
            self._send(AUTH_XID, OpCode.AUTH, credential.packet())

"""How a connection proves who its client is, before it serves anything else. No I/O and no clock.

First comes the SASL login, if there is one, then all other credentials together (sasl.md section 11). Watches
are armed after that: a server sends events only to those who may read the znode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..protocol.constants import AUTH_XID
from ..protocol.errors import AuthFailedError
from ..protocol.operations import OpCode
from ..protocol.records import GetSASLRequest, ReplyHeader, SetSASLResponse
from .sasl import SaslLogin
from .session_data import Credential, SessionData


class Authentication:
    """The requests of one connection, and the answers to them.

    :param send: sends a request: xid, op code, body.
    """

    def __init__(self, session: SessionData, send: Callable[[int, OpCode, bytes], None]) -> None:
        self._session = session
        self._send = send
        self._login = SaslLogin(session.sasl) if session.sasl is not None else None
        self._login_xid = 0
        self._unanswered: deque[Credential] = deque()  # those without an answer
        if self._login is not None:
            self._send_token(b"")
        else:
            self._send_credentials()

    @property
    def over(self) -> bool:
        """Whether the server has accepted everything."""
        return self._login is None and not self._unanswered

    def expects(self, xid: int) -> bool:
        """Return whether a reply with this xid can come now."""
        return xid == (AUTH_XID if self._login is None else self._login_xid)

    def receive(self, code: int, payload: bytes) -> None:
        """Take a reply that is expected.

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
        self._login_xid = self._session.next_xid()
        self._send(self._login_xid, OpCode.SASL, GetSASLRequest(token).encode())

    def _send_credentials(self) -> None:
        for credential in self._session.credentials:
            self._unanswered.append(credential)
            self._send(AUTH_XID, OpCode.AUTH, credential.packet())

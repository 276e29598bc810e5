"""The four-letter words: an operator's questions on the client port (operations.md section 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection
    from .service import Service

_NAMES = "conf cons crst dirs dump envi gtmk ruok stmk srst srvr stat wchc wchp wchs mntr isro hash"
WORDS = {name.encode(): name for name in _NAMES.split()}


def answer(word: str, service: Service, connection: Connection, now: float, rest: bytes) -> bytes:
    return b"imok"

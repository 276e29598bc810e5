"""Requests to servers with four-letter words (operator-surface.md section 1)."""

from __future__ import annotations

import ssl

import trio

from ..client import Host
from .status import Failure, Status
from .streams import ERRORS, LONGEST, reason, stream_to

_PATIENCE = 10.0
"""The seconds to wait for an answer. The number is large because a server with many sessions sends a long
answer."""
OURS = "-pyzk-"
"""A part of the version of every pyzk-server. The version of any other server does not contain this part
(docs/pyzk.md)."""


async def ask(
    host: Host, word: str, ssl_context: ssl.SSLContext | None = None, patience: float = _PATIENCE
) -> str:
    """The answer of one server.

    :param patience: seconds to wait.
    :raises Failure: there is no answer, or the server does not allow this word.
    """
    answer = bytearray()
    try:
        with trio.fail_after(patience):
            async with stream_to(host, ssl_context) as stream:
                await stream.send_all(word.encode())
                while len(answer) < LONGEST and (chunk := await stream.receive_some()):
                    answer += chunk
    except ERRORS as error:
        if not answer:  # a server that closes at once may reset the connection behind its answer
            why = reason(error, patience)
            raise Failure(Status.UNAVAILABLE, f"{host} does not answer {word!r}: {why}") from None
    text = answer.decode(errors="replace")
    if text.endswith("is not in the whitelist.\n") or (word == "ruok" and not text):
        raise Failure(
            Status.REFUSED,
            f"{host} does not allow the word {word!r}: add it to 4lw.commands.whitelist in its zoo.cfg",
        )
    return text


def fields(answer: str) -> dict[str, str]:
    """The ``Name: value`` lines of an answer."""
    pairs = (line.partition(": ") for line in answer.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


async def version(host: Host, ssl_context: ssl.SSLContext | None = None) -> str:
    """Return the version in the answer to ``srvr``, which every server allows; empty if there is no version.

    :raises Failure: the server does not answer.
    """
    return fields(await ask(host, "srvr", ssl_context)).get("Zookeeper version", "")

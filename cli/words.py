"""Asking servers by four-letter words (operator-surface.md section 1)."""

from __future__ import annotations

import os
import ssl

import trio

from ..client import Host
from .status import Failure, Status

_PATIENCE = 10.0
"""Seconds for an answer: that of a server with many sessions is long."""
_LONGEST = 64 * 2**20
"""Bytes of an answer that are read."""
OURS = "-pyzk-"
"""Part of the version of every pyzk-server, and of no other server (docs/pyzk.md)."""


async def ask(host: Host, word: str, ssl_context: ssl.SSLContext | None = None) -> str:
    """The answer of one server.

    :raises Failure: if there is none, or if the server does not allow this word.
    """
    answer = bytearray()
    try:
        with trio.fail_after(_PATIENCE):
            stream: trio.abc.Stream = await trio.open_tcp_stream(host.address or host.name, host.port)
            if ssl_context is not None:
                stream = trio.SSLStream(stream, ssl_context, server_hostname=host.name, https_compatible=True)
            async with stream:
                await stream.send_all(word.encode())
                while len(answer) < _LONGEST and (chunk := await stream.receive_some()):
                    answer += chunk
    except (OSError, ssl.SSLError, trio.TooSlowError, trio.BrokenResourceError) as error:
        if not answer:  # a server that closes at once may reset the connection behind its answer
            raise Failure(Status.UNAVAILABLE, f"{host} does not answer {word!r}: {_reason(error)}") from None
    text = answer.decode(errors="replace")
    if text.endswith("is not in the whitelist.\n") or (word == "ruok" and not text):
        raise Failure(
            Status.REFUSED,
            f"{host} does not allow the word {word!r}: add it to 4lw.commands.whitelist in its zoo.cfg",
        )
    return text


def _reason(error: BaseException) -> str:
    while isinstance(error.__cause__, OSError):  # trio's own error says less
        error = error.__cause__
    if isinstance(error.__cause__, ExceptionGroup):  # one for each address
        error = error.__cause__.exceptions[0]
    if isinstance(error, trio.TooSlowError):
        return f"nothing within {_PATIENCE:g} s"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def fields(answer: str) -> dict[str, str]:
    """The ``Name: value`` lines of an answer."""
    pairs = (line.partition(": ") for line in answer.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


async def version(host: Host, ssl_context: ssl.SSLContext | None = None) -> str:
    """The version that a server announces by ``srvr``, which every server allows; empty if it does not.

    :raises Failure: if the server does not answer.
    """
    return fields(await ask(host, "srvr", ssl_context)).get("Zookeeper version", "")

"""The options for TLS, and their TLS context."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import wrong

if TYPE_CHECKING:
    from .verb import Add


def add_tls(add: Add) -> None:
    """Declare the options, by ``add_argument``."""
    add("--tls", action="store_true", help="speak TLS, and check the server's certificate")
    add(
        "--ca-file",
        metavar="FILE",
        type=Path,
        help="the trusted authorities, as PEM (default: this machine's)",
    )
    add(
        "--cert-file",
        metavar="FILE",
        type=Path,
        help="the client's certificate as PEM; the file can also contain the key",
    )
    add("--key-file", metavar="FILE", type=Path, help="the client's key, if it is in another file")
    add("--insecure", action="store_true", help="do not check the server's certificate")


def ssl_context_of(program: str, options: Any) -> ssl.SSLContext | None:
    """Make the TLS context from the options of :func:`add_tls`; None if no option was given.

    :raises Failure: a file cannot be used.
    """
    if not (options.tls or options.ca_file or options.cert_file or options.insecure):
        return None
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file, password="")
    except (OSError, ssl.SSLError) as error:
        given = (options.ca_file, options.cert_file, options.key_file)
        files = " or ".join(str(file) for file in given if file)
        raise wrong(
            program, f"cannot use {files}: {error.strerror or error}; it must be PEM without a password"
        ) from None
    return context

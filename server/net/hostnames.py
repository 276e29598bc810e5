"""The check of ``ssl.clientHostnameVerification``: a certificate must belong to the host of its client.

As in the real server the address is compared first. With ``ssl.allowReverseDnsLookup`` the name of the
address is compared next. The owner of the address chooses this name, and the look-up may be slow. If a
certificate has no alternative names, its common name is compared. ``*`` may replace the first label of a
name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import trio

from .streams import HostNameError

_PATIENCE = 5.0
"""The time in seconds for the resolver, which is the usual timeout of resolvers."""


async def check(certificate: dict[str, Any], host: str, by_name: bool) -> None:
    """Check that a certificate belongs to the host of its client.

    :param by_name: whether to ask the resolver for the name of the address.
    :param certificate: the result of :meth:`ssl.SSLSocket.getpeercert`.
    :param host: the address of the client.
    :raises HostNameError: the certificate belongs to another host.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(_is_address(text, address) for text in _names(certificate, "IP Address")):
        return
    if not by_name:
        raise HostNameError(
            f"its certificate is not for {address}, as ssl.clientHostnameVerification demands; with "
            "ssl.allowReverseDnsLookup=true the name of this address would do"
        )
    name = ""
    with trio.move_on_after(_PATIENCE), suppress(OSError):  # after an error or the timeout there is no name
        name, _ = await trio.socket.getnameinfo((str(address), 0), 0)
    if name and name != str(address) and any(is_for(text, name) for text in _names(certificate, "DNS")):
        return
    host = f"{name} ({address})" if name else str(address)
    raise HostNameError(f"its certificate is not for {host}, as ssl.clientHostnameVerification demands")


def _names(certificate: dict[str, Any], kind: str) -> Iterator[str]:
    alternatives = certificate.get("subjectAltName", ())
    for of, text in alternatives:
        if of == kind:
            yield text
    if not alternatives:
        for rdn in certificate.get("subject", ()):
            for attribute, text in rdn:
                if attribute == "commonName":
                    yield text


def _is_address(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.ip_address(text.strip()) == address
    except ValueError:
        return False


def is_for(pattern: str, name: str) -> bool:
    """Return whether a name of a certificate matches the name of a host."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    first, _, rest = pattern.partition(".")
    if first == "*":
        return "." in rest and name.partition(".")[2] == rest
    return pattern == name

"""The rules about the keys of TLS: which ports have TLS, and which stores a port uses (operator-surface.md
section 4.2).

* ``secureClientPort`` and ``client.portUnification`` use the stores of ``ssl.*``.
* With ``admin.portUnification`` or ``admin.forceHttps``, the admin server uses the stores of
  ``ssl.quorum.*``, like the real server. Without such stores it uses the stores of ``ssl.*``. The admin
  server requires certificates of clients only with ``admin.needClientAuth``.
* The warning about keys without effect names the keys that no port uses.
"""

from __future__ import annotations

import ssl
from typing import Final

from . import tls
from .properties import Entry
from .reading import Reading
from .zookeys import is_off

_OWN: Final = "ssl."
_QUORUM: Final = "ssl.quorum."
_HOST_NAMES: Final = "ssl.clientHostnameVerification"
_VERIFICATION: Final = (_HOST_NAMES, "ssl.hostnameVerification", "ssl.allowReverseDnsLookup")


_ADMIN: Final = ("admin.portUnification", "admin.forceHttps", "admin.needClientAuth")


def secure_ports(reading: Reading) -> None:
    """Make the TLS contexts of all ports with TLS.

    :raises ConfigError: a store cannot be read, or keys contradict each other.
    """
    clients = _clients_port(reading)
    admin = reading.is_true("admin.enableServer") and _admin_port(reading)
    for key, entry in reading.entries.items():
        if key in tls.QUORUM_OPTIONS and admin != _QUORUM:
            reading.note("there is no quorum", key)
        elif is_off(entry.value):
            continue
        elif not clients and (key in _VERIFICATION or (key in tls.OPTIONS and admin != _OWN)):
            reading.note("secureClientPort is not set", key)
        elif key in _ADMIN and not admin:
            reading.note("the admin server has no TLS", key)


def _clients_port(reading: Reading) -> bool:
    """Return whether clients can connect over TLS."""
    unified = reading.is_true("client.portUnification")
    if "secure_port" not in reading.values and not unified:
        return False
    asking = "secureClientPort" if "secure_port" in reading.values else "client.portUnification"
    entry = reading.entries[asking]
    options = _options(reading, _OWN)
    reading.give("ssl_context", _context(reading, options, _OWN, entry), entry)
    if unified:
        reading.give("port_unification", True, reading.entries["client.portUnification"])
    if reading.is_true(_HOST_NAMES) and reading.is_true("ssl.hostnameVerification", default=True):
        if options.get("ssl.clientAuth", "").lower() == "none":
            reading.refuse(
                reading.entries[_HOST_NAMES],
                "with ssl.clientAuth=none no client shows a certificate; delete one of the two lines",
            )
        reading.give("verify_client_host", True, reading.entries[_HOST_NAMES])
    return True


def _admin_port(reading: Reading) -> str:
    """Return the prefix of the keys of the admin server's stores; empty if the admin server has no TLS."""
    only = reading.is_true("admin.forceHttps")
    if not only and not reading.is_true("admin.portUnification"):
        return ""
    entry = reading.entries["admin.forceHttps" if only else "admin.portUnification"]
    prefix = _QUORUM if f"{_QUORUM}keyStore.location" in reading.entries else _OWN
    options = _options(reading, prefix)
    options["ssl.clientAuth"] = "need" if reading.is_true("admin.needClientAuth") else "none"
    reading.give("admin_ssl_context", _context(reading, options, prefix, entry), entry)
    reading.give("admin_force_https", only, entry)
    return prefix


def _options(reading: Reading, prefix: str) -> dict[str, str]:
    """Return the options whose keys begin with a prefix. In the result the prefix is replaced by ``ssl.``,
    which is the prefix for the ports for clients."""
    entries = reading.entries.items()
    found = {_OWN + key.removeprefix(prefix): entry.value for key, entry in entries if key.startswith(prefix)}
    return {key: value for key, value in found.items() if key in tls.OPTIONS}


def _context(reading: Reading, options: dict[str, str], prefix: str, entry: Entry) -> ssl.SSLContext:
    """
    :param entry: the key that needs TLS, for the error about a missing store.
    """
    try:
        return tls.server_context(options)
    except tls.TlsError as error:
        key = prefix + error.key.removeprefix(_OWN)
        message = str(error).replace(f"{_OWN}keyStore", f"{prefix}keyStore")
        if key in reading.entries:
            reading.refuse(reading.entries[key], message)
        reading.refuse(entry, f"{key}: {message}")

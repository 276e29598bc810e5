"""``--tls``: certificates that are made at the start, for development.

In a directory, for the owner only:

* ``ca.pem``: the authority that signs the other certificates; clients use it to trust the server;
* ``server.pem``: key and certificates of the server, for localhost and the address where it listens;
* ``client.pem``: a key and certificates for a client, which then has the identity :data:`IDENTITY` in ACLs of
  scheme x509.

If a directory already has all files, the files are used again, so that clients need no new files.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from ..config import tls

CA, SERVER, CLIENT = "ca.pem", "server.pem", "client.pem"
_ORGANIZATION, _UNIT = "pyzk-server", "development"
IDENTITY = f"CN=client,OU={_UNIT},O={_ORGANIZATION}"
_ANYWHERE = ("0.0.0.0", "::")
_NAMES = ("localhost", "127.0.0.1", "::1")


class NotInstalled(Exception):
    """The library that makes certificates is missing."""


def make(directory: Path, host: str) -> ssl.SSLContext:
    """Make certificates, or find existing certificates. Return the TLS context of the server.

    :param host: the host of the server: a name or an address with which clients connect.
    :raises NotInstalled: trustme is missing.
    :raises TlsError: existing files are not the files of this module.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not all((directory / name).exists() for name in (CA, SERVER, CLIENT)):
        _issue(directory, host)
    options = {"keyStore.location": SERVER, "trustStore.location": CA}
    stores = {f"ssl.{key}": str(directory / name) for key, name in options.items()}
    return tls.server_context({**stores, "ssl.clientAuth": "want"})


def _issue(directory: Path, host: str) -> None:
    try:
        import trustme
    except ImportError:
        raise NotInstalled from None
    ca = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name=_UNIT)

    def issue(*names: str) -> bytes:
        issued = ca.issue_cert(
            *names, common_name=names[0], organization_name=_ORGANIZATION, organization_unit_name=_UNIT
        )
        return issued.private_key_and_cert_chain_pem.bytes()

    names = dict.fromkeys([*_NAMES, *([] if host in _ANYWHERE else [host])])
    for name, pem in (
        (CA, ca.cert_pem.bytes()),
        (SERVER, issue(*names)),
        (CLIENT, issue("client")),
    ):
        fd = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as file:
            file.write(pem)

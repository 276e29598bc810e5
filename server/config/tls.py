"""Makes the TLS context of a port from the ssl.* keys of zoo.cfg (operator-surface.md section 4.2).

Key and trust stores are PEM files. Stores in Java's formats are refused; the error has the command that
converts the store.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, Final

from ..logger import logger

OPTIONS: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "keyStore.location",
        "keyStore.password",
        "keyStore.passwordPath",
        "keyStore.type",
        "trustStore.location",
        "trustStore.password",  # never needed: nothing in a PEM file of certificates is encrypted
        "trustStore.passwordPath",
        "trustStore.type",
        "clientAuth",
        "protocol",
        "enabledProtocols",
        "ciphersuites",
    )
)
"""The keys that :func:`server_context` reads."""
QUORUM_OPTIONS: Final = frozenset(key.replace("ssl.", "ssl.quorum.") for key in OPTIONS)
"""The keys of the stores that the admin server of the real server uses."""

# By name: a module that only asks for OPTIONS need not load ssl (see later.py).
_CLIENT_AUTH = {"need": "CERT_REQUIRED", "want": "CERT_OPTIONAL", "none": "CERT_NONE"}
_VERSIONS = {"TLSv1.2": "TLSv1_2", "TLSv1.3": "TLSv1_3"}


class TlsError(ValueError):
    """An option of TLS cannot be used. The message never contains a password.

    :ivar key: the key concerned.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def server_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Make the context of the secure port.

    :param options: the values by key of :data:`OPTIONS`. An empty value counts as a missing value.
    :raises TlsError: a file cannot be read or is not PEM, a password is wrong, or a value is unknown.

    As in the real server, a client must show a certificate, unless ssl.clientAuth has another value. Without
    a trust store, the certificate authorities of this machine are trusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_key_store(context, options)

    client_auth = options.get("ssl.clientAuth") or "need"
    if client_auth.lower() not in _CLIENT_AUTH:
        raise TlsError("ssl.clientAuth", f"{client_auth!r} is not one of need, want, none")
    context.verify_mode = ssl.VerifyMode[_CLIENT_AUTH[client_auth.lower()]]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust_store(context, options)

    _restrict_versions(context, options)
    _restrict_ciphers(context, options.get("ssl.ciphersuites") or "")
    return context


# --- the stores -----------------------------------------------------------------------------------------


def _load_key_store(context: ssl.SSLContext, options: Mapping[str, str]) -> None:
    key = "ssl.keyStore.location"
    location = options.get(key)
    if not location:
        raise TlsError(key, "a secure port needs a PEM file with the certificate chain and its private key")
    _check_pem(options, "ssl.keyStore")
    password = (options.get("ssl.keyStore.password") or "").encode()
    if path := options.get("ssl.keyStore.passwordPath"):
        password = _read("ssl.keyStore.passwordPath", path).rstrip(b"\r\n")
    asked = False

    def tell() -> bytes:  # always given: OpenSSL would ask at the terminal otherwise
        nonlocal asked
        asked = True
        return password

    try:
        context.load_cert_chain(location, password=tell)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            raise TlsError(
                key, f"the private key in {location} is encrypted, and ssl.keyStore.password does not open it"
            ) from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise TlsError(
                key, f"the private key in {location} does not belong to its first certificate"
            ) from None
        raise TlsError(
            key,
            f"{location} must contain a private key and the certificate chain, which begins with the "
            "server's own certificate",
        ) from None


def _load_trust_store(context: ssl.SSLContext, options: Mapping[str, str]) -> None:
    key = "ssl.trustStore.location"
    location = options.get(key)
    if not location:
        logger.warning(
            "%s is not set: only client certificates of this machine's own authorities will be accepted; "
            "set it, or set ssl.clientAuth=none if clients have no certificates",
            key,
        )
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    _check_pem(options, "ssl.trustStore")
    try:
        context.load_verify_locations(location)
    except ssl.SSLError:
        raise TlsError(key, f"{location} contains no certificate that can be read") from None


def _read(key: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        raise TlsError(key, f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


_CONVERT_PKCS12 = "openssl pkcs12 -nodes -in {0} -out {0}.pem"
_CONVERT_JKS = (
    "keytool -importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12 && "
    "openssl pkcs12 -nodes -in {0}.p12 -out {0}.pem"
)


def _check_pem(options: Mapping[str, str], store: str) -> None:
    """Refuse a store whose type or name is not PEM. The error has the command that converts the store."""
    key = f"{store}.location"
    location = options[key]
    content = _read(key, location)
    if b"-----BEGIN " in content:
        declared = options.get(f"{store}.type") or "PEM"
        if declared.upper() != "PEM":
            raise TlsError(f"{store}.type", f"{location} is PEM, not {declared}; delete this line")
        return
    if content.startswith(b"\xfe\xed\xfe\xed"):
        kind, convert = "a JKS store", _CONVERT_JKS
    else:  # PKCS12 is a DER sequence; a guess at anything else would be no better advice
        kind, convert = "PKCS12" if content.startswith(b"\x30") else "not PEM", _CONVERT_PKCS12
    raise TlsError(
        key, f"{location} is {kind}, and only PEM can be read; convert it: {convert.format(location)}"
    )


# --- versions and ciphers -------------------------------------------------------------------------------


def _names(text: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", text) if name]


def _restrict_versions(context: ssl.SSLContext, options: Mapping[str, str]) -> None:
    """Set the versions of TLS: by default 1.2 and 1.3. If only ssl.protocol is set, only its version is
    allowed, as in the real server."""
    key = "ssl.enabledProtocols" if options.get("ssl.enabledProtocols") else "ssl.protocol"
    names = _names(options.get(key) or "")
    if names in ([], ["TLS"]):
        names = list(_VERSIONS)
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise TlsError(key, f"{', '.join(unknown)} is not offered; {' and '.join(_VERSIONS)} are")
    versions = [ssl.TLSVersion[_VERSIONS[name]] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _openssl_name(suite: str) -> str:
    """Return the name of a cipher suite of TLS 1.2 in OpenSSL for its name in Java. Another name is returned
    unchanged.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256.
    """
    match = re.fullmatch(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)", suite)
    if not match:
        return suite
    exchange, cipher = match.groups()
    cipher = re.sub(r"^AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return ("" if exchange == "RSA" else f"{exchange}-".replace("_", "-")) + cipher.replace("_", "-")


def _restrict_ciphers(context: ssl.SSLContext, text: str) -> None:
    """Allow only the named suites. Either all suites of TLS 1.3 are allowed or none, because Python cannot
    choose among them."""
    suites = _names(text)
    if not suites:
        return
    modern = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"}
    classic = {suite: _openssl_name(suite) for suite in suites if suite not in modern}
    for suite, name in classic.items():
        if not _is_suite(name):
            raise TlsError("ssl.ciphersuites", f"{suite} is not a known cipher suite")
    if classic:
        context.set_ciphers(":".join(classic.values()))
    if len(classic) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif not classic:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise TlsError("ssl.ciphersuites", "no suite in this list belongs to an enabled protocol")


def _is_suite(name: str) -> bool:
    """Return whether OpenSSL has exactly this suite. The check is needed because lists for OpenSSL can also
    contain names of groups and commands."""
    scratch = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        scratch.set_ciphers(name)
    except ssl.SSLError:
        return False
    return any(cipher["name"] == name for cipher in scratch.get_ciphers())


# --- who a client is ------------------------------------------------------------------------------------


_RDN = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def subject_text(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate as RFC 2253 text, which is the identity of scheme x509. The
    certificate comes from :meth:`ssl.SSLSocket.getpeercert`."""
    parts = []
    for rdn in reversed(certificate.get("subject", ())):
        pairs = []
        for name, value in rdn:
            pairs.append(f"{_RDN.get(name, name)}={_escaped(value)}")
        parts.append("+".join(pairs))
    return ",".join(parts)


def _escaped(value: str) -> str:
    """Escape a value as Java's X500Principal.getName() does."""
    inner = value.strip(" ")
    if not inner:
        return "\\ " * len(value)
    lead, trail = value.split(inner, maxsplit=1)
    inner = re.sub(r'([,=+<>#;"\\])', r"\\\1", inner)
    return "\\ " * len(lead) + inner + "\\ " * len(trail)

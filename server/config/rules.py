"""The rules about several keys of zoo.cfg that belong together (operator-surface.md section 4).

:func:`apply` runs after each single key was read (``reading``).
"""

from __future__ import annotations

import re
from binascii import a2b_base64

from ...protocol.constants import DEFAULT_PORT, FOUR_LETTER_WORDS
from .reading import Reading
from .secure import secure_ports
from .servers import take_address
from .zookeys import (
    AUTH_PROVIDERS,
    ENSEMBLE_PROVIDER,
    PROMETHEUS,
    SASL_KEYS,
    SASL_USER,
    SUPER_USER,
    is_off,
    names,
)

_WORDS = {word.decode() for word in FOUR_LETTER_WORDS} | {"*"}


def apply(reading: Reading, port_given: bool) -> None:
    """Apply the keys that belong together, reset the keys without effect, and warn.

    :param port_given: whether the port comes from a flag or an argument, so that the file needs no port.
    :raises ConfigError: a key cannot be used.
    """
    take_address(reading)
    _authentication(reading)
    _ensemble_provider(reading)
    secure_ports(reading)
    _admin_server(reading)
    _metrics_provider(reading)
    _ports(reading, port_given)
    _limits(reading)
    _doubtful_values(reading)


def _authentication(reading: Reading) -> None:
    for key, entry in reading.entries.items():
        if key.startswith("authProvider."):
            if entry.value in AUTH_PROVIDERS:
                reading.give(AUTH_PROVIDERS[entry.value], True, entry)
            else:
                reading.note("no such class here", f"{key} ({entry.value})")
    _sasl(reading)
    if reading.is_true("sessionRequireClientSASLAuth"):  # it overrides the other two (sasl.md section 8)
        entry = reading.entries["sessionRequireClientSASLAuth"]
        reading.give("required_auth_schemes", frozenset({"sasl"}), entry)
    elif not reading.is_true("enforce.auth.enabled"):
        if reading.values.pop("required_auth_schemes", None) is not None:
            reading.note("enforce.auth.enabled is not true", "enforce.auth.schemes")
    elif "required_auth_schemes" not in reading.values or not reading.values["required_auth_schemes"].value:
        reading.refuse(
            reading.entries["enforce.auth.enabled"],
            "enforce.auth.schemes must name a scheme, such as digest or ip",
        )


def _sasl(reading: Reading) -> None:
    values = {
        key: entry.value
        for key, entry in reading.entries.items()
        if key in SASL_KEYS or key.startswith((SASL_USER, SUPER_USER))
    }
    if not values:
        return
    from . import sasl  # for who uses it

    try:
        found = sasl.read(values)
    except sasl.SaslKeyError as error:
        reading.refuse(reading.entries[error.key], str(error))
    for key, warning in found.warnings:
        reading.warn(reading.entries[key], warning)
    if found.users is None:
        for key in values:
            if key != sasl.JAAS_FILE and not is_off(values[key]):
                reading.note("SASL has no users", key)
        return
    entry = reading.entries[found.key]
    reading.give("sasl_users", found.users, entry)
    reading.give("sasl_super_users", found.super_users, entry)
    if found.enabled or "sasl_enabled" not in reading.values:
        reading.give("sasl_enabled", found.enabled, entry)


def _ensemble_provider(reading: Reading) -> None:
    """Accept the ensembles of ensembleAuthName, if the provider is configured (semantics.md section 8.4)."""
    name = reading.entries.get("ensembleAuthName")
    for key, entry in reading.entries.items():
        if key.startswith("authProvider.") and entry.value == ENSEMBLE_PROVIDER:
            reading.give("ensemble_names", names(name.value) if name is not None else frozenset(), entry)
            return
    if name is not None:
        reading.note(f"no authProvider.N is {ENSEMBLE_PROVIDER}", name.key)


def _admin_server(reading: Reading) -> None:
    if reading.is_true("admin.enableServer"):
        if "admin_port" not in reading.values:
            reading.give("admin_port", 8080, reading.entries["admin.enableServer"])
    else:
        reading.drop("admin.enableServer is not true", "admin.", "admin_port")


def _metrics_provider(reading: Reading) -> None:
    entry = reading.entries.get("metricsProvider.className")
    if entry is not None and entry.value == PROMETHEUS:
        if "metrics_port" not in reading.values:
            reading.give("metrics_port", 7000, entry)
    else:
        reading.drop("metricsProvider.className does not enable them", "metricsProvider.", "metrics_port")


def _ports(reading: Reading, port_given: bool) -> None:
    port_given = port_given or "port" in reading.values
    for key, present in (
        ("clientPortAddress", port_given),
        ("secureClientPortAddress", "secure_port" in reading.values),
    ):
        if key in reading.entries and not present:
            reading.refuse(reading.entries[key], f"it needs {key.removesuffix('Address')} beside it")
    if "secure_port" in reading.values and not port_given:
        reading.warnings.append(f"{reading.name} has no clientPort: {DEFAULT_PORT} is open too, without TLS")


def _limits(reading: Reading) -> None:
    """Apply a limit from the configuration to the addresses of this machine too."""
    if "max_client_connections" in reading.values:
        reading.values["max_loopback_connections"] = reading.values["max_client_connections"]


def _doubtful_values(reading: Reading) -> None:
    """Warn about values that the real server accepts silently, although they do not have the expected
    effect."""
    for key in ("maxClientCnxns", "maxCnxns"):
        entry = reading.entries.get(key)
        if entry is not None and re.fullmatch("-[0-9]+", entry.value) and entry.value != "-1":
            reading.warn(entry, f"{entry.value} means that there is no limit; if you want no limit, write 0")
    entry = reading.entries.get("4lw.commands.whitelist")
    if entry is not None and (unknown := names(entry.value) - _WORDS):
        reading.warn(
            entry, f"these are not four-letter words: {', '.join(map(repr, sorted(unknown)))}; delete it"
        )
    entry = reading.entries.get("DigestAuthenticationProvider.superDigest")
    if entry is not None and not _is_digest(entry.value):
        reading.warn(
            entry, "with this value nobody is a super user; it must be a name, a colon and a digest in base64"
        )


def _is_digest(text: str) -> bool:
    """Return whether a value has the form ``user:digest``. The digest may be of any algorithm."""
    user, _, digest = text.partition(":")
    try:
        return bool(user) and len(a2b_base64(digest, strict_mode=True)) in (16, 20, 28, 32, 48, 64)
    except ValueError:
        return False

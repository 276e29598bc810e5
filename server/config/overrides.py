"""Keys of zoo.cfg that override the keys of a file: environment variables and ``--set``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from . import tls
from .properties import ConfigError, Entry
from .zookeys import CHECKED, IGNORED, KNOWN, NOT_YET, NUMBERED, PROPERTIES, reason_for

_PREFIX = "PYZK_"
_OTHERS = re.compile("PYZK_(HOSTS|URL|AUTH|TOKEN|WITHOUT_EPOLL|LOCK_.*|SWEEP.*|REQUIRE_.*|JARS)")
"""The environment variables of the other commands and of the tests."""


def variable(key: str) -> str:
    """Return the environment variable of a key: ``PYZK_SSL_KEY_STORE_LOCATION`` for
    ``ssl.keyStore.location``."""
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", key)
    return _PREFIX + re.sub("[^A-Za-z0-9]", "_", words).upper()


def from_environment(environment: Mapping[str, str]) -> tuple[list[Entry], list[str]]:
    """Return the keys in environment variables, and a warning for each variable that belongs to no key."""
    keys = {variable(key): key for key in NAMES}
    entries, warnings = [], []
    for name, value in sorted(environment.items()):
        for beginning in NUMBERED:
            if name.startswith(start := variable(beginning)):
                keys[name] = beginning + name.removeprefix(start)
        if name in keys:
            entries.append(Entry(keys[name], value, 0, name))
        elif name.startswith(_PREFIX) and not _OTHERS.fullmatch(name):
            warnings.append(f"{name} is not the variable of a key, and has no effect{close_to(name, keys)}")
    return entries, warnings


def from_flags(given: Iterable[str]) -> list[Entry]:
    """Return the keys of ``--set KEY=VALUE``.

    :raises ConfigError: the form is wrong, or the key does not exist.
    """
    entries = []
    for text in given:
        key, equals, value = text.partition("=")
        entry = Entry(key.strip(), value.strip(), 0, "--set")
        if not equals or not entry.key:
            raise ConfigError("--set takes KEY=VALUE, as in --set maxClientCnxns=0")
        check_key(entry.key, "--set")
        entries.append(entry)
    return entries


NAMES: Final = (*KNOWN, *PROPERTIES, *sorted(tls.OPTIONS))
"""The keys that have an effect, except ``authProvider.N``."""


def check_key(key: str, where: str) -> None:
    """:raises ConfigError: there is no such key."""
    if not _is_known(key):
        raise ConfigError(f"{where}: there is no key {key!r}{close_to(key, NAMES)}")


def _is_known(key: str) -> bool:
    known = key in NAMES or key in CHECKED or key.startswith(NUMBERED)
    return known or any(reason_for(key, table) for table in (IGNORED, NOT_YET))


def close_to(name: str, names: Iterable[str]) -> str:
    """Return a hint to a similar name."""
    from difflib import get_close_matches  # slow to import, and needed for an error only

    meant = get_close_matches(name, list(names), n=1, cutoff=0.8)
    return f"; perhaps {meant[0]}" if meant else ""

"""zoo.cfg: its syntax, and the settings that come of it (operator-surface.md section 4).

What each key means is in ``zookeys``. All that has no effect is named in one warning. What cannot be honoured
raises :class:`ConfigError`, whose one line names the file, the line and the key. Passwords and digests appear
in neither.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import attrs

from ...protocol.constants import DEFAULT_PORT, FOUR_LETTER_WORDS
from . import tls
from .members import Member, MemberError
from .members import check as check_members
from .settings import Settings, SettingsError, check
from .zookeys import (
    AUTH_PROVIDERS,
    CHECKED,
    IGNORED,
    KEY_OF,
    KNOWN,
    NOT_YET,
    NUMBERED,
    PROMETHEUS,
    PROPERTIES,
    SASL_KEYS,
    SASL_USER,
    SUPER_USER,
    Parser,
    address,
    boolean,
    is_off,
    is_secret,
    names,
    reason_for,
)

_WORDS = {word.decode() for word in FOUR_LETTER_WORDS} | {"*"}


class ConfigError(ValueError):
    """A configuration that cannot be honoured: one line that says what, where, and how to mend it."""


# --- the syntax: java.util.Properties (operator-surface.md section 4.1) -------------------------------------


@attrs.frozen
class Entry:
    """A key, and the last of its values.

    :ivar line: the number of that line in its file; 0 if the key comes from elsewhere.
    :ivar source: what messages call the file, or the flag or variable that the key comes from.
    """

    key: str
    value: str = attrs.field(repr=False)
    line: int
    source: str

    @property
    def place(self) -> str:
        """Where it stands in a file that is known, or where else it comes from."""
        return f"line {self.line}" if self.line else self.source

    @property
    def where(self) -> str:
        return f"{self.source}, line {self.line}" if self.line else self.source


_BLANK = " \t\f"
_NEWLINE = re.compile(r"\r\n|\n|\r")
_TRIMMED = "".join(map(chr, range(0x21)))
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str, name: str = "zoo.cfg") -> dict[str, Entry]:
    """Parse the text of a file into its entries, by key.

    :param name: the name of the file in errors.
    :raises ConfigError: an escape is malformed.
    """
    entries = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None  # every backslash has a character to escape: the continuations are joined
        try:
            key, value = (_ESCAPE.sub(_unescape, part).strip(_TRIMMED) for part in match.groups())
        except ValueError as error:
            raise ConfigError(f"{name}, line {number}: {error}") from None
        entries[key] = Entry(key, value, number, name)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, continuations joined, each with the number of
    its first line."""
    lines = enumerate(_NEWLINE.split(text), start=1)
    for number, raw in lines:
        line = raw.lstrip(_BLANK)
        if line[:1] in ("", "#", "!"):
            continue
        while _goes_on(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANK)
        if line:
            yield number, line


def _goes_on(line: str) -> bool:
    """Return whether the next line continues this one: it ends with an odd number of backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _ESCAPED.get(code, code)


def masked(text: str) -> str:
    """Return the text of a file without the values of secrets, also of those in comments."""
    shown: list[str] = []
    lines = iter(_NEWLINE.split(text))
    for line in lines:
        whole, entry = [line], line.lstrip(_BLANK)
        while entry[:1] not in ("#", "!") and _goes_on(whole[-1]) and (more := next(lines, None)) is not None:
            whole.append(more)
            entry = entry[:-1] + more.lstrip(_BLANK)
        entry = entry.lstrip(f"#!{_BLANK}")
        match = _ENTRY.fullmatch(entry)
        key = _key(match[1]) if match else ""
        if is_secret(key):
            whole = [f"{line[: line.find(entry[:1])]}{key}=***"]
        shown += whole
    return "\n".join(shown)


def _key(text: str) -> str:
    try:
        return _ESCAPE.sub(_unescape, text).strip(_TRIMMED)
    except ValueError:  # a comment may have \u and no number
        return text


# --- from values to settings ----------------------------------------------------------------------------


@attrs.frozen
class Given:
    """A value for one field of :class:`Settings`, what its giver calls it, and where it stands."""

    value: object = attrs.field(repr=False)
    name: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.where})" if self.where else self.name


def build(given: Mapping[str, Given], names: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """Make the settings from some given values.

    :param given: by field of :class:`Settings`.
    :param names: what errors call a field that is not given; without it, its key in zoo.cfg.
    :raises ConfigError: a value is out of range, or two contradict each other.
    """
    values: dict[str, Any] = {field: item.value for field, item in given.items()}
    for field, item in given.items():
        try:
            check(field, item.value, item.name)
        except ValueError as error:
            raise ConfigError(f"{item.where}: {error}" if item.where else str(error)) from None
    try:
        return Settings(**values)
    except SettingsError as error:
        message = str(error)
        for field in error.fields:
            message = message.replace(field, str(given.get(field) or names.get(field) or KEY_OF[field]))
        raise ConfigError(message) from None


# --- from a file to values ------------------------------------------------------------------------------


@attrs.frozen
class Configuration:
    """The contents of a file.

    :ivar given: values by field of :class:`Settings`, for :func:`build`.
    :ivar warnings: lines for the log: one about all keys without effect, and one for each value that is
        probably a mistake.
    :ivar members: the servers of an ensemble; none for a single server.
    :ivar sync_limit: ticks, of an ensemble; ``init_limit`` likewise.
    """

    given: Mapping[str, Given]
    warnings: Sequence[str]
    members: Sequence[Member] = ()
    sync_limit: int = 0
    init_limit: int = 0


def read(path: str, *, port_given: bool = False, beside: Iterable[Entry] = ()) -> Configuration:
    """Read a file; see :func:`interpret`.

    :raises ConfigError: the file cannot be read, or its text cannot be honoured.
    """
    return interpret(_text_of(path), path, port_given=port_given, beside=beside)


def interpret(
    text: str, name: str = "zoo.cfg", *, port_given: bool = False, beside: Iterable[Entry] = ()
) -> Configuration:
    """Interpret the text of a file.

    :param name: the name of the file in errors and warnings.
    :param port_given: the port comes from elsewhere, and the file need not have one.
    :param beside: keys from elsewhere, which win over the file; of equal ones the last.
    :raises ConfigError: the text cannot be honoured.
    """
    return _Reader(text, name, beside).configuration(port_given)


# --- keys from elsewhere --------------------------------------------------------------------------------

_PREFIX = "PYZK_"
_OTHERS = re.compile("PYZK_(HOSTS|URL|AUTH|TOKEN|LOCK_.*|REQUIRE_.*)")
"""Variables of the other commands, and of the tests."""


def variable(key: str) -> str:
    """The environment variable of a key: ``PYZK_SSL_KEY_STORE_LOCATION`` for ``ssl.keyStore.location``."""
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", key)
    return _PREFIX + re.sub("[^A-Za-z0-9]", "_", words).upper()


def from_environment(environment: Mapping[str, str]) -> tuple[list[Entry], list[str]]:
    """The keys in environment variables, and a warning for each variable that is of none."""
    keys = {variable(key): key for key in _NAMES}
    entries, warnings = [], []
    for name, value in sorted(environment.items()):
        for beginning in NUMBERED:
            if name.startswith(start := variable(beginning)):
                keys[name] = beginning + name.removeprefix(start)
        if name in keys:
            entries.append(Entry(keys[name], value, 0, name))
        elif name.startswith(_PREFIX) and not _OTHERS.fullmatch(name):
            warnings.append(f"{name} is the variable of no key, and has no effect{_close_to(name, keys)}")
    return entries, warnings


def from_flags(given: Iterable[str]) -> list[Entry]:
    """The keys of ``--set KEY=VALUE``.

    :raises ConfigError: for what has another form, or a key that does not exist.
    """
    entries = []
    for text in given:
        key, equals, value = text.partition("=")
        entry = Entry(key.strip(), value.strip(), 0, "--set")
        if not equals or not entry.key:
            raise ConfigError("--set takes KEY=VALUE, as in --set maxClientCnxns=0")
        if not _is_known(entry.key):
            raise ConfigError(f"--set: there is no key {entry.key!r}{_close_to(entry.key, _NAMES)}")
        entries.append(entry)
    return entries


_NAMES = (*KNOWN, *PROPERTIES, *sorted(tls.OPTIONS))
"""The keys that are honoured; ``authProvider.N`` beside them."""


def _is_known(key: str) -> bool:
    known = key in _NAMES or key in CHECKED or key.startswith(NUMBERED)
    return known or any(reason_for(key, table) for table in (IGNORED, NOT_YET))


def _close_to(name: str, names: Iterable[str]) -> str:
    """A hint at a name that may be meant."""
    from difflib import get_close_matches  # slow to import, and needed for an error only

    meant = get_close_matches(name, list(names), n=1, cutoff=0.8)
    return f"; perhaps {meant[0]}" if meant else ""


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="iso-8859-1", newline="") as file:  # as Java reads its property files
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read {path}: {reason}; name a file that can be read") from None


_OF_ENSEMBLES = frozenset(("initLimit", "syncLimit", "electionAlg", "dynamicConfigFile", "standaloneEnabled"))


class _Reader:
    """Reads one file, once."""

    def __init__(self, text: str, name: str, beside: Iterable[Entry]) -> None:
        self.name = name
        self.entries = parse(text, name) | {entry.key: entry for entry in beside}
        self.given = {"config_text": Given(text, "the text", name)}
        self.idle: dict[str, list[str]] = {}  # keys without effect, by the reason
        self.warnings: list[str] = []
        self.unknown: dict[str, str] = {}
        self.servers: dict[str, Entry] = {}
        self.members: list[Member] = []

    def configuration(self, port_given: bool) -> Configuration:
        self._find_servers()
        for entry in self.entries.values():
            self._take(entry)
        self._read_servers()
        self._read_authentication()
        self._read_secure_port()
        self._read_admin_server()
        self._read_metrics_provider()
        self._read_ports(port_given)
        self._read_limits()
        self._read_doubtful_values()
        self.given["extra"] = Given(self.unknown, "unknown keys", self.name)
        if self.idle:
            reasons = "; ".join(f"{reason}: {', '.join(keys)}" for reason, keys in self.idle.items())
            self.warnings.append(f"{self.name} has keys without effect here; {reasons}")
        return Configuration(self.given, self.warnings, self.members, *self._limits())

    def _limits(self) -> tuple[int, int]:
        """Return syncLimit and initLimit; an ensemble must have both."""
        if not self.members:
            return 0, 0
        found = []
        for key in ("syncLimit", "initLimit"):
            entry = self.entries.get(key)
            found.append(0 if entry is None else int(entry.value))
            if found[-1] < 1:
                first = next(iter(self.servers.values()))
                self._refuse(entry or first, f"an ensemble needs {key}, of at least 1 tick")
        return found[0], found[1]

    # --- one key at a time ---

    def _take(self, entry: Entry) -> None:
        key = entry.key
        if key in CHECKED:
            self._parse(entry, CHECKED[key])
        if key in KNOWN:
            field, parser = KNOWN[key]
            self._give(field, self._parse(entry, parser), entry)
        elif key in PROPERTIES:
            self._take_property(entry, *PROPERTIES[key])
        elif key in tls.OPTIONS or key.startswith(NUMBERED):
            pass  # their meaning depends on other keys: see below
        elif self.members and (key in _OF_ENSEMBLES or key in self.servers):
            pass
        elif reason := reason_for(key, IGNORED):
            self._note(reason, key)
        elif reason := reason_for(key, NOT_YET):
            if not is_off(entry.value):
                self._note(reason, key)
        else:
            self._take_unknown(entry)

    def _take_property(self, entry: Entry, field: str | None, parser: Parser) -> None:
        try:
            value = parser(entry.value)
            if field:
                check(field, value, entry.key)
        except ValueError as error:
            self._note("not understood, so that the default holds", f"{entry.key} ({entry.place}: {error})")
            if parser is not boolean:
                return
            value = False
        self._give(field, value, entry)

    def _take_unknown(self, entry: Entry) -> None:
        self.unknown[entry.key] = entry.value
        if entry.key.startswith("zookeeper."):
            self._note("the prefix zookeeper. must be dropped", entry.key)
            return
        hint = _close_to(entry.key, _NAMES)
        self._note("unknown", f"{entry.key} ({entry.place}{hint})")

    def _parse(self, entry: Entry, parser: Parser) -> Any:
        try:
            return parser(entry.value)
        except ValueError as error:
            self._refuse(entry, str(error))

    def _give(self, field: str | None, value: object, entry: Entry) -> None:
        if field:
            self.given[field] = Given(value, entry.key, entry.where)

    def _warn(self, entry: Entry, message: str) -> None:
        self.warnings.append(f"{entry.where}: {entry.key}: {message}")

    def _note(self, reason: str, key: str) -> None:
        self.idle.setdefault(reason, []).append(key)

    def _refuse(self, entry: Entry, message: str) -> NoReturn:
        raise ConfigError(f"{entry.where}: {entry.key}: {message}") from None

    def _is_true(self, key: str) -> bool:
        return key in self.entries and self.entries[key].value.lower() == "true"

    # --- keys that mean something together ---

    def _find_servers(self) -> None:
        """Find the ``server.N`` lines, here or in a file of their own: one is a standalone server, more are
        an ensemble (operator-surface.md section 4.4, ensemble.md section 12)."""
        self.servers = {key: entry for key, entry in self.entries.items() if key.startswith("server.")}
        if dynamic := self.entries.get("dynamicConfigFile"):
            try:
                members = parse(_text_of(dynamic.value), dynamic.value)
            except ConfigError as error:
                self._refuse(dynamic, str(error))
            for key, entry in members.items():
                if key.startswith("server."):
                    self.servers[key] = attrs.evolve(dynamic, value=entry.value)
        if len(self.servers) < 2:
            return
        for key, entry in self.servers.items():
            try:
                self.members.append(Member.parse(key.removeprefix("server."), entry.value))
                check_members(self.members if len(self.members) == len(self.servers) else ())
            except MemberError as error:
                self._refuse(entry, str(error))
        self.members.sort(key=lambda member: member.number)
        for key, entry in self.entries.items():
            if key.startswith(("group.", "weight.")):
                self._refuse(entry, "each server that votes has one vote here; leave groups and weights out")

    def _read_servers(self) -> None:
        """Take the address for clients from the line of the only server, or of the first one."""
        if self.members:
            first = self.members[0]
            if first.client_port and "port" not in self.given:
                self._give("port", first.client_port, self.servers[f"server.{first.number}"])
            return
        for entry in self.servers.values():
            ensemble, _, client = entry.value.partition(";")  # host:2888:3888:role;address:2181
            if ensemble.strip().lower().endswith(":observer"):
                self._refuse(entry, "an observer needs servers that vote: at least two more lines")
            client_address, _, port = client.rpartition(":")
            if port and "port" not in self.given:
                _, parser = KNOWN["clientPort"]
                self._give("port", self._parse(attrs.evolve(entry, value=port), parser), entry)
                if client_address and "host" not in self.given:
                    self._give("host", address(client_address), entry)

    def _read_authentication(self) -> None:
        for key, entry in self.entries.items():
            if key.startswith("authProvider."):
                if entry.value in AUTH_PROVIDERS:
                    self._give(AUTH_PROVIDERS[entry.value], True, entry)
                else:
                    self._note("no such class here", f"{key} ({entry.value})")
        self._read_sasl()
        if self._is_true("sessionRequireClientSASLAuth"):  # it overrides the other two (sasl.md section 8)
            entry = self.entries["sessionRequireClientSASLAuth"]
            self._give("required_auth_schemes", frozenset({"sasl"}), entry)
        elif not self._is_true("enforce.auth.enabled"):
            self.given.pop("required_auth_schemes", None)
        elif "required_auth_schemes" not in self.given or not self.given["required_auth_schemes"].value:
            self._refuse(
                self.entries["enforce.auth.enabled"],
                "enforce.auth.schemes must name a scheme: digest, ip ...",
            )

    def _read_sasl(self) -> None:
        values = {
            key: entry.value
            for key, entry in self.entries.items()
            if key in SASL_KEYS or key.startswith((SASL_USER, SUPER_USER))
        }
        if not values:
            return
        from . import sasl  # for who uses it

        try:
            found = sasl.read(values)
        except sasl.SaslKeyError as error:
            self._refuse(self.entries[error.key], str(error))
        for key, warning in found.warnings:
            self._warn(self.entries[key], warning)
        if found.users is None:
            for key in values:
                if key != sasl.JAAS_FILE and not is_off(values[key]):
                    self._note("SASL has no users", key)
            return
        entry = self.entries[found.key]
        self._give("sasl_users", found.users, entry)
        self._give("sasl_super_users", found.super_users, entry)
        if found.enabled or "sasl_enabled" not in self.given:
            self._give("sasl_enabled", found.enabled, entry)

    def _read_secure_port(self) -> None:
        options = {key: entry.value for key, entry in self.entries.items() if key in tls.OPTIONS}
        if "secure_port" not in self.given:
            for key in options:
                self._note("secureClientPort is not set", key)
            return
        port = self.entries["secureClientPort"]
        try:
            self._give("ssl_context", tls.server_context(options), port)
        except tls.TlsError as error:
            if error.key in self.entries:
                self._refuse(self.entries[error.key], str(error))
            self._refuse(port, f"{error.key}: {error}")

    def _read_admin_server(self) -> None:
        if self._is_true("admin.enableServer"):
            entry = self.entries["admin.enableServer"]
            if "admin_port" not in self.given:
                self._give("admin_port", 8080, entry)
            if self._is_true("admin.forceHttps"):
                self._refuse(self.entries["admin.forceHttps"], "the admin server speaks plain HTTP only")
        else:
            self._drop("admin.enableServer is not true", "admin.", "admin_port")

    def _read_metrics_provider(self) -> None:
        entry = self.entries.get("metricsProvider.className")
        if entry is not None and entry.value == PROMETHEUS:
            if "metrics_port" not in self.given:
                self._give("metrics_port", 7000, entry)
        else:
            self._drop("metricsProvider.className does not ask for them", "metricsProvider.", "metrics_port")

    def _drop(self, reason: str, beginning: str, field: str) -> None:
        """Keys that would be settings if another key had switched on what they are about."""
        self.given.pop(field, None)
        for key in self.entries:
            if key.startswith(beginning) and (KNOWN | PROPERTIES).get(key, (None,))[0]:
                self._note(reason, key)

    def _read_ports(self, port_given: bool) -> None:
        port_given = port_given or "port" in self.given
        for key, present in (
            ("clientPortAddress", port_given),
            ("secureClientPortAddress", "secure_port" in self.given),
        ):
            if key in self.entries and not present:
                self._refuse(self.entries[key], f"it needs {key.removesuffix('Address')} beside it")
        if "secure_port" in self.given and not port_given:
            self.warnings.append(f"{self.name} has no clientPort: {DEFAULT_PORT} is open too, without TLS")

    def _read_limits(self) -> None:
        """A limit that is written down counts for this machine's own addresses too."""
        if "max_client_connections" in self.given:
            self.given["max_loopback_connections"] = self.given["max_client_connections"]

    def _read_doubtful_values(self) -> None:
        """Warn of values that the real server takes silently, although they do not do what they seem to."""
        for key in ("maxClientCnxns", "maxCnxns"):
            entry = self.entries.get(key)
            if entry is not None and re.fullmatch("-[0-9]+", entry.value) and entry.value != "-1":
                self._warn(entry, f"{entry.value} means no limit at all; if that is what you want, write 0")
        entry = self.entries.get("4lw.commands.whitelist")
        if entry is not None and (unknown := names(entry.value) - _WORDS):
            self._warn(entry, f"no four-letter word: {', '.join(map(repr, sorted(unknown)))}; delete it")
        entry = self.entries.get("DigestAuthenticationProvider.superDigest")
        if entry is not None and not _is_digest(entry.value):
            self._warn(entry, "nobody can be super by it; it must be a name, a colon and a digest in base64")


def _is_digest(text: str) -> bool:
    """Return whether a value has the form of user:digest, for any digest."""
    user, _, digest = text.partition(":")
    try:
        return bool(user) and len(a2b_base64(digest, strict_mode=True)) in (16, 20, 28, 32, 48, 64)
    except ValueError:
        return False

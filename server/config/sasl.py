"""The users of SASL, from keys and from a JAAS file of the real server (sasl.md section 10).

A key ``sasl.user.NAME`` defines a user, and overrides the same user of the file. Such users need no other
keys. ACLs can name the users of a file only with an ``authProvider.N``, as in the real server (sasl.md
section 1).

    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        user_bob="secret";
    };

The whole file must be correct, also the sections of other programs. Passwords appear in no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn

import attrs

from .zookeys import SASL_USER, SUPER_USER

JAAS_FILE: Final = "java.security.auth.login.config"
_SECTION: Final = "Server"
"""The name of the section of the file, unless ``sasl.serverconfig`` has another name."""
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<word>(?:[^\W\d]|[$])[\w.$-]*)
    |(?P<sign>[{};=])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_END: Final = "the end of the file"


class JaasError(ValueError):
    """A file that cannot be read. The message is one line that says what is wrong, where, and how to correct
    it."""


class SaslKeyError(ValueError):
    """A key that cannot have an effect.

    :ivar key: which.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@attrs.frozen
class Found:
    """The users that the keys define.

    :ivar key: the key that defines the users; empty if there are no users.
    :ivar users: the passwords by user name; None if there is no SASL.
    :ivar enabled: whether ACLs can name the users without an ``authProvider.N``.
    :ivar warnings: the warnings about the keys.
    """

    key: str = ""
    users: Mapping[str, str] | None = attrs.field(default=None, repr=False)
    enabled: bool = False
    super_users: frozenset[str] = frozenset()
    warnings: Sequence[tuple[str, str]] = ()


def read(values: Mapping[str, str]) -> Found:
    """Collect the users.

    :param values: the values by key.
    :raises SaslKeyError: the JAAS file cannot be read.
    """
    section = values.get("sasl.serverconfig", _SECTION)
    found = _of_file(values[JAAS_FILE], section) if JAAS_FILE in values else None
    warnings = []
    if JAAS_FILE in values and found is None:
        warnings.append((JAAS_FILE, f"{values[JAAS_FILE]} has no section {section!r}, so it names no users"))
    own = {key: value for key, value in values.items() if key.startswith(SASL_USER)}
    if not own and found is None:
        return Found(warnings=warnings)
    users = {**(found or {}), **{key.removeprefix(SASL_USER): value for key, value in own.items()}}
    if "super" in users:
        users["super"] = values.get("SASLAuthenticationProvider.superPassword", users["super"])
    supers = (value for key, value in values.items() if key == "superUser" or key.startswith(SUPER_USER))
    return Found(next(iter(own), JAAS_FILE), users, bool(own), frozenset(supers), warnings)


def _of_file(path: str, section: str) -> dict[str, str] | None:
    try:
        with open(path, encoding="utf-8") as file:
            return users_of(file.read(), section, path)
    except JaasError as error:
        raise SaslKeyError(JAAS_FILE, str(error)) from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or the path holds a NUL
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SaslKeyError(JAAS_FILE, f"cannot read {path}: {reason}; name a file that can be read") from None


# --- the file ---------------------------------------------------------------------------------------------


@attrs.frozen
class _Token:
    """A part of the text. A word needs no quotes."""

    value: str = attrs.field(repr=False)
    kind: str
    line: int


def users_of(text: str, section: str = _SECTION, name: str = "jaas.conf") -> dict[str, str] | None:
    """Return the passwords of a section by user name; None if the file has no such section.

    :param name: the name of the file in errors.
    :raises JaasError: the text cannot be read, or the section requires a mechanism that is not DIGEST-MD5.
    """
    return _Parser(text, name).sections(section)


class _Parser:
    """The reader of the text of one JAAS file."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = self._cut(text)
        self._next = next(self._tokens)

    def _cut(self, text: str) -> Iterator[_Token]:
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self._fail(line, f"{text[at]!r} is not allowed here; put keys and values into double quotes")
            kind, value = str(found.lastgroup), found[0]
            if kind != "skip":
                yield _Token(_unquoted(value) if kind == "text" else value, kind, line)
            line += value.count("\n")
            at = found.end()
        yield _Token(_END, "end", line)

    def sections(self, wanted: str) -> dict[str, str] | None:
        seen: dict[str, dict[str, str]] = {}
        while self._next.kind != "end":
            line = self._next.line
            section = self._name_of("the name of a section")
            if section in seen:
                self._fail(line, f"there is a second section {section!r}; delete one of the two")
            seen[section] = self._section(section == wanted)
        return seen.get(wanted)

    def _section(self, wanted: bool) -> dict[str, str]:
        """Read a section after its opening bracket. A module that is not ``wanted`` must be correct too."""
        found: dict[str, str] = {}
        self._sign("{")
        while not self._is("}"):
            line = self._next.line
            module = self._name_of("the class of a login module")
            if wanted and module != _DIGEST:
                kerberos = (
                    "GSSAPI (Kerberos) is not supported" if "Krb5" in module else f"{module} is not supported"
                )
                self._fail(line, f'{kerberos}; only DIGEST-MD5 is: use {_DIGEST} with user_NAME="PASSWORD"')
            line = self._next.line
            if self._name_of(flags := " or ".join(_FLAGS)).lower() not in _FLAGS:
                self._fail(line, f"after the class of a module there must be {flags}")
            while not self._is(";"):
                key = self._name_of("the name of an option, or a semicolon")
                self._sign("=")
                value = self._value()
                if key.startswith(_USER):
                    found[key.removeprefix(_USER)] = value
            self._sign(";")
        self._sign("}")
        self._sign(";")
        return found

    def _is(self, sign: str) -> bool:
        return self._next.kind == "sign" and self._next.value == sign

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _sign(self, sign: str) -> None:
        if not self._is(sign):
            self._fail(self._next.line, f"{sign!r} is missing")
        self._take()

    def _name_of(self, what: str) -> str:
        if self._next.kind not in ("word", "text"):
            self._fail(self._next.line, f"here there must be {what}")
        return self._take().value

    def _value(self) -> str:
        line = self._next.line
        value = self._name_of("a value, in double quotes")
        if "${" in value:
            self._fail(
                line, "${...} names a property of a JVM, but pyzk-server has no JVM; write the value itself"
            )
        return value

    def _fail(self, line: int, message: str) -> NoReturn:
        raise JaasError(f"{self._name}, line {line}: {message}")


def _unquoted(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, text[1:-1])

"""The syntax of zoo.cfg, which is the syntax of java.util.Properties (operator-surface.md section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from .zookeys import is_secret


class ConfigError(ValueError):
    """A configuration that cannot be used. The message is one line that says what is wrong, where, and how to
    correct it."""


@attrs.frozen
class Entry:
    """A key and its last value.

    :ivar line: the number of the line in its file; 0 if the key does not come from a file.
    :ivar source: the name of the file, the flag or the environment variable with the key, for messages.
    """

    key: str
    value: str = attrs.field(repr=False)
    line: int
    source: str

    @property
    def place(self) -> str:
        """The number of the line in the file. For a key that is no line of a file, its flag or environment
        variable."""
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
    """Yield the logical lines, each with the number of its first line. Blank lines and comments are left out.
    A line and its continuations are one logical line."""
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
    """Return whether a line continues in the next line: a line with an odd number of backslashes at its
    end."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _ESCAPED.get(code, code)


def masked(text: str) -> str:
    """Return the text of a file without the values of secrets, also in comments."""
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


def text_of(path: str) -> str:
    try:
        with open(path, encoding="iso-8859-1", newline="") as file:  # as Java reads its property files
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read {path}: {reason}; name a file that can be read") from None

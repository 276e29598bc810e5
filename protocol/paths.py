"""Paths of znodes: their rules (semantics.md section 3), and their parts.

* The root is ``/``. Any other path starts with a slash and does not end with a slash. The path has no empty
  component, and no component ``.`` or ``..``.
* Like Java, the check looks at each UTF-16 code unit, not at whole characters.
* The functions that split a path (:func:`parent`, :func:`name`, :func:`split`) check nothing.
"""

from __future__ import annotations

import re

from .errors import BadArgumentsError

# Java looks at UTF-16 code units. Surrogates are in the forbidden range, so all characters above U+FFFF are
# forbidden too.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")

# Printable ASCII without . and .. as components: such a path is valid, and its names need no further check.
_PLAIN = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[ -.0-~]+)+")


def validate_name(name: str, path: str) -> None:
    """Check the last component of ``path``.

    :raises BadArgumentsError: the name breaks a rule; the message says which rule.
    """
    if not name:
        raise BadArgumentsError(path, "a path must not end with / and must not have an empty component")
    if name in (".", ".."):
        raise BadArgumentsError(path, "relative path components are not allowed")
    if not (name.isascii() and name.isprintable()):
        bad = _FORBIDDEN.search(name)
        if bad:
            raise BadArgumentsError(path, f"the character U+{ord(bad[0]):04X} is not allowed in a path")


def validate_path(path: str) -> None:
    """Check a whole path by the full rules.

    :raises BadArgumentsError: the path breaks a rule; the message says which rule.
    """
    if path == "/" or _PLAIN.fullmatch(path):
        return
    if not path.startswith("/"):
        raise BadArgumentsError(path, "a path must start with /")
    for name in path[1:].split("/"):
        validate_name(name, path)


def join(parent: str, name: str) -> str:
    """Return the path of a child from the path of the parent (``/`` or ``""`` for the root) and the name of
    the child."""
    return f"{parent}/{name}" if parent != "/" else f"/{name}"


def parent(path: str) -> str:
    """Return the path of the parent: ``/`` for a top-level znode."""
    return path[: path.rindex("/")] or "/"


def name(path: str) -> str:
    """Return the last component."""
    return path[path.rindex("/") + 1 :]


def split(path: str) -> tuple[str, str]:
    """Return the path of the parent, and the last component. :func:`join` is the opposite."""
    return parent(path), name(path)

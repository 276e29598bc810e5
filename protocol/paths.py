"""Paths of znodes: their rules (semantics.md section 3), and their parts.

* The root is ``/``. Any other path starts with a slash, does not end with one, and has no empty component, no
  ``.`` and no ``..``.
* Characters are judged as Java judges them, by UTF-16 code units.
* The functions that take a path apart (:func:`parent`, :func:`name`, :func:`split`) check nothing.
"""

from __future__ import annotations

import re

from .errors import BadArgumentsError

# Java looks at UTF-16 code units, and surrogates lie in the forbidden range: so does all above U+FFFF.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")

# Printable ASCII without . and .. as components: such a path is right, and needs no look at each name.
_PLAIN = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[ -.0-~]+)+")


def validate_name(name: str, path: str) -> None:
    """Check the last component of ``path``.

    :raises BadArgumentsError: names the rule that is broken.
    """
    if not name:
        raise BadArgumentsError(path, "a path must not end with / nor hold an empty component")
    if name in (".", ".."):
        raise BadArgumentsError(path, "relative path components are not allowed")
    if not (name.isascii() and name.isprintable()):
        bad = _FORBIDDEN.search(name)
        if bad:
            raise BadArgumentsError(path, f"the character U+{ord(bad[0]):04X} is not allowed in a path")


def validate_path(path: str) -> None:
    """Check a whole path by the full rules.

    :raises BadArgumentsError: names the rule that is broken.
    """
    if path == "/" or _PLAIN.fullmatch(path):
        return
    if not path.startswith("/"):
        raise BadArgumentsError(path, "a path must start with /")
    for name in path[1:].split("/"):
        validate_name(name, path)


def join(parent: str, name: str) -> str:
    """Return the path of a child, given its parent's path (``/`` or ``""`` for the root) and its bare
    name."""
    return f"{parent}/{name}" if parent != "/" else f"/{name}"


def parent(path: str) -> str:
    """Return the path of the parent: ``/`` for a top-level znode."""
    return path[: path.rindex("/")] or "/"


def name(path: str) -> str:
    """Return the last component."""
    return path[path.rindex("/") + 1 :]


def split(path: str) -> tuple[str, str]:
    """Return the path of the parent and the last component, which :func:`join` puts together."""
    return parent(path), name(path)

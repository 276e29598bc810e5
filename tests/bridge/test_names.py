"""The names that generated files use: where they come from, and how they are imported."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pyzk.bridge import names, wrapped
from pyzk.bridge.names import Imports, mentions_wrapper, module_of, origin, rank
from pyzk.recipes.locks import lock

MODULE = '''
from __future__ import annotations

import math
from typing import TypedDict, TypeVar

from . import client
from .client import Watch as Watching
from .recipes import Lock, Party

T = TypeVar("T")
NUMBER: int = 5
Text = str | bytes
AnyLock = Lock | None
Later = "Lock"
Nested = list[AnyLock] | int


class Options(TypedDict):
    """Some options."""

    text: str


class MoreOptions(Options):
    made: dict[str, AnyLock]


class Plain(TypedDict):
    lock: "Lock"
    size: int


class Thing:
    lock: Lock


def function(lock: Lock) -> None:
    inner = 1
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of pyzk."""
    (tmp_path / "invented.py").write_text(textwrap.dedent(MODULE))
    import pyzk

    monkeypatch.setattr(pyzk, "__path__", [*pyzk.__path__, str(tmp_path)])
    yield __import__("importlib").import_module("pyzk.invented")
    del sys.modules["pyzk.invented"], pyzk.invented  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("T", ast.Assign),
        ("Text", ast.Assign),
        ("NUMBER", ast.AnnAssign),
        ("Thing", ast.ClassDef),
        ("function", ast.FunctionDef),
    ],
)
def test_a_definition_is_found_where_it_is(module: ModuleType, name: str, kind: type) -> None:
    home, definition = origin(name, module)
    assert home is module
    assert isinstance(definition, kind)
    assert name in ast.unparse(definition)


def test_a_name_that_is_imported_is_found_where_it_was_defined(module: ModuleType) -> None:
    assert origin("Lock", module) == origin("Lock", lock)
    assert origin("Lock", module)[0] is lock
    assert isinstance(origin("Lock", module)[1], ast.ClassDef)


def test_what_others_define_is_not_looked_at(module: ModuleType) -> None:
    home, definition = origin("TypedDict", module)
    assert (home.__name__, definition) == ("typing", None)
    home, definition = origin("client", module)
    assert (home.__name__, definition) == ("pyzk", None), "a module of this package"


def test_a_module_has_its_import_as_the_definition(module: ModuleType) -> None:
    home, definition = origin("math", module)
    assert home.__name__ == "math"
    assert isinstance(definition, ast.Import)


def test_a_name_that_is_nowhere(module: ModuleType) -> None:
    with pytest.raises(LookupError, match=r"Missing is not defined in pyzk\.invented"):
        origin("Missing", module)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("T", True),
        ("Text", False),
        ("NUMBER", False),
        ("AnyLock", True),
        ("Later", True),
        ("Nested", True),
        ("Options", False),
        ("MoreOptions", True),
        ("Plain", True),
        ("Thing", False),
        ("function", False),
        ("math", False),
    ],
)
def test_whether_a_definition_mentions_a_face(module: ModuleType, name: str, expected: bool) -> None:
    home, definition = origin(name, module)
    assert mentions_wrapper(definition, home) is expected


def test_what_is_defined_elsewhere_mentions_no_face(module: ModuleType) -> None:
    assert mentions_wrapper(None, module) is False


def test_the_module_of_a_decorated_function_is_its_own() -> None:
    assert module_of(wrapped.client.connect).__name__ == "pyzk.client.connect"
    assert module_of(names.Imports) is names


def test_names_are_ranked_as_ruff_does() -> None:
    assert [rank(name) for name in ("ACL", "X", "Lock", "WriteLock", "connect", "x")] == [0, 0, 1, 1, 2, 2]


def test_imports_are_sorted_as_ruff_does() -> None:
    imports = Imports()
    imports.module("threading")
    imports.module("asyncio")
    for module, *imported in [
        (".client", "connect"),
        ("typing", "Any", "TypeVar"),
        ("pyzk.recipes.locks.lock", "x", "Layout", "ACL", "lock"),
        ("..bridge.exits", "leaves"),
        ("xml", "sax"),
        ("collections.abc", "Callable"),
    ]:
        for name in imported:
            imports.add(module, name)
    imports.add("pyzk.recipes.locks.lock", "Lock", "TrioLock")
    imports.add("pyzk.recipes.locks.rwlock", "WriteLock", "TrioWriteLock")
    imports.add("..recipes.locks.rwlock", "RWLock")
    assert imports.text().splitlines() == [
        "import asyncio",
        "import threading",
        "from collections.abc import Callable",
        "from typing import Any, TypeVar",
        "from xml import sax",
        "from ..bridge.exits import leaves",
        "from ..recipes.locks.lock import ACL, Layout, lock, x",
        "from ..recipes.locks.lock import Lock as TrioLock",
        "from ..recipes.locks.rwlock import RWLock",
        "from ..recipes.locks.rwlock import WriteLock as TrioWriteLock",
        "from .client import connect",
    ]

"""The modules that define the names which a class uses, and the imports of these names in a generated file
(for :mod:`.generate`)."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .wrapped import WRAPPED

WRAPPERS = {cls.__name__ for cls in WRAPPED}
"""The names of the classes that have wrappers."""


def module_of(thing: Any) -> ModuleType:
    """Return the module that defines a class or a function."""
    return sys.modules[inspect.unwrap(thing).__module__]


@functools.cache
def _nodes(module: ModuleType) -> list[ast.stmt]:
    """Return what a module imports and defines."""
    return [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.stmt)]


@functools.cache
def origin(name: str, module: ModuleType) -> tuple[ModuleType, ast.stmt | None]:
    """Return the module that defines a name, and the definition of the name if this module is in pyzk.
    If the name is a module, the definition is the import statement."""
    for node in _nodes(module):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            source = importlib.import_module("." * node.level + (node.module or ""), module.__package__)
            if not source.__name__.startswith("pyzk."):
                return source, None
            return origin(name, source)
        if isinstance(node, ast.Import) and any(alias.name == name for alias in node.names):
            return importlib.import_module(name), node
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            return module, node
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return module, node
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, node
    raise LookupError(f"{name} is not defined in {module.__name__}")


def mentions_wrapper(definition: ast.stmt | None, home: ModuleType) -> bool:
    """Return whether a definition names a class that has a wrapper, or is a TypeVar. Each module of wrappers
    contains its own copy of such a definition."""
    if isinstance(definition, ast.ClassDef):
        if not any(
            "Dict" in ast.unparse(base) or "Options" in ast.unparse(base) for base in definition.bases
        ):
            return False
        used = [
            *definition.bases,
            *[item.annotation for item in definition.body if isinstance(item, ast.AnnAssign)],
        ]
    elif isinstance(definition, ast.Assign):
        if ast.unparse(definition.value).startswith("TypeVar("):
            return True
        used = [definition.value]
    else:
        return False
    for node in used:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in WRAPPERS:
                return True
            if isinstance(each, ast.Name) and (each.id in WRAPPERS or _leads_to_wrapper(each.id, home)):
                return True
    return False


def _leads_to_wrapper(name: str, home: ModuleType) -> bool:
    if hasattr(builtins, name):
        return False
    source, definition = origin(name, home)
    return mentions_wrapper(definition, source)


def rank(name: str) -> int:
    """Return whether a name is a constant, a class or something else, as ruff sorts names."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort imports as ruff does."""
    return sorted(names, key=lambda name: (rank(name.partition(" ")[0].rstrip(",")), name.lower()))


class Imports:
    """The imports of a file."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._names: dict[str, set[tuple[str, str]]] = {}

    def module(self, name: str) -> None:
        """Import a module."""
        self._modules.add(name)

    def add(self, module: str, name: str, alias: str = "") -> None:
        """Import a name from a module."""
        if module.startswith("pyzk."):
            module = f"..{module.removeprefix('pyzk.')}"
        self._names.setdefault(module, set()).add((name, alias))

    def text(self) -> str:
        """Return the lines, in the order of ruff."""
        lines = [f"import {name}" for name in sorted(self._modules)]
        for module in sorted(self._names, key=lambda name: (_section(name), name)):
            aliases = dict(self._names[module])
            plain = ", ".join(_sorted([name for name, alias in aliases.items() if not alias]))
            listed = [f"{name} as {alias}" for name, alias in aliases.items() if alias]
            lines += [
                f"from {module} import {each}" for each in _sorted([*listed, *([plain] if plain else [])])
            ]
        return "\n".join(lines)


def _section(module: str) -> tuple[bool, int]:
    dots = len(module) - len(module.lstrip("."))
    return dots > 0, -dots

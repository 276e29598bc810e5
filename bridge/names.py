"""Where the names come from that a class of the client or of the recipes uses; for :mod:`.generate`."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

from .faced import FACED

FACES = {cls.__name__ for cls in FACED}
"""The names of the classes that have faces."""


def module_of(thing: Any) -> ModuleType:
    """Return the module that defines a class or a function."""
    return sys.modules[inspect.unwrap(thing).__module__]


@functools.cache
def _nodes(module: ModuleType) -> list[ast.stmt]:
    """Return what a module imports and defines."""
    return [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.stmt)]


@functools.cache
def origin(name: str, module: ModuleType) -> tuple[ModuleType, ast.stmt | None]:
    """Return the module that defines a name which another one uses, and the definition if that is in pyzk. A
    whole module has its import as the definition."""
    package = module.__package__ or ""
    for node in _nodes(module):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            source = importlib.import_module("." * node.level + (node.module or ""), package)
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


def mentions_face(definition: ast.stmt | None, home: ModuleType) -> bool:
    """Return whether a definition names a class that has a face, or is a TypeVar. Then each face has its
    own."""
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
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in FACES:
                return True
            if isinstance(each, ast.Name) and (each.id in FACES or _leads_to_face(each.id, home)):
                return True
    return False


def _leads_to_face(name: str, home: ModuleType) -> bool:
    if hasattr(builtins, name):
        return False
    source, definition = origin(name, home)
    return mentions_face(definition, source)

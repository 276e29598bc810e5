"""Writes the stub files of the two packages: python -m pyzk.bridge.stubs

Type checkers and editors read ``blocking/__init__.pyi`` and ``aio/__init__.pyi`` in place of the classes
that :mod:`.faces` makes at run time. Both are made from the source of the client and of the recipes, by the
rules of :mod:`.faces`; a test sees to it that they are up to date. The rules of this module:

* A class keeps its public methods, properties and fields, without bodies. The type of a field is that of its
  annotation, or that of the parameter, the literal or the class which ``__init__`` gives to it.
* A name in an annotation is imported from where it is defined. If its definition mentions a class that has a
  face (the options of locks do), the definition is copied, with the face.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from .. import client, recipes
from .exports import exported
from .faced import FACED, FUNCTIONS
from .faces import opens_block
from .side import Side, reworded

_HEAD = '''"""{head}"""

# Made by python -m pyzk.bridge.stubs: change the classes of the client and of the recipes instead.

'''
_NAMES = {cls.__name__: cls for cls in FACED}
_MANAGERS = {False: "AbstractContextManager", True: "AbstractAsyncContextManager"}


class _Annotation(ast.NodeTransformer):
    """Changes an annotation of trio's into that of a face."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match ast.unparse(node):
            case "trio.Event":
                return ast.parse("asyncio.Event" if self._waits else "threading.Event", mode="eval").body
            case "trio.CancelScope":
                return ast.Constant(None)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):  # a forward reference
            return self.visit(ast.parse(node.value, mode="eval").body)  # type: ignore[no-any-return]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = ast.unparse(node.value)
        if name == "Literal":
            return node
        if name == "Awaitable" and not self._waits:
            return self.visit(node.slice)  # type: ignore[no-any-return]
        if name in _MANAGERS.values():
            node.value = ast.Name(_MANAGERS[self._waits])
        self.generic_visit(node)
        return node


class Stub:
    """The stub of one package."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._waits = side.waits
        self._imports: dict[str, set[str]] = {}
        self._modules: set[str] = set()
        self._copied: dict[str, str] = {}  # definitions that are not imported

    def text(self) -> str:
        classes = [self._class(cls) for cls in FACED]
        functions = [self._function(function, module_of(function)) for function in self._functions()]
        same = [name for name in exported() if not self._has_face(name)]
        for name in same:
            home = client if name in client.__all__ else recipes
            self._import(home.__name__, name)
        for name, extra in self._side.extras.items():
            self._import(extra.__module__, name)
        self._modules.add("asyncio" if self._waits else "threading")
        names = sorted({*exported(), *self._side.extras, *_NAMES, "connect"})
        imports = [
            f"from {module} import {', '.join(f'{name} as {name}' for name in sorted(names))}"
            for module, names in sorted(self._imports.items())
        ]
        modules = [f"import {name}" for name in sorted(self._modules)]
        variables = [text for text in self._copied.values() if "TypeVar(" in text]
        others = [text for text in self._copied.values() if text not in variables]
        parts = [*modules, *imports, *variables, *classes, *functions, *others, f"__all__ = {names!r}"]
        return _HEAD.format(head=self._side.head) + "\n".join(parts) + "\n"

    def _has_face(self, name: str) -> bool:
        thing = getattr(client, name, None) or getattr(recipes, name)
        return (
            thing in FACED or thing in self._functions() if isinstance(thing, type | FunctionType) else False
        )

    @staticmethod
    def _functions() -> list[Any]:
        return [client.connect, *FUNCTIONS]

    # --- classes -----------------------------------------------------------------------------------------

    def _class(self, cls: type) -> str:
        module = module_of(cls)
        node = _parsed(cls)
        assert isinstance(node, ast.ClassDef)
        bases = [self._annotation(base, module) for base in node.bases]
        bases = ["Sequence[Grant]" if base == "tuple[Grant, ...]" else base for base in bases]
        if "Sequence[Grant]" in bases:
            self._import("collections.abc", "Sequence")
        body = [_first_line(cls.__doc__, self._side), *self._fields(cls, node, module)]
        overloaded: set[str] = set()
        for item in node.body:
            if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if "overload" in map(ast.unparse, item.decorator_list):
                overloaded.add(item.name)
            elif item.name in overloaded:
                continue  # the implementation
            if self._is_public(cls, item.name):
                body.append(self._function(getattr(cls, item.name), module, item))
        if issubclass(cls, tuple):
            self._import("typing", "overload")
            body += [
                "@overload\ndef __getitem__(self, at: int) -> Grant: ...",
                "@overload\ndef __getitem__(self, at: slice) -> Sequence[Grant]: ...",
                "def __len__(self) -> int: ...",
            ]
        head = f"class {cls.__name__}({', '.join(bases)}):" if bases else f"class {cls.__name__}:"
        return head + "\n" + textwrap.indent("\n".join(filter(None, body)) or "...", "    ")

    def _is_public(self, cls: type, name: str) -> bool:
        if name == "__init__":
            return cls.__name__ in recipes.__all__ and not issubclass(cls, tuple)
        if name.startswith("_"):
            return name in {
                "__aenter__", "__aexit__", "__aiter__", "__anext__",
                "__contains__", "__enter__", "__exit__", "__getitem__",
            }  # fmt: skip
        return name not in FACED[cls]

    def _fields(self, cls: type, node: ast.ClassDef, module: ModuleType) -> list[str]:
        """Return the public fields: those of attrs, and those that ``__init__`` sets."""
        found: dict[str, ast.expr | None] = {}
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found[item.target.id] = item.annotation
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                arguments = item.args.args + item.args.kwonlyargs + item.args.posonlyargs
                parameters = {argument.arg: argument.annotation for argument in arguments}
                for statement in ast.walk(item):
                    if isinstance(statement, ast.Assign):
                        target, kind = statement.targets[0], _type_of(statement.value, parameters)
                    elif isinstance(statement, ast.AnnAssign):
                        target, kind = statement.target, statement.annotation
                    else:
                        continue
                    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                        found.setdefault(target.attr, kind)
        public = {
            name: annotation
            for name, annotation in found.items()
            if not name.startswith("_") and name not in FACED[cls]
        }
        fields = []
        for name, annotation in public.items():
            if annotation is None:
                raise LookupError(f"annotate {cls.__name__}.{name} where it is set: its type cannot be seen")
            fields.append(f"{name}: {self._annotation(annotation, module)}")
        return fields

    # --- functions ---------------------------------------------------------------------------------------

    def _function(
        self,
        function: Any,
        module: ModuleType,
        node: ast.AST | None = None,
    ) -> str:
        node = node or _parsed(function)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if "overload" in decorators:
            self._import("typing", "overload")
        returned = node.returns
        waits = isinstance(node, ast.AsyncFunctionDef)
        name = node.name
        if isinstance(function, FunctionType) and opens_block(function):
            waits = False
            if isinstance(returned, ast.Subscript):
                returned = ast.Subscript(ast.Name(_MANAGERS[self._waits]), returned.slice)
                self._import("contextlib", _MANAGERS[self._waits])
        if not self._waits and name in {"__aenter__", "__aexit__", "__aiter__", "__anext__"}:
            name = name.replace("__a", "__", 1)
        arguments = self._arguments(node.args, module)
        result = f" -> {self._annotation(returned, module)}" if returned is not None else ""
        keep = [f"@{decorator}\n" for decorator in decorators if decorator in {"property", "overload"}]
        head = f"{''.join(keep)}{'async ' if waits and self._waits else ''}def {name}({arguments}){result}:"
        line = _first_line(_docstring(node), self._side)
        return f"{head}\n    {line}" if line else f"{head} ..."

    def _arguments(self, arguments: ast.arguments, module: ModuleType) -> str:
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                argument.annotation = ast.parse(
                    self._annotation(argument.annotation, module), mode="eval"
                ).body
        arguments.defaults = [_default(value) for value in arguments.defaults]
        arguments.kw_defaults = [value and _default(value) for value in arguments.kw_defaults]
        return ast.unparse(arguments)

    # --- names -------------------------------------------------------------------------------------------

    def _annotation(self, node: ast.expr, module: ModuleType) -> str:
        changed = _Annotation(waits=self._waits).visit(ast.parse(ast.unparse(node), mode="eval").body)
        for name in [each.id for each in ast.walk(changed) if isinstance(each, ast.Name)]:
            self._name(name, module)
        return ast.unparse(changed)

    def _name(self, name: str, module: ModuleType) -> None:
        """See to it that the stub knows a name that a module uses."""
        known = {*_NAMES, *exported(), *self._side.extras, *self._copied, "asyncio", "threading"}
        if name in known or hasattr(builtins, name):
            return
        if name in _MANAGERS.values():
            self._import("contextlib", name)
            return
        home, definition = _origin(name, module)
        if isinstance(definition, ast.Import):
            self._modules.add(name)
            return
        if definition is None or not _mentions_face(definition, home):
            self._import(home.__name__, name)
            return
        self._copied[name] = ""  # its place: before what uses it
        del self._copied[name]
        self._copied[name] = self._copy(name, definition, home)

    def _copy(self, name: str, definition: ast.stmt, home: ModuleType) -> str:
        if isinstance(definition, ast.ClassDef):  # a TypedDict
            bases = [self._annotation(base, home) for base in definition.bases]
            bases += [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in definition.keywords]
            fields = [
                f"    {ast.unparse(item.target)}: {self._annotation(item.annotation, home)}"
                for item in definition.body
                if isinstance(item, ast.AnnAssign)
            ]
            return "\n".join([f"class {name}({', '.join(bases)}):", *fields])
        assert isinstance(definition, ast.Assign)
        if isinstance(definition.value, ast.Call):  # a TypeVar, whose bound is a matter of trio's
            self._import("typing", "TypeVar")
            bounded = definition.value.keywords
            return f"{name} = TypeVar({name!r})" if bounded else ast.unparse(definition)
        return f"{name} = {self._annotation(definition.value, home)}"

    def _import(self, module: str, name: str) -> None:
        self._imports.setdefault(module, set()).add(name)


def _origin(name: str, module: ModuleType) -> tuple[ModuleType, ast.stmt | None]:
    """Return the module that defines a name which another one uses, and the definition if that is in pyzk. A
    whole module has its import as the definition."""
    package = module.__package__ or ""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            source = importlib.import_module("." * node.level + (node.module or ""), package)
            if not source.__name__.startswith("pyzk."):
                return source, None
            return _origin(name, source)
        if isinstance(node, ast.Import) and any(alias.name == name for alias in node.names):
            return importlib.import_module(name), node
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            return module, node
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    raise LookupError(f"{name} is not defined in {module.__name__}")


def _mentions_face(definition: ast.stmt, home: ModuleType) -> bool:
    """Return whether a definition names a class that has a face, or is a TypeVar with a bound."""
    if isinstance(definition, ast.ClassDef):
        if not any(
            "Dict" in ast.unparse(base) or "Options" in ast.unparse(base) for base in definition.bases
        ):
            return False
        names = [
            *definition.bases,
            *[item.annotation for item in definition.body if isinstance(item, ast.AnnAssign)],
        ]
    elif isinstance(definition, ast.Assign):
        if ast.unparse(definition.value).startswith("TypeVar("):
            return True
        names = [definition.value]
    else:
        return False
    for node in names:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in _NAMES:
                return True
            if isinstance(each, ast.Name) and (each.id in _NAMES or _leads_to_face(each.id, home)):
                return True
    return False


def _leads_to_face(name: str, home: ModuleType) -> bool:
    if hasattr(builtins, name):
        return False
    source, definition = _origin(name, home)
    return definition is not None and _mentions_face(definition, source)


def _parsed(thing: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))).body[0]


def module_of(thing: Any) -> ModuleType:
    """Return the module that defines a class or a function."""
    return sys.modules[thing.__module__]


def _type_of(value: ast.expr, parameters: dict[str, ast.expr | None]) -> ast.expr | None:
    """Return the type of what ``__init__`` gives to a field; None if that cannot be seen."""
    if isinstance(value, ast.Name):
        return parameters.get(value.id)
    if isinstance(value, ast.Constant):
        return ast.Name(type(value.value).__name__)
    if isinstance(value, ast.Call):
        return value.func
    return None


def _default(value: ast.expr) -> ast.expr:
    return value if isinstance(value, ast.Constant) else ast.Constant(...)


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    return ast.get_docstring(node)


def _first_line(text: str | None, side: Side) -> str:
    """Return the first paragraph of a docstring, for editors."""
    if not text:
        return ""
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split()).removesuffix("::")
    return f'"""{reworded(paragraph, side)}"""'


def main() -> None:
    """Write both files."""
    root = Path(__file__).parents[1]
    for name, module, side in (("blocking", "threads", "THREADS"), ("aio", "tasks", "TASKS")):
        face = getattr(importlib.import_module(f"pyzk.{name}.{module}"), side)
        (root / name / "__init__.pyi").write_text(Stub(face).text())


if __name__ == "__main__":
    main()

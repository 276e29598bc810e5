"""Writes ``pyzk.blocking`` and ``pyzk.aio``: python -m pyzk.bridge.generate

The package for threads and the package for asyncio have *wrappers* of the classes of the client and of the
recipes, with the same names, signatures and docstrings. This program writes the source of the wrappers from
the source of the originals. A test checks that the written files are up to date. The rules:

* A wrapper has the public members of its class. The kind of a member changes as in this table:

  =============================================  ========================  ===========================
  in trio                                        for threads               for asyncio
  =============================================  ========================  ===========================
  ``async def``                                  a method that waits       ``async def``
  ``async with``, ``with`` on a scope            ``with``                  ``async with``
  ``async for``                                  ``for``                   ``async for``
  other methods, properties                      the same                  the same
  fields                                         properties                properties
  :class:`trio.Event`                            ``threading.Event``       ``asyncio.Event``
  =============================================  ========================  ===========================

* The body of a method calls the original method with functions of :mod:`.objects`,
  :mod:`pyzk.blocking.wrapper` and :mod:`pyzk.aio.wrapper`. The body returns the result at once. If Python
  checked for signals in between, an exception would lose the result.
* A method that does not wait is called in the loop if it uses the clock or changes objects of the loop
  (``IN_LOOP``), or if it counts all calls (``UP_TO_DATE``). Other such methods are called in the caller's
  thread.
* The type of a field is its annotation, or the type of the value that ``__init__`` gives to it: a parameter,
  a literal or a new object.
* A name in an annotation is imported from the module that defines the name. If the definition mentions a
  class that has a wrapper (as the options of locks do), the definition is copied, with the wrapper in place
  of the class. If a default is the name of a number, the number itself is written.
* :mod:`.wrapped` has the list of the classes and functions in each module, and how their members are used.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import attrs

from .. import client, recipes
from . import wrapped
from .names import WRAPPERS, Imports, mentions_wrapper, module_of, origin, rank
from .wrapped import MODULES, WRAPPED

ROOT = Path(__file__).parents[1]
_MADE = "Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."
_PROTOCOLS = {
    *("__aenter__", "__aexit__", "__aiter__", "__anext__"),
    *("__contains__", "__enter__", "__exit__", "__getitem__"),
}
_SCALARS = {"str", "bytes", "int", "float", "bool", "None", "Stat", "object"}
"""Types without a wrapper, and without parts that have one."""
_GRANTS_AS_SEQUENCE = """
@overload
def __getitem__(self, at: int) -> Grant: ...
@overload
def __getitem__(self, at: slice) -> Sequence[Grant]: ...
def __getitem__(self, at: int | slice) -> Grant | Sequence[Grant]:
    return self._wrap(self._trio[at])

def __len__(self) -> int:
    return len(self._trio)
"""


@attrs.frozen
class Side:
    """The differences between the packages.

    :ivar head: the docstring of the package.
    :ivar waits: whether methods that wait are ``async def``.
    :ivar base: the base of the package's classes; ``calls`` is the object that the package's functions use,
        and ``room`` is the module of that object.
    :ivar words: pairs of a pattern and its replacement, for docstrings.
    :ivar extras: the other exports of the package, by module.
    """

    name: str
    head: str
    waits: bool
    base: str
    calls: str
    room: str
    words: Sequence[tuple[str, str]]
    extras: dict[str, str]

    def reworded(self, text: str) -> str:
        """Return a docstring in the words of this package."""
        for pattern, words in self.words:
            text = re.sub(pattern, words, text)
        return text


BLOCKING = Side(
    "blocking",
    """A ZooKeeper client and recipes for threads::

    from pyzk.blocking import connect, Lock

    with connect("10.0.0.1:2181,10.0.0.2:2181/app") as zk:
        with Lock(zk, "/locks/printer") as grant:
            ...
""",
    waits=False,
    base="ThreadWrapper",
    calls="THREADS",
    room="threads",
    words=(
        (r"\bawait ", ""),
        (r"\basync (with|for)\b", r"\1"),
        (r"\basync iterator\b", "iterator"),
        (r"``trio.current_time\(\)``", "``time.monotonic()``"),
        (r"\btrio.fail_after\b", "timeout"),
        (r"\n *:raises RuntimeError: the caller does not run in trio\.", ""),
        (r"\b([Tt])asks\b", r"\1hreads"),
        (r"\b([Tt])ask\b", r"\1hread"),
    ),
    extras={"Interrupted": "..bridge.workers", "timeout": ".threads"},
)
AIO = Side(
    "aio",
    """A ZooKeeper client and recipes for asyncio::

    from pyzk.aio import connect, Lock

    async with connect("10.0.0.1:2181,10.0.0.2:2181/app") as zk:
        async with Lock(zk, "/locks/printer") as grant:
            ...
""",
    waits=True,
    base="TaskWrapper",
    calls="TASKS",
    room="tasks",
    words=(
        (r"``trio.current_time\(\)``", "``loop.time()``"),
        (r"\bwith trio.fail_after\b", "async with asyncio.timeout"),
        (r"\bwith (\w+\.scope\(\))", r"async with \1"),
        (r"\bthe caller does not run in trio\b", "the caller does not run in asyncio"),
    ),
    extras={},
)
SIDES = (BLOCKING, AIO)


def exported() -> list[str]:
    """Return the names that the client and the recipes export to users of a wrapper."""
    return sorted({*client.__all__, *recipes.__all__})


def opens_block(function: Callable[..., Any]) -> bool:
    """Return whether a method returns a context manager."""
    inner = inspect.unwrap(function)
    returned = str(inspect.signature(function).return_annotation)
    generates = inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner)
    return generates or "ContextManager[" in returned


def files(side: Side) -> dict[str, str]:
    """Return the text of each file of a package, by its name. They are not formatted."""
    defined: dict[str, str] = {
        thing.__name__: module for module, things in MODULES.items() for thing in things
    }
    texts = {f"{name}.py": Written(side, name, defined).text() for name in MODULES}
    return {**texts, "__init__.py": _package(side, defined)}


def _package(side: Side, defined: dict[str, str]) -> str:
    imports = Imports()
    for name in exported():
        home = "client" if name in client.__all__ else "recipes"
        imports.add(f".{defined[name]}" if name in defined else f"..{home}", name)
    for name, module in side.extras.items():
        imports.add(module, name)
    names = sorted([*exported(), *side.extras], key=lambda name: (rank(name), name))
    listed = "\n".join(f"    {name!r}," for name in names)
    return f'"""{side.head}\n{_MADE}\n"""\n\n{imports.text()}\n\n__all__ = [\n{listed}\n]\n'


class Written:
    """One module of wrappers.

    :param defined: names, and the modules of wrappers that define them. Names that are copied into this
        module are added to the definitions.
    """

    def __init__(self, side: Side, name: str, defined: dict[str, str]) -> None:
        self._side = side
        self._name = name
        self._defined = defined
        self._imports = Imports()
        self._copied: dict[str, str] = {}  # definitions that are not imported
        self._type_variables: dict[str, str] = {}

    def text(self) -> str:
        parts = [
            self._class(thing) if isinstance(thing, type) else self._module_function(thing)
            for thing in MODULES[self._name]
        ]
        head = f'"""{_MADE}"""\n\n# mypy: disable-error-code="no-any-return"\n'
        variables = list(self._type_variables.values())
        return "\n\n".join(
            [
                head,
                "from __future__ import annotations",
                self._imports.text(),
                *variables,
                *parts,
                *self._copied.values(),
                "",
            ]
        )

    # --- classes -----------------------------------------------------------------------------------------

    def _class(self, cls: type) -> str:
        self._imports.add(".wrapper", self._side.base)
        module = module_of(cls)
        source = inspect.getsource(cls)
        node = ast.parse(source).body[0]
        assert isinstance(node, ast.ClassDef)
        bases = [self._annotation(base, module) for base in node.bases]
        bases = ["Sequence[Grant]" if base == "tuple[Grant, ...]" else base for base in bases]
        if not any(base.partition("[")[0] in WRAPPERS for base in bases):
            bases.insert(0, self._side.base)
        trio = f"Trio{cls.__name__}"
        self._imports.add(cls.__module__, cls.__name__, trio)
        head = f"_trio: {trio}"
        if getattr(cls, "__parameters__", ()):
            self._imports.add("typing", "Any")
            head += f"[{', '.join(['Any'] * len(cls.__parameters__))}]"  # type: ignore[attr-defined]
        body = [_docstring(node, source, self._side, 4), head]
        body += [*self._fields(cls, node, module), *self._methods(cls, node, source, module)]
        if issubclass(cls, tuple):
            self._imports.add("collections.abc", "Sequence")
            self._imports.add("typing", "overload")
            body.append(_GRANTS_AS_SEQUENCE.strip())
        bases.append(f"of=Trio{cls.__name__}")
        return f"class {cls.__name__}({', '.join(bases)}):\n" + _indented("\n\n".join(filter(None, body)))

    def _methods(self, cls: type, node: ast.ClassDef, source: str, module: ModuleType) -> Iterator[str]:
        for item in node.body:
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and self._is_public(cls, item.name):
                decorators = [ast.unparse(decorator) for decorator in item.decorator_list]
                if "overload" in decorators:
                    self._imports.add("typing", "overload")
                    yield f"@overload\n{self._head(item, item.name, False, module, WRAPPED[cls])} ..."
                else:
                    yield self._method(cls, item, source, module)

    def _is_public(self, cls: type, name: str) -> bool:
        if name == "__init__":
            return cls.__name__ in recipes.__all__ and not issubclass(cls, tuple)
        if name.startswith("_"):
            return name in _PROTOCOLS
        return name not in WRAPPED[cls]

    def _fields(self, cls: type, node: ast.ClassDef, module: ModuleType) -> Iterator[str]:
        """Yield properties for the public fields: the fields of attrs, and the fields that ``__init__``
        sets."""
        found: dict[str, ast.expr | None] = {}
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found[item.target.id] = item.annotation
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                found = {**_set_by(item), **found}
        for name, annotation in found.items():
            if not name.startswith("_") and name not in WRAPPED[cls]:
                if annotation is None:
                    raise LookupError(
                        f"annotate {cls.__name__}.{name} where it is set: its type cannot be seen"
                    )
                yield self._property(f"{cls.__name__}.{name}", self._annotation(annotation, module), "")

    def _property(self, where: str, kind: str, docstring: str) -> str:
        name = where.partition(".")[2]
        body = self._used(where, kind, f"self._trio.{name}", f"lambda: self._trio.{name}")
        return f"@property\ndef {name}(self) -> {kind}:\n" + _indented(f"{docstring}\nreturn {body}".strip())

    def _method(
        self, cls: type, node: ast.FunctionDef | ast.AsyncFunctionDef, source: str, module: ModuleType
    ) -> str:
        where, name = f"{cls.__name__}.{node.name}", node.name
        docstring = _docstring(node, source, self._side, 8)
        member = inspect.getattr_static(cls, name)
        returned = node.returns
        if isinstance(member, property):
            assert returned is not None
            return self._property(where, self._annotation(returned, module), docstring)
        opens = isinstance(member, FunctionType) and opens_block(member)
        waits = self._side.waits and isinstance(node, ast.AsyncFunctionDef) and not opens
        made = name if self._side.waits or name not in _PROTOCOLS else name.replace("__a", "__", 1)
        head = self._head(node, made, waits, module, WRAPPED[cls], opens)
        kind = head.rpartition(" -> ")[2].removesuffix(":")
        lines = self._body(where, node, kind, opens)
        decorator = ""
        if made == "__exit__":
            self._imports.add("..bridge.exits", "leaves")
            decorator = "@leaves\n"
        return f"{decorator}{head}\n" + _indented("\n".join(filter(None, [docstring, *lines])))

    def _body(
        self, where: str, node: ast.FunctionDef | ast.AsyncFunctionDef, kind: str, opens: bool
    ) -> list[str]:
        """Return the lines of the body of a method."""
        cls, _, name = where.partition(".")
        args = _passed(node.args, WRAPPED[next(each for each in WRAPPED if each.__name__ == cls)])
        waits = "await " if self._side.waits else ""
        match name:
            case "__init__":
                return [f"self._make({', '.join(args)})"]
            case "__aenter__":
                return [f"return {waits}self._enter()"]
            case "__aexit__":
                return [f"return {waits}self._leave({', '.join(args)})"]
            case "__enter__":
                return ["return self._begin()"]
            case "__exit__":
                return ["self.cancel()"]
            case "__aiter__":
                return ["return self"]
            case "__anext__":
                return [f"return {waits}self.{'_call' if waits else '_next'}(self._trio.__anext__)"]
        if name in wrapped.NOTICES:
            args = [f"self._notice({arg})" for arg in args]
        original = f"self._trio.{name}"
        if opens:
            return [f"return self._block({original}({', '.join(args)}))"]
        given = ", ".join([original, *args])
        if isinstance(node, ast.AsyncFunctionDef):
            way = _way(where)
            if kind == "NoReturn":
                return [f"{waits}self.{way}({given})", 'raise AssertionError("it ends by an error only")']
            return [f"return {waits}self.{way}({given})"]
        used = self._used(where, kind, f"{original}({', '.join(args)})", given)
        return [used if kind == "None" else f"return {used}"]

    def _used(self, where: str, kind: str, here: str, in_loop: str) -> str:
        """Return how a member that does not wait is used.

        :param here: the expression that uses it; ``in_loop``: the function and its arguments.
        """
        if where in wrapped.UNTIL_LIMIT:
            return f"self._look_until_limit({in_loop})"
        if where in wrapped.UP_TO_DATE:
            return f"self._look_if_open({in_loop})"
        if where in wrapped.IN_LOOP:
            return f"self._look({in_loop})"
        words = set(re.findall(r"[\w.]+", kind))
        return here if words <= _SCALARS else f"self._wrap({here})"

    # --- functions ---------------------------------------------------------------------------------------

    def _module_function(self, function: FunctionType) -> str:
        inner = inspect.unwrap(function)
        source, module = inspect.getsource(inner), module_of(function)
        node = ast.parse(source).body[0]
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        opens = opens_block(function)
        waits = self._side.waits and isinstance(node, ast.AsyncFunctionDef) and not opens
        head = self._head(node, node.name, waits, module, set(), opens)
        trio, args = f"trio_{node.name}", _passed(node.args, set())
        self._imports.add(module.__name__, node.name, trio)
        self._imports.add(f".{self._side.room}", self._side.calls)
        if opens:
            call = f"block(None, {trio}({', '.join(args)}))"
        else:
            way = "use" if isinstance(node, ast.FunctionDef) else "ask"
            way = "ask_back" if node.name in wrapped.CALLS_BACK else way
            call = f"{way}({', '.join([trio, *args])})"
        body = [
            _docstring(node, source, self._side, 4),
            f"return {'await ' if waits else ''}{self._side.calls}.{call}",
        ]
        return f"{head}\n" + _indented("\n".join(filter(None, body)))

    def _head(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        name: str,
        waits: bool,
        module: ModuleType,
        hidden: set[str],
        opens: bool = False,
    ) -> str:
        """Return the line of a definition, up to its colon."""
        arguments = node.args
        kept = [
            (argument, default)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if argument.arg not in hidden
        ]
        changed = ast.arguments(
            arguments.posonlyargs,
            arguments.args,
            arguments.vararg,
            [argument for argument, _ in kept],
            [default and self._default(default, module) for _, default in kept],
            arguments.kwarg,
            [self._default(default, module) for default in arguments.defaults],
        )
        each: ast.arg | None
        for each in [*changed.posonlyargs, *changed.args, *changed.kwonlyargs, changed.vararg, changed.kwarg]:
            if each is not None and each.annotation is not None:
                each.annotation = ast.parse(self._annotation(each.annotation, module), mode="eval").body
        returned = node.returns
        if opens and isinstance(returned, ast.Subscript):
            manager = "AbstractAsyncContextManager" if self._side.waits else "AbstractContextManager"
            self._imports.add("contextlib", manager)
            returned = ast.Subscript(ast.Name(manager), returned.slice)
        result = f" -> {self._annotation(returned, module)}" if returned is not None else ""
        return f"{'async ' if waits else ''}def {name}({ast.unparse(changed)}){result}:"

    def _default(self, value: ast.expr, module: ModuleType) -> ast.expr:
        if not isinstance(value, ast.Name | ast.Attribute):
            return value
        found = eval(ast.unparse(value), vars(module))
        if type(found) in (int, float, str, bytes):
            return ast.Constant(found)
        self._know(ast.unparse(value).partition(".")[0], module)
        return value

    # --- names -------------------------------------------------------------------------------------------

    def _annotation(self, node: ast.expr, module: ModuleType) -> str:
        changed = _Annotation(waits=self._side.waits).visit(ast.parse(ast.unparse(node), mode="eval").body)
        for name in [each.id for each in ast.walk(changed) if isinstance(each, ast.Name)]:
            self._know(name, module)
        return ast.unparse(changed)

    def _know(self, name: str, module: ModuleType) -> None:
        """Import or copy a name that the module for trio uses."""
        if hasattr(builtins, name) or name in self._type_variables:
            return
        if name in self._defined:
            if self._defined[name] != self._name:
                self._imports.add(f".{self._defined[name]}", name)
            return
        if name in {"asyncio", "threading"}:
            self._imports.module(name)
            return
        for home in (client, recipes):
            if name in home.__all__:
                self._imports.add(home.__name__, name)
                return
        if name in {"AbstractContextManager", "AbstractAsyncContextManager"}:
            self._imports.add("contextlib", name)
            return
        source, definition = origin(name, module)
        if isinstance(definition, ast.Import):
            self._imports.module(name)
        elif definition is None or not mentions_wrapper(definition, source):
            self._imports.add(source.__name__, name)
        elif isinstance(definition, ast.Assign) and isinstance(definition.value, ast.Call):
            self._imports.add("typing", "TypeVar")
            bounded = definition.value.keywords  # the bound is a matter of trio's
            self._type_variables[name] = f"{name} = TypeVar({name!r})" if bounded else ast.unparse(definition)
        else:
            text = self._copy(name, definition, source)  # what it uses comes first
            self._copied[name] = text
            self._defined[name] = self._name

    def _copy(self, name: str, definition: ast.stmt, home: ModuleType) -> str:
        if isinstance(definition, ast.ClassDef):  # a TypedDict
            bases = [self._annotation(base, home) for base in definition.bases]
            bases += [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in definition.keywords]
            fields = [
                f"{ast.unparse(item.target)}: {self._annotation(item.annotation, home)}"
                for item in definition.body
                if isinstance(item, ast.AnnAssign)
            ]
            docstring = _docstring(definition, inspect.getsource(home), self._side, 4)
            return f"class {name}({', '.join(bases)}):\n" + _indented("\n".join([docstring, *fields]).strip())
        assert isinstance(definition, ast.Assign)
        self._imports.add("typing", "TypeAlias")
        return f"{name}: TypeAlias = {self._annotation(definition.value, home)}"


class _Annotation(ast.NodeTransformer):
    """Changes an annotation for trio into the annotation of a wrapper."""

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
        self.generic_visit(node)
        return node


def _way(where: str) -> str:
    """Return the expression that calls a method that waits."""
    if where in wrapped.CALLS_BACK:
        return "_call_back"
    if where in wrapped.DIRECT:
        return "_direct"
    requests = where.partition(".")[0] in wrapped.WAIT_FOR_REQUESTS and where not in wrapped.WAIT_FOR_MORE
    return "_request" if requests else "_call"


def _passed(arguments: ast.arguments, hidden: set[str]) -> list[str]:
    """Return the arguments of a call that passes all parameters on."""
    names = [each.arg for each in [*arguments.posonlyargs, *arguments.args] if each.arg != "self"]
    names += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs if each.arg not in hidden]
    return [*names, *([f"**{arguments.kwarg.arg}"] if arguments.kwarg else [])]


def _set_by(init: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """Return the fields that ``__init__`` sets, each with its type, or None if the type cannot be seen."""
    found: dict[str, ast.expr | None] = {}
    arguments = [*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs]
    parameters = {argument.arg: argument.annotation for argument in arguments}
    for statement in ast.walk(init):
        if isinstance(statement, ast.Assign):
            target, kind = statement.targets[0], _type_of(statement.value, parameters)
        elif isinstance(statement, ast.AnnAssign):
            target, kind = statement.target, statement.annotation
        else:
            continue
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            found.setdefault(target.attr, kind)
    return found


def _type_of(value: ast.expr, parameters: dict[str, ast.expr | None]) -> ast.expr | None:
    """Return the type of the value that ``__init__`` gives to a field, or None if it cannot be seen."""
    if isinstance(value, ast.Name):
        return parameters.get(value.id)
    if isinstance(value, ast.Constant):
        return ast.Name(type(value.value).__name__)
    if isinstance(value, ast.Call):
        return value.func
    return None


def _docstring(node: ast.stmt, source: str, side: Side, indent: int) -> str:
    """Return the docstring of a class or a function as it is written, but without indentation."""
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if ast.get_docstring(node) is None:
        return ""
    text = ast.get_source_segment(source, node.body[0]) or ""
    return textwrap.dedent(" " * indent + side.reworded(text))


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def main() -> None:
    """Write both packages."""
    written = []
    for side in SIDES:
        for name, text in files(side).items():
            path = ROOT / side.name / name
            path.write_text(text)
            written.append(str(path))
    if importlib.util.find_spec("ruff"):
        ruff = [sys.executable, "-m", "ruff"]
        subprocess.run([*ruff, "check", "--quiet", "--fix", "--select", "I", *written], check=False)
        subprocess.run([*ruff, "format", "--quiet", *written], check=True)


if __name__ == "__main__":
    main()

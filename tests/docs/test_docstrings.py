"""The docstrings of the public API: a number of time has a unit, and what a function raises is named.

The test reads what the packages in ``PACKAGES`` export: functions, and the public members and fields of
classes, also those that a class inherits from this project. The rules:

* A parameter, a field or a result of type ``float`` is a time, unless ``NO_TIMES`` names it. A parameter or a
  field of type ``int`` is a time if its name has a word of ``TIMES``.
* The unit of a time is in its name (``timeout_ms``) or in its description. The description is the text of
  ``:param name:`` or ``:ivar name:``, or the string below a field. Where there is none, it is the sentences
  of the docstring that mention the name. The unit of a result is anywhere in the docstring.
* An exception that a function raises in its own body is named by ``:raises`` in its docstring. For
  ``__init__`` that is the docstring of the class. Not looked at: ``raise`` without an exception, functions
  inside the function, and a constructor that does nothing but refuse.
* A raised expression without a class of its own, such as ``raise self._error``, needs some ``:raises``.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import attrs
import pytest

PACKAGES = ["pyzk.client", "pyzk.recipes", "pyzk.blocking", "pyzk.aio", "pyzk.server.testing"]
UNITS = re.compile(r"\b(?:m?s|milliseconds?|seconds?|minutes?|hours?|days?|ticks?)\b", re.IGNORECASE)
IN_NAMES = re.compile(r"(?:^|_)(?:seconds|ms|minutes|ticks)$")
TIMES = re.compile(
    r"timeout|ttl|delay|interval|pause|elapsed|seconds|duration|deadline|grace|margin|(?:^|_)ms$"
)
NO_TIMES = {
    "Backoff.tries",
    *(
        f"FaultControls.chaos.{fault}"
        for fault in (
            *("disconnect", "lose_reply", "silence", "delay_request", "delay_reply"),
            *("expire", "delay_event", "refuse", "lose_session"),
        )
    ),
    "Chaos.probabilities",
    "EnsembleControls.nemesis.rate",
}
"""Probabilities, factors, and times per second, by the class that defines them."""
SPECIAL = {
    "__init__",
    "__aenter__",
    "__aexit__",
    "__enter__",
    "__exit__",
    "__anext__",
    "__next__",
    "__getitem__",
}
UNSAID = {"StopAsyncIteration", "StopIteration", "NotImplementedError", "AssertionError"}
"""Exceptions that Python's protocols ask for, and the one for what cannot happen."""
FIELDS = r"^:{role} (?:\w+, )*{name}(?:, \w+)*:(.*?)(?=^:\w|\n\n(?! )|\Z)"


@attrs.frozen
class Described:
    """A function or a class, and the docstring that speaks of it."""

    name: str
    thing: Any
    docstring: str


def of_project(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("pyzk.")


def function_of(member: Any) -> FunctionType | None:
    """The function behind a method, a property or a decorator, if it is written in this project."""
    if isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    found = inspect.unwrap(member) if callable(member) else None
    written = isinstance(found, FunctionType) and not found.__code__.co_filename.startswith("<")
    return found if isinstance(found, FunctionType) and written and of_project(found) else None


def classes_of(owner: type) -> Iterator[type]:
    """The class and its bases in this project."""
    return filter(of_project, owner.__mro__)


def members(owner: type) -> Iterator[Described]:
    """The public functions of a class, each under the name of the class that defines it."""
    seen = set()
    for base in classes_of(owner):
        for name, member in vars(base).items():
            function = function_of(member)
            if function is None or name in seen or (name.startswith("_") and name not in SPECIAL):
                continue
            seen.add(name)
            of_class = name == "__init__" or isinstance(member, property)
            documents = [function, *(classes_of(owner) if of_class else ())]
            docstring = "\n\n".join(inspect.getdoc(document) or "" for document in documents)
            yield Described(f"{base.__qualname__}.{name}".removesuffix(".__init__"), function, docstring)


def exported(package: str, kind: Literal["functions", "classes"]) -> Iterator[Described]:
    module = importlib.import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, type):
            if kind == "functions":
                yield from members(thing)
            else:
                for owner in classes_of(thing):
                    documents = (inspect.getdoc(document) or "" for document in classes_of(thing))
                    yield Described(owner.__qualname__, owner, "\n\n".join(documents))
        elif kind == "functions" and (function := function_of(thing)) is not None:
            yield Described(name, function, inspect.getdoc(function) or "")


# --- units of time -------------------------------------------------------------------------------------


def described_as(name: str, docstring: str) -> str:
    """What a docstring says of a parameter or a field."""
    for role in ("param", "ivar"):
        if found := re.search(FIELDS.format(role=role, name=name), docstring, re.MULTILINE | re.DOTALL):
            return found[1]
    sentences = re.split(r"(?<=[.:;])\s+", docstring)
    return " ".join(sentence for sentence in sentences if re.search(rf"\b{name}\b", sentence))


def below_fields(owner: type) -> dict[str, str]:
    """The strings that follow fields in the source of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[ast.unparse(field.target)] = ast.unparse(below.value)
    return found


def is_time(name: str, annotation: str) -> bool:
    if "Callable" in annotation:
        return False
    return bool(
        re.search(r"\bfloat\b", annotation) or (re.search(r"\bint\b", annotation) and TIMES.search(name))
    )


def has_unit(one: Described, name: str) -> bool:
    if UNITS.search(described_as(name, one.docstring)):
        return True
    return isinstance(one.thing, type) and UNITS.search(below_fields(one.thing).get(name, "")) is not None


def without_unit(one: Described) -> Iterator[str]:
    for name, annotation in one.thing.__annotations__.items():
        where, text = f"{one.name}.{name}", str(annotation)
        if where in NO_TIMES or name.startswith("_"):
            continue
        if name == "return":
            if text in ("float", "float | None") and not UNITS.search(one.docstring):
                yield f"{one.name} returns a time"
        elif is_time(name, text) and not IN_NAMES.search(name) and not has_unit(one, name):
            yield where


@pytest.mark.parametrize("package", PACKAGES)
def test_a_time_has_a_unit(package: str) -> None:
    bad = {
        text
        for kind in ("functions", "classes")
        for one in exported(package, kind)
        for text in without_unit(one)
    }
    assert not bad, "say the unit of " + ", ".join(sorted(bad))


# --- exceptions ----------------------------------------------------------------------------------------


@functools.cache
def functions_of(file: str) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a file, by the line of the first decorator or of the ``def``."""
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): node
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def own_statements(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from own_statements(child)


def resolved(function: FunctionType, node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        return getattr(resolved(function, node.value), node.attr, None)
    return None


def raised(function: FunctionType) -> Iterator[str]:
    """The names of the exceptions that a function raises; ``?`` and the expression for an unknown class."""
    tree = functions_of(function.__code__.co_filename).get(function.__code__.co_firstlineno)
    if tree is None:  # a lambda
        return
    if tree.name == "__init__" and isinstance(tree.body[-1], ast.Raise):
        return
    for statement in own_statements(tree):
        if isinstance(statement, ast.Raise) and (node := statement.exc) is not None:
            found = resolved(function, node.func if isinstance(node, ast.Call) else node)
            if isinstance(found, type):
                yield found.__name__
            elif isinstance(found, FunctionType):
                yield str(found.__annotations__["return"]).rpartition(".")[2]
            else:
                yield "?" + ast.unparse(node)


def unnamed(one: Described) -> Iterator[str]:
    fields = re.findall(r":raises ([^:]+):", one.docstring)
    named = {word for field in fields for word in re.findall(r"\w+", field)} | UNSAID
    for name in raised(one.thing):
        if name not in named and not (name.startswith("?") and fields):
            yield f"{one.name} raises {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_function_raises_is_in_its_docstring(package: str) -> None:
    bad = {text for one in exported(package, "functions") for text in unnamed(one)}
    assert not bad, ", ".join(sorted(bad))


# --- the rules find what they are for ------------------------------------------------------------------


def sample(wait: float, pause: int = 1) -> float:
    """Wait. The ``wait`` is in seconds, which is not a word about the other one.

    :raises KeyError: never.
    """
    if pause:
        raise ValueError(wait)
    raise KeyError(wait)


def test_a_missing_unit_and_an_unnamed_error_are_found() -> None:
    one = Described("sample", sample, inspect.getdoc(sample) or "")
    assert list(without_unit(one)) == ["sample.pause"]
    assert list(unnamed(one)) == ["sample raises ValueError"]


def test_each_exception_to_the_rule_is_in_use() -> None:
    names = {
        f"{one.name}.{name}"
        for package in PACKAGES
        for kind in ("functions", "classes")
        for one in exported(package, kind)
        for name in one.thing.__annotations__
    }
    assert names >= NO_TIMES, NO_TIMES - names

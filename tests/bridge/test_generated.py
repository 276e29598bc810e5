"""No wrapper falls behind: what client and recipes have, both packages have. And what they have is source."""

from __future__ import annotations

import ast
import inspect
import pickle
import pydoc
import typing
from types import FunctionType, ModuleType
from typing import Any

import pytest

from pyzk import aio, blocking, client, recipes
from pyzk.bridge.generate import AIO, BLOCKING, ROOT, Side, exported, files, opens_block
from pyzk.bridge.objects import Wrapper
from pyzk.bridge.wrapped import FUNCTIONS, MODULES, WRAPPED

from .members import RENAMED, public

PACKAGES: list[tuple[ModuleType, Side]] = [(blocking, BLOCKING), (aio, AIO)]
both = pytest.mark.parametrize(("package", "side"), PACKAGES, ids=["blocking", "aio"])


def wrapper_of(cls: type, side: Side) -> Any:
    """The class of a wrapper, which may be one that the package does not export."""
    package = {"aio": aio, "blocking": blocking}[side.name]
    objects = package.ZooKeeper._wrappers  # type: ignore[attr-defined]
    return objects.types[cls]


@both
def test_the_files_are_up_to_date(package: ModuleType, side: Side) -> None:
    """If not: python -m pyzk.bridge.generate"""
    for name, text in files(side).items():
        written = (ROOT / side.name / name).read_text()
        assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(text)), name


@both
def test_a_package_has_no_module_that_nobody_writes(package: ModuleType, side: Side) -> None:
    made = {
        path.name
        for path in (ROOT / side.name).glob("*.py*")
        if "Made by ``python -m pyzk.bridge.generate``" in path.read_text()
    }
    assert made == {"__init__.py", *[f"{name}.py" for name in MODULES]}


@both
def test_a_package_has_what_it_names(package: ModuleType, side: Side) -> None:
    names = {*client.__all__, *recipes.__all__}
    assert set(package.__all__) == names | {*side.extras}
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_what_waits_has_a_face() -> None:
    """A class that is the same in all wrappers has nothing that waits."""
    for name in exported():
        thing = getattr(client, name, None) or getattr(recipes, name)
        if isinstance(thing, type) and thing not in WRAPPED:
            waiting = [
                key for key, member in inspect.getmembers(thing) if inspect.iscoroutinefunction(member)
            ]
            assert waiting == [], f"{name} needs a row in MODULES"
        if isinstance(thing, FunctionType) and name != "connect":
            needs_client = any(
                value.annotation == "ZooKeeper" for value in inspect.signature(thing).parameters.values()
            )
            assert needs_client == (thing in FUNCTIONS), f"{name} needs a row in MODULES"


def parameters(member: Any, hidden: set[str]) -> list[tuple[str, object, object]]:
    """Name, kind and default of each parameter."""
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(member).parameters.values()
        if each.name not in hidden
    ]


@both
@pytest.mark.parametrize("cls", WRAPPED, ids=lambda cls: cls.__name__)
def test_a_face_has_the_methods_signatures_and_docstrings(package: ModuleType, side: Side, cls: type) -> None:
    wrapper = wrapper_of(cls, side)
    assert issubclass(wrapper, Wrapper)
    assert (wrapper.__doc__ is None) == (cls.__doc__ is None)
    if "__init__" in vars(wrapper):
        assert parameters(wrapper, set()) == parameters(cls, WRAPPED[cls])
    for name, member in public(cls).items():
        ours = inspect.unwrap(vars(wrapper)[name if side.waits else RENAMED.get(name, name)])
        if isinstance(member, property):
            assert isinstance(ours, property)
            continue
        assert (ours.__doc__ is None) == (member.__doc__ is None)
        if name not in RENAMED:
            assert parameters(ours, set()) == parameters(member, WRAPPED[cls]), name
        if not opens_block(member) and name != "__aiter__":
            assert inspect.iscoroutinefunction(ours) == (
                side.waits and inspect.iscoroutinefunction(member)
            ), name


@both
@pytest.mark.parametrize("cls", WRAPPED, ids=lambda cls: cls.__name__)
def test_a_class_is_where_it_says(package: ModuleType, side: Side, cls: type) -> None:
    """For debuggers, editors and coverage: the source of a member is in the source of the class."""
    wrapper = wrapper_of(cls, side)
    assert wrapper.__name__ == wrapper.__qualname__ == cls.__name__
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    source = inspect.getsource(wrapper)
    assert source.startswith(f"class {cls.__name__}(")
    for name, member in vars(wrapper).items():
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, FunctionType) and function.__module__ == wrapper.__module__:
            assert f"def {name}(" in inspect.getsource(function)
            assert inspect.getsource(function) in source
            assert function.__qualname__ == f"{wrapper.__name__}.{name}"
            typing.get_type_hints(function)


@both
@pytest.mark.parametrize("function", [client.connect, *FUNCTIONS], ids=lambda function: function.__name__)
def test_a_function_is_where_it_says(package: ModuleType, side: Side, function: Any) -> None:
    ours = getattr(package, function.__name__)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert parameters(ours, set()) == parameters(function, set())
    assert f"def {function.__name__}(" in inspect.getsource(ours)
    typing.get_type_hints(ours)


def test_help_speaks_of_threads() -> None:
    for cls in WRAPPED:
        text = pydoc.render_doc(wrapper_of(cls, BLOCKING), renderer=pydoc.plaintext)
        assert not {"await", "async"} & set(text.split()), cls
    assert "with lock as grant" in (blocking.Lock.__doc__ or "")
    assert "async with lock as grant" in (aio.Lock.__doc__ or "")
    text = pydoc.render_doc(blocking.Lock, renderer=pydoc.plaintext).replace("'", "")  # before Python 3.14
    assert "acquire(self, *, wait: bool = True) -> Grant" in text


@pytest.mark.parametrize("api", [aio, blocking])
def test_what_only_the_client_makes_says_so(api: Any) -> None:
    with pytest.raises(TypeError, match="Grant objects are made by the client and its recipes"):
        api.Grant()

"""No face falls behind: what client and recipes have, both packages have, at run time and in their stubs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from pyzk import aio, blocking, client, recipes
from pyzk.aio.tasks import TASKS
from pyzk.blocking.threads import THREADS
from pyzk.bridge.exports import LEFT_OUT, exported
from pyzk.bridge.faced import FACED, FUNCTIONS
from pyzk.bridge.faces import opens_block
from pyzk.bridge.objects import Face
from pyzk.bridge.side import Side
from pyzk.bridge.stubs import Stub

PACKAGES: list[tuple[ModuleType, Side]] = [(blocking, THREADS), (aio, TASKS)]
both = pytest.mark.parametrize(("package", "side"), PACKAGES, ids=["blocking", "aio"])
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
DUNDERS = {*RENAMED, "__enter__", "__exit__", "__getitem__", "__contains__"}


def stub_of(package: ModuleType) -> Path:
    assert package.__file__ is not None
    return Path(package.__file__).with_suffix(".pyi")


@both
def test_the_stubs_are_up_to_date(package: ModuleType, side: Side) -> None:
    """If not: python -m pyzk.bridge.stubs && ruff format ."""
    assert ast.dump(ast.parse(stub_of(package).read_text())) == ast.dump(ast.parse(Stub(side).text()))


@both
def test_the_stubs_name_what_there_is(package: ModuleType, side: Side) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    tree = ast.parse(stub_of(package).read_text())
    (listed,) = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node)
    ]
    assert ast.literal_eval(listed) == package.__all__


def test_both_packages_export_what_the_client_and_the_recipes_export() -> None:
    names = ({*client.__all__, *recipes.__all__} - LEFT_OUT) | {cls.__name__ for cls in FACED}
    assert set(aio.__all__) == names
    assert set(blocking.__all__) == names | {"timeout", "Interrupted"}


def test_what_waits_has_a_face() -> None:
    """A class that is the same in all faces has nothing that waits."""
    for name in exported():
        thing = getattr(client, name, None) or getattr(recipes, name)
        if isinstance(thing, type) and thing not in FACED:
            waiting = [
                key for key, member in inspect.getmembers(thing) if inspect.iscoroutinefunction(member)
            ]
            assert waiting == [], f"{name} needs a row in FACED"
        if isinstance(thing, FunctionType) and name != "connect":
            needs_client = any(
                value.annotation == "ZooKeeper" for value in inspect.signature(thing).parameters.values()
            )
            assert needs_client == (thing in FUNCTIONS), f"{name} needs a row in FUNCTIONS"


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in vars(cls).items()
        if (not name.startswith("_") or name in DUNDERS)
        and name not in FACED[cls]
        and isinstance(member, FunctionType | property)
    }


@both
@pytest.mark.parametrize("cls", FACED, ids=lambda cls: cls.__name__)
def test_a_face_has_the_methods_signatures_and_docstrings(package: ModuleType, side: Side, cls: type) -> None:
    face = getattr(package, cls.__name__)
    assert issubclass(face, Face)
    assert inspect.signature(face) == inspect.signature(cls)
    assert (face.__doc__ is None) == (cls.__doc__ is None)
    for name, member in public(cls).items():
        ours = vars(face)[name if side.waits else RENAMED.get(name, name)]
        if isinstance(member, property):
            assert isinstance(ours, property)
            continue
        assert (ours.__doc__ is None) == (member.__doc__ is None)
        if name not in RENAMED:
            assert inspect.signature(ours) == inspect.signature(member), name
        if not opens_block(member) and name != "__aiter__":
            assert inspect.iscoroutinefunction(ours) == (
                side.waits and inspect.iscoroutinefunction(member)
            ), name


def test_docstrings_speak_of_threads() -> None:
    for cls in FACED:
        for text in [getattr(blocking, cls.__name__).__doc__, *_docs(getattr(blocking, cls.__name__))]:
            assert not {"await", "async"} & set((text or "").split()), cls
    assert "with lock as grant" in (blocking.Lock.__doc__ or "")
    assert "async with lock as grant" in (aio.Lock.__doc__ or "")


def _docs(cls: type) -> list[str | None]:
    return [member.__doc__ for name, member in vars(cls).items() if not name.startswith("_")]

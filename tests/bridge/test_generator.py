"""The generator, on sources that are invented."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyzk import client
from pyzk.bridge import generate, wrapped
from pyzk.bridge.generate import AIO, BLOCKING, Written, _passed, _set_by, _type_of, _way, opens_block

INIT = '''
def __init__(self, size: int, name, *, text: str = "") -> None:
    """Some words."""
    self.size = size
    self.name = name
    self.text = text
    self.count = 0
    self.flag: bool | None = None
    self.event = trio.Event()
    self.sum = size + 1
    self.size = other
    self._private = size
    local = size
    text.attribute = size
'''


def function(text: str) -> Any:
    (node,) = ast.parse(text).body
    return node


def test_the_types_of_fields_are_those_of_what_they_are_set_to() -> None:
    found = {name: kind and ast.unparse(kind) for name, kind in _set_by(function(INIT)).items()}
    assert found == {
        "size": "int",
        "name": None,
        "text": "str",
        "count": "int",
        "flag": "bool | None",
        "event": "trio.Event",
        "sum": None,
        "_private": "int",
    }
    assert _type_of(function("a + b").value, {}) is None


def test_a_field_without_a_type_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(BLOCKING, "client", {})
    node = function("class ZooKeeper:\n    def __init__(self):\n        self.unknown = 1 + 1\n")
    with pytest.raises(LookupError, match=r"annotate ZooKeeper\.unknown where it is set"):
        list(written._fields(client.ZooKeeper, node, client.zookeeper))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "hidden", "expected"),
    [
        ("def f(self): pass", set(), []),
        ("def f(self, a, b=1): pass", set(), ["a", "b"]),
        ("def f(self, a, /, b): pass", set(), ["a", "b"]),
        ("def f(a, *, b, c=1): pass", {"b"}, ["a", "c=c"]),
        ("def f(a, *, b, **more): pass", set(), ["a", "b=b", "**more"]),
    ],
)
def test_all_parameters_are_passed_on(text: str, hidden: set[str], expected: list[str]) -> None:
    assert _passed(function(text).args, hidden) == expected


def test_how_methods_are_called() -> None:
    assert _way("LeaderElection.run") == "_call_back"
    assert _way("ZooKeeper.get") == "_direct"
    assert _way("ZooKeeper.delete") == "_request"
    assert _way("Pending.wait") == "_request"
    assert _way("ZooKeeper.update_hosts") == "_call"
    assert _way("Lock.acquire") == "_call"


def test_what_opens_a_block() -> None:
    assert opens_block(client.connect) is True
    assert opens_block(client.ZooKeeper.get) is False
    assert [name for name in ("nowait", "acquire") if opens_block(getattr(Acquirable, name))] == ["nowait"]


Acquirable = next(cls for cls in wrapped.WRAPPED if cls.__name__ == "Acquirable")


def test_docstrings_are_in_the_words_of_each_face() -> None:
    text = (
        "``async with lock`` and async for, as trio.fail_after; await it. Tasks and a task; "
        "an async iterator. ``trio.current_time()``\n"
        "    :raises RuntimeError: the caller does not run in trio."
    )
    assert BLOCKING.reworded(text) == (
        "``with lock`` and for, as timeout; it. Threads and a thread; an iterator. ``time.monotonic()``"
    )
    text = "``with trio.fail_after(5)``, ``with grant.scope()``; the caller does not run in trio"
    assert AIO.reworded(f"{text} ``trio.current_time()``") == (
        "``async with asyncio.timeout(5)``, ``async with grant.scope()``; the caller does not run in asyncio "
        "``loop.time()``"
    )


def test_the_command_writes_both_packages_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ruff as this project has it."""
    shutil.copy(Path(__file__).parents[2] / "pyproject.toml", tmp_path)
    for side in generate.SIDES:
        (tmp_path / side.name).mkdir()
    asked: list[str] = []

    def files(side: Any) -> dict[str, str]:
        asked.append(side.name)
        return {"one.py": f"import  sys\nimport os\n{side.name}=(os,sys)\n", "other.py": "x = {'a':1}\n"}

    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "files", files)
    generate.main()
    assert asked == ["blocking", "aio"]
    found = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.py")}
    has_ruff = importlib.util.find_spec("ruff") is not None
    for side in generate.SIDES:
        one, other = found[f"{side.name}/one.py"], found[f"{side.name}/other.py"]
        if has_ruff:
            assert one == f"import os\nimport sys\n\n{side.name} = (os, sys)\n"
            assert other == 'x = {"a": 1}\n'
        else:
            assert other == "x = {'a':1}\n"
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        generate.main()
        assert (tmp_path / "aio" / "other.py").read_text() == "x = {'a':1}\n", "ruff is not needed"

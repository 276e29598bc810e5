"""Which package may import which: the arrows of docs/design.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BASE = "server.logger"
"""What all rooms of the server share."""
ALLOWED: dict[str, set[str]] = {
    "protocol": set(),
    "client": {"protocol"},
    "recipes": {"protocol", "client"},
    "bridge": {"client", "recipes"},
    "blocking": {"client", "recipes", "bridge"},
    "aio": {"client", "recipes", "bridge"},
    "cli": {"protocol", "client", "recipes"},
    BASE: set(),
    "server.config": {"protocol", BASE},
    "server.core": {"protocol", BASE, "server.config"},
    "server.storage": {"protocol", BASE, "server.config", "server.core"},
    "server.net": {"protocol", BASE, "server.config", "server.core", "server.storage"},
    "server.monitoring": {"protocol", BASE, "server.config", "server.core", "server.storage", "server.net"},
    "server.ensemble": {"protocol", BASE, "server.config", "server.core", "server.net", "server.monitoring"},
}
"""Room: what it may import, besides itself.

``server.testing``, ``server.control`` and the modules beside the rooms import any.
"""
WITHOUT_IO = ("protocol", "server.core")
IO = {"asyncio", "random", "select", "selectors", "socket", "ssl", "subprocess", "threading", "time", "trio"}
PURE = {("server/core/acl.py", "socket")}
"""Of the module socket this takes inet_pton alone, which touches no network."""


def files_of(room: str) -> list[Path]:
    path = ROOT / room.replace(".", "/")
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def room_of(name: str) -> str:
    return next((room for room in ALLOWED if f"{name}.".startswith(f"{room}.")), name.partition(".")[0])


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, ours without the leading ``pyzk.``; late and typing-only ones too."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("pyzk.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])]).removeprefix("pyzk.")
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ALLOWED)
def test_arrows(room: str) -> None:
    ours = {other.partition(".")[0] for other in ALLOWED}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files_of(room)
        for name in imports(path)
        if name.partition(".")[0] in ours and room_of(name) not in {room, *ALLOWED[room]}
    ]
    assert wrong == []


@pytest.mark.parametrize("room", WITHOUT_IO)
def test_what_decides_touches_no_socket_and_no_clock(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files_of(room)
        for name in imports(path)
        if name.partition(".")[0] in IO and (str(path.relative_to(ROOT)), name.partition(".")[0]) not in PURE
    ]
    assert wrong == []


def test_what_decides_for_the_client_imports_no_io() -> None:
    """The connection, the session and the lease, with what they import inside the client.

    ``loan.py`` is the one room that uses sockets beside trio; of it they take the record of an exchange.
    """
    todo, found = ["connection", "machine", "lease"], dict[str, set[str]]()
    while todo:
        if (module := todo.pop()) in found or module == "loan":
            continue
        names = set(imports(ROOT / f"client/{module}.py"))
        found[module] = {name.partition(".")[0] for name in names} & IO
        todo += [name.split(".")[1] for name in names if name.startswith("client.")]
    assert {module: used for module, used in found.items() if used} == {}
    assert len(found) > 3

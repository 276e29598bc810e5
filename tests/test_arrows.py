"""Which package may import which: the arrows of docs/design.md."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BASE = {"server.logger", "server.lines"}
"""What all rooms of the server share."""
LOW = {"protocol", *BASE}
STORED = {*LOW, "server.config", "server.core", "server.storage"}
SHOWN = {*STORED, "server.net", "server.monitoring"}
ALLOWED: dict[str, set[str]] = {
    "protocol": set(),
    "client": {"protocol"},
    "recipes": {"protocol", "client"},
    "bridge": {"client", "recipes"},
    "blocking": {"client", "recipes", "bridge"},
    "aio": {"client", "recipes", "bridge"},
    "cli": {"protocol", "client", "recipes"},
    **{module: {"protocol"} for module in sorted(BASE)},
    "server.config": LOW,
    "server.core": {*LOW, "server.config"},
    "server.storage": {*LOW, "server.config", "server.core"},
    "server.net": STORED,
    "server.monitoring": {*STORED, "server.net"},
    "server.ensemble": SHOWN,
    "server.testing": {*SHOWN, "server.ensemble"},
    "server.control": {*SHOWN, "server.ensemble", "server.testing"},
    "server.app": {
        *SHOWN,
        "server.ensemble",
        "server.testing",
        "server.control",
        "client",
        "aio",
        "blocking",
    },
    "server.sweep": {
        *SHOWN,
        "server.ensemble",
        "server.testing",
        "server.control",
        "server.app",
        "client",
        "recipes",
        "bridge",
        "blocking",
    },
}
"""Room: what it may import, besides itself; inside functions and for types too."""
FRONTS = {"server", "server.__main__", "server.testing", "server.testing.plugin"}
"""What users import, and pytest: these only name what they find in the rooms, ``server.app`` among them."""
MOST_IN_A_CYCLE = 3
"""Modules that may be tied together by types alone."""
WITHOUT_IO = ("protocol", "server.core")
IO = {"asyncio", "random", "select", "selectors", "socket", "ssl", "subprocess", "threading", "time", "trio"}
PURE = {("server/core/acl.py", "socket")}
"""Of the module socket this takes inet_pton alone, which touches no network."""

PARSERS = {("cli/verbs/completing.py", "server.app.flags")}
"""The completion of a shell lists the options of pyzk-server."""


def files_of(room: str) -> list[Path]:
    path = ROOT / room.replace(".", "/")
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(name: str) -> str:
    return next((room for room in ALLOWED if f"{name}.".startswith(f"{room}.")), name.partition(".")[0])


MODULES = {
    name_of(path): path for room in {each.partition(".")[0] for each in ALLOWED} for path in files_of(room)
}


def statements(node: ast.AST, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield all imports, those inside functions too.

    :param types: also those for type checkers alone.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif types or not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from statements(child, types)


@functools.cache
def imports(path: Path, types: bool = True) -> list[str]:
    """The names that a file imports, ours without the leading ``pyzk.``."""
    package = path.relative_to(ROOT).parts[:-1]
    found: list[str] = []
    for node in statements(ast.parse(path.read_text()), types):
        if isinstance(node, ast.Import):
            found += (alias.name.removeprefix("pyzk.") for alias in node.names)
        else:
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])]).removeprefix("pyzk.")
            found += (f"{module}.{alias.name}" for alias in node.names)
    return found


def modules_behind(path: Path, types: bool) -> set[str]:
    """The modules of ours that a file imports."""
    found = set()
    for name in imports(path, types):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", name_of(path)}


def cycles(types: bool) -> list[frozenset[str]]:
    """The largest sets of modules each of which imports all others, directly or not."""
    after = {name: modules_behind(path, types) for name, path in MODULES.items()}
    reached: dict[str, set[str]] = {}
    for name in after:
        seen: set[str] = set()
        ahead = [name]
        while ahead:
            new = after[ahead.pop()] - seen
            seen |= new
            ahead += new
        reached[name] = seen
    found = {
        frozenset(other for other in seen if name in reached[other])
        for name, seen in reached.items()
        if name in seen
    }
    return sorted(found, key=len)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions count: they hide a cycle, and do not end it."""
    assert cycles(types=False) == []


def test_types_tie_few_modules_together() -> None:
    assert [sorted(cycle) for cycle in cycles(types=True) if len(cycle) > MOST_IN_A_CYCLE] == []


def test_every_module_of_the_server_is_in_a_room() -> None:
    loose = {name for name in MODULES if room_of(name) == "server"}
    assert loose <= FRONTS


@pytest.mark.parametrize("room", ALLOWED)
def test_arrows(room: str) -> None:
    ours = {other.partition(".")[0] for other in ALLOWED}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files_of(room)
        if name_of(path) not in FRONTS
        for name in imports(path)
        if name.partition(".")[0] in ours and room_of(name) not in {room, *ALLOWED[room]}
        if (str(path.relative_to(ROOT)), name) not in PARSERS
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

    ``direct.py`` is the one room that uses sockets beside trio; of it they take the record of an exchange.
    """
    todo, found = ["connection", "machine", "lease"], dict[str, set[str]]()
    while todo:
        if (module := todo.pop()) in found or module == "direct_connection":
            continue
        names = set(imports(ROOT / f"client/{module}.py"))
        found[module] = {name.partition(".")[0] for name in names} & IO
        todo += [name.split(".")[1] for name in names if name.startswith("client.")]
    assert {module: used for module, used in found.items() if used} == {}
    assert len(found) > 3

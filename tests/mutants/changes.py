"""The changes: each makes one mutant of a module.

A place is a node of the syntax tree. What is never changed: docstrings, annotations, what is imported,
blocks for type checkers, text for people (constants with a blank in them, f-strings, ``__repr__`` and
``__str__``, the names of context variables), calls of a logger, ``assert`` statements (they state, they do
not decide), and options of classes that only shape their text.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
_REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise)
_TEXT_METHODS = {"__repr__", "__str__", "__rich_repr__"}
_TEXT_OPTIONS = {"repr", "slots"}
_LOGGERS = {"logger", "_logger", "log", "LOG", "LOGGER", "warnings"}

Change = tuple[str, Callable[[], ast.AST | None]]
"""What is done, and what makes the node that comes in the place of the old one."""


@attrs.frozen
class Mutant:
    """
    :ivar path: the module, from the root.
    :ivar lines: the lines from the beginning of the statement to the end of the node that is changed: a
        statement of several lines may be executed by its first one alone.
    :ivar scope: the lines of the function around it; else of the class, else of the module.
    :ivar function: the qualified name of the outermost function around it, which is replaced in a running
        process; None if the change takes effect at import.
    :ivar text: the statement before and after.
    :ivar tree: the changed module.
    """

    path: Path
    lines: range
    scope: range
    function: str | None
    text: str
    tree: ast.Module = attrs.field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.path}:{self.lines.start}: {self.text}"

    def at_import(self) -> Mutant:
        """The same, for a line that the import executes: no running process can be given it."""
        return attrs.evolve(self, function=None)


@attrs.frozen
class Place:
    """A node that can be changed.

    :ivar number: its position in :func:`ast.walk`, by which it is found in a copy of the tree.
    """

    path: Path
    number: int
    changes: int


def changes_of(node: ast.AST) -> Iterator[Change]:
    """The changes that can be made to a node alone."""
    if isinstance(node, ast.Compare):
        for n, op in enumerate(node.ops):
            for other in _COMPARISONS[type(op)]:
                ops = [*node.ops[:n], other(), *node.ops[n + 1 :]]
                yield "comparison", lambda ops=ops: ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", lambda: ast.BoolOp(other_op, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "left out", lambda: node.operand
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "negated", lambda: _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
        yield "operator", lambda: _with(node, op=_OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Return) and node.value and not _is_none(node.value):
        yield "returned", lambda: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Break):
        yield "break", ast.Continue
    elif isinstance(node, ast.Continue):
        yield "continue", ast.Break
    if isinstance(node, _REMOVED):
        yield "left out", ast.Pass


def _constants(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", lambda: ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", lambda: ast.Constant(value + 1)
        yield "constant", lambda: ast.Constant(value - 1)
    elif isinstance(value, str) and " " not in value:
        yield "constant", lambda: ast.Constant(f"{value}x")
    elif isinstance(value, bytes):
        yield "constant", lambda: ast.Constant(value + b"x")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _changed(tree: ast.Module) -> set[ast.AST]:
    """The nodes that may be changed."""
    found: set[ast.AST] = set()

    def visit(node: ast.AST) -> None:
        if _left_alone(node):
            return
        found.add(node)
        for name, value in ast.iter_fields(node):
            if name not in {"annotation", "returns", "type_params"}:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        visit(child)

    visit(tree)
    return found


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Constant()):  # a docstring
            return True
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return True
        case ast.FunctionDef(name=name) if name in _TEXT_METHODS:
            return True
        case ast.Assign(targets=[ast.Name("__all__" | "__slots__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name("TypeVar" | "ParamSpec" | "NewType"))):
            return True
        case ast.Call(func=ast.Name("ContextVar"), keywords=[]):  # its name is for people
            return True
        case ast.keyword(arg=arg) if arg in _TEXT_OPTIONS:
            return True
        case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(name) | ast.Attribute(attr=name)))):
            return name in _LOGGERS
        case ast.Call(func=ast.Name("cast")) | ast.Call(func=ast.Name("overload")):
            return True
    return False


def places_of(root: Path, path: Path) -> Iterator[Place]:
    """Where a module can be changed."""
    tree = ast.parse((root / path).read_text())
    changed = _changed(tree)
    for number, node in enumerate(ast.walk(tree)):
        if node in changed and (count := len(list(changes_of(node)))):
            yield Place(path, number, count)


def make(root: Path, place: Place, which: int) -> Mutant:
    """The mutant of a place.

    :param which: the number of the change.
    """
    tree = ast.parse((root / place.path).read_text())
    node = list(ast.walk(tree))[place.number]
    above = _above(tree, node)
    kind, replacement = list(changes_of(node))[which]
    new = ast.copy_location(replacement(), node)
    statement = next(each for each in [node, *reversed(above)] if isinstance(each, ast.stmt))
    before, function = _first_line(statement), _function(above, node)
    if new is not None:
        _replace(above[-1], node, new)
    ast.fix_missing_locations(tree)
    after = (
        "pass"
        if statement is node and isinstance(new, ast.Pass)
        else _first_line(new if statement is node else statement)
    )
    return Mutant(
        place.path,
        range(statement.lineno, _last_line(node) + 1),
        _scope(tree, above, node),
        function,
        f"{kind}: {_shortest(before, after)}",
        tree,
    )


def _above(tree: ast.Module, node: ast.AST) -> list[ast.AST]:
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    above = []
    while node in parents:
        node = parents[node]
        above.append(node)
    return above[::-1]


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and old in value:
            value[value.index(old)] = new


def _last_line(node: ast.AST) -> int:
    """Of a statement with a body its head alone."""
    if isinstance(node, ast.If | ast.While):
        return node.test.end_lineno
    return node.end_lineno


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _scope(tree: ast.Module, above: list[ast.AST], node: ast.AST) -> range:
    """The narrowest function, class or module that holds the node."""
    for each in reversed(above):
        if isinstance(each, _Function):
            return range(each.body[0].lineno, each.end_lineno + 1)
        if isinstance(each, ast.ClassDef):
            return range(each.lineno, each.end_lineno + 1)
    return range(1, tree.body[-1].end_lineno + 1)


def _function(above: list[ast.AST], node: ast.AST) -> str | None:
    """The outermost function; None if the node is its default value or its decorator, or outside of any."""
    names = []
    for n, each in enumerate(above):
        if isinstance(each, ast.ClassDef):
            names.append(each.name)
        elif isinstance(each, _Function):
            below = above[n + 1] if n + 1 < len(above) else node
            return ".".join([*names, each.name]) if below in each.body else None
    return None


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def _shortest(before: str, after: str) -> str:
    return f"`{before}` -> `{after}`"


def sample(root: Path, files: list[Path], number: int, seed: int) -> list[Mutant]:
    """So many mutants, each place with the same chance; fewer if there are fewer places."""
    draw = random.Random(seed)
    places = [place for path in files for place in places_of(root, path)]
    chosen = draw.sample(places, min(number, len(places)))
    return [make(root, place, draw.randrange(place.changes)) for place in chosen]

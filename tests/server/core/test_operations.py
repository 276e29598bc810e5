"""The functions of the operations agree with the records that clients send."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing

import pytest

from pyzk.protocol import records
from pyzk.protocol.jute import fields_of
from pyzk.protocol.operations import CLIENTS, OpCode
from pyzk.server.core.operations import look_up
from pyzk.server.core.operations.writes import RESOLVERS, check

WITH_A_RECORD = [op for op in OpCode if op.request is not None and (op in CLIENTS or op in RESOLVERS)]


def fields_type(op: OpCode) -> object:
    """The declared type of the tuple that the function is given."""
    assert op.request is not None
    return getattr(records, op.request.__name__.removesuffix("Request") + "Fields")


@pytest.mark.parametrize("op", WITH_A_RECORD)
def test_the_type_of_the_fields_is_that_of_the_record(op: OpCode) -> None:
    assert op.request is not None
    hints = typing.get_type_hints(op.request)
    wanted = tuple(hints[name] for name, _, _ in fields_of(op.request))
    assert typing.get_args(fields_type(op)) == wanted


@pytest.mark.parametrize("op", WITH_A_RECORD)
def test_the_function_unpacks_the_fields_under_their_names(op: OpCode) -> None:
    """mypy sees the types and their order; two fields of one type it could not tell apart."""
    assert op.request is not None
    function = inspect.unwrap(look_up(op)[1] if op in CLIENTS else check)
    names = {parameter.annotation for parameter in inspect.signature(function).parameters.values()}
    alias = op.request.__name__.removesuffix("Request") + "Fields"
    assert names & {alias, f"records.{alias}"}
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    targets = [
        [target.id for target in node.targets[0].elts if isinstance(target, ast.Name)]
        for node in ast.walk(source)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Name)
        and node.value.id == "request"
    ]
    if not targets:  # handed on as it is, or not looked at
        return
    declared = [name for name, _, _ in fields_of(op.request)]
    assert len(targets[0]) == len(declared)
    for target, name in zip(targets[0], declared, strict=True):
        assert target in (name, "_", {"prefixPath": "prefix", "type": "number"}.get(name))

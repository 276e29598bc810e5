"""The functions of the operations agree with the records that clients send."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol import records
from pyzk.protocol.jute import JuteError, fields_of, fields_reader
from pyzk.protocol.operations import CLIENTS, OpCode
from pyzk.server.config.settings import Settings
from pyzk.server.core.engine import Engine
from pyzk.server.core.operations import PLAIN_READS, READS, look_up
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


some_reads = st.builds(records.GetDataRequest, st.none() | st.text(max_size=300), st.booleans())


@given(some_reads.map(records.GetDataRequest.encode) | st.binary(max_size=40), st.binary(max_size=3))
def test_a_remembered_request_has_the_fields_that_it_is_decoded_to(record: bytes, more: bytes) -> None:
    for data in (record, record + more, record[: len(more)]):
        fields = []
        for read in (fields_reader(records.GetDataRequest), lambda data, _: READS[data], READS.get):
            try:
                fields.append(read(data, 0))
            except JuteError as error:
                fields.append(str(error))
        plain, first, again = fields
        assert first == plain
        assert again in (plain, 0)  # 0: not remembered, because it is long or no request


def test_few_and_short_requests_are_remembered() -> None:
    for number in range(5000):
        READS[records.GetDataRequest(f"/{number}", False).encode()]
    assert 0 < len(READS) <= 4096
    long = records.GetDataRequest("/" + "x" * 300, False).encode()
    assert READS[long] == ("/" + "x" * 300, False)
    assert long not in READS


def test_the_plain_reads_are_those_with_a_path_and_a_watch() -> None:
    wanted = {
        op
        for op in CLIENTS
        if OpCode(op).request is not None
        and [(name, kind) for name, kind, _ in fields_of(OpCode(op).request)]
        == [("path", "ustring"), ("watch", "boolean")]
    }
    assert PLAIN_READS.keys() == wanted
    for op in CLIENTS:
        assert (look_up(op)[0] is READS) == (op in wanted)


def test_an_engine_that_handles_requests_itself_gets_its_reads_too() -> None:
    class Other(Engine):
        def handle(self, *args: object) -> tuple[int, int, bytes]:  # type: ignore[override]
            raise NotImplementedError

    assert Engine(Settings(), now=0, epoch=0).reads is PLAIN_READS
    assert not Other(Settings(), now=0, epoch=0).reads

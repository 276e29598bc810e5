"""Whoever reads a docstring finds the errors that it names in the package that it belongs to."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import pyzk.client
import pyzk.recipes
from pyzk.protocol import errors

BY_THE_CLIENT_ALONE = ("decode", "encode", "read")
"""Methods of records that users do not call."""


def docstrings(package: ModuleType) -> Iterator[tuple[str, str]]:
    """The docstrings of what a package exports, and of its methods."""
    for name in package.__all__:
        exported = getattr(package, name)
        if not (inspect.isclass(exported) or inspect.isroutine(exported)):
            continue
        yield name, exported.__doc__ or ""
        if inspect.isclass(exported):
            for member, value in inspect.getmembers(exported, inspect.isroutine):
                if not member.startswith("_") and member not in BY_THE_CLIENT_ALONE:
                    yield f"{name}.{member}", value.__doc__ or ""


@pytest.mark.parametrize("package", [pyzk.client, pyzk.recipes], ids=["client", "recipes"])
def test_the_errors_that_docstrings_promise_can_be_imported(package: ModuleType) -> None:
    found = {*dir(builtins), *pyzk.client.__all__, *package.__all__}
    missing = {
        f"{error} of {name}"
        for name, text in docstrings(package)
        for error in re.findall(r":raises (\w+):|:class:`[.~]*(\w+(?:Error|Lost|Revoked))`", text)
        for error in filter(None, error)
        if error not in found
    }
    assert missing == set()


def test_all_errors_of_the_protocol_can_be_imported() -> None:
    classes = {errors.ZooKeeperError, *errors.ZooKeeperError.__subclasses__()}
    assert {cls.__name__ for cls in classes} <= set(pyzk.client.__all__)


def test_all_operations_that_submit_takes_are_exported() -> None:
    from pyzk.client import batch, operations

    classes = {
        name
        for module in (operations, batch)
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, operations.Operation) and not name.startswith("_")
    }
    assert len(classes) > 15
    assert classes <= set(pyzk.client.__all__)

"""The members of classes that have wrappers, and how they are named there."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from pyzk.bridge.wrapped import WRAPPED

RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
DUNDERS = {*RENAMED, "__enter__", "__exit__", "__getitem__", "__contains__"}


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in vars(cls).items()
        if (not name.startswith("_") or name in DUNDERS)
        and name not in WRAPPED[cls]
        and isinstance(member, FunctionType | property)
    }

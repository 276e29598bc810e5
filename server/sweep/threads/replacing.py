"""Replaces attributes of other modules, and restores the old values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock


@contextmanager
def replacing(new: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes of modules and classes inside the block.

    :param new: the replacements: the module or class, the name, and the new value.
    """
    with ExitStack() as stack:
        for owner, name, value in new:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield

"""Blocks that are left whatever happens, without a client."""

from __future__ import annotations

import gc
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest

from pyzk import blocking
from pyzk.bridge.exits import Exit, guard


class Block:
    """A block that counts how it is left.

    :ivar left: what ``__exit__`` was given.
    :ivar abandoned: how often it was left without that.
    :ivar error: raised as it is left.
    """

    def __init__(self, *, swallows: bool = False, error: BaseException | None = None) -> None:
        self.left: list[Any] = []
        self.abandoned = 0
        self.error = error
        self._swallows = swallows

    def __enter__(self) -> Block:
        guard(self, partial(self.leave, "guarded"), self.abandon)
        return self

    __exit__ = Exit(lambda block, *exc: block.leave("plain", *exc))

    def leave(self, how: str, kind: Any, error: Any, tb: Any) -> bool:
        self.left.append((how, error))
        if self.error is not None:
            raise self.error
        return self._swallows

    def abandon(self) -> None:
        self.abandoned += 1


def test_a_block_is_left_once() -> None:
    block = Block()
    with block:
        assert block.left == []
    assert (block.left, block.abandoned) == ([("guarded", None)], 0)
    with block:
        pass
    assert block.left == [("guarded", None)] * 2


@pytest.mark.parametrize("swallows", [True, False])
def test_an_error_passes_or_is_swallowed(swallows: bool) -> None:
    block, error = Block(swallows=swallows), ValueError("no")
    caught: list[BaseException] = []
    try:
        with block:
            raise error
    except ValueError as exc:
        caught.append(exc)
    assert caught == ([] if swallows else [error])
    assert (block.left, block.abandoned) == ([("guarded", error)], 0)


def test_a_block_that_fails_to_be_left_is_abandoned() -> None:
    block = Block(error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), block:
        pass
    assert (len(block.left), block.abandoned) == (1, 1)


def test_blocks_in_blocks_are_left_each_by_its_own_statement() -> None:
    outer, inner = Block(), Block(swallows=True)
    with outer:
        with inner:
            raise ValueError
        assert (len(outer.left), len(inner.left)) == (0, 1)
        with outer:
            pass
        assert len(outer.left) == 1
    assert outer.left == [("guarded", None)] * 2
    assert outer.abandoned == inner.abandoned == 0


def test_a_statement_that_was_not_left_is_abandoned_with_its_exit() -> None:
    block = Block()
    leave = block.__exit__
    block.__enter__()
    del leave
    gc.collect()
    assert (block.left, block.abandoned) == ([], 1)


def test_an_exit_guards_one_entering_of_its_own_block() -> None:
    block, other = Block(), Block()
    leave = block.__exit__
    other.__enter__()
    block.__enter__()
    block.__enter__()
    leave(None, None, None)
    assert block.left == [("guarded", None)]
    leave(None, None, None)
    assert block.left == [("guarded", None), ("plain", None)]
    assert other.left == []


def test_where_nobody_keeps_the_exit_the_call_leaves_the_block() -> None:
    block = Block()
    with ExitStack() as stack:
        stack.enter_context(block)
        assert block.left == []
    assert [how for how, _ in block.left] == ["plain"]
    assert not block.abandoned


@pytest.mark.parametrize("cls", [blocking.Watch, blocking.Lock, blocking.Grant, blocking.Party])
def test_blocks_of_the_face_for_threads_are_left_so(cls: type) -> None:
    with suppress(KeyError):
        assert isinstance(vars(cls)["__exit__"], Exit)
    assert any(isinstance(vars(each).get("__exit__"), Exit) for each in cls.__mro__) or cls is blocking.Grant

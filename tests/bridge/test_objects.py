"""Wrapped objects of trio, without a client: what is wrapped and unwrapped, and who is in which block."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import trio

from pyzk.bridge.objects import Objects, Wrapper, _abandoning
from pyzk.client import ClosingError, Stat
from pyzk.recipes import Grant


class Callers(Objects):
    """A wrapper whose caller is what the test says.

    :ivar told: what functions of the user were called with.
    """

    def __init__(self) -> None:
        super().__init__("invented")
        self.caller: object = "first"
        self.told: list[Any] = []

    def holder(self) -> object:
        return self.caller

    def event(self, loop: Any, event: trio.Event) -> Any:
        return (loop, event)

    def notice(self, function: Callable[..., object]) -> Callable[..., None]:
        def notice(*args: Any, failed: Any) -> None:
            self.told.append((args, failed))
            function(*args)

        return notice


CALLERS = Callers()


class AnyFace(Wrapper):
    _wrappers = CALLERS


class Thing:
    """Something of trio's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = (args, kwargs)

    def __repr__(self) -> str:
        return "<a thing>"


class Special(Thing):
    """It has no wrapper of its own."""


class ThingWrapper(AnyFace, of=Thing):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._make(*args, **kwargs)


class GrantFace(AnyFace, of=Grant):
    pass


class Loop:
    """The client's loop, which does at once what it is asked for.

    :ivar looks: how often.
    """

    closed = False

    def __init__(self) -> None:
        self.looks = 0

    def look(self, function: Callable[[], Any]) -> Any:
        if self.closed:
            raise ClosingError
        self.looks += 1
        return function()


def wrapper_of(thing: Any, loop: Any = None) -> Any:
    return CALLERS.wrap(thing, loop or Loop())


# --- what comes from the loop -----------------------------------------------------------------------------


def test_an_object_of_trios_has_one_face_at_a_time() -> None:
    thing: Any = Thing()
    loop: Any = Loop()
    wrapper = CALLERS.wrap(thing, loop)
    assert type(wrapper) is ThingWrapper
    assert (wrapper._trio, wrapper._loop) == (thing, loop)
    assert CALLERS.wrap(thing, loop) is wrapper
    assert CALLERS.wrap(Thing(), loop) is not wrapper
    wrapper._open["caller"] = [1]
    del wrapper
    gc.collect()
    assert CALLERS.wrap(thing, loop)._open == {}, "nobody has kept the first one"


def test_a_class_without_a_face_has_that_of_its_base() -> None:
    assert type(wrapper_of(Special())) is ThingWrapper
    assert type(wrapper_of(Special())) is ThingWrapper, "also when it is known"
    other = SimpleNamespace()
    assert wrapper_of(other) is other


@pytest.mark.parametrize("value", ["a", b"b", 5, 1.5, True, None, Stat(*[0] * 11), [Thing()], {Thing}])
def test_other_values_are_the_same_for_the_user(value: Any) -> None:
    assert wrapper_of(value) is value


def test_values_in_tuples_and_mappings_are_wrapped() -> None:
    one, other = Thing(), Thing()
    loop: Any = Loop()
    wrappers = CALLERS.wrap((one, 5, (other,)), loop)
    assert [wrappers[0]._trio, wrappers[1], wrappers[2][0]._trio] == [one, 5, other]
    for mapping in ({"key": one}, MappingProxyType({"key": one})):
        found = CALLERS.wrap(mapping, loop)
        assert type(found) is dict
        assert list(found) == ["key"]
        assert found["key"] is wrappers[0]


def test_events_and_scopes_are_those_of_the_face() -> None:
    event = trio.Event()
    loop: Any = Loop()
    assert CALLERS.wrap(event, loop) == (loop, event)
    assert CALLERS.wrap(trio.CancelScope(), loop) is None


# --- what goes to the loop --------------------------------------------------------------------------------


def test_faces_among_arguments_are_unwrapped() -> None:
    one, other, loop = Thing(), Thing(), Loop()
    wrapper, second = wrapper_of(one, loop), wrapper_of(other, loop)
    text, numbers = "text", {"number": 5}
    found, args, kwargs = CALLERS.unwrap(
        "function",
        (text, wrapper, [second, 1], (second,), (each for each in [wrapper, second])),
        {"keyword": second, "numbers": numbers, "number": 5},
    )
    assert found is loop
    assert args == [text, one, [other, 1], [other], [one, other]]
    assert kwargs == {"keyword": other, "numbers": numbers, "number": 5}
    assert kwargs["numbers"] is numbers


def test_the_first_client_counts() -> None:
    one, other = Loop(), Loop()
    first, second = wrapper_of(Thing(), one), wrapper_of(Thing(), other)
    assert CALLERS.unwrap("function", (first, second), {})[0] is one
    assert CALLERS.unwrap("function", (), {"a": second, "b": first})[0] is other


@pytest.mark.parametrize(("args", "given"), [((), "None"), ((5,), "5"), ((SimpleNamespace(),), "namespace")])
def test_without_a_client_of_the_face_the_error_says_what_to_import(args: Any, given: str) -> None:
    with pytest.raises(TypeError) as caught:
        CALLERS.unwrap("Lock", args, {})
    assert f"Lock of pyzk.invented needs a client of pyzk.invented, not {given}" in str(caught.value)
    assert "Import connect from pyzk.invented, too" in str(caught.value)


def test_a_face_of_another_package_is_no_client() -> None:
    other = Callers()

    class OtherFace(Wrapper):
        _wrappers = other

    class Of(OtherFace, of=Thing):
        pass

    loop: Any = Loop()
    stranger = other.wrap(Thing(), loop)
    assert type(stranger) is Of
    with pytest.raises(TypeError, match=r"needs a client of pyzk\.invented"):
        CALLERS.unwrap("Lock", (stranger,), {})


@pytest.mark.parametrize("name", ["on_lost", "on_revoke"])
def test_functions_that_take_notices_are_given_faces(name: str) -> None:
    seen: list[Any] = []
    loop = Loop()
    grant: Any = object.__new__(Grant)
    grant.ownership = SimpleNamespace(lose=object())
    _, _, kwargs = CALLERS.unwrap(
        "Lock", (wrapper_of(Thing(), loop),), {name: seen.append, "other": seen.append}
    )
    assert kwargs["other"] == seen.append
    CALLERS.told.clear()
    kwargs[name](grant)
    ((args, failed),) = CALLERS.told
    assert failed is grant.ownership.lose
    assert [type(arg) for arg in args] == [GrantFace]
    assert [wrapper._trio for wrapper in seen] == [grant]
    assert seen[0]._loop is loop


def test_a_notice_has_the_faces_of_the_first_client() -> None:
    one, other, seen = Loop(), Loop(), []  # type: ignore[var-annotated]
    first, second = wrapper_of(Thing(), one), wrapper_of(Thing(), other)
    _, _, kwargs = CALLERS.unwrap("Lock", (first, second), {"on_lost": seen.append})
    kwargs["on_lost"](Thing())
    assert seen[0]._loop is one


def test_a_notice_without_a_grant_and_an_option_that_is_no_function() -> None:
    loop = Loop()
    _, _, kwargs = CALLERS.unwrap("Lock", (wrapper_of(Thing(), loop),), {"on_lost": None})
    assert kwargs == {"on_lost": None}
    CALLERS.told.clear()
    wrapper_of(Thing(), loop)._notice(lambda: None)()
    assert CALLERS.told == [((), None)]


def test_a_function_that_does_not_wait_is_called_here() -> None:
    thing, loop = Thing(), Loop()

    def function(first: Any, *, second: Any) -> Any:
        assert (first, second) == (thing, thing)
        return (first, 5)

    wrapper = wrapper_of(thing, loop)
    assert CALLERS.use(function, wrapper, second=wrapper) == (wrapper, 5)
    assert loop.looks == 0


# --- wrappers ---------------------------------------------------------------------------------------------


def test_a_user_makes_an_object_of_trios() -> None:
    loop = Loop()
    zk = wrapper_of(Thing(), loop)
    made = ThingWrapper(zk, 5, option=zk)
    assert type(made._trio) is Thing
    assert made._trio.given == ((zk._trio, 5), {"option": zk._trio})
    assert made._loop is loop
    assert CALLERS.wrap(made._trio, made._loop) is made
    with pytest.raises(TypeError, match=r"ThingWrapper of pyzk\.invented needs a client"):
        ThingWrapper(5)


def test_a_face_looks_like_its_object() -> None:
    wrapper = wrapper_of(Thing())
    assert repr(wrapper) == "<a thing>"
    with pytest.raises(AttributeError, match=r"ThingWrapper of pyzk\.invented has no 'missing'"):
        _ = wrapper.missing


def test_a_member_is_used_in_the_loop() -> None:
    thing, loop = Thing(), Loop()
    wrapper = wrapper_of(thing, loop)
    assert wrapper._look(lambda *args, **kwargs: (args, kwargs, thing), 1, b=2) == ((1,), {"b": 2}, wrapper)
    assert wrapper._look_if_open(lambda: thing) is wrapper
    assert loop.looks == 2
    loop.closed = True
    assert wrapper._look_if_open(lambda: thing) is wrapper, "it still tells"
    with pytest.raises(ClosingError):
        wrapper._look(lambda: thing)


@pytest.mark.parametrize(("limit", "looks"), [(math.inf, 1), (-math.inf, 2), (0.0, 2)])
def test_who_looks_at_a_hold_looks_at_the_clock_afterwards(
    limit: float, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop: Any = Loop()
    thing: Any = Thing()
    thing.ownership = SimpleNamespace(limit=limit)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert wrapper_of(thing, loop)._look_until_limit(lambda: loop.looks) == looks
    assert loop.looks == looks


def test_what_a_face_for_no_caller_lacks() -> None:
    nobody = Objects("nobody")
    anything: Any = None
    for use in (nobody.holder, lambda: nobody.event(anything, anything), lambda: nobody.notice(anything)):
        with pytest.raises(NotImplementedError):
            use()


# --- blocks -----------------------------------------------------------------------------------------------


class InBlocks:
    """A wrapper whose blocks are entered."""

    callers: ClassVar = CALLERS

    def __init__(self) -> None:
        self.wrapper = wrapper_of(Thing())

    def enter(self, caller: str, block: str) -> None:
        self.callers.caller = caller
        self.wrapper._opened(block)

    def leave(self, caller: str) -> str:
        self.callers.caller = caller
        left: str = self.wrapper._left()
        return left

    def innermost(self, caller: str) -> str:
        self.callers.caller = caller
        block: str = self.wrapper._innermost()
        return block


def test_each_caller_leaves_its_own_blocks_the_innermost_first() -> None:
    blocks = InBlocks()
    for caller, block in [("first", "a"), ("second", "b"), ("first", "c")]:
        blocks.enter(caller, block)
    assert blocks.innermost("first") == "c"
    assert [blocks.leave(caller) for caller in ("first", "second")] == ["c", "b"]
    assert blocks.innermost("first") == "a"
    assert blocks.leave("first") == "a"
    with pytest.raises(RuntimeError, match="<a thing> was not entered here"):
        blocks.leave("first")
    assert blocks.wrapper._open == {}


def test_the_blocks_of_the_only_caller_may_be_left_by_another() -> None:
    blocks = InBlocks()
    blocks.enter("first", "a")
    blocks.enter("first", "b")
    assert blocks.innermost("other") == "b"
    assert blocks.leave("other") == "b"
    blocks.enter("second", "c")
    with pytest.raises(RuntimeError, match="was not entered here"):
        blocks.leave("other")
    assert blocks.leave("first") == "a"
    assert blocks.leave("other") == "c"


def test_a_block_that_has_ended_is_forgotten_whoever_has_entered_it() -> None:
    blocks = InBlocks()
    blocks.enter("first", "a")
    blocks.enter("second", "b")
    blocks.enter("second", "c")
    for _ in range(2):
        blocks.wrapper._closed("b")
    assert blocks.leave("second") == "c"
    assert blocks.leave("first") == "a"


def test_a_watch_of_a_closed_client_may_be_abandoned() -> None:
    asked = []

    class Watch:
        def cancel(self) -> None:
            asked.append(1)
            raise ClosingError

    _abandoning(Watch())
    assert asked == [1]

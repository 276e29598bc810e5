"""What generated classes hand over: arguments and defaults to an object of trio's, and its results back."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import threading
import traceback
import typing
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace, UnionType
from typing import Any

import pytest
import trio

from pyzk import aio, blocking, client
from pyzk.bridge import wrapped
from pyzk.bridge.generate import opens_block
from pyzk.bridge.loop import Loop
from pyzk.bridge.objects import Wrapper
from pyzk.bridge.wrapped import FUNCTIONS, WRAPPED
from pyzk.recipes.locks.acquiring import Grants

from .drivers import run_coroutine
from .members import RENAMED, public

both = pytest.mark.parametrize("package", [blocking, aio], ids=["blocking", "aio"])
all_or_defaults = pytest.mark.parametrize("everything", [True, False], ids=["all arguments", "defaults"])
BLOCKS = {"__aenter__", "__aexit__", "__enter__", "__exit__"}


def classes(which: Callable[[Any], bool]) -> pytest.MarkDecorator:
    """Parametrize a test by those of the classes that have wrappers."""
    return pytest.mark.parametrize("cls", list(filter(which, WRAPPED)), ids=lambda cls: cls.__name__)


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The loop of the clients, without a client."""
    user = object()
    yield Loop.attach(user)
    Loop.leave_all(user)


# --- values -----------------------------------------------------------------------------------------------


def made(hint: Any) -> Any:
    """A value of trio's, for which a wrapper says that its user sees ``hint``."""
    kind, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (typing.Union, UnionType):
        return made(next(arg for arg in args if arg is not type(None)))
    if isinstance(kind, typing.TypeVar):
        return made(blocking.Grant)
    if isinstance(kind, type) and issubclass(kind, Wrapper):
        cls = kind._of
        return tuple.__new__(cls) if issubclass(cls, tuple) else cls.__new__(cls)
    if kind is tuple and args[-1] is not ...:
        return tuple([made(arg) for arg in args])
    if kind in (tuple, Sequence):
        return (made(args[0]), made(args[0]))
    if kind in (dict, Mapping):
        return {"/key": made(args[1])}
    if kind in (threading.Event, asyncio.Event):
        return trio.Event()
    return None if kind is type(None) else object()


def shows(result: Any, value: Any) -> bool:
    """Whether a result is what the user of a wrapper sees of a value of trio's."""
    if type(value) in WRAPPED:
        return isinstance(result, Wrapper) and type(result)._of is type(value) and result._trio is value
    if isinstance(value, trio.Event):
        return isinstance(result, threading.Event | asyncio.Event) and result._event is value  # type: ignore[union-attr]
    if isinstance(value, tuple):
        return len(result) == len(value) and all(map(shows, result, value))
    if isinstance(value, dict):
        return result.keys() == value.keys() and all(shows(result[key], value[key]) for key in value)
    return result is value


# --- objects of trio's ------------------------------------------------------------------------------------


class Original:
    """Stands for an object of trio's.

    :ivar noted_calls: each call: the name and the arguments.
    :ivar noted_results: what each member returns, by its name.
    """

    source = None
    ownership = SimpleNamespace(limit=math.inf)

    def __init__(self) -> None:
        self.noted_calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.noted_results: dict[str, Any] = {}

    def note(self, name: str, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.noted_calls.append((name, args, kwargs or {}))
        return self.noted_results.get(name)


def members_of(cls: type, wrapper: type) -> dict[str, Any]:
    """The members of a class that a wrapper has: methods and properties, and fields of its objects."""
    fields = {name: property() for name, member in vars(wrapper).items() if isinstance(member, property)}
    return {**fields, **public(cls)}


def standing_for(cls: type, members: dict[str, Any]) -> Original:
    """An object with these members of a class."""
    noting = {name: noted(name, member) for name, member in members.items()}
    made: Original = type(cls.__name__, (Original,), noting)()
    return made


def noted(name: str, member: Any) -> Any:
    """A member that notes how it is called."""

    async def wait(self: Original, *args: Any, **kwargs: Any) -> Any:
        return self.note(name, args, kwargs)

    def call(self: Original, *args: Any, **kwargs: Any) -> Any:
        return self.note(name, args, kwargs)

    @asynccontextmanager
    async def block(self: Original, *args: Any, **kwargs: Any) -> Any:
        yield self.note(name, args, kwargs)
        self.note(f"the end of {name}")

    if isinstance(member, property):
        return property(lambda self: self.note(name))
    if name not in BLOCKS and opens_block(member):
        return block
    return wait if inspect.iscoroutinefunction(member) else call


class Used:
    """A wrapper of an object that stands for one of trio's.

    :ivar members: what the wrapper has of the class.
    :ivar functions: the members of the wrapper: those of properties that return their values.
    """

    def __init__(self, package: ModuleType, cls: type, loop: Loop) -> None:
        self.objects = package.ZooKeeper._wrappers
        wrapper = self.objects.types[cls]
        self.members = members_of(cls, wrapper)
        self.original = standing_for(cls, self.members)
        self.wrapper = object.__new__(wrapper)
        self.objects.adopt(self.wrapper, self.original, loop)
        self.functions: dict[str, FunctionType] = {}
        for name, member in self.members.items():
            ours = vars(wrapper).get(name) or vars(wrapper)[RENAMED.get(name, name)]
            self.functions[name] = ours.fget if isinstance(member, property) else inspect.unwrap(ours)
            self.original.noted_results[name] = made(self._hint(name))

    def _hint(self, name: str) -> Any:
        hint = typing.get_type_hints(self.functions[name]).get("return")
        opens = typing.get_origin(hint) in (AbstractContextManager, AbstractAsyncContextManager)
        return typing.get_args(hint)[0] if opens else hint

    async def call(self, name: str, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """The result of a method; or what a block gives to its body."""
        value = self.functions[name](self.wrapper, *args, **(kwargs or {}))
        member = self.members[name]
        opens = not isinstance(member, property) and opens_block(member)
        return await (entered(value) if opens else settled(value))


async def settled(value: Any) -> Any:
    """What a call returns: in asyncio, it may have to be awaited."""
    return await value if inspect.isawaitable(value) else value


async def entered(block: Any) -> Any:
    """What a block gives to its body."""
    if hasattr(block, "__aenter__"):
        async with block as value:
            return value
    with block as value:
        return value


def run(package: ModuleType, body: Callable[[], Coroutine[Any, Any, object]]) -> None:
    if package is aio:
        asyncio.run(body())  # type: ignore[arg-type]
    else:
        run_coroutine(body())


# --- arguments --------------------------------------------------------------------------------------------


def arguments(function: Any, hidden: set[str], everything: bool) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a call: with everything, or with what has no default."""
    args, kwargs = [], {}
    for each in inspect.signature(function).parameters.values():
        if each.name == "self" or each.name in hidden:
            continue
        if each.kind is each.VAR_KEYWORD:
            kwargs.update({"option": object()} if everything else {})
        elif everything or each.default is each.empty:
            if each.kind is each.KEYWORD_ONLY:
                kwargs[each.name] = object()
            else:
                args.append(object())
    return args, kwargs


def given(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a function gets for each of its parameters."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


# --- tests ------------------------------------------------------------------------------------------------


@both
@classes(lambda cls: True)
@all_or_defaults
def test_methods_hand_over_what_they_are_given(
    package: ModuleType, cls: type, everything: bool, loop: Loop
) -> None:
    async def body() -> None:
        used = Used(package, cls, loop)
        for name, member in used.members.items():
            where = f"{cls.__name__}.{name}"
            if name in {*BLOCKS, "__aiter__", *wrapped.NOTICES} or where in wrapped.CALLS_BACK:
                continue
            used.original.noted_calls.clear()
            if isinstance(member, property):
                assert shows(await used.call(name), used.original.noted_results[name]), where
                assert used.original.noted_calls == [(name, (), {})], where
                continue
            args, kwargs = arguments(member, WRAPPED[cls], everything)
            result = await used.call(name, args, kwargs)
            assert shows(result, used.original.noted_results[name]), where
            called, passed, named = used.original.noted_calls[0]
            assert called == name
            assert given(member, [used, *passed], named) == given(member, [used, *args], kwargs), where
            ends = [call for call, _, _ in used.original.noted_calls[1:]]
            assert ends == ([f"the end of {name}"] if opens_block(member) else []), where

    run(package, body)


@both
@classes(lambda cls: "__init__" in vars(blocking.ZooKeeper._wrappers.types[cls]))
@all_or_defaults
def test_what_a_user_makes_is_made_of_the_same_arguments(
    package: ModuleType, cls: type, everything: bool, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    zk = Used(package, client.ZooKeeper, loop)
    wrapper = zk.objects.types[cls]
    calls: list[tuple[Any, ...]] = []

    class Making:
        """In place of the class of trio's; not a function, which would become a method."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            calls.append((args, kwargs))
            return made

    made = object()
    monkeypatch.setattr(wrapper, "_of", Making())
    args, kwargs = arguments(cls, WRAPPED[cls], everything)
    first = [zk.wrapper] if cls.__name__ == "MultiLock" else zk.wrapper
    new = wrapper(first, *args[1:], **kwargs)
    assert new._trio is made
    assert new._loop is loop
    ((passed, named),) = calls
    bare = [zk.original] if cls.__name__ == "MultiLock" else zk.original
    assert given(cls, passed, named) == given(cls, [bare, *args[1:]], kwargs)


@both
@pytest.mark.parametrize("function", [client.connect, *FUNCTIONS], ids=lambda function: function.__name__)
@all_or_defaults
def test_functions_hand_over_what_they_are_given(
    package: ModuleType, function: Any, everything: bool, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = function.__name__
    ours = getattr(package, name)
    hint = typing.get_type_hints(ours)["return"]
    result = made(typing.get_args(hint)[0] if name == "connect" else hint)
    calls: list[tuple[Any, ...]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return result

    async def wait(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    @asynccontextmanager
    async def block(*args: Any, **kwargs: Any) -> Any:
        yield call(*args, **kwargs)

    stand_in = block if name == "connect" else wait if inspect.iscoroutinefunction(function) else call
    monkeypatch.setattr(sys.modules[ours.__module__], f"trio_{name}", stand_in)

    async def body() -> None:
        zk = Used(package, client.ZooKeeper, loop)
        args, kwargs = arguments(function, set(), everything)
        asks = name != "connect"
        value = ours(*([zk.wrapper, *args[1:]] if asks else args), **kwargs)
        assert shows(await (settled(value) if asks else entered(value)), result)
        ((passed, named),) = calls
        expected = given(function, [zk.original, *args[1:]] if asks else args, kwargs)
        assert given(function, passed, named) == expected

    run(package, body)


@both
@classes(lambda cls: "__aenter__" in public(cls))
@pytest.mark.parametrize("swallows", [True, False])
def test_blocks_are_entered_and_left(package: ModuleType, cls: type, swallows: bool, loop: Loop) -> None:
    async def body() -> None:
        used, error = Used(package, cls, loop), ValueError("no")
        original = used.original
        if not hasattr(type(original), "__aexit__"):  # that of its base
            type(original).__aexit__ = noted("__aexit__", cls.__aexit__)  # type: ignore[attr-defined]
        original.noted_results["__aexit__"] = swallows
        caught = []
        try:
            if package is aio:
                async with used.wrapper as value:
                    raise error
            else:
                with used.wrapper as value:
                    raise error
        except ValueError as failure:
            caught.append(failure)
        assert caught == ([] if swallows else [error])
        assert shows(value, original.noted_results["__aenter__"])
        assert [(name, args[:2]) for name, args, _ in original.noted_calls] == [
            ("__aenter__", ()),
            ("__aexit__", (ValueError, error)),
        ]

    run(package, body)


@both
@classes(lambda cls: "__anext__" in public(cls))
def test_iterators_are_their_own_and_end(package: ModuleType, cls: type, loop: Loop) -> None:
    class Ending(Original):
        items: list[object]

        async def __anext__(self) -> Any:
            if not self.items:
                raise StopAsyncIteration
            return self.items.pop()

    async def body() -> None:
        used = Used(package, cls, loop)
        items = [object(), object()]
        used.objects.adopt(used.wrapper, ending := Ending(), loop)
        ending.items = items[::-1]
        if package is aio:
            assert aiter(used.wrapper) is used.wrapper
            assert [item async for item in used.wrapper] == items
        else:
            assert iter(used.wrapper) is used.wrapper
            assert list(used.wrapper) == items

    run(package, body)


@both
def test_a_watch_is_cancelled_at_the_end_of_its_block(package: ModuleType, loop: Loop) -> None:
    async def body() -> None:
        used = Used(package, client.Watch, loop)
        with pytest.raises(ValueError, match="no"), used.wrapper as watch:
            assert watch is used.wrapper
            assert used.original.noted_calls == []
            raise ValueError("no")
        assert used.original.noted_calls == [("cancel", (), {})]

    run(package, body)


@both
@pytest.mark.parametrize("where", sorted(wrapped.CALLS_BACK - {"retry"}))
def test_what_calls_back_hands_over_objects_of_the_face(package: ModuleType, where: str, loop: Loop) -> None:
    cls = next(cls for cls in WRAPPED if cls.__name__ == where.partition(".")[0])
    term, returned = made(blocking.Grant), object()
    seen: list[Any] = []

    class Calling(Original):
        async def run(self, function: Any) -> None:
            seen.append(await function(term))
            raise KeyError("the end")

    async def body() -> None:
        used = Used(package, cls, loop)
        used.objects.adopt(used.wrapper, Calling(), loop)

        def lead(grant: Any) -> Any:
            assert shows(grant, term)
            return returned

        async def lead_in_asyncio(grant: Any) -> Any:
            return lead(grant)

        function = lead_in_asyncio if package is aio else lead
        with pytest.raises(KeyError, match="the end"):
            await used.call("run", [function])
        assert seen == [returned]
        used.objects.adopt(used.wrapper, standing_for(cls, used.members), loop)
        with pytest.raises(AssertionError, match="it ends by an error only"):
            await used.call("run", [function])

    run(package, body)


def failing(error: Exception) -> Any:
    """A function as one of ours: an error that has passed through others keeps its frames."""
    names: dict[str, Any] = {"__name__": "pyzk.invented", "error": error}
    exec("async def fail(*args, **kwargs): raise error", names)
    return names["fail"]


@both
@pytest.mark.parametrize(
    ("where", "file"),
    [
        ("Lock.acquire", "locks.py"),
        ("ZooKeeper.delete", "client.py"),
        ("ZooKeeper.get", "client.py"),
        ("Updates.__anext__", "values.py"),
        ("DoubleBarrier.__aenter__", "barriers.py"),
    ],
)
def test_an_error_ends_at_the_method_that_was_called(
    package: ModuleType, where: str, file: str, loop: Loop
) -> None:
    cls = next(cls for cls in WRAPPED if cls.__name__ == where.partition(".")[0])
    name = where.partition(".")[2]

    async def body() -> None:
        used = Used(package, cls, loop)
        error = client.NoNodeError("/missing")
        setattr(type(used.original), name, failing(error))
        args, kwargs = arguments(used.members[name], WRAPPED[cls], False)
        with pytest.raises(client.NoNodeError) as caught:
            await settled(used.functions[name](used.wrapper, *args, **kwargs))
        assert caught.value is error
        files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        assert [path.name for path in files if path.parent.name == package.__name__.rpartition(".")[2]] == [
            file
        ]
        assert files[-1].name == file

    run(package, body)


@both
def test_an_error_of_a_function_ends_there(
    package: ModuleType, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a method."""
    error = client.NoNodeError("/missing")
    monkeypatch.setattr(sys.modules[package.contenders.__module__], "trio_contenders", failing(error))

    async def body() -> None:
        zk = Used(package, client.ZooKeeper, loop)
        with pytest.raises(client.NoNodeError) as caught:
            await settled(package.contenders(zk.wrapper, "/lock"))
        assert caught.value is error
        files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        assert files[-1].name == "locks.py"

    run(package, body)


@both
def test_grants_are_a_sequence(package: ModuleType, loop: Loop) -> None:
    original = tuple.__new__(Grants, grants := tuple([made(blocking.Grant) for _ in range(3)]))
    wrappers = package.ZooKeeper._wrappers.wrap(original, loop)
    assert len(wrappers) == 3
    assert [wrapper._trio for wrapper in wrappers] == list(grants)
    assert wrappers[1]._trio is grants[1]
    assert wrappers[-1] is wrappers[2]
    assert [wrapper._trio for wrapper in wrappers[1:]] == list(grants[1:])


@both
def test_a_watch_may_be_kept_by_a_stack(package: ModuleType, loop: Loop) -> None:
    async def body() -> None:
        used = Used(package, client.Watch, loop)
        with ExitStack() as stack:
            assert stack.enter_context(used.wrapper) is used.wrapper
            assert used.original.noted_calls == []
        assert used.original.noted_calls == [("cancel", (), {})]

    run(package, body)

"""One body of a test, driven with each package.

A body is ``async def body(api)``. ``api`` has what the package exports, and what programs of its
kind do besides: ``sleep(seconds)``; ``timeout(seconds)``, a limit for a block; ``both(first, second)`` to run
two bodies at a time; and ``until_lost(grant)``, which ends when the loss of a grant reaches the body.
With threads the awaits of a body
never wait: what they await has been called already, by the thread that runs the body.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import trio

from pyzk import aio, blocking, client, recipes
from pyzk.bridge.generate import opens_block
from pyzk.bridge.objects import Wrapper

Body = Callable[[Any], Awaitable[object]]


@attrs.frozen
class Driver:
    """How the bodies of one package are run.

    :ivar run: runs a body to its end.
    """

    name: str
    run: Callable[[Body], object]


# --- trio -------------------------------------------------------------------------------------------------


async def _trio_both(first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        nursery.start_soon(second)


@asynccontextmanager
async def _trio_timeout(seconds: float) -> AsyncIterator[None]:
    with trio.fail_after(seconds):
        yield


async def _trio_until_lost(grant: Any) -> None:
    await trio.sleep(60)


def _run_trio(body: Body) -> object:
    api = SimpleNamespace(
        **{name: getattr(client, name) for name in client.__all__},
        **{name: getattr(recipes, name) for name in recipes.__all__},
        sleep=trio.sleep,
        timeout=_trio_timeout,
        both=_trio_both,
        until_lost=_trio_until_lost,
    )
    return trio.run(body, api)


# --- asyncio ----------------------------------------------------------------------------------------------


async def _aio_both(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        group.create_task(second())


async def _aio_until_lost(grant: Any) -> None:
    await asyncio.sleep(60)


def aio_api() -> Any:
    more = {"sleep": asyncio.sleep, "timeout": asyncio.timeout}
    return _api(aio, both=_aio_both, until_lost=_aio_until_lost, **more)


def _run_aio(body: Body) -> object:
    return asyncio.run(body(aio_api()))  # type: ignore[arg-type]


def _run_uvloop(body: Body) -> object:
    uvloop = __import__("uvloop")
    return uvloop.run(body(aio_api()))


def in_asyncio(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function: it runs in asyncio, not in trio as others do."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def _api(package: ModuleType, **more: Any) -> Any:
    return SimpleNamespace(**{name: getattr(package, name) for name in package.__all__}, **more)


# --- threads ----------------------------------------------------------------------------------------------


def run_coroutine(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("this body awaits something else than the api")


class Proxy:
    """A wrapper for threads whose methods are awaited as those of trio are."""

    def __init__(self, wrapper: Any) -> None:
        self.wrapper = wrapper

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.wrapper, name)
        if not callable(member):
            return proxied(member)
        original = getattr(type(self.wrapper)._of, name)
        if inspect.iscoroutinefunction(original):
            return asynchronous(member)
        return lambda *args, **kwargs: proxied(member(*bare(args), **bare(kwargs)))

    async def __aenter__(self) -> Any:
        return proxied(self.wrapper.__enter__())

    async def __aexit__(self, *exc: Any) -> Any:
        return self.wrapper.__exit__(*exc)

    __enter__ = __exit__ = None  # type: ignore[assignment]

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return proxied(next(self.wrapper))
        except StopIteration:
            raise StopAsyncIteration from None

    def __getitem__(self, key: Any) -> Any:
        return proxied(self.wrapper[key])

    def __iter__(self) -> Any:
        return map(proxied, iter(self.wrapper))

    def __contains__(self, key: object) -> bool:
        return key in self.wrapper

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and other.wrapper is self.wrapper

    def __hash__(self) -> int:
        return hash(self.wrapper)


class _Watch(Proxy):
    def __enter__(self) -> Any:  # type: ignore[override]
        self.wrapper.__enter__()
        return self

    def __exit__(self, *exc: Any) -> Any:  # type: ignore[override]
        return self.wrapper.__exit__(*exc)


class _Event:
    def __init__(self, event: threading.Event) -> None:
        self.is_set = event.is_set
        self.wait = asynchronous(event.wait)


def asynchronous(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make an ``async def`` of a function that waits."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return proxied(function(*bare(args), **bare(kwargs)))

    return call


def proxied(value: Any) -> Any:
    if isinstance(value, blocking.Watch):
        return _Watch(value)
    if isinstance(value, Wrapper) or hasattr(value, "__enter__"):
        return Proxy(value)
    if isinstance(value, threading.Event):
        return _Event(value)
    if type(value) in (tuple, list):
        return type(value)(map(proxied, value))
    if type(value) is dict:
        return {key: proxied(each) for key, each in value.items()}
    return value


def bare(value: Any) -> Any:
    if isinstance(value, Proxy):
        return value.wrapper
    if type(value) in (tuple, list):
        return type(value)(map(bare, value))
    if type(value) is dict:
        return {key: bare(each) for key, each in value.items()}
    return _callback(value) if inspect.isfunction(value) else value


def _callback(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        result = function(*map(proxied, args))
        return run_coroutine(result) if inspect.iscoroutine(result) else result

    return call


def _exported(name: str) -> Any:
    thing = getattr(blocking, name)
    original = getattr(client, name, None) or getattr(recipes, name, None)
    if name in ("connect", "timeout") or (isinstance(thing, type) and issubclass(thing, Wrapper)):
        return lambda *args, **kwargs: Proxy(thing(*bare(args), **bare(kwargs)))
    if inspect.iscoroutinefunction(original):
        return asynchronous(thing)
    if inspect.isfunction(original) and not opens_block(original):
        return lambda *args, **kwargs: proxied(thing(*bare(args), **bare(kwargs)))
    return thing


async def _thread_sleep(seconds: float) -> None:
    time.sleep(seconds)


async def _thread_both(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    failures: list[BaseException] = []

    def run(function: Callable[[], Any]) -> None:
        try:
            run_coroutine(function())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise BaseExceptionGroup("both", failures)


async def _thread_until_lost(grant: Any) -> None:
    await grant.lost.wait()
    await grant.zk.exists("/")


def _run_threads(body: Body) -> object:
    api = SimpleNamespace(
        **{name: _exported(name) for name in blocking.__all__},
        sleep=_thread_sleep,
        both=_thread_both,
        until_lost=_thread_until_lost,
    )
    return run_coroutine(body(api))  # type: ignore[arg-type]


DRIVERS = [
    Driver("trio", _run_trio),
    Driver("blocking", _run_threads),
    Driver("aio", _run_aio),
    Driver("uvloop", _run_uvloop),
]

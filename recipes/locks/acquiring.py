"""What can be acquired: one grant, or several together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Protocol, Self, TypeVar

from ..base.blocks import Blocks
from .grant import Grant


class Granted(Protocol):
    """What is had from acquiring: a :class:`.Grant`, or :class:`Grants`."""

    def scope(self) -> AbstractContextManager[Any]: ...

    async def end(self) -> None: ...


G = TypeVar("G", bound=Granted)


@asynccontextmanager
async def held(acquire: Callable[[], Awaitable[G]]) -> AsyncIterator[G]:
    """A block that acquires something, relies on it and gives it up."""
    granted = await acquire()
    try:
        with granted.scope():
            yield granted
    except BaseException as error:
        await end_after(error, granted)
        raise
    await granted.end()


async def end_after(error: BaseException, granted: Granted) -> None:
    """Give up what an error has ended: it is the error that counts."""
    try:
        await granted.end()
    except Exception as another:
        error.add_note(f"and then: {another!r}")


class Acquirable(Blocks[G]):
    """The base of what ``async with`` acquires, each block anew, for any number of tasks."""

    async def acquire(self, *, wait: bool = True) -> G:
        """The manual form: acquire it, run what relies on it in ``with granted.scope()``, and call
        ``await granted.release()`` in the end."""
        raise NotImplementedError

    def _block(self) -> AbstractAsyncContextManager[G]:
        return held(self.acquire)

    def try_acquire(self) -> AbstractAsyncContextManager[G]:
        """``async with ....try_acquire() as granted``: the same without waiting.

        Raises :class:`WouldBlock` instead.
        """
        return held(lambda: self.acquire(wait=False))


class Grants(tuple[Grant, ...]):
    """Several grants that belong together.

    :ivar acquired: the same in the order in which they were acquired; they are given up in reverse.
    """

    acquired: tuple[Grant, ...]

    def __new__(cls, grants: Iterable[Grant], acquired: Iterable[Grant] | None = None) -> Self:
        several = super().__new__(cls, grants)
        several.acquired = tuple(several if acquired is None else acquired)
        return several

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block that relies on all of them: see :meth:`.Grant.scope`."""
        with ExitStack() as scopes:
            for grant in self.acquired:
                scopes.enter_context(grant.scope())
            yield

    async def release(self) -> None:
        """Give up all of them, whatever goes wrong with some. The first error is raised, with the others as
        notes: see :meth:`.Grant.release`."""
        await self._each(Grant.release)

    async def end(self) -> None:
        """:meth:`release` without a word about whether they were still held."""
        await self._each(Grant.end)

    async def _each(self, give_up: Callable[[Grant], Awaitable[None]]) -> None:
        errors: list[Exception] = []
        for grant in reversed(self.acquired):
            try:
                await give_up(grant)
            except Exception as error:
                errors.append(error)
        if errors:
            first, *others = errors
            for other in others:
                first.add_note(f"and then: {other!r}")
            raise first

"""Acquiring one grant, or several grants together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from ..base.blocks import TaskBlocks
from ..base.tracebacks import SHORT, shorten
from .grant import Grant


class Granted(Protocol):
    """The result of acquire(): a :class:`.Grant`, or :class:`Grants`."""

    def scope(self) -> AbstractContextManager[Any]: ...

    async def end(self) -> None: ...


G = TypeVar("G", bound=Granted)


@asynccontextmanager
async def held(granted: G) -> AsyncIterator[G]:
    """Open a block that relies on a grant, and give up the grant at the end of the block."""
    try:
        with granted.scope():
            yield granted
    except BaseException as error:
        await end_after(error, granted)
        raise
    await granted.end()


async def end_after(error: BaseException, granted: Granted) -> None:
    """Give up a grant after an error. If the release fails too, the first error gets a note with the second
    error."""
    try:
        await granted.end()
    except Exception as another:
        error.add_note(f"and then: {another!r}")


class Acquirable(Generic[G]):
    """The base of everything that ``async with`` acquires. Each block acquires separately. Any number of
    tasks can use one object."""

    def __init__(self) -> None:
        self._blocks: TaskBlocks[G] = TaskBlocks()

    async def acquire(self, *, wait: bool = True) -> G:
        """Acquire without a block. Code that relies on the grant must run in ``with grant.scope()``. Call
        ``await grant.release()`` at the end."""
        raise NotImplementedError

    async def __aenter__(self) -> G:
        try:
            return await self._blocks.enter(held(await self.acquire()))
        except SHORT as error:
            shorten(error)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._blocks.leave(kind, error, tb)

    @asynccontextmanager
    async def nowait(self) -> AsyncIterator[G]:
        """Acquire without waiting: ``async with lock.nowait() as grant``.

        :raises WouldBlock: another contender holds it, or waits for it.
        """
        async with held(await self.acquire(wait=False)) as granted:
            yield granted


class Grants(tuple[Grant, ...]):
    """Several grants that belong together.

    :ivar acquired: the same grants in the order in which they were acquired. They are released in the reverse
        order.
    """

    acquired: tuple[Grant, ...]

    def __new__(cls, grants: Iterable[Grant], acquired: Iterable[Grant] | None = None) -> Self:
        several = super().__new__(cls, grants)
        several.acquired = tuple(several if acquired is None else acquired)
        return several

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a block that relies on all the grants: see :meth:`.Grant.scope`."""
        with ExitStack() as scopes:
            for grant in self.acquired:
                scopes.enter_context(grant.scope())
            yield

    async def release(self) -> None:
        """Release all grants, even if some releases fail: see :meth:`.Grant.release`.

        :raises Exception: the first error, with the other errors as notes.
        """
        await self._each(Grant.release)

    async def end(self) -> None:
        """Do the same as :meth:`release`, but raise no :class:`LockLost`."""
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

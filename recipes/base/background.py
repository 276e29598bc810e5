"""Work in the client's background, which continues when its caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ...client import ClosingError, SessionState, ZooKeeper, ZooKeeperError
from ..errors import RecipeError


class BackgroundWork:
    """Work in the background. The work begins at once, and only the end of the client can stop it.

    :param work: the function that does the work. The function can raise :class:`ZooKeeperError` and
        :class:`RecipeError`. Any other error is a bug, and ends the client.

    :ivar done: set when the work has ended.
    :ivar error: the error that the work raised; :class:`ClosingError` if the client was closed before the
        work ended; None while the work runs and if it succeeded.
    """

    def __init__(self, zk: ZooKeeper, work: Callable[[], Awaitable[None]]) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None
        if zk.session.state is SessionState.CLOSED:
            self.error = ClosingError(message="the client was closed")
            self.done.set()
        else:
            zk.start_soon(self._run, work)

    @property
    def succeeded(self) -> bool:
        """True if the work has ended without an error."""
        return self.done.is_set() and self.error is None

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (ZooKeeperError, RecipeError) as error:
            self.error = error
        except trio.Cancelled:
            self.error = ClosingError(message="the client was closed")
            raise
        finally:
            self.done.set()

"""Tests of :mod:`unittest` with a server for each test. The message of a failure contains the timeline and
the tree of the server."""

from __future__ import annotations

import functools
import inspect
import unittest
from typing import Any, ClassVar

from ..testing import shown
from .embedded import EmbeddedServer


class ServerCase(unittest.TestCase):
    """A test case with a fresh server for each test; for tests in asyncio also inherit from
    :class:`unittest.IsolatedAsyncioTestCase`, after this class.

    :cvar settings: the settings of the server, as for :class:`.EmbeddedServer`.
    :ivar server: the server.
    """

    settings: ClassVar[dict[str, Any]] = {}
    server: EmbeddedServer

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test with a fresh server, and add timeline and tree to the errors of the test."""
        with EmbeddedServer(**self.settings) as self.server:
            shown.forget(self.server.running)
            name = self._testMethodName
            method = getattr(self, name)
            setattr(self, name, self._explained(method))
            try:
                return super().run(result)
            finally:
                setattr(self, name, method)

    def _explained(self, method: Any) -> Any:
        """Add the timeline of the server to the errors of a method."""
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def call_async() -> Any:
                try:
                    return await method()
                except Exception as error:
                    self._explain(error)
                    raise

            return call_async

        @functools.wraps(method)
        def call() -> Any:
            try:
                return method()
            except Exception as error:
                self._explain(error)
                raise

        return call

    def _explain(self, error: Exception) -> None:
        if not isinstance(error, unittest.SkipTest):
            for title, text in shown.sections("server", self.server):
                error.add_note(f"{title}\n{text}")

"""Workloads at work in a package, while leaders die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from ...support.waiting import wait_until
from ..drivers import Driver
from .ensembles import Service
from .workload import PATIENCE, Check, Scene, Worker, Workload

SESSION_TIMEOUT = 30.0
"""Seconds: no session ends, so nothing that is held may be lost."""


class Used:
    """The api of a package, which notes what is used of it."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._api, name)


@attrs.define
class Run:
    """Workloads that are at work together."""

    service: Service
    workloads: Sequence[Workload]
    _scenes: list[Scene] = attrs.Factory(list)

    def drive(self, driver: Driver) -> None:
        """Let all work until the trouble is over and everybody has come further behind that; then check."""
        checks = []
        for workload in self.workloads:
            scene = Scene(f"/{workload.name}-{driver.name}")
            checks.append(workload.build(scene))
            self._scenes.append(scene)
        with ThreadPoolExecutor(1) as pool:
            driver.run(lambda api: self._body(Used(api), checks, lambda: pool.submit(self._trouble)))

    async def _body(self, api: Used, checks: list[Check], trouble: Callable[[], Any]) -> None:
        async with api.timeout(PATIENCE), api.connect(self.service.hosts) as judge:
            for scene in self._scenes:
                await judge.create(scene.path)
        workers = [(scene, name) for scene in self._scenes for name in scene.workers]
        troubled = trouble()
        try:
            await self._all_of(api, workers)
        finally:
            self._stop()
        troubled.result()
        for scene, check in zip(self._scenes, checks, strict=True):
            async with api.timeout(PATIENCE), api.connect(self.service.hosts + scene.path) as judge:
                await check(api, judge)
        assert {name for workload in self.workloads for name in workload.uses} <= api.names

    async def _all_of(self, api: Any, workers: list[tuple[Scene, str]]) -> None:
        first, *rest = workers
        if rest:
            await api.both(lambda: self._live(api, *first), lambda: self._all_of(api, rest))
        else:
            await self._live(api, *first)

    async def _live(self, api: Any, scene: Scene, name: str) -> None:
        try:
            async with (
                api.timeout(2 * PATIENCE),  # threads do not hear that another has failed
                api.connect(self.service.hosts + scene.path, session_timeout=SESSION_TIMEOUT) as zk,
            ):
                session = zk.session.id
                await scene.workers[name](api, zk, Worker(name, api, scene))
                scene.ended.add(name)
                assert (zk.session.id, zk.session.generation) == (session, 1), "a session was lost"
                assert zk.watch_count == 0, f"{name} has left a watch"
                assert zk.metrics.connections > 1, f"{name} did not notice anything"
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        for scene in self._scenes:
            scene.over = True

    def _trouble(self) -> None:
        try:
            self.service.trouble(self)
        finally:
            self._stop()

    @property
    def are_over(self) -> bool:
        return all(scene.over for scene in self._scenes)

    def come_further(self) -> None:
        before = [(scene, name, steps) for scene in self._scenes for name, steps in scene.steps.items()]

        def waiting() -> list[str]:
            return [name for scene, name, steps in before if scene.steps[name] == steps and not scene.over]

        try:
            wait_until(lambda: not waiting(), PATIENCE)
        except AssertionError:
            raise AssertionError(f"{waiting()} did not get any further") from None

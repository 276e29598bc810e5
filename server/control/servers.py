"""Fresh servers inside one process. Each server has its own port, tree, clock and faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from ..config import zoocfg
from ..config.members import chosen
from ..config.overrides import check_key
from ..config.settings import Settings
from ..config.sourced_values import Configuration
from ..core.failures import report
from ..ensemble.timing import timing_of
from ..net.server import HttpFactory
from ..testing.clock import ClockMode
from ..testing.controls import Controls
from ..testing.host import Launch
from ..testing.running import HISTORY_LIMIT
from .guard import is_loopback
from .routes import ApiError

if TYPE_CHECKING:
    from ..testing.ensemble import EnsembleLaunch

_MOST: Final = 1000
"""The largest number of servers. Each server needs some file descriptors and memory for its history."""
_BESIDE: Final = frozenset(("clock", "record", "hostile", "ensemble", "observers", "election_ms"))
"""The fields of a request that a user may write into ``config`` by mistake, as if they were keys of
zoo.cfg."""


@attrs.frozen
class Started:
    """One server that the control API has started.

    :ivar scope: ends it when cancelled.
    :ivar stopped: set when the sockets of the server are closed.
    """

    controls: Controls
    scope: trio.CancelScope
    stopped: trio.Event


class Servers:
    """
    :param nursery: the nursery in which the servers run.
    :param http: the factory of the HTTP servers on the ports of these servers.
    :ivar running: the running servers by number.
    """

    def __init__(self, nursery: trio.Nursery, http: HttpFactory | None) -> None:
        self._nursery = nursery
        self._http = http
        self._last = 0
        self._starting = 0
        self.running: dict[int, Started] = {}

    async def start(
        self,
        config: Mapping[str, Any],
        clock: ClockMode = "running",
        record: bool = True,
        hostile: int | None = None,
        ensemble: int | None = None,
        observers: int = 0,
        election_ms: int | None = None,
    ) -> tuple[int, Controls]:
        """Start a server on a free port, or on the port in ``config``.

        :param config: keys of zoo.cfg with their values.
        :param hostile: the seed of a hostile server.
        :param ensemble: the number of voting servers of a pretend ensemble, beside ``observers``. The first
            server is returned. ``server.N`` lines in ``config`` make an ensemble too.
        :param election_ms: milliseconds that an election of the ensemble takes.
        :raises ApiError: 400: a key, value or address is refused. 409: there are too many servers, or the
            server cannot listen at the address.
        """
        if len(self.running) + self._starting >= _MOST:
            raise ApiError(409, f"there are {_MOST} servers already; delete some")
        found = _configuration(config, ensemble is not None)
        given: dict[str, Any] = {field: each.value for field, each in found.values.items()}
        settings = Settings(**{"port": 0, **given})
        launch: Launch | EnsembleLaunch = Launch(
            clock, record, HISTORY_LIMIT, settings, hostile, http=self._http
        )
        _check_addresses(settings)
        members = chosen(found.members, ensemble, observers)
        if election_ms is not None and not members:
            raise ApiError(400, "election_ms is only for an ensemble; give ensemble, its number of servers")
        if members:
            if hostile is not None:
                raise ApiError(400, "hostile is for a single server; leave it out with an ensemble")
            from ..testing.ensemble import EnsembleLaunch

            timing = timing_of(found, election_ms)
            launch = EnsembleLaunch(members, clock, record, HISTORY_LIMIT, timing, settings, self._http)
        self._last += 1
        number = self._last
        self._starting += 1
        try:
            await self._nursery.start(self._run, number, launch)
        except OSError as error:
            raise ApiError(409, f"the server cannot listen: {error}") from None
        finally:
            self._starting -= 1
        return number, self.running[number].controls

    async def _run(
        self, number: int, launch: Launch | EnsembleLaunch, *, task_status: trio.TaskStatus[None]
    ) -> None:
        stopped = trio.Event()
        try:
            with trio.CancelScope() as scope:
                async with launch.open() as controls:
                    first = controls if isinstance(controls, Controls) else controls[controls.numbers[0]]
                    self.running[number] = Started(first, scope, stopped)
                    task_status.started()
                    await trio.sleep_forever()
        except Exception:
            if number not in self.running:
                raise  # it has not started: who asked for it is told
            report("server %d, which the control API has started, has failed", number)
        finally:
            self.running.pop(number, None)
            stopped.set()

    async def stop(self, number: int) -> None:
        """End a server. Returns when the sockets of the server are closed."""
        started = self.running.pop(number)
        started.scope.cancel()
        await started.stopped.wait()


def _configuration(config: Mapping[str, Any], ensemble: bool) -> Configuration:
    """:raises ValueError: zoo.cfg cannot have this key or value."""
    for key in config.keys() & _BESIDE:
        raise ApiError(
            400, f'config: {key} is not a key of zoo.cfg; it belongs beside config: {{"{key}": ...}}'
        )
    text = "\n".join(f"{key}={_value(key, value)}" for key, value in config.items())
    for key in config:
        check_key(key, "config")
    return zoocfg.interpret(text, "config", port_given=True, ensemble=ensemble)


def _value(key: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, bool | int | float | str) or {"\n", "\r"} & {*key, *text}:
        raise ApiError(400, f"config: {key!r} has one line of text, a number, or true or false")
    return text.replace("\\", "\\\\")


def _check_addresses(settings: Settings) -> None:
    for host in (settings.host, settings.secure_host, settings.admin_host, settings.metrics_host):
        if host is not None and not is_loopback(host):
            raise ApiError(
                400,
                f"a server that the API starts can listen only on a loopback address, not on {host}; give "
                "another address",
            )

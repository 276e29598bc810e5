"""A whole pretend ensemble inside a test: in a separate thread, or in the caller's trio run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

from ...protocol.control_verbs import ServerRef
from ..config.arguments import settings_of
from ..config.members import made_up
from ..control import serve_http
from ..ensemble.timing import Timing
from ..testing.clock import ClockMode
from ..testing.controls.ensemble import EnsembleControls
from ..testing.ensemble import EnsembleLaunch, LocalEnsemble
from ..testing.in_thread import InThread
from ..testing.running import HISTORY_LIMIT
from ..testing.running_ensemble import RunningEnsemble


def _launch(
    participants: int,
    observers: int,
    clock: ClockMode,
    record: bool,
    history_limit: int,
    timing: Timing | None,
    otlp: str | None,
    settings: dict[str, Any],
) -> EnsembleLaunch:
    __tracebackhide__ = True
    for name in settings.keys() & attrs.fields_dict(Timing).keys():
        raise TypeError(
            f"{name} is a part of the timing of an ensemble: pass timing=Timing({name}={settings[name]!r})"
        )
    if timing is not None and not isinstance(timing, Timing):
        raise TypeError(
            f"timing must be a Timing, such as Timing(sync_limit=5, election_ms=200), not {timing!r}"
        )
    members, given = made_up(participants, observers), settings_of(settings)
    return EnsembleLaunch(members, clock, record, history_limit, timing, given, serve_http, otlp=otlp)


def open_ensemble(
    participants: int = 3,
    observers: int = 0,
    *,
    clock: ClockMode = "running",
    record: bool = True,
    history_limit: int = HISTORY_LIMIT,
    timing: Timing | None = None,
    otlp: str | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[LocalEnsemble]:
    """Run a pretend ensemble in the caller's trio run: an async context manager that yields its controls.

    :param participants: the number of voting servers, which are numbered from 1. The last one leads at first.
    :param observers: the number of servers that do not vote. Their numbers follow the numbers of the voting
        servers.
    :param clock: ``"running"``: the clock runs with trio's clock. ``"frozen"``: only ``advance`` moves the
        clock.
    :param record: whether the history is recorded.
    :param history_limit: the number of entries that are kept for each server.
    :param timing: the times after which servers notice a silent link and elect a leader.
    :param otlp: the URL of an OpenTelemetry collector, which gets a span for each request
        (``docs/operations.md``).
    :param settings: the fields of :class:`pyzk.server.config.settings.Settings`, for all servers. With
        ``port``, the first server gets this port, the second server gets the next port, and so on. By default
        the servers use free ports.
    :raises TypeError: a setting does not exist, or an argument has another type.
    :raises ValueError: a setting or the number of servers is out of range.
    :raises OSError: an address cannot be bound, at the beginning of the block.
    """
    return _launch(participants, observers, clock, record, history_limit, timing, otlp, settings).open()


class EmbeddedEnsemble(InThread[LocalEnsemble], EnsembleControls):
    """A pretend ensemble in a daemon thread, for tests with any client.

    Use it with ``with``. All methods can be called from any thread. They raise :class:`ServerStopped` if it
    does not run, and :class:`ServerDied` if its thread has ended with an error. The arguments are the
    arguments of
    :func:`open_ensemble`.

    :raises TypeError: a setting does not exist, or an argument has another type.
    :raises ValueError: a setting is out of range.
    """

    def __init__(
        self,
        participants: int = 3,
        observers: int = 0,
        *,
        clock: ClockMode = "running",
        record: bool = True,
        history_limit: int = HISTORY_LIMIT,
        timing: Timing | None = None,
        otlp: str | None = None,
        **settings: Any,
    ) -> None:
        __tracebackhide__ = True
        super().__init__()
        self._launch = _launch(participants, observers, clock, record, history_limit, timing, otlp, settings)

    def __repr__(self) -> str:
        where = self.hosts if self._inside is not None else "not running"
        return f"<EmbeddedEnsemble {where}>"

    def start(self, server: ServerRef | None = None, *, observer: bool = False) -> Any:
        """Start the ensemble, and return it. With a number, start a killed server or a further server.

        :raises RuntimeError: the ensemble runs already.
        :raises OSError: an address cannot be bound.
        """
        if server is None:
            return InThread.start(self)
        return EnsembleControls.start(self, server, observer=observer)

    def _open(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[LocalEnsemble]:
        return self._launch.open(ended)

    @property
    def running(self) -> RunningEnsemble:
        return self._local.running

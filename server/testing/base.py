"""What all controls have at hand."""

from __future__ import annotations

from ..core.engine import Engine
from ..serve import Server
from .clock import JumpingClock
from .history import Recorder


class BaseControls:
    """:param recorder: None if the history is not recorded."""

    def __init__(self, server: Server, clock: JumpingClock, recorder: Recorder | None) -> None:
        self._server = server
        self._service = server.service
        self._jumping_clock = clock
        self._recorder = recorder

    @property
    def _engine(self) -> Engine:
        return self._service.engine

    def _note(self, text: str, session: int = 0) -> None:
        """Enter a control in the history."""
        if self._recorder is not None:
            self._recorder.control(text, session)

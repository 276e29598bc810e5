"""Warnings that are logged once."""

from __future__ import annotations

from logging import Logger


class WarnOnce:
    """Log each warning once for each recipe. Without this, every list of children would repeat it."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._logged: set[str] = set()

    def __call__(self, key: str, message: str, *args: object) -> None:
        """Log a warning, unless one of the same key was logged before."""
        if key not in self._logged:
            self._logged.add(key)
            self._logger.warning(message, *args)

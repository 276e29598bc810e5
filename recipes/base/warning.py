"""Warnings that are logged once."""

from __future__ import annotations

from logging import Logger


class WarnOnce:
    """Logs each warning of a recipe only once. Otherwise each list of children would repeat the warning."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._logged: set[str] = set()

    def __call__(self, key: str, message: str, *args: object) -> None:
        """Log a warning, unless a warning with the same key was logged before."""
        if key not in self._logged:
            self._logged.add(key)
            self._logger.warning(message, *args)

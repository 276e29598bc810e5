"""."""

from __future__ import annotations

from typing import Final

from .finding import Rule

RULES: Final[tuple[type[Rule], ...]] = ()

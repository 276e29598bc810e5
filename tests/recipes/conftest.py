from __future__ import annotations

from ..support.lab import lab, zk
from .rounds import names_in_order, round_

__all__ = ["lab", "names_in_order", "round_", "zk"]

from __future__ import annotations

from ..support.lab import lab, zk

__all__ = ["lab", "zk"]

"""What several of these tests say and wait for."""

from __future__ import annotations

from pyzk.protocol import records as r


def create(path: str, flags: int = 0) -> r.CreateRequest:
    return r.CreateRequest(path, b"", r.OPEN_ACL, flags)

"""The recipes whose blocks hold something."""

from __future__ import annotations

from typing import Any

HOLDS = ["Lock", "RWLock", "Semaphore", "LeaderElection", "MultiLock", "SingleNodeLock"]


def block(api: Any, zk: Any, kind: str) -> Any:
    """A block that holds something; its value is a grant, or several."""
    match kind:
        case "RWLock":
            return api.RWLock(zk, "/held").write()
        case "Semaphore":
            return api.Semaphore(zk, "/held", 1)
        case "LeaderElection":
            return api.LeaderElection(zk, "/held").lead()
        case "MultiLock":
            return api.MultiLock([api.Lock(zk, "/held/a"), api.Lock(zk, "/held/b")])
    return getattr(api, kind)(zk, "/held/lock" if kind == "SingleNodeLock" else "/held")


def one(value: Any, kind: str) -> Any:
    return value[0] if kind == "MultiLock" else value

"""Without trouble each server answers, byte for byte, as a single server does (ensemble.md 15.2, rule 17)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyzk.protocol.constants import AddWatchMode, CreateMode

from ...support.ensemble import EnsembleWorld
from ...support.requests import acl, check_op, create_op, delete_op, get_op, set_op
from ...support.world import Peer, World

SETTINGS: dict[str, Any] = {
    "tick_time": 500,
    "extended_types": True,
    "enforce_quota": True,
    "container_check_interval": 3000,
}
PATHS = ["/", "/a", "/a/b", "/q", "/q/x", "/none", "bad", "/zookeeper/config"]
MODES = [*CreateMode, 99]


def request(chance: random.Random) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """A request by chance: a method of a peer, and its arguments."""
    path, data = chance.choice(PATHS), chance.choice([b"", b"x" * 9, None])
    version = chance.choice([-1, -1, 0, 1])
    watch = chance.random() < 0.3
    parts = [create_op(path, data), set_op(path, data, version), delete_op(path), check_op(path, version)]
    return chance.choice(
        [
            ("create", (path, data), {"flags": chance.choice(MODES), "op": chance.choice([1, 15, 19])}),
            ("create", (path + "/s-", data), {"flags": CreateMode.PERSISTENT_SEQUENTIAL}),
            ("delete", (path, version), {}),
            ("set", (path, data, version), {}),
            ("get", (path, watch), {}),
            ("exists", (path, watch), {}),
            ("children2", (path, watch), {}),
            ("get_acl", (path,), {}),
            ("set_acl", (path, [acl(31), acl(1, "ip", "10.0.0.1")]), {}),
            ("multi", tuple(chance.sample(parts, 2)), {}),
            ("multi_read", (get_op(path), get_op("/")), {}),
            ("sync", (path,), {}),
            ("ping", (), {}),
            ("who_am_i", (), {}),
            ("ephemerals", (), {}),
            ("add_watch", (path, chance.choice(list(AddWatchMode))), {}),
            ("check_watches", (path, 3), {}),
            ("auth", ("digest", b"a:b"), {}),
        ]
    )


class Twin:
    """The same client of a single server, and of a server of an ensemble."""

    def __init__(self, *peers: Peer) -> None:
        self.peers = peers

    def answers(self, method: str, arguments: tuple[Any, ...], more: dict[str, Any]) -> list[Any]:
        found = []
        for peer in self.peers:
            reply = getattr(peer, method)(*arguments, **more)
            said: Any = reply
            if method == "children2" and not reply.err:  # in no order: a multi that fails may change it
                said = reply.zxid, sorted(reply.record.children), reply.record.stat
            found.append((said, peer.take_all(), peer.closed))
        return found


@pytest.mark.parametrize("server", [1, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_the_same_answers(server: int, seed: int) -> None:
    chance = random.Random(seed)
    single = World(initial_zxid=2 << 32, **SETTINGS)
    ensemble = EnsembleWorld(3, 1, **SETTINGS)
    single.tree.configure(ensemble.ensemble.config.text.encode(), 0, single.engine.time)
    single.engine.sessions._next_id += (server - 1) << 56  # the server's number
    twins: list[Twin] = []
    for _ in range(250):
        if len(twins) < 3 or chance.random() < 0.02:
            twins.append(Twin(single.connect(timeout=2000), ensemble[server].connect(timeout=2000)))
        twin = chance.choice(twins)
        if twin.peers[0].closed:
            assert twin.peers[1].closed
            twins.remove(twin)
            continue
        method, arguments, more = request(chance)
        alone, together = twin.answers(method, arguments, more)
        assert alone == together, method
        if server == 3:  # the clocks of sessions are the leader's: elsewhere they are up to half a tick late
            seconds = chance.choice([0, 0, 0.1, 0.7])
            single.pass_time(seconds)
            ensemble.pass_time(seconds)
    assert single.zxid == ensemble.zxid(server)

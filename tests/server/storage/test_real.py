"""The same files, written by a real server and by ours, read by the other one: trees, sessions, zxids."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from pyzk.server.testing import EmbeddedServer

from ...support.histories import Run
from ...support.jvm import missing
from ...support.needs import need
from ...support.real import Ensemble, Node
from .files import killed, world, write_meanwhile

TIMEOUT = 30.0  # seconds


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    need(missing())
    with Ensemble(1) as found:
        yield found


def data_of(node: Node) -> Path:
    return node._folder / "data"


def client(hosts: str, **more: Any) -> KazooClient:
    found = KazooClient(hosts, timeout=TIMEOUT, **more)
    found.start(TIMEOUT)
    return found


def gone(zk: KazooClient) -> None:
    zk.stop()
    zk.close()


def write(zk: KazooClient, name: str) -> None:
    """Some of everything, failures too."""
    zk.create(f"/{name}", b"data")
    zk.create(f"/{name}/null", None)  # type: ignore[arg-type]
    zk.create(f"/{name}/ephemeral", b"", ephemeral=True)
    for _ in range(3):
        zk.create(f"/{name}/s-", b"", sequence=True)
    zk.delete(f"/{name}/s-0000000003")
    zk.create(f"/{name}/ü", "größe".encode())
    zk.set(f"/{name}", b"more")
    zk.create(f"/{name}/acl", b"", acl=[kazoo_acl()])
    transaction = zk.transaction()
    transaction.create(f"/{name}/multi", b"1")
    transaction.set_data(f"/{name}/multi", b"2")
    transaction.delete(f"/{name}/s-0000000002")
    transaction.commit()
    failing = zk.transaction()
    failing.create(f"/{name}/never", b"")
    failing.check(f"/{name}", 99)
    failing.commit()
    with pytest.raises(KazooException):
        zk.delete(f"/{name}")


def kazoo_acl() -> Any:
    from kazoo.security import make_acl

    return make_acl("world", "anyone", read=True, write=True)


def seen(zk: KazooClient, top: str = "/") -> dict[str, Any]:
    """All that a client sees of a tree."""
    data, stat = zk.get(top)
    found: dict[str, Any] = {top: (data, stat, zk.get_acls(top)[0])}
    for name in zk.get_children(top):
        found |= seen(zk, f"{top.rstrip('/')}/{name}")
    return found


def test_there_and_back(ensemble: Ensemble, tmp_path: Path) -> None:
    """A tree of the real server is taken over by ours, changed, and given back; the session lives on."""
    (node,) = ensemble.nodes
    zk = client(ensemble.hosts)
    write(zk, "theirs")
    theirs = seen(zk)
    session, password = zk.client_id  # type: ignore[misc]
    node.kill()  # its sessions live on in the files
    gone(zk)
    data = shutil.copytree(data_of(node), tmp_path / "data")
    with EmbeddedServer(data=data, max_session_timeout=60_000, tree_digest=True) as ours:
        again = client(ours.hosts, client_id=(session, password))
        assert again.client_id == (session, password)
        assert seen(again) == theirs
        write(again, "ours")
        assert again.create("/theirs/s-", b"", sequence=True) == "/theirs/s-0000000008", "it goes on"
        both = seen(again)
    gone(again)
    shutil.rmtree(data_of(node) / "version-2")
    shutil.copytree(tmp_path / "data" / "version-2", data_of(node) / "version-2")
    node.start()
    ensemble.leader()
    assert "Digests are not matching" not in node.log
    back = client(ensemble.hosts, client_id=(session, password))
    assert back.client_id == (session, password)
    assert seen(back) == both
    assert back.create("/theirs/s-", b"", sequence=True) == "/theirs/s-0000000009"
    gone(back)


def test_a_real_server_starts_from_an_export(ensemble: Ensemble, tmp_path: Path) -> None:
    (node,) = ensemble.nodes
    node.kill()
    with EmbeddedServer(max_session_timeout=60_000) as server:
        zk = client(server.hosts)
        write(zk, "ours")
        ours = seen(zk)
        path = server.export(tmp_path / "out")
    gone(zk)
    assert path.parent.name == "version-2"
    shutil.rmtree(data_of(node) / "version-2")
    shutil.copytree(path.parent, data_of(node) / "version-2")
    node.start()
    ensemble.leader()
    assert "Digests are not matching" not in node.log
    fresh = client(ensemble.hosts)
    theirs = seen(fresh)
    assert theirs == ours, "its session is in the files, and so its ephemeral is there"
    gone(fresh)


def test_a_real_server_starts_from_a_snapshot_that_was_written_under_load(
    ensemble: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compares the digests of the log as soon as it has come to that of the snapshot, and not before."""
    (node,) = ensemble.nodes
    node.kill()
    ours = Run(world(tmp_path, tree_digest=True))
    write_meanwhile(ours, monkeypatch)
    killed(ours.world)
    shutil.rmtree(data_of(node) / "version-2")
    shutil.copytree(tmp_path / "version-2", data_of(node) / "version-2")
    node.start()
    ensemble.leader()
    zk = client(ensemble.hosts)
    assert {"a", "j"} <= set(zk.get_children("/"))
    gone(zk)
    assert "igest" not in node.log, "neither `First digest mismatch on txn` nor `Digests are not matching`"

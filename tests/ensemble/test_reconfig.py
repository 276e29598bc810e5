"""The members of an ensemble change, by the clients that people use: on ours and on a real one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import pytest

from pyzk.client import NewConfigNoQuorumError, connect

from ..support import jvm
from ..support.needs import need
from ..support.real import Ensemble
from ..support.waiting import wait_until
from ..support.zkcli import ZKCLI, zkcli
from .conftest import SESSION_TIMEOUT
from .pretended import Pretended

CLI = """\
config
config -c
reconfig -remove {follower}
config
reconfig -remove 77
reconfig -v 1 -remove {other}
reconfig -remove {follower},{other}
reconfig -add server.8=10.9.9.8:1:2;3,server.9=10.9.9.9:1:2;3,server.10=10.9.9.10:1:2;3
reconfig -add {line}
reconfig -members {line}
config -w
reconfig -s
quit
"""
"""What is typed, with the numbers of the servers that do not lead, and the line of the first of them."""


@pytest.fixture(scope="module")
def ours() -> Iterator[Pretended]:
    with Pretended(reconfig_enabled=True, skip_acl=True) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def theirs() -> Iterator[Ensemble]:
    need(jvm.missing())
    with Ensemble(3, reconfig=True, settings={"skipACL": "yes"}) as ensemble:
        yield ensemble


@pytest.fixture(params=["ours", "theirs"])
def servers(request: pytest.FixtureRequest) -> Pretended | Ensemble:
    found: Pretended | Ensemble = request.getfixturevalue(request.param)
    return found


def lines_of(config: bytes | None) -> dict[str, str]:
    found = re.findall(r"^server\.(\d+)=(.*)$", (config or b"").decode(), re.M)
    return {number: f"server.{number}={rest}" for number, rest in found}


async def test_our_client_follows_the_configuration(servers: Pretended | Ensemble) -> None:
    leader = servers.leader()
    follower = next(node for node in servers.nodes if node.number != leader.number)
    async with connect(
        f"127.0.0.1:{follower.port}", session_timeout=SESSION_TIMEOUT, follow_config=True
    ) as zk:
        session = zk.session.id
        data, stat = await zk.get_config()
        before = lines_of(data)
        assert len(before) == 3
        with pytest.raises(NewConfigNoQuorumError):
            await zk.reconfig(",".join(f"server.{n}=10.9.9.{n}:1:2;3" for n in (7, 8, 9)))
        data, stat = await zk.reconfig(leaving=str(follower.number), from_config=stat.mzxid)
        assert lines_of(data).keys() == before.keys() - {str(follower.number)}
        while zk.server is None or zk.server.port == follower.port:
            await zk.session.wait_change()
        assert (await zk.get_config())[0] == data
        await zk.reconfig(before[str(follower.number)], from_config=stat.mzxid)
        assert zk.session.id == session


def test_kazoo_changes_the_members(servers: Pretended | Ensemble) -> None:
    pytest.importorskip("kazoo.client")
    from kazoo.client import KazooClient
    from kazoo.exceptions import BadArgumentsError, BadVersionError

    leader = servers.leader()
    number = next(str(node.number) for node in servers.nodes if node.number != leader.number)
    client = KazooClient(f"127.0.0.1:{leader.port}", timeout=SESSION_TIMEOUT)
    client.start()
    events: list[str] = []
    before, _ = client.get("/zookeeper/config", watch=lambda event: events.append(event.type))
    data, stat = client.reconfig(joining=None, leaving=number, new_members=None)
    assert lines_of(data).keys() == lines_of(before).keys() - {number}
    assert client.get("/zookeeper/config") == (data, stat)
    assert f"{stat.mzxid:x}" == data.decode().rpartition("=")[2]
    with pytest.raises(BadVersionError):
        client.reconfig("", "", None, from_config=5)
    with pytest.raises(BadArgumentsError):
        client.reconfig("nonsense", "", None)
    client.reconfig(None, None, ",".join(lines_of(before).values()))
    assert lines_of(client.get("/zookeeper/config")[0]) == lines_of(before)
    wait_until(lambda: events == ["CHANGED"])
    client.stop()
    client.close()


class _One:
    """A server for zkCli."""

    def __init__(self, port: int) -> None:
        self.hosts = f"127.0.0.1:{port}"


def printed(servers: Pretended | Ensemble) -> list[str]:
    """What zkCli shows, with names for what differs."""
    leader = servers.leader()
    first, second = (node for node in servers.nodes if node.number != leader.number)
    line = f"server.{first.number}=127.0.0.1:28881:38881;{first.port}"
    script = CLI.format(follower=first.number, other=second.number, line=line)
    _, text = zkcli(_One(leader.port), script=script)
    names = {str(leader.number): "L", str(first.number): "F", str(second.number): "G"}
    text = re.sub(
        r"server\.(\d)=127\.0\.0\.1:\d+:\d+:(\w+);[\d.]+:\d+",
        lambda found: f"server.{names[found[1]]} {found[2]}",
        re.sub(r"\n(WATCHER::|WatchedEvent .*)\n", "", text),
    )
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", re.sub(r"\b[0-9a-f]{9,}\b", "VERSION", text))
    shown = [line for line in text.splitlines() if line and not line.startswith(("SLF4J", "Connecting"))]
    runs = groupby(shown, key=lambda line: line.startswith("server."))
    return [line for is_config, lines in runs for line in (sorted(lines) if is_config else lines)]


def test_zkcli_shows_the_same(ours: Pretended, theirs: Ensemble) -> None:
    need(None if ZKCLI.exists() else f"no {ZKCLI} (Debian: apt-get install zookeeper)")
    shown = printed(ours)
    assert printed(theirs) == shown
    assert shown.count("Committed new configuration:") == 3
    assert "version No is not valid : " in shown
    assert any(line.startswith("No quorum of new config is connected") for line in shown)

"""What a client may change in the members (ensemble.md section 10): each case at its edge, by the error."""

from __future__ import annotations

import pytest

from pyzk.protocol.errors import BadArgumentsError, BadVersionError, MarshallingError, ZooKeeperError
from pyzk.server.config.members import Configuration, ServerAddress
from pyzk.server.ensemble.reconfig import changed

VERSION, ZXID = 0x1_0000_0007, 0x1_0000_0009
LINE = "10.0.0.{0}:2888:3888:{1};10.0.0.{0}:2181"


def line(number: int, role: str = "participant") -> str:
    return f"server.{number}={LINE.format(number, role)}"


def lines(*numbers: int, observer: int = 0) -> str:
    return "\n".join(
        [*map(line, numbers), *([line(observer, "observer")] if observer else [])],
    )


def before(*extra: ServerAddress) -> Configuration:
    """Servers 1 to 3 vote, server 4 observes."""
    members = [
        ServerAddress.parse(str(number), LINE.format(number, "observer" if number == 4 else "participant"))
        for number in (1, 2, 3, 4)
    ]
    return Configuration.of([*members, *extra], VERSION)


def change(
    joining: str | None = None,
    leaving: str | None = None,
    members: str | None = None,
    version: int = -1,
    *,
    least: int = 2,
    of: Configuration | None = None,
) -> list[str]:
    """The members that a change makes: their numbers, and their roles."""
    after = changed(of or before(), (joining, leaving, members, version), ZXID, least)
    assert after.version == ZXID
    return [f"{number}{'v' if member.votes else 'o'}" for number, member in after.members.items()]


def refused(error: type[ZooKeeperError], match: str | None = None, **asked: object) -> None:
    with pytest.raises(ZooKeeperError, match=match) as caught:
        change(**asked)  # type: ignore[arg-type]
    assert type(caught.value) is error
    assert caught.value.path == "/zookeeper/config"


def test_versions() -> None:
    assert change(leaving="4", version=-1) == change(leaving="4", version=VERSION) == ["1v", "2v", "3v"]
    for version in (VERSION - 1, VERSION + 1, 0, 1):
        refused(BadVersionError, f"the version is 100000007, not {version:x}", leaving="4", version=version)
    refused(BadVersionError, "not fffffffffffffffe", leaving="4", version=-2)


def test_who_leaves() -> None:
    assert change(leaving=" 4 , 3,") == ["1v", "2v"]
    assert change(leaving="+4") == ["1v", "2v", "3v"]
    assert change(leaving="9," + "9" * 18) == ["1v", "2v", "3v", "4o"], "who is not there has left"
    for text in ("x", "9" * 19, "4.0", "1 2", "server.4"):
        refused(MarshallingError, "is not the number of a server", leaving=text)


def test_how_many_must_vote() -> None:
    refused(BadArgumentsError, "at least 2 servers must vote, and 1 would be left", leaving="2,3")
    assert change(leaving="2,3", least=1) == ["1v", "4o"]
    refused(BadArgumentsError, "at least 1 servers must vote, and 0", leaving="1,2,3", least=1)


def test_who_joins() -> None:
    assert change(joining=f"{line(5)},{line(6, 'observer')}") == ["1v", "2v", "3v", "4o", "5v", "6o"]
    assert change(joining=line(4)) == ["1v", "2v", "3v", "4v"], "the new line counts"
    assert change(joining=line(5), leaving="1") == ["2v", "3v", "4o", "5v"]


@pytest.mark.parametrize(
    ("joining", "error", "match"),
    [
        ("server.5", BadArgumentsError, "a server that joins is server.N="),
        ("server.5=10.0.0.5:1:2=3", BadArgumentsError, "a server that joins is server.N="),
        ("server.5=10.0.0.5:1:2", BadArgumentsError, "needs a port for clients"),
        ("server.5=10.0.0.5:1;3", BadArgumentsError, "not host:quorum:election"),
        ("server.x=10.0.0.5:1:2;3", MarshallingError, "'x' is not the number"),
        ("server.-5=10.0.0.5:1:2;3", BadArgumentsError, "a server is numbered"),
        ("server.257=10.0.0.5:1:2;3", BadArgumentsError, "servers 1 and 257"),
        ("server.5=10.0.0.5:65536:2;3", MarshallingError, "a port is at most 65535"),
        ("server.5=10.0.0.5:1:65536;3", MarshallingError, "a port is at most 65535"),
        ("server.5=10.0.0.5:1:2;65536", MarshallingError, "a port is at most 65535"),
    ],
)
def test_a_line_that_cannot_join(joining: str, error: type[ZooKeeperError], match: str | None) -> None:
    refused(error, match, joining=joining)


@pytest.mark.parametrize("ports", ["65535:2;3", "1:65535;3", "1:2;65535"])
def test_the_largest_port(ports: str) -> None:
    assert change(joining=f"server.5=10.0.0.5:{ports}")[-1] == "5v"


@pytest.mark.parametrize(
    "address", ["10.0.0.1:2888:1;9", "10.0.0.1:1:3888;9", "10.0.0.9:1:2;10.0.0.1:2181", "10.0.0.1:2181:1;9"]
)
def test_an_address_of_another_server(address: str) -> None:
    refused(BadArgumentsError, "server 1 has an address of", joining=f"server.5={address}")
    assert change(joining=f"server.1={address}")[0] == "1v", "it may have its own"
    assert change(joining=f"server.5={address}", leaving="1")[-1] == "5v"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0.0.0.0", "localhost", "[::1]", "[::]"])
def test_hosts_that_servers_share(host: str) -> None:
    """Each name is that of another machine for another server."""
    first = ServerAddress.parse("5", f"{host}:1:2;{host}:3")
    assert change(joining=f"server.6={host}:1:2;{host}:3", of=before(first))[-1] == "6v"


def test_all_members_are_named() -> None:
    text = f"# a comment\n{lines(1, 2, observer=7)}\n version = 5\n"
    assert change(members=text) == ["1v", "2v", "7o"]
    assert change(members=text.replace("\n", ","), leaving="1") == ["1v", "2v", "7o"]
    assert change(members=lines(1, 2).replace("=", " = ")) == ["1v", "2v"]


@pytest.mark.parametrize(
    ("members", "least", "error", "match"),
    [
        ("tickTime=5", 2, BadArgumentsError, "a line is server.N="),
        ("server.1=x", 2, BadArgumentsError, "not host:quorum:election"),
        ("server.x=10.0.0.5:1:2;3", 2, MarshallingError, "'x' is not the number"),
        ("server.5=10.0.0.5:65536:2;3", 2, MarshallingError, "a port is at most 65535"),
        (lines(1), 2, BadArgumentsError, "at least 2 servers must vote"),
        (lines(1, observer=4), 2, MarshallingError, "observers need 2 servers that vote, not 1"),
        (lines(observer=4), 1, MarshallingError, "observers need 1 servers that vote, not 0"),
        (lines(1, 257), 2, BadArgumentsError, "servers 1 and 257"),
        (f"{lines(1, 2)}\ngroup.1=1", 2, BadArgumentsError, None),
        (f"{lines(1, 2)}\ngroup.1=1:2\ngroup.2=2", 2, BadArgumentsError, None),
        (f"{lines(1, 2, observer=4)}\ngroup.1=1:2:4", 2, MarshallingError, None),
        (f"{lines(1, 2)}\ngroup.1=1:x", 2, MarshallingError, None),
    ],
)
def test_members_that_cannot_be(
    members: str, least: int, error: type[ZooKeeperError], match: str | None
) -> None:
    refused(error, match, members=members, least=least)


def test_one_server_alone_and_one_with_an_observer() -> None:
    assert change(members=lines(1), least=1) == ["1v"]
    assert change(members=lines(1, observer=4), least=1) == ["1v", "4o"]


def test_groups_change_only_as_a_whole() -> None:
    text = f"{lines(1, 2, 3)}\ngroup.1=1:2:3"
    asked = (None, None, text, -1)
    grouped = changed(before(), asked, ZXID, 2)
    assert [sorted(group) for group in grouped.groups] == [[1, 2, 3]]
    for asking in ({"leaving": "3"}, {"joining": line(5)}):
        refused(BadArgumentsError, "the servers have groups", of=grouped, **asking)
    assert change(members=lines(1, 2), of=grouped) == ["1v", "2v"]

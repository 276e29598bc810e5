"""The members of an ensemble in a zoo.cfg (ensemble.md section 12)."""

from __future__ import annotations

import pytest

from pyzk.server.config.members import Configuration, Member, MemberError, made_up
from pyzk.server.config.properties import ConfigError
from pyzk.server.config.zoocfg import interpret

LIMITS = "initLimit=10\nsyncLimit=4\n"
THREE = """\
server.1=a:2888:3888
server.2=b:2888:3888:Participant;2182
server.3=[::1]:2888:3888 : observer
"""
TWO = """\
server.1=a:2888:3888
server.2=b:2888:3888
"""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a:1:2", "server.7=a:1:2:participant"),
        (" a:1:2:OBSERVER ", "server.7=a:1:2:observer"),
        ("a:1:2;2181", "server.7=a:1:2:participant;0.0.0.0:2181"),
        ("10.0.0.1:1:2:participant;10.0.0.1:2181", "server.7=10.0.0.1:1:2:participant;10.0.0.1:2181"),
        ("[fe80::1]:1:2", "server.7=[fe80::1]:1:2:participant"),
    ],
)
def test_accepted_forms(text: str, written: str) -> None:
    assert Member.parse("7", text).text == written


@pytest.mark.parametrize(
    "text",
    [
        *("a:1", "a", "", "a:1:2:participant:5", "a:1:1", "a:x:2", "a:1:2:chief"),
        *("a:1:2;1;2", "a:1:2;x", "a:1:2|b:1:2"),
    ],
)
def test_refused_forms(text: str) -> None:
    with pytest.raises(MemberError):
        Member.parse("7", text)


@pytest.mark.parametrize("number", ["255", "511", "one", "-1", "", "2147483648"])
def test_refused_numbers(number: str) -> None:
    with pytest.raises(MemberError, match="numbered from 0 to 2147483647"):
        Member.parse(number, "a:1:2")


def test_a_file_with_several_servers_is_an_ensemble() -> None:
    found = interpret(LIMITS + TWO + "server.3=[::1]:2888:3888 : observer;2183", port_given=True)
    assert [(m.number, m.host, m.votes, m.client_port) for m in found.members] == [
        (1, "a", True, None),
        (2, "b", True, None),
        (3, "::1", False, 2183),
    ]
    assert (found.sync_limit, found.init_limit) == (4, 10)
    assert found.warnings == []


def test_one_server_is_none() -> None:
    assert interpret("server.1=a:1:2;2181").members == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (THREE, "an ensemble needs syncLimit"),
        ("syncLimit=5\ninitLimit=0\n" + THREE, "line 2: initLimit: an ensemble needs initLimit"),
        (LIMITS + "server.1=a:1:2\nserver.2=b:1:2:observer", "observers need at least two"),
        (LIMITS + THREE + "group.1=1:2", "groups and weights"),
        (LIMITS + "server.1=a:1:2\nserver.255=b:1:2", "line 4: server.255"),
        (LIMITS + "server.44=a:1:2\nserver.300=b:1:2", "line 4: .*servers 44 and 300 end in the same byte"),
    ],
)
def test_what_is_no_ensemble_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        interpret(text)


def test_the_text_of_the_configuration() -> None:
    assert Configuration.of(made_up(2, 1), 0x1F).text == (
        "server.1=127.0.0.1:2888:3888:participant\n"
        "server.2=127.0.0.1:2889:3889:participant\n"
        "server.3=127.0.0.1:2890:3890:observer\n"
        "version=1f"
    )


@pytest.mark.parametrize("servers", [(0, 0), (3, -1), (200, 55)])
def test_impossible_numbers_of_servers(servers: tuple[int, int]) -> None:
    with pytest.raises(MemberError, match="1 to 254 servers"):
        made_up(*servers)

"""The members of an ensemble in a zoo.cfg (ensemble.md section 12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyzk.server.config.members import Configuration, MemberError, ServerAddress, made_up
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
    assert ServerAddress.parse("7", text).text == written


@pytest.mark.parametrize(
    "text",
    [
        *("a:1", "a", "", "a:1:2:participant:5", "a:1:1", "a:x:2", "a:1:2:chief"),
        *("a:1:2;1;2", "a:1:2;x", "a:1:2|b:1:2"),
    ],
)
def test_refused_forms(text: str) -> None:
    with pytest.raises(MemberError):
        ServerAddress.parse("7", text)


@pytest.mark.parametrize("number", ["255", "511", "one", "-1", "", "2147483648"])
def test_refused_numbers(number: str) -> None:
    with pytest.raises(MemberError, match="numbered from 0 to 2147483647"):
        ServerAddress.parse(number, "a:1:2")


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
        (LIMITS + "server.1=a:1:2\nserver.2=b:1:2:observer", "observers need at least 2"),
        (LIMITS + THREE + "group.1=1", "line 6: group.1: server 2 is in no group"),
        (LIMITS + THREE + "weight.1=2", "line 6: weight.1: server 1 is in no group"),
        (LIMITS + THREE + "group.1=1:2\ngroup.2=2", "line 6: group.1: server 2 is in two groups"),
        (LIMITS + THREE + "group.1=1:2:3", "line 6: group.1: server 3 has a group or a weight, and does not"),
        (LIMITS + THREE + "group.1=1:b", "line 6: group.1: 'b' is not a whole number"),
        (LIMITS + THREE + "group.1=1:2\nweight.1=0\nweight.2=0", "line 6: group.1: all weights are 0"),
        ("standaloneEnabled=false", "line 1: standaloneEnabled: an ensemble needs a server.N line"),
        ("standaloneEnabled=false\n" + LIMITS + "server.1=a:1:2:observer", "observers need at least 1"),
        (LIMITS + "server.1=a:1:2\nserver.255=b:1:2", "line 4: server.255"),
        (LIMITS + "server.44=a:1:2\nserver.300=b:1:2", "line 4: .*servers 44 and 300 end in the same byte"),
    ],
)
def test_what_is_no_ensemble_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        interpret(text)


def test_one_server_may_be_an_ensemble() -> None:
    text = f"standaloneEnabled=false\n{LIMITS}server.1=a:1:2\n"
    assert [member.number for member in interpret(text).members] == [1]
    found = interpret(f"{text}server.2=b:1:2:observer")
    assert [member.votes for member in found.members] == [True, False]
    assert found.values["standalone_enabled"].value is False
    assert found.warnings == []


GROUPS = "group.1=1:2:3\ngroup.2=4:5\ngroup.3=6\nweight.1=3\nweight.4=0\nweight.6=0\n"
SEVEN = "".join(f"server.{number}=a:1:2\n" for number in range(1, 7)) + "server.7=a:1:2:observer\n"


def test_groups_and_weights() -> None:
    found = interpret(LIMITS + SEVEN + GROUPS)
    assert found.warnings == []
    assert [(m.group, m.weight) for m in found.members] == [
        *((1, 3), (1, 1), (1, 1), (2, 0), (2, 1), (3, 0)),
        (None, 1),
    ]
    config = Configuration.of(found.members, 31)
    assert config.text.splitlines()[7:] == [
        *("group.1=1:2:3", "group.2=4:5", "group.3=6"),
        *("weight.1=3", "weight.2=1", "weight.3=1", "weight.4=0", "weight.5=1", "weight.6=0"),
        "version=1f",
    ]
    assert [config.may_lead(number) for number in range(1, 9)] == [
        *(True, True, True, False, True, False),
        *(False, False),
    ]


def test_groups_in_a_file_of_their_own(tmp_path: Path) -> None:
    members = tmp_path / "zoo.cfg.dynamic"
    members.write_text(SEVEN + GROUPS)
    found = interpret(f"{LIMITS}dynamicConfigFile={members}")
    assert [member.group for member in found.members] == [1, 1, 1, 2, 2, 3, None]


@pytest.mark.parametrize("line", ["server.9=localhost:2888:3888", "group.1=1:2:3", "weight.1=3"])
def test_servers_stand_in_one_file(tmp_path: Path, line: str) -> None:
    members = tmp_path / "zoo.cfg.dynamic"
    members.write_text(SEVEN + GROUPS)
    with pytest.raises(ConfigError, match="move this line to that file"):
        interpret(f"{LIMITS}dynamicConfigFile={members}\n{line}")


@pytest.mark.parametrize(
    ("numbers", "enough"),
    [
        ([1, 5], True),  # 3 of 5 in the first group, all of the second; the third one has no weight
        ([1, 4, 6, 7], False),  # one group of two
        ([2, 3, 5], False),  # 2 of 5 in the first group
        ([5], False),
        ([1, 2, 3, 4, 5, 6, 7], True),
        ([], False),
    ],
)
def test_a_quorum_is_a_majority_of_weight_in_most_groups(numbers: list[int], enough: bool) -> None:
    config = Configuration.of(interpret(LIMITS + SEVEN + GROUPS).members)
    assert config.has_quorum(numbers) is enough


def test_half_of_the_weight_is_not_enough() -> None:
    """Nor are half of the groups."""
    lines = "".join(f"server.{number}=a:1:2\n" for number in range(1, 5))
    even = Configuration.of(interpret(f"{LIMITS}{lines}group.1=1:2\ngroup.2=3:4").members)
    assert not even.has_quorum([1, 2])
    assert not even.has_quorum([1, 2, 3])
    assert even.has_quorum([1, 2, 3, 4])


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

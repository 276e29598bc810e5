"""Which releases there are, and which behaviour each has."""

import pytest

from pyzk.server.config.properties import ConfigError
from pyzk.server.config.releases import CHANGES, LAST, LINES, ReleaseError, release
from pyzk.server.config.settings import Settings
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3.5", "3.5.10"),
        ("3.8", "3.8.4"),
        ("3.9", "3.9.5"),
        ("3.10", "3.10.0"),
        ("3.9.3", "3.9.3"),
        ("3.8.0", "3.8.0"),
        ("3.9.5", "3.9.5"),
    ],
)
def test_a_line_or_a_release(text: str, number: str) -> None:
    assert str(release(text)) == number
    assert str(build(interpret(f"clientPort=1\nemulate={text}").values).release) == number


@pytest.mark.parametrize(
    "text", ["", "3", "3.4", "3.4.14", "3.5.4", "3.8.7", "3.10.1", "4.0.0", "3.9.x", "3.9 "]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ReleaseError, match=r"is not a release that can be emulated; there are 3\.5, "):
        release(text)
    with pytest.raises(ValueError, match=r"^emulate: "):
        Settings(emulate=text)


def test_the_file_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"^zoo.cfg, line 2: emulate: '3.4' is not a release"):
        build(interpret("clientPort=1\nemulate=3.4").values)


def test_each_line_is_known_up_to_its_last_release() -> None:
    assert {version[:2]: version[2] <= LAST[version[:2]] for version in LINES.values()} == dict.fromkeys(
        LAST, True
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("notification-zxid", "3.8.6", "3.9.0"),
        ("exists-read-check", "3.8.3", "3.8.4"),
        ("exists-read-check", "3.9.1", "3.9.2"),
        ("exists-read-check", "3.7.2", "3.8.4"),
        ("flags-in-multi", "3.7.1", "3.7.2"),
        ("flags-in-multi", "3.8.2", "3.9.0"),
        ("ipv6-acl", "3.9.3", "3.9.4"),
        ("who-am-i", "3.6.4", "3.7.0"),
    ],
)
def test_a_change_has_a_release_in_each_line(name: str, old: str, new: str) -> None:
    assert not release(old).has(name)
    assert release(new).has(name)


def test_the_default_has_all_but_what_is_later() -> None:
    default = release(Settings().emulate)
    assert default.is_default
    assert [name for name in CHANGES if not default.has(name)] == [
        *("container-never-used", "fips-sasl", "operation-counters", "prometheus-names", "memory-of-jvm")
    ]

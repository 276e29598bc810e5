"""Settings that are named in Python: what is misspelt, or has another type, is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyzk.server import open_server
from pyzk.server.config.arguments import settings_of
from pyzk.server.config.settings import Settings
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, open_ensemble

STARTS: list[Callable[..., Any]] = [EmbeddedServer, open_server, EmbeddedEnsemble, open_ensemble]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ticktime": 100}, "there is no setting 'ticktime'; perhaps tick_time"),
        ({"tickTime": 100}, "there is no setting 'tickTime'; perhaps tick_time"),
        ({"nothing_like_it": 1}, "there is no setting 'nothing_like_it'"),
        ({"tick_time": "100"}, "tick_time must be a whole number, not '100'"),
        ({"tick_time": True}, "tick_time must be a whole number, not True"),
        ({"extended_types": "yes"}, "extended_types must be True or False, not 'yes'"),
        ({"admin_port": "8080"}, "admin_port must be a whole number or None, not '8080'"),
        ({"host": 1}, "host must be a string, not 1"),
        ({"four_letter_words": "ruok"}, "four_letter_words must be a set of strings, not 'ruok'"),
        ({"control_token": b"secret"}, "control_token must be a string or None, not of type bytes"),
        ({"history_limit": "5"}, "history_limit must be a whole number, not '5'"),
        ({"record": "no"}, "record must be True or False or None, not 'no'"),
    ],
)
def test_a_name_or_a_type_that_is_wrong(
    start: Callable[..., Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        start(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize("start", STARTS)
def test_a_clock_that_does_not_exist(start: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"^clock must be 'running' or 'frozen', not 'frozn'$"):
        start(clock="frozn")


@pytest.mark.parametrize("start", [EmbeddedServer, open_server])
def test_arguments_of_a_single_server(start: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"^hostile must be a whole number or None, not '7'$"):
        start(hostile="7")
    with pytest.raises(TypeError, match=r"^data must be a string or a path or None, not 5$"):
        start(data=5)


def test_every_setting_has_a_type_that_is_checked() -> None:
    """The default of each passes, and a thing of no type does not."""
    for name in attrs.fields_dict(Settings):
        settings_of({name: getattr(Settings(), name)})
        with pytest.raises(TypeError, match=f"^{name} must be "):
            settings_of({name: object()})

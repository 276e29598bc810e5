"""Each verb can be used in Python, over HTTP and with ``pyzk``, with the same arguments: all are made from
one table, or compared with it."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyzk.cli.ensembles import VERBS as COMMANDS
from pyzk.cli.main import main
from pyzk.cli.parser import verb_parser
from pyzk.protocol.control_verbs import LEADER, VERBS, Argument
from pyzk.server.control.api import ROUTES
from pyzk.server.control.calls import server
from pyzk.server.testing import EmbeddedEnsemble, EnsembleControls, EnsembleError

from .asking import ask

DOCS = Path(__file__).parents[3] / "docs"
SPEC = (DOCS / "spec" / "ensemble.md").read_text()
PAGE = (DOCS / "ensemble.md").read_text()
QUESTIONS = {"leader", "role", "applied", "zxid", "sessions", "outstanding", "troubles"}
"""``GET /ensemble``, ``GET /sessions`` and ``pyzk ensemble`` answer them."""
OF_A_SERVER_TOO = {
    *("dump", "load", "snapshot", "restore", "format_tree"),
    *("history", "advice", "note", "format_timeline", "leaks", "wait_for", "wait_idle"),
}
"""What there is of one server too, with a route of its own."""
OF_PYTHON = {"run", "running", "hosts", "url", "numbers"}


def verbs_of_python() -> set[str]:
    names = {name for name in dir(EnsembleControls) if not name.startswith("_")}
    return names - QUESTIONS - OF_A_SERVER_TOO - OF_PYTHON


def test_no_list_of_verbs_falls_behind() -> None:
    routes = {
        route.path.removeprefix("/ensemble/")
        for route in ROUTES
        if route.method == "POST" and route.path.startswith("/ensemble/")
    }
    assert verbs_of_python() == set(VERBS) == {name.replace("-", "_") for name in COMMANDS}
    assert set(VERBS) <= routes


def test_there_is_each_verb_of_the_specification() -> None:
    table = SPEC.partition("### 15.1")[2].partition("\n### ")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    specified = {name for cell in cells for name in re.findall(r"`(\w+)\(", cell)}
    assert len(specified) >= 20
    assert specified <= verbs_of_python() | QUESTIONS


@pytest.mark.parametrize("name", VERBS)
def test_the_arguments_are_those_of_the_table(name: str) -> None:
    parameters = dict(inspect.signature(getattr(EnsembleControls, name)).parameters)
    del parameters["self"]
    arguments = VERBS[name].arguments
    assert set(parameters) == set(arguments)
    for each, parameter in parameters.items():
        is_several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        assert is_several == (arguments[each].kind in ("servers", "groups"))
        if not is_several:
            assert arguments[each].required == (parameter.default is inspect.Parameter.empty)
    (route,) = [route for route in ROUTES if route.path == f"/ensemble/{name}"]
    assert set(route.fields) == set(arguments)
    assert {field for field, each in route.fields.items() if each.required} == {
        each for each, argument in arguments.items() if argument.required
    }
    everywhere = {
        action.dest for action in verb_parser("ls")._actions
    }  # the options of the server, and --json
    actions = {action.dest for action in verb_parser("ensemble", name.replace("_", "-"))._actions}
    assert actions - (everywhere - {"path"}) - {"yes"} == set(arguments)


# --- each verb with each argument, end to end -------------------------------------------------------------

VALUES: dict[str, list[tuple[Any, list[str]]]] = {
    "server": [(2, ["2"]), (LEADER, [LEADER])],
    "servers": [([2], ["2"]), ([1, LEADER], ["1", LEADER])],
    "groups": [([[1, 2], [LEADER]], ["1,2", LEADER])],
    "session": [("0x0", ["0x0"])],
    "seconds": [(0.25, ["0.25"]), (120, ["2m"])],
    "number": [(2.5, ["2.5"])],
    "integer": [(7, ["7"]), (-7, ["-7"])],
    "zxid": [(2**33 + 5, ["0x200000005"])],
    "text": [("3", ["3"])],
}
"""Values of each kind, as Python and JSON have them, and as words of a terminal."""


def values(argument: Argument) -> list[tuple[Any, list[str]]]:
    if argument.kind == "boolean":
        return [(argument.sets, [])]
    if argument.choices:
        return [(choice, [choice]) for choice in argument.choices]
    return VALUES[argument.kind]


def calls() -> list[Any]:
    """Each verb with what it needs, and beside that each of its arguments with each value."""
    found = []
    for name, verb in VERBS.items():
        needed = {each: values(argument)[0] for each, argument in verb.arguments.items() if argument.required}
        found.append((name, needed))
        for each, argument in verb.arguments.items():
            found += [(name, needed | {each: value}) for value in values(argument)]
    return [pytest.param(name, given, id=f"{name} {shlex.join(words(name, given))}") for name, given in found]


def words(name: str, given: dict[str, tuple[Any, list[str]]]) -> list[str]:
    arguments = VERBS[name].arguments
    words = []
    for each in arguments:  # in the order of a terminal
        if each in given:
            flag = arguments[each].flag
            words += [*([] if flag is None else [flag]), *given[each][1]]
    return words


class Heard:
    """Stands in the place of a control, and keeps what it is called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls: list[dict[str, Any]] = []
        signature = inspect.signature(getattr(EnsembleControls, name))

        def call(*args: Any, **kwargs: Any) -> None:
            bound = dict(signature.bind(*args, **kwargs).arguments)
            del bound["self"]
            self.calls.append(bound)

        def steps(controls: object, seconds: float, keep_alive: bool, **_: Any) -> Iterator[None]:
            self.calls.append({"seconds": seconds, **({"keep_alive": True} if keep_alive else {})})
            yield

        monkeypatch.setattr(EnsembleControls, name, call)
        if name == "advance":  # over HTTP its steps are taken in turns
            monkeypatch.setattr(server, "advancing", steps)


@pytest.fixture(scope="module")
def servers() -> Any:
    with EmbeddedEnsemble(3, clock="frozen") as ensemble:
        yield ensemble


@pytest.mark.parametrize(("name", "given"), calls())
def test_an_argument_arrives_by_every_way(
    servers: EmbeddedEnsemble,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    given: dict[str, tuple[Any, list[str]]],
) -> None:
    heard = Heard(monkeypatch, name)
    body = {each: value for each, (value, _) in given.items()}
    ask(servers[1].url, f"/ensemble/{name}", body)
    command = name.replace("_", "-")
    assert main(["--hosts", servers.hosts, "ensemble", command, *words(name, given)]) == 0
    wanted = {each: tuple(v) if isinstance(v, list) else v for each, v in body.items()}
    if "session" in wanted:
        wanted["session"] = 0
    for found in heard.calls:
        assert {each: v for each, v in found.items() if v != ()} == wanted
    assert len(heard.calls) == 2
    VERBS[name].check(wanted)


@pytest.mark.parametrize("name", VERBS)
def test_a_terminal_takes_the_name_of_python_too(
    servers: EmbeddedEnsemble, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heard = Heard(monkeypatch, name)
    (_, given) = next(call.values for call in calls() if call.values[0] == name)
    assert main(["--hosts", servers.hosts, "ensemble", name, *words(name, given)]) == 0
    assert len(heard.calls) == 1


@pytest.mark.parametrize("way", ["hold-acks", "hold_ack"])
def test_a_path_that_there_is_not_names_the_one_that_is_meant(servers: EmbeddedEnsemble, way: str) -> None:
    answer = ask(servers[1].url, f"/ensemble/{way}", {})
    assert (answer["status"], "perhaps /ensemble/hold_acks" in answer["detail"]) == (404, True), answer


def test_a_zxid_may_be_text_as_answers_show_it(servers: EmbeddedEnsemble) -> None:
    url = servers[1].url
    shown = ask(url, "/ensemble")["servers"][0]["zxid"]
    assert ask(url, "/ensemble/lag", {"server": 1, "upto": shown})["servers"][0]["lags_at"] == shown
    assert "such as 0x100000002" in ask(url, "/ensemble/lag", {"server": 1, "upto": "x"})["detail"]
    servers.calm()


# --- wrong arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda e: e.kill(3, pending="loss"), ValueError, "pending must be 'lost' or 'applied', not 'loss'"),
        (
            lambda e: e.lag("1"),
            TypeError,
            "server must be the number of a server, such as 1, or 'leader', not '1'",
        ),
        (lambda e: e.lag(True), TypeError, "server must be the number of a server"),
        (lambda e: e.lag(None), TypeError, "server must be the number of a server"),
        (lambda e: e.lag(1, "2"), TypeError, "seconds must be a number of seconds, not '2'"),
        (
            lambda e: e.lag(1, upto="0x1"),
            TypeError,
            "upto must be a zxid, which is a whole number, not '0x1'",
        ),
        (lambda e: e.isolate(1, silent="no"), TypeError, "silent must be True or False, not 'no'"),
        (
            lambda e: e.partition(1, 2),
            TypeError,
            "groups must be a list of numbers of servers, such as [1, 2]",
        ),
        (lambda e: e.partition(["1"]), TypeError, "server must be the number of a server"),
        (lambda e: e.heal([1, 2]), TypeError, "servers must be the number of a server"),
        (lambda e: e.reconfig(leaving=3), TypeError, "leaving must be text, not 3"),
        (lambda e: e.nemesis("7"), TypeError, "seed must be a whole number, not '7'"),
        (lambda e: e.advance("5"), TypeError, "seconds must be a number of seconds, not '5'"),
        (lambda e: e.move(2.5, 1), TypeError, "a session is named by its id, a text, its SessionInfo or"),
        (lambda e: e.role("1"), TypeError, "server must be the number of a server"),
        (lambda e: e["1"], TypeError, "server must be the number of a server"),
        (lambda e: e.partition(), ValueError, "partition needs a group of servers"),
        (lambda e: e.partition([]), ValueError, "partition needs a group of servers"),
        (
            lambda e: e.start(1, observer=True),
            ValueError,
            "observer is only for a further server without a line",
        ),
        (lambda e: e.lag(9), ValueError, "there is no server 9; there are 1, 2, 3"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_done(
    servers: EmbeddedEnsemble, call: Any, error: type[Exception], said: str
) -> None:
    before = len(servers.history(kind="control"))
    with pytest.raises(error, match=re.escape(said)):
        call(servers)
    assert len(servers.history(kind="control")) == before
    assert [servers.role(number) for number in servers.numbers] == ["follower", "follower", "leader"]


def test_leader_names_the_server_that_leads() -> None:
    with EmbeddedEnsemble(3, clock="frozen") as ensemble:
        assert ensemble["leader"] is ensemble[3]
        assert ask(ensemble[1].url, "/ensemble/kill", {"server": "leader"})["servers"][2]["role"] == "down"
        with pytest.raises(EnsembleError, match="no server leads"):
            ensemble.kill("leader")
        assert ask(ensemble[1].url, "/ensemble/kill", {"server": "leader"})["status"] == 409
        ensemble.elect()
        ensemble.freeze("leader")
        assert ensemble.troubles(2) == ["frozen"]


# --- the page ---------------------------------------------------------------------------------------------


def rows() -> list[str]:
    """The table of the page."""
    found = []
    for name in VERBS:
        arguments = VERBS[name].arguments
        fields = ", ".join(f"`{each}`" for each in arguments) or "-"
        usage = verb_parser("ensemble", name.replace("_", "-")).format_usage()
        usage = " ".join(usage.split()).removeprefix("usage: pyzk ensemble ")
        usage = usage.replace(" [-h]", "").replace(" [--json]", "").replace(" [-y]", "")
        found.append(f"| `{name}` | {fields} | `{usage.replace('|', chr(92) + '|')}` |")
    return found


def test_the_page_has_each_verb_with_its_arguments() -> None:
    table = PAGE.partition("## Each verb, three ways")[2].partition("\n## ")[0]
    found = [line for line in table.splitlines() if line.startswith("| `")]
    assert found == rows()

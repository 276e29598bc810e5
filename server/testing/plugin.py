"""The pytest plugin: fixtures, options, and the report of a failing test about its server.

* The fixtures are ``zk_server``, ``zk_client``, ``zk_ensemble``, ``zk_proc`` and ``zk_noproc``;
  :mod:`.factories` makes more. The fixtures for clients of this project are in another plugin.
* An option of the command line is ``--zk-NAME``. The same option in the ini file is ``zk_NAME``.
* If a test fails, its report gets the timeline and the tree of each server that its fixtures or the test
  itself have started.
* ``--zk-timeline`` adds the timeline and the tree to every report, or to no report. The report of a test that
  hangs has them too (:mod:`.hangs`).
* With ``--zk-hold-on-failure`` the servers of the fixtures run until somebody presses Enter, so that you can
  look at them in a browser.
* The server is imported only when a fixture is used, because pytest loads this module in every suite.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from . import factories, shown
from .hangs import Hangs

if TYPE_CHECKING:
    from . import EmbeddedEnsemble, EmbeddedServer

_OPTIONS = {
    "hosts": ("HOSTS", "connect string of a running server or ensemble: zk_noproc, and zk_client by default"),
    "port": ("PORT", "port of zk_proc (default: a free one)"),
    "exec": ("COMMAND", "command of zk_proc (default: the server of this Python)"),
    "args": ("ARGS", "more arguments for zk_proc"),
    "tick_time": ("MS", "tick of zk_server (default: 2000)"),
    "hostile": ("SEED", "zk_server always does what ZooKeeper may do but rarely does"),
    "otlp": ("URL", "an OpenTelemetry collector, which gets the spans of zk_server and zk_ensemble"),
    "timeout": (
        "SECONDS",
        "the seconds in which a server must start and a client must connect (default: 30)",
    ),
}

_BUDGET = "the seconds that each sweep can take (default: the seconds of the test, or 10)"
_LIMITS = "zk_limits(watches=, requests=, znodes=): a client that needs more fails the test (docs/testing.md)"
_MARKER = "zk_sweep(**options): run an async test with every fault and in every order (docs/sweep.md)"
_WHEN = ("always", "failed", "never")
_TIMELINE = "which tests have timeline and tree in their reports: always (pytest -rP shows them), failed, "
"never"
_ADVISE = "show what clients have done wrong, after the run; =error: such tests fail (docs/advisor.md)"

pytest_plugins = ["pyzk.server.app.client_fixtures"]

zk_server = factories.zk_server()
zk_client = factories.zk_client()
zk_proc = factories.zk_proc()
zk_noproc = factories.zk_noproc()
zk_ensemble = factories.zk_ensemble()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zk", "ZooKeeper servers (pyzk-server)")
    for name, (metavar, text) in _OPTIONS.items():
        flag = f"--zk-{name.replace('_', '-')}"
        group.addoption(flag, dest=f"zk_{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"zk_{name}", text, default="30" if name == "timeout" else "")
    text = "keep the servers of a test that fails, and print where their pages are, until Enter is pressed"
    group.addoption("--zk-hold-on-failure", dest="zk_hold", action="store_true", default=False, help=text)
    text = "a test fails if it leaves sessions open on zk_server"
    group.addoption("--zk-check-leaks", dest="zk_check_leaks", action="store_true", default=False, help=text)
    parser.addini("zk_check_leaks", text, type="bool", default=False)
    group.addoption("--zk-timeline", dest="zk_timeline", choices=_WHEN, default=None, help=_TIMELINE)
    parser.addini("zk_timeline", _TIMELINE, default="failed")
    mode = {"nargs": "?", "const": "warn", "default": None, "metavar": "warn|error"}
    group.addoption("--zk-advise", dest="zk_advise", **mode, help=_ADVISE)
    parser.addini("zk_advise", f"warn: {_ADVISE}", default="")
    group.addoption("--zk-sweep-budget", dest="zk_sweep_budget", metavar="SECONDS", type=float, help=_BUDGET)
    text = "run only the run of this token (from a report), in each sweep"
    group.addoption("--zk-sweep-replay", dest="zk_sweep_replay", metavar="TOKEN", help=text)
    text = "append the report of each sweep to this file, a JSON object each"
    page = "write the report of the last failing sweep to this file, as a page that plays it"
    group.addoption("--zk-sweep-html", dest="zk_sweep_html", metavar="FILE", help=page)
    group.addoption("--zk-sweep-json", dest="zk_sweep_json", metavar="FILE", help=text)
    parser.addini("zk_advise_ignore", "rules of --zk-advise that are left out", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _LIMITS)
    if config.getoption("zk_hold") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--zk-hold-on-failure: nobody can press Enter for pytest-xdist; add -n 0")
    if factories.option(config, "timeline") not in _WHEN:
        raise pytest.UsageError(f"zk_timeline is one of {', '.join(_WHEN)}")
    config.pluginmanager.register(Hangs(config, _servers_of), "zk_hangs")
    mode = factories.option(config, "advise")
    if mode:
        from .advising import Advising

        advising = Advising.of(mode, config.getini("zk_advise_ignore"))
        config.pluginmanager.register(advising, "zk_advising")


@pytest.fixture
def zk_limits(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[None]]:
    """Return a function that checks limits for a part of a test at zk_server: with zk_limits(watches=10,
    requests=100, znodes=5)."""
    from .limits import limits

    return partial(limits, request.getfixturevalue("zk_server"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("zk_limits")
    if marker is None:
        return (yield)
    from .errors import LimitExceeded
    from .limits import limits

    servers = list(_servers_of(item))
    if not servers:
        pytest.fail(
            "zk_limits is for tests with a fixture that is a server, such as zk_server", pytrace=False
        )
    try:
        with ExitStack() as stack:
            for _, server in servers:
                stack.enter_context(limits(server, **marker.kwargs))
            return (yield)
    except LimitExceeded as error:
        failure = str(error)
    pytest.fail(failure, pytrace=False)


@pytest.fixture
def zk_sweep(request: pytest.FixtureRequest) -> Callable[..., object]:
    """:func:`pyzk.server.testing.sweep`, with the options of the command line; runs that failed before come
    first."""
    from ..sweep.in_pytest import sweeper

    return sweeper(request.node)


@pytest.fixture
def zk_lab() -> None:
    """The lab of a test with the marker ``zk_sweep``. Each run has its own lab."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    marker = pyfuncitem.get_closest_marker("zk_sweep")
    if marker is None:
        return None
    from ..sweep.in_pytest import run_marked

    run_marked(pyfuncitem, marker)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    with shown.noted():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    hangs = item.config.pluginmanager.getplugin("zk_hangs")
    picture = hangs.take() if hangs is not None and report.failed else None
    when = factories.option(item.config, "timeline")
    if (when == "always" and report.when == "call") or (when == "failed" and report.failed):
        if picture is None:
            picture = [each for name, server in _servers_of(item) for each in _sections(name, server)]
            picture += shown.take()
        report.sections += picture
        _leave_out_what_it_says(report, call)
    if report.failed and report.when == "call" and item.config.getoption("zk_hold"):
        _hold(item)
    return report


def _servers_of(item: pytest.Item) -> Iterator[tuple[str, EmbeddedServer | EmbeddedEnsemble]]:
    """The servers that the fixtures of a test have started, by name."""
    for node in item.listchain():
        yield from list(node.stash.get(factories.SERVERS, {}).items())


def _leave_out_what_it_says(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Leave out the timeline if the error message contains the timeline already."""
    error = None if call.excinfo is None else call.excinfo.value
    hosts = getattr(error, "hosts", None) if type(error).__name__ == "NotInTime" else None
    if hosts is not None:
        title = f"Timeline of {hosts};"
        report.sections = [each for each in report.sections if not each[1].startswith(title)]


def _hold(item: pytest.Item) -> None:
    """Wait for Enter while the servers of a test still run, if standard input is a terminal or a pipe."""
    from .controls import Controls

    servers = [
        f"{name} at {one.url}"
        for node in item.listchain()
        for name, server in node.stash.get(factories.SERVERS, {}).items()
        for one in ([server] if isinstance(server, Controls) else server)
        if one.url is not None
    ]
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if not servers:
        return
    if capture is not None:
        capture.suspend(in_=True)
    try:
        if not _somebody_may_press_enter():
            print(f"\n{item.nodeid} has failed; it is not held: standard input is neither terminal nor pipe")
            return
        print(f"\n{item.nodeid} has failed; it is held: {', '.join(servers)}")
        input("Press Enter to continue. ")
    except EOFError:
        print("\nThe test is not held any longer: standard input has ended.")
    finally:
        if capture is not None:
            capture.resume()


def _somebody_may_press_enter() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it is closed, or no file
        return False
    return sys.stdin.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _sections(name: str, server: EmbeddedServer | EmbeddedEnsemble) -> list[tuple[str, str]]:
    from . import ServerDied, ServerStopped

    try:
        return shown.sections(name, server)
    except ServerStopped:
        return []
    except ServerDied as death:
        return [(f"{name}: the server has died", str(death))]

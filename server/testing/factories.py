"""Factories of fixtures, for a test suite that needs other settings, scopes or servers::

    from pyzk.server.testing import factories

    quick_server = factories.zk_server(tick_time=100)
    quick_client = factories.zk_client("quick_server", timeout=1.0)
    second_client = factories.zk_client()           # another session on the same zk_server
    shared_server = factories.zk_server(scope="module")
    five_servers = factories.zk_ensemble(5, clock="frozen")

A server of a fixture is fresh and empty, and ends with the scope of the fixture. The client of a fixture is
connected. It closes its session at the end. If kazoo or a running server is missing, a test is skipped and
does not fail.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import pytest

from . import shown

if TYPE_CHECKING:
    from . import EmbeddedEnsemble, EmbeddedServer
    from .process import ProcessServer

Scope: TypeAlias = Literal["session", "package", "module", "class", "function"]

SERVERS = pytest.StashKey[dict[str, "EmbeddedServer | EmbeddedEnsemble"]]()
"""On a collection node: the servers that its fixtures have started, by fixture name."""
_LEAKS_TIMEOUT = 1.0  # seconds that clients have to be gone once their fixtures are
LINES = 200  # of the timeline of a test that has failed


_LONGEST: Final = 24
"""The largest number of characters of the name of a session."""


class RunningServer(NamedTuple):
    """A server that the test has not started. ``hosts`` is its connect string for clients."""

    hosts: str


def option(config: pytest.Config, name: str) -> Any:
    """Return the value of ``--zk-NAME``, otherwise the value of ``zk_NAME`` in the ini file."""
    value = config.getoption(f"zk_{name}")
    return config.getini(f"zk_{name}") if value in (None, False) else value


def zk_server(*, scope: Scope = "function", check_leaks: bool | None = None, **settings: Any) -> Any:
    """Make a fixture that is a fresh, empty :class:`.EmbeddedServer`.

    :param check_leaks: whether a session that is still open at the end of the server is an error. The default
        is ``--zk-check-leaks``.
    :param settings: as for :class:`.EmbeddedServer`. The defaults of ``tick_time``, ``hostile`` and ``otlp``
        are ``--zk-tick-time``, ``--zk-hostile`` and ``--zk-otlp``.
    """

    @pytest.fixture(scope=scope)
    def zk_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
        """A fresh, empty server in a thread: an EmbeddedServer."""
        from . import EmbeddedServer

        numbers = {name: option(request.config, name) for name in ("tick_time", "hostile")}
        given: dict[str, Any] = {name: int(number) for name, number in numbers.items() if number}
        given |= _spans(request.config) | settings
        with EmbeddedServer(**given) as server:
            servers = request.node.stash.setdefault(SERVERS, {})
            name = request.fixturename or "zk_server"
            servers[name] = server
            shown.forget(server.running)
            yield server
            del servers[name]
            wanted = option(request.config, "check_leaks") if check_leaks is None else check_leaks
            if wanted:
                _check_leaks(server)

    return zk_server


def _spans(config: pytest.Config) -> dict[str, str]:
    """Return the argument that names the collector of spans, if there is one."""
    url = option(config, "otlp")
    return {"otlp": url} if url else {}


def zk_ensemble(
    participants: int = 3, observers: int = 0, *, scope: Scope = "function", **settings: Any
) -> Any:
    """Make a fixture that is a fresh, empty :class:`.EmbeddedEnsemble`.

    :param settings: as for :class:`.EmbeddedEnsemble`. The default of ``otlp`` is ``--zk-otlp``.
    """

    @pytest.fixture(scope=scope)
    def zk_ensemble(request: pytest.FixtureRequest) -> Iterator[EmbeddedEnsemble]:
        """A fresh, empty ensemble of three servers in a thread: an EmbeddedEnsemble."""
        from . import EmbeddedEnsemble

        with EmbeddedEnsemble(participants, observers, **_spans(request.config) | settings) as ensemble:
            servers = request.node.stash.setdefault(SERVERS, {})
            name = request.fixturename or "zk_ensemble"
            servers[name] = ensemble
            shown.forget(ensemble.running)
            yield ensemble
            del servers[name]

    return zk_ensemble


def name_session(server: Any, name: str | None, client: Any) -> None:
    """Name the session of a client after its fixture, if the name of the fixture is a valid session name."""
    for one in [server] if hasattr(server, "name_session") else list(server):
        with suppress(LookupError, TypeError, ValueError):
            one.name_session((name or "client")[:_LONGEST], client)
            return


def _check_leaks(server: EmbeddedServer) -> None:
    deadline = time.monotonic() + _LEAKS_TIMEOUT
    while any(session.connected for session in server.sessions()) and time.monotonic() < deadline:
        time.sleep(0.005)  # a client that was closed without waiting may still be on its way
    if leaks := server.leaks():
        lines = "\n  ".join(map(str, leaks))  # pytest's summary shows the first one
        text = f"the test has left behind: {lines}\n\n{server.format_timeline(limit=LINES)}"
        pytest.fail(text, pytrace=False)


def zk_proc(
    *,
    scope: Scope = "session",
    port: int | None = None,
    arguments: Sequence[str] = (),
    executable: Sequence[str] | None = None,
) -> Any:
    """Make a fixture that is a :class:`.process.ProcessServer`: the command as a subprocess.

    :param port: the port. The default is ``--zk-port``, otherwise a free port.
    :param arguments: more arguments of the command, in addition to ``--zk-args``.
    :param executable: the command. The default is ``--zk-exec``, otherwise the server of this Python.
    """

    @pytest.fixture(scope=scope)
    def zk_proc(request: pytest.FixtureRequest) -> Iterator[ProcessServer]:
        """The command pyzk-server as a subprocess, for the whole run of pytest."""
        import shlex
        import sys

        from .process import ProcessServer

        config = request.config
        command = executable or shlex.split(option(config, "exec") or "")
        with ProcessServer(
            port=int(option(config, "port") or 0) if port is None else port,
            arguments=[*shlex.split(option(config, "args") or ""), *arguments],
            executable=command or (sys.executable, "-m", "pyzk.server"),
            timeout=float(option(config, "timeout")),
        ) as server:
            yield server

    return zk_proc


def zk_noproc(*, hosts: str | None = None, scope: Scope = "session") -> Any:
    """Make a fixture that is a :class:`RunningServer`, a server that runs already, such as a real ensemble.

    A test that uses it is skipped if no server is named, and fails if no server answers.

    :param hosts: the connect string of the server; by default the value of ``--zk-hosts``.
    """

    @pytest.fixture(scope=scope)
    def zk_noproc(request: pytest.FixtureRequest) -> RunningServer:
        """The running server that --zk-hosts names."""
        found = hosts or option(request.config, "hosts")
        if not found:
            pytest.skip("no running server is named: give --zk-hosts, or zk_hosts in the ini file")
        _wait_for_any(found, float(option(request.config, "timeout")))
        return RunningServer(found)

    return zk_noproc


def _wait_for_any(hosts: str, timeout: float) -> None:
    """Wait until one of the servers accepts connections."""
    deadline = time.monotonic() + timeout
    while True:
        for address in hosts.partition("/")[0].split(","):
            host, _, port = address.strip().rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
            except ValueError:
                pytest.fail(f"--zk-hosts: {address!r} is not HOST:PORT", pytrace=False)
            except OSError as error:
                refusal = error
            else:
                return
        if time.monotonic() > deadline:
            pytest.fail(f"no ZooKeeper server answers at {hosts}: {refusal}", pytrace=False)
        time.sleep(0.05)


def zk_client(server: str | None = None, *, scope: Scope = "function", **options: Any) -> Any:
    """Make a fixture that is a connected :class:`kazoo.client.KazooClient`, stopped and closed afterwards.

    A test that uses it is skipped if kazoo is not installed.

    :param server: the name of the fixture that is the server. The default is ``zk_server``. If ``--zk-hosts``
        is given and the test does not use ``zk_server`` itself, the default is ``zk_noproc``.
    :param options: for the client. On a server that the test has not started, each client gets its own
        chroot, which is deleted afterwards.
    """

    @pytest.fixture(scope=scope)
    def zk_client(request: pytest.FixtureRequest) -> Iterator[Any]:
        """A kazoo client, connected to zk_server or to the server of --zk-hosts."""
        pytest.importorskip("kazoo.client", reason="kazoo is not installed")
        from .sessions import session_id_of

        name = server
        if name is None:
            elsewhere = option(request.config, "hosts") and "zk_server" not in request.fixturenames
            name = "zk_noproc" if elsewhere else "zk_server"
        found = request.getfixturevalue(name)
        timeout = float(option(request.config, "timeout"))
        if isinstance(found, RunningServer):
            with _own_chroot(found.hosts, timeout) as hosts, _connected(hosts, timeout, options) as client:
                yield client
            return
        session = 0
        with _connected(found.hosts, timeout, options) as client:
            if hasattr(found, "running"):
                name_session(found, request.fixturename, client)
            yield client
            with suppress(LookupError):
                session = session_id_of(client)
        if session and hasattr(found, "expire"):
            # kazoo cannot close its session while it is cut off: that is no leak of the test's
            with suppress(LookupError, RuntimeError):
                found.expire(session)

    return zk_client


@contextmanager
def _connected(hosts: str, timeout: float, options: dict[str, Any]) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=hosts, **options)
    try:
        client.start(timeout=timeout)
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def _own_chroot(hosts: str, timeout: float) -> Iterator[str]:
    """Create a fresh znode on a server that other programs use too."""
    name = f"/pytest-{uuid.uuid4().hex}"
    with _connected(hosts, timeout, {}) as admin:
        admin.create(name)
        try:
            yield f"{hosts.rstrip('/')}{name}"
        finally:
            admin.delete(name, recursive=True)


__all__ = ["RunningServer", "zk_client", "zk_ensemble", "zk_noproc", "zk_proc", "zk_server"]

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
import trio
import trio.testing

from pyzk.protocol.version import __version__
from pyzk.server.app import cli, flags
from pyzk.server.app import serve as transport
from pyzk.server.config import settings as settings_module
from pyzk.server.config.settings import Settings
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret, read

SAMPLE = Path(__file__).parents[3] / "conf" / "zoo.cfg"


@pytest.fixture
def served(monkeypatch):
    """Puts a server without sockets in the place of the real one; it sends itself SIGTERM once it is ready.

    Gives the ``settings`` it was started with, and takes the addresses to announce, an ``error`` to raise,
    and the signals to send ``at_start``, ``when_ready`` and ``at_stop``.
    """
    told = SimpleNamespace(
        settings=None,
        address=("127.0.0.1", 2181),
        secure_address=None,
        admin_address=None,
        metrics_address=None,
        url="http://127.0.0.1:2181/",
        error=None,
        at_start=[],
        when_ready=[signal.SIGTERM],
        at_stop=[],
        stopped=False,
    )

    async def serve(settings, prepare=None, *, task_status=trio.TASK_STATUS_IGNORED):
        told.settings = settings
        if told.error:
            raise told.error
        try:
            await send(told.at_start)
            task_status.started(told)
            await send(told.when_ready)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await send(told.at_stop)
            told.stopped = True

    async def send(signals):
        for number in signals:
            await trio.testing.wait_all_tasks_blocked()
            signal.raise_signal(number)
            await trio.testing.wait_all_tasks_blocked()

    monkeypatch.setattr(transport, "serve", serve)
    return told


@pytest.fixture
def refused(capsys):
    """Runs the command and gives the one line that says why it does not start."""

    def run(*argv):
        assert cli.main(argv) == 2
        out, err = capsys.readouterr()
        assert not out
        assert re.fullmatch(r"pyzk-server: .+\n", err)
        return err.removeprefix("pyzk-server: ").rstrip()

    return run


# --- arguments ------------------------------------------------------------------------------------------


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pyzk-server {__version__}\n"


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for flag in (*flags.FLAGS.values(), "--config", "--log-level", "--log-format", "--version"):
        assert flag in text


def test_without_arguments_the_defaults(served):
    assert cli.main([]) == 0
    assert served.settings == Settings()


def test_flags(served):
    argv = "--host ::1 --port 0 --tick-time 100 --min-session-timeout 50 --max-session-timeout 500"
    assert cli.main(argv.split()) == 0
    assert served.settings == Settings(
        host="::1", port=0, tick_time=100, min_session_timeout=50, max_session_timeout=500
    )


def test_flags_win_over_the_file(served, tmp_path):
    (tmp_path / "zoo.cfg").write_text(
        "clientPort=2190\nclientPortAddress=::1\ntickTime=300\nenforceQuota=true\n"
    )
    assert cli.main(["--config", str(tmp_path / "zoo.cfg"), "--port", "2191", "--host", "localhost"]) == 0
    settings = served.settings
    assert (settings.host, settings.port, settings.tick_time) == ("localhost", 2191, 300)
    assert settings.enforce_quota


def test_the_file_is_warned_about_once_on_stderr(served, tmp_path, capsys):
    (tmp_path / "zoo.cfg").write_text("dataDir=/data\ninitLimit=5\nmade.up=1\n")
    assert cli.main(["--config", str(tmp_path / "zoo.cfg")]) == 0
    out, err = capsys.readouterr()
    assert out == "pyzk-server is ready at 127.0.0.1:2181\nHTTP at http://127.0.0.1:2181/\n"
    assert err.count("\n") == 1
    assert "WARNING" in err


def test_log_flags(served, tmp_path, capsys):
    (tmp_path / "zoo.cfg").write_text("dataDir=/data\n")
    assert cli.main(["--config", str(tmp_path / "zoo.cfg"), "--log-format", "json"]) == 0
    assert capsys.readouterr().err.startswith('{"time": ')
    assert cli.main(["--config", str(tmp_path / "zoo.cfg"), "--log-level", "ERROR"]) == 0
    assert capsys.readouterr().err == ""


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--port", "many"], "--port"),
        (["--port"], "--port"),
        (["--prot", "1"], "--prot"),
        (["zoo.cfg"], "zoo.cfg"),
        (["--port", "70000"], "--port must be 0 to 65535, not 70000"),
        (["--host", ""], "--host"),
        (["--tick-time", "0"], "--tick-time must be at least 1, not 0"),
        (["--min-session-timeout", "50000"], "--min-session-timeout 50000 ms is above --max-session-timeout"),
        (["--max-session-timeout", "1"], "--min-session-timeout 4000 ms is above --max-session-timeout 1 ms"),
        (["--log-level", "loud"], "--log-level"),
        (["--log-format", "xml"], "--log-format"),
        (["--config", "nowhere/zoo.cfg"], "cannot read nowhere/zoo.cfg: No such file or directory"),
    ],
)
def test_bad_arguments(refused, argv, words):
    assert words in refused(*argv)


@pytest.mark.parametrize(
    ("flags_given", "named"),
    [
        (("--hostile", "0"), "--hostile"),
        (("--hostile", "7"), "--hostile"),
        (("--emulate", "3.8"), "--emulate"),
        (("--set", "emulate=3.8"), "emulate (--set)"),
    ],
)
def test_what_an_ensemble_cannot_do_is_refused(refused, flags_given, named):
    message = refused("--ensemble", "3", *flags_given)
    assert message == f"{named} is for a single server; leave it out with an ensemble"


def test_a_bad_file(refused, tmp_path):
    path = tmp_path / "zoo.cfg"
    path.write_text("# one\ntickTime=fast\n")
    assert refused("--config", str(path)) == f"{path}, line 2: tickTime: 'fast' is not a whole number"
    path.write_text("minSessionTimeout=6000\n")
    message = refused("--config", str(path), "--max-session-timeout", "5000")
    assert f"minSessionTimeout ({path}, line 1) 6000 ms is above --max-session-timeout 5000 ms" in message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EACCES, "Permission denied"), "privileged programs; change --port"),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "no such address on this machine; change --host"),
        (OSError(errno.ENOBUFS, "No buffer space"), "No buffer space; change --host or --port"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service"), "cannot be resolved; change --host"),
        (UnicodeError("label too long"), "cannot be resolved; change --host"),
        (ExceptionGroup("", [OSError(errno.EADDRINUSE, "Address")]), "the port is in use"),
    ],
)
def test_an_address_that_cannot_be_had(served, refused, error, words):
    served.error = error
    message = refused()
    assert message.startswith("cannot listen at 127.0.0.1:2181: ")
    assert words in message


def test_an_address_that_cannot_be_had_is_named_as_the_file_has_it(served, tmp_path):
    given = interpret("clientPort=80\nclientPortAddress=::1", "zoo.cfg").values
    error = OSError(errno.EACCES, "Permission denied")
    message = cli._explain(error, build(given), given)
    assert message.startswith("cannot listen at [::1]:80: ")
    assert message.endswith("change clientPort (zoo.cfg, line 1)")


def test_a_port_in_use(refused):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused("--port", str(port))
    assert message.startswith(f"cannot listen at 127.0.0.1:{port}: the port is in use")
    assert message.endswith("change --port (0: any free port)")


def test_the_one_of_several_ports_that_is_in_use_is_named(refused, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path = tmp_path / "zoo.cfg"
        path.write_text(f"clientPort=0\nadmin.enableServer=true\nadmin.serverPort={port}\n")
        message = refused("--config", str(path))
    assert message.startswith(f"cannot listen at 127.0.0.1:{port}: the port is in use")
    assert message.endswith(f"change admin.serverPort ({path}, line 3) (0: any free port)")


@pytest.mark.parametrize(
    ("key", "value", "distribution"),
    [
        (
            "metricsProvider.className",
            "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
            "prometheus-client",
        ),
    ],
)
def test_what_is_not_installed_is_named(refused, tmp_path, monkeypatch, key, value, distribution):
    monkeypatch.setattr(settings_module, "find_spec", lambda name: None)
    path = tmp_path / "zoo.cfg"
    path.write_text(f"{key}={value}\n")
    message = refused("--config", str(path))
    assert message == f"{key} ({path}, line 1) needs more: pip install {distribution}"


# --- signals, and the readiness line --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server(served, number, capsys):
    served.when_ready = [number]
    assert cli.main([]) == 0
    assert served.stopped
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_disturb_the_shutdown(served, number):
    served.at_stop = [number, number]
    assert cli.main([]) == 0
    assert served.stopped


def test_a_signal_before_the_server_is_ready(served, capsys):
    served.at_start = [signal.SIGTERM]
    assert cli.main([]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_before_signals_are_listened_for(monkeypatch, capsys):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(trio, "run", interrupt)
    assert cli.main([]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "others", "line"),
    [
        (("127.0.0.1", 4711), {}, "127.0.0.1:4711"),
        (("::1", 4711), {}, "[::1]:4711"),
        (("0.0.0.0", 1), {"secure_address": ("::", 2)}, "0.0.0.0:1 secure [::]:2"),
        (
            ("::1", 1),
            {"admin_address": ("::1", 2), "metrics_address": ("127.0.0.1", 3)},
            "[::1]:1 admin [::1]:2 metrics 127.0.0.1:3",
        ),
    ],
)
def test_the_readiness_line(served, capsys, address, others, line):
    vars(served).update(address=address, url=None, **others)
    assert cli.main([]) == 0
    assert capsys.readouterr().out == f"pyzk-server is ready at {line}\n"


# --- as processes ---------------------------------------------------------------------------------------


def test_the_sample_configuration_serves_until_a_signal():
    argv = [sys.executable, "-m", "pyzk.server", "--config", str(SAMPLE), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            match = re.fullmatch(r"pyzk-server is ready at 127\.0\.0\.1:(\d+)\n", line)
            assert match, process.communicate()
            with socket.create_connection(("127.0.0.1", int(match[1])), timeout=10) as client:
                client.sendall(b"ruok")
                assert client.recv(100) == b"imok"
            process.terminate()
            assert process.communicate(timeout=10) == ("", "")
            assert process.returncode == 0
        finally:
            process.kill()


def test_help_and_version_do_not_wait_for_heavy_modules():
    code = "import sys, pyzk.server.app.cli; print({'trio', 'attrs', 'ssl', 'json'} & {*sys.modules})"
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout == "set()\n"


def test_what_nobody_asks_for_is_not_loaded():
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("pyzk-server is ready at ")
            assert "libssl" not in Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.kill()


def test_what_is_imported_later_is_there_when_asked_for():
    code = """
from pyzk.server.app.lazy_imports import import_later
import_later("ssl", "idna", "sys")
import sys, ssl as early
assert "_ssl" not in sys.modules
assert early.create_default_context().check_hostname
import ssl as late
assert late.SSLContext is early.SSLContext
from ssl import SSLError
try: early.nothing
except AttributeError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'ssl' has no attribute 'nothing'\n"


@pytest.mark.parametrize(
    ("argv", "output", "reason"),
    [
        (["--port", "0"], ">/dev/full", "No space left on device"),
        (["--port", "0"], ">&-", "it is closed"),
        (["--port", "0"], "| true", "Broken pipe"),
        (["--version"], ">/dev/full", "No space left on device"),
    ],
)
def test_an_output_that_takes_nothing(argv, output, reason):
    command = f'("$0" -m pyzk.server "$@"; echo $? >&2) {output}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, *argv],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    line, status = done.stderr.splitlines()
    assert status == "2"
    assert line == f"pyzk-server: cannot write to standard output: {reason}; send it elsewhere"


# --- the sample configuration ---------------------------------------------------------------------------


def test_the_sample_is_the_defaults():
    configuration = read(str(SAMPLE))
    assert not configuration.warnings
    assert attrs.evolve(build(configuration.values), config_text="") == Settings()


def test_every_example_in_the_sample_works(tmp_path, monkeypatch):
    import trustme

    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    monkeypatch.chdir(tmp_path)
    text = re.sub(r"^#(?=\S+=)", "", SAMPLE.read_text(), flags=re.MULTILINE)
    configuration = interpret(text)
    assert not configuration.warnings
    settings = build(configuration.values)
    assert settings.secure_port == 2281
    assert settings.skip_acl


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ["snapCount=5", "autopurge.purgeInterval=1", "digest.enabled=true"],
            "nothing is kept in files without --data: snapCount, digest.enabled, autopurge.purgeInterval",
        ),
        (["snapSizeLimitInKb=5"], "nothing is kept in files without --data: snapSizeLimitInKb"),
        (["snapshot.compression.method=gz"], "nothing is kept in files without --data: snapshot.compr"),
        (["dataLogDir=/x"], "nothing is kept in files without --data: dataLogDir"),
        (["localSessionsEnabled=true"], "there is a single server: localSessionsEnabled"),
        (["localSessionsUpgradingEnabled=true"], "there is a single server: localSessionsUpgr"),
        (["snapCount=100000", "autopurge.snapRetainCount=3", "localSessionsEnabled=false"], None),
    ],
)
def test_settings_that_have_no_effect_here_are_told(served, capsys, given, told):
    assert cli.main([part for key in given for part in ("--set", key)]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "without effect" in line]
    assert len(lines) == (told is not None)
    assert told is None or f"without effect, because {told}" in lines[0]


def test_with_data_they_have_one(tmp_path, capsys):
    arguments = SimpleNamespace(data=str(tmp_path), data_repair=False)
    storage = flags.storage(arguments, build(interpret("clientPort=1\nsnapCount=5").values))
    assert storage is not None
    storage.close()
    assert "without effect" not in capsys.readouterr().err

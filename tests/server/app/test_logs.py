import fcntl
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from pyzk.server import lines
from pyzk.server.app import logs

from ...support.world import World


@pytest.fixture
def written(capsys):
    """Gives what was logged to stderr."""
    return lambda: capsys.readouterr().err


def fail():
    try:
        raise KeyError("gone")
    except KeyError:
        logging.getLogger("elsewhere").exception("it broke")


def test_text(written):
    logs.configure("info", "text")
    logging.getLogger("elsewhere").info("session 0x%x expired", 255)
    line = written()
    date, clock, rest = line.split(" ", 2)
    assert len(date) == 10
    assert len(clock) == len("12:34:56.789")
    assert rest == "INFO elsewhere: session 0xff expired\n"


def test_levels(written):
    logs.configure("warning", "text")
    logging.getLogger("elsewhere").info("not shown")
    logging.getLogger("elsewhere").warning("shown")
    assert [line.partition("WARNING")[2] for line in written().splitlines()] == [" elsewhere: shown"]


def test_configuring_again_replaces(written):
    logs.configure("info", "text")
    logs.configure("info", "text")
    logging.getLogger("elsewhere").info("once")
    assert written().count("once") == 1


def test_text_keeps_a_clients_control_characters_from_forging_lines(written):
    logs.configure()
    logging.getLogger("elsewhere").info("path %s", "/a\r\nERROR forged\x1b[2J\u2028")
    assert written().endswith("path /a\\r\\nERROR forged\\x1b[2J\\u2028\n")


def test_text_shows_no_mark_that_turns_or_hides_what_follows(written):
    logs.configure()
    logging.getLogger("elsewhere").info("%s", "a\u202eb\u200bc\ud800 é 漢")
    assert written().endswith(" elsewhere: a\\u202eb\\u200bc\\ud800 é 漢\n")
    try:
        raise ValueError("\u202eforged\x1b[2J")
    except ValueError:
        logging.getLogger("elsewhere").exception("it broke")
    assert written().endswith("\nValueError: \\u202eforged\\x1b[2J\n")


@pytest.mark.parametrize("style", logs.FORMATS)
def test_a_long_message_is_cut(written, style):
    logs.configure("info", style)
    logging.getLogger("elsewhere").info("%s", "x" * 100_000)
    line = written()
    assert "xxx... (100,000 characters)" in line
    assert len(line) < 5000


def test_text_shows_tracebacks_as_they_are(written):
    logs.configure()
    fail()
    lines = written().splitlines()
    assert lines[0].endswith("it broke")
    assert lines[1].startswith("Traceback")
    assert lines[-1] == "KeyError: 'gone'"


def test_json_is_one_object_per_line(written):
    logs.configure("info", "json")
    log = logging.getLogger("elsewhere")
    log.info("a\nb %s", "é\ud800", extra={"session": 7, "odd": b"x", "level": "forged"})
    fail()
    first, second = map(json.loads, written().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "elsewhere",
        "message": "a\nb é\ud800",
        "session": 7,
        "odd": "b'x'",
    }
    assert second["message"] == "it broke"
    assert second["exception"].endswith("KeyError: 'gone'")


def test_json_time_is_utc(written):
    logs.configure("info", "json")
    record = logging.makeLogRecord(
        {"msg": "x", "levelno": logging.INFO, "created": 1_000_000_000.25, "msecs": 250.0}
    )
    logging.getLogger().handle(record)
    assert json.loads(written())["time"] == "2001-09-09T01:46:40.250Z"


# --- a limit for each kind of line ----------------------------------------------------------------------


@pytest.fixture
def shown():
    """Gives a logger with a limit, the messages that it lets through, and the clock that it goes by."""
    now, messages = [0.0], []

    class Handler(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    handler, limit = Handler(), logs.Limit(lambda: now[0])
    handler.addFilter(limit)
    logger = logging.getLogger("elsewhere")
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    yield logger, messages, now, limit
    logger.removeHandler(handler)
    logger.setLevel("NOTSET")


def test_of_each_kind_there_are_so_many_and_the_rest_is_counted(shown):
    logger, messages, now, limit = shown
    for i in range(1000):
        logger.warning("bad client %d", i)
    logger.warning("another kind")
    logger.info("bad client %d", 1)
    assert messages == [*(f"bad client {i}" for i in range(logs._MOST)), "another kind", "bad client 1"]
    messages.clear()
    limit.tell()
    assert messages == []
    now[0] = 10.0
    limit.tell()
    limit.tell()
    assert messages == ["800 more lines were left out within 10 s, such as: bad client 999"]
    logger.warning("bad client %d", 1000)
    assert messages[1:] == ["bad client 1000"]


def test_at_the_end_the_rest_is_counted_at_once(written, monkeypatch):
    monkeypatch.setattr(logs, "_MOST", 2)
    logs.configure()
    for i in range(5):
        logging.getLogger("elsewhere").info("line %d", i)
    logs.flush()
    assert len(written().splitlines()) == 2
    logs.flush(at_end=True)
    assert written().endswith("3 more lines were left out within 10 s, such as: line 4\n")


def test_the_next_line_of_a_kind_comes_behind_the_count(shown):
    logger, messages, now, _ = shown
    for i in range(logs._MOST + 2):
        logger.error("it broke %d", i)
    now[0] = 11.0
    logger.error("it broke again")
    assert messages[-2:] == [
        f"2 more lines were left out within 10 s, such as: it broke {logs._MOST + 1}",
        "it broke again",
    ]


def test_a_line_whose_values_do_not_fit_is_counted_too(shown):
    _, messages, now, limit = shown
    record = logging.makeLogRecord({"name": "elsewhere", "msg": "%d", "args": ("one",), "levelno": 20})
    assert [limit.filter(record) for _ in range(logs._MOST + 1)].count(False) == 1
    now[0] = 10.0
    limit.tell()
    assert messages == ["1 more lines were left out within 10 s, such as: %d"]


def test_debug_has_no_limit(shown):
    logger, messages, _, _ = shown
    for _ in range(1000):
        logger.debug("a client comes")
    assert len(messages) == 1000


def test_the_limit_keeps_nothing_about_what_is_over(shown):
    logger, _, now, limit = shown
    logger.info("one kind")
    logger.info("another kind")
    assert len(limit._kinds) == 2
    now[0] = 10.0
    limit.tell()
    assert not limit._kinds


# --- nobody reads it ------------------------------------------------------------------------------------


@pytest.fixture(params=["opened again", "shared"])
def pipe(request, monkeypatch):
    """A logger that writes to a small pipe, what reads all that is in the pipe, and the handler."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    if request.param == "shared":
        monkeypatch.setattr(lines, "_own", lambda fd: fd)
    monkeypatch.setattr(lines, "_WAITING", 10_000)
    handler = logs.DescriptorHandler(writer)
    assert (handler._lines._fd == writer) is (request.param == "shared")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.Logger("pyzk.server")
    logger.addHandler(handler)

    def read():
        try:
            return os.read(reader, 100_000).decode()
        except BlockingIOError:
            return ""

    yield logger, read, handler
    assert os.get_blocking(writer), "other processes may write to it"
    os.close(reader)
    handler.close()
    os.close(writer)


def test_lines_are_written_at_once_and_in_order(pipe):
    logger, read, _ = pipe
    for i in range(3):
        logger.info("line %d é\ud800", i)
        assert read() == f"line {i} é\\ud800\n"


def test_a_reader_that_is_late_gets_all_that_had_room(pipe):
    logger, read, handler = pipe
    lines = [f"{i:99}" for i in range(100)]
    for line in lines:
        logger.info(line)
    found = ""
    while piece := read():
        found += piece
        handler.flush()
    assert found.splitlines() == lines


def test_a_reader_that_was_away_is_told_what_it_has_missed(pipe):
    logger, read, handler = pipe
    for i in range(1000):
        logger.info("%99d", i)
    found = ""
    while piece := read():
        found += piece
        handler.flush()
    *lines, last = found.splitlines()
    assert lines == [f"{i:99}" for i in range(len(lines))]
    assert 100 < len(lines) < 150
    assert last == f"{1000 - len(lines)} lines were lost here: the reader of this log is too slow"
    logger.info("it goes on")
    assert read() == "it goes on\n"


def test_a_line_longer_than_the_pipe_comes_whole(pipe):
    logger, read, handler = pipe
    logger.info("x" * 9000)
    found = ""
    while piece := read():
        found += piece
        handler.flush()
    assert found == "x" * 9000 + "\n"


def test_a_pipe_without_a_reader_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    handler = logs.DescriptorHandler(writer)
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "x"}))
        handler.flush()
    handler.handle(logging.makeLogRecord({"msg": "%d", "args": ("not a number",)}))
    assert handler._lines._lines._lost
    handler.close()
    os.close(writer)


def test_the_end_of_a_process_waits_for_a_reader_that_is_late():
    command = [sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"]
    code = """
import logging
from pyzk.server import lines
from pyzk.server.app import logs
logs.configure("debug")
for i in range(2000): logging.debug("x" * 100)
"""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as late:
        assert subprocess.run([sys.executable, "-c", code], stderr=late.stdin, check=False).returncode == 0
        late.stdin.close()
        assert int(late.stdout.read()) > 200_000


def test_a_server_whose_log_nobody_reads_serves_and_stops():
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0"]
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=writer, text=True) as process:
        try:
            port = int(re.search(r":(\d+)$", process.stdout.readline())[1])
            with ExitStack() as stack:
                for _ in range(100):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                    client.sendall(b"XXXX")
                    assert client.recv(1) == b""
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                client.sendall(b"ruok")
                assert client.recv(4) == b"imok"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


def test_connections_that_are_closed_for_one_reason_hide_none_that_is_closed_for_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    with caplog.at_level("INFO", "pyzk.server"):
        for data in (b"XXXX" * 3, b"\0\0\0\4abcd"):
            world.open().exchange(data)
    limit = logs.Limit()
    flood, other = caplog.records
    for _ in range(1000):
        limit.filter(flood)
    assert not limit.filter(flood)
    assert limit.filter(other)

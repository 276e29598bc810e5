import json
import logging

import pytest
from pyzk.server import logs


@pytest.fixture
def written(capsys):
    """Gives what was logged to stderr; the logging of the test run is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = handlers
    root.setLevel(level)


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

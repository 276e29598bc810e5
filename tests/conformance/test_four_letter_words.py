"""Four-letter words and the exact form of their answers (operator-surface.md 1, wire.md section 3)."""

from __future__ import annotations

import re
import struct

import pytest

from ..support.requests import delete_op
from ..support.waiting import wait_until
from ..support.wire import WireClient
from .conftest import Connect
from .servers import Server, four_letter_word


def ask(server: Server, word: str, extra: bytes = b"", *, half_close: bool = False) -> str:
    answer = four_letter_word((server.host, server.port), word.encode() + extra, half_close=half_close)
    return answer.decode()


def lines(server: Server, word: str) -> list[str]:
    answer = ask(server, word)
    assert answer.endswith("\n")
    return answer.removesuffix("\n").split("\n")


VERSION = r"\d+\.\d+\.\d+-\S+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC"
SUMMARY = [
    r"Latency min/avg/max: \d+/\d+\.\d+(E-\d+)?/\d+",
    r"Received: \d+",
    r"Sent: \d+",
    r"Connections: \d+",
    r"Outstanding: \d+",
    r"Zxid: 0x[0-9a-f]+",
    r"Mode: standalone",
    r"Node count: \d+",
]
ADDRESS = r"/127\.0\.0\.1:\d+"


def summary(server: Server) -> list[str]:
    """SUMMARY. The real server may take a request off its count before it has put it on."""
    below_zero = "-?" if server.kind == "real" else ""
    return [line.replace("Outstanding: ", f"Outstanding: {below_zero}") for line in SUMMARY]


def assert_lines(actual: list[str], patterns: list[str]) -> None:
    assert len(actual) == len(patterns), actual
    for line, pattern in zip(actual, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("ruok", "imok"),
        ("isro", "rw"),
        ("crst", "Connection stats reset.\n"),
        ("srst", "Server stats reset.\n"),
    ],
)
def test_fixed_answers(server: Server, word: str, answer: str) -> None:
    # traps 3: some without a newline
    assert ask(server, word) == answer


def test_the_trace_mask(server: Server) -> None:
    assert ask(server, "gtmk") == "306"
    assert ask(server, "stmk", struct.pack(">q", 306)) == "306"


def test_srvr(server: Server, client: WireClient) -> None:
    answer = lines(server, "srvr")
    assert_lines(answer, [f"Zookeeper version: {VERSION}", *summary(server)])
    assert int(answer[6].split("0x")[1], 16) == client.ping().zxid


def test_srvr_counts_znodes_and_connections(server: Server, connect: Connect, top: str) -> None:
    client = connect()

    def numbers() -> dict[str, int]:
        rows = (line.split(": ") for line in lines(server, "srvr"))
        return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}

    # that of the fixture, this client's and the probe's, once those of earlier tests are gone
    wait_until(lambda: numbers()["Connections"] == 3)
    before = numbers()
    client.create(f"{top}/n")
    connect().ping()
    after = numbers()
    assert after["Node count"] == before["Node count"] + 1
    assert after["Connections"] == 4
    assert after["Received"] > before["Received"]
    assert after["Sent"] > before["Sent"]


def test_the_node_count_includes_the_double_root(server: Server, client: WireClient) -> None:
    count = int(lines(server, "srvr")[-1].split(": ")[1])
    assert count == client.count_descendants("/").record.totalNumber + 2


def test_stat(server: Server, client: WireClient) -> None:
    answer = lines(server, "stat")
    assert re.fullmatch(f"Zookeeper version: {VERSION}", answer[0])
    assert answer[1] == "Clients:"
    blank = answer.index("")
    for line in answer[2:blank]:
        assert re.fullmatch(rf" {ADDRESS}\[\d\]\(queued=\d+,recved=\d+,sent=\d+\)", line), line
    probing = [line for line in answer[2:blank] if line.endswith("[0](queued=0,recved=1,sent=0)")]
    if server.kind == "real":  # which may not have counted its answer to the client yet
        mine = f"/127.0.0.1:{client.socket.getsockname()[1]}["
        probing = [line for line in probing if mine not in line]
    assert len(probing) == 1
    assert_lines(answer[blank + 1 :], summary(server))


def test_cons(server: Server, client: WireClient, top: str) -> None:
    mine = f"sid=0x{client.session_id:x},"
    client.get(top)
    # The real server sends a reply before it counts it, and listens again only after that.
    wait_until(
        lambda: any("[1](queued=0,recved=2,sent=2," in line for line in lines(server, "cons") if mine in line)
    )
    answer = lines(server, "cons")
    assert answer.pop() == ""
    own = next(line for line in answer if mine in line)
    pattern = (
        rf" {ADDRESS}\[1\]\(queued=0,recved=2,sent=2,sid=0x{client.session_id:x},lop=GETD,est=\d{{13}},"
        r"to=30000,lcxid=0x1,lzxid=0x[0-9a-f]+,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)"
    )
    assert re.fullmatch(pattern, own), own
    assert any(re.fullmatch(rf" {ADDRESS}\[0\]\(queued=0,recved=1,sent=0\)", line) for line in answer)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda c, t: c.exists(t), "EXIS"),
        (lambda c, t: c.get(t), "GETD"),
        (lambda c, t: c.children(t), "GETC"),
        (lambda c, t: c.children2(t), "GETC"),
        (lambda c, t: c.get_acl(t), "GETA"),
        (lambda c, t: c.sync(t), "SYNC"),
        (lambda c, t: c.ping(), "PING"),
        (lambda c, t: c.create(f"{t}/n"), "CREA"),
        (lambda c, t: c.set(t, b""), "SETD"),
        (lambda c, t: c.multi(), "MULT"),
        (lambda c, t: c.multi_read(), "MLTR"),
        (lambda c, t: c.who_am_i(), "HOMI"),
        (lambda c, t: c.add_watch(t, 0), "ADDW"),
        (lambda c, t: c.set_watches(0), "SETW"),
        (lambda c, t: c.ephemerals(), "GETE"),
        (lambda c, t: c.count_descendants(t), "GETACN"),
        (lambda c, t: c.set(t, b"", 7), "NA"),
    ],
)
def test_cons_names_the_last_operation(server: Server, client: WireClient, top: str, call, name: str) -> None:  # type: ignore[no-untyped-def]
    call(client, top)
    own = next(line for line in lines(server, "cons") if f"sid=0x{client.session_id:x}," in line)
    assert f",lop={name}," in own


def test_conf(server: Server) -> None:
    answer = lines(server, "conf")
    keys = [line.partition("=")[0] for line in answer]
    assert keys == [
        "clientPort",
        "secureClientPort",
        "dataDir",
        "dataDirSize",
        "dataLogDir",
        "dataLogSize",
        "tickTime",
        "maxClientCnxns",
        "minSessionTimeout",
        "maxSessionTimeout",
        "clientPortListenBacklog",
        "serverId",
    ]
    values = dict(line.split("=", 1) for line in answer)
    expected = {
        "clientPort": str(server.port),
        "secureClientPort": "-1",
        "tickTime": server.config["tickTime"],
        "maxClientCnxns": "0",
        "minSessionTimeout": "500",
        "maxSessionTimeout": "60000",
        "clientPortListenBacklog": "-1",
        "serverId": "0",
    }
    assert {key: values[key] for key in expected} == expected


def test_dirs(server: Server) -> None:
    assert_lines(lines(server, "dirs"), [r"datadir_size: \d+", r"logdir_size: \d+"])


DATE = r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}"


def test_dump(server: Server, client: WireClient, top: str) -> None:
    client.create(f"{top}/e1", flags=1)
    client.create(f"{top}/e2", flags=1)
    answer = ask(server, "dump")
    sid = f"0x{client.session_id:x}"
    pattern = (
        r"SessionTracker dump:\nSession Sets \(\d+\)/\((\d+)\):\n"
        rf"((\d+ expire at {DATE}:\n(\t0x[0-9a-f]+\n)*)+)"
        r"ephemeral nodes dump:\nSessions with Ephemerals \((\d+)\):\n((0x[0-9a-f]+:\n(\t/.*\n)*)*)"
        r"Connections dump:\nConnections Sets \(\d+\)/\(\d+\):\n"
        rf"((\d+ expire at {DATE}:\n(\tip: {ADDRESS} sessionId: 0x[0-9a-f]+\n)*)*)"
    )
    match = re.fullmatch(pattern, answer)
    assert match, answer
    assert f"\t{sid}\n" in match[2]
    own = match[6].split(f"{sid}:\n")[1].split("0x")[0].splitlines()
    assert sorted(own) == [f"\t{top}/e1", f"\t{top}/e2"]
    assert f"sessionId: {sid}\n" in match[9]
    assert "sessionId: 0x0\n" in match[9]  # the probe itself


def test_envi(server: Server) -> None:
    answer = lines(server, "envi")
    assert answer[0] == "Environment:"
    keys = [line.partition("=")[0] for line in answer[1:]]
    assert keys == [
        "zookeeper.version",
        "host.name",
        "java.version",
        "java.vendor",
        "java.home",
        "java.class.path",
        "java.library.path",
        "java.io.tmpdir",
        "java.compiler",
        "os.name",
        "os.arch",
        "os.version",
        "user.name",
        "user.home",
        "user.dir",
        "os.memory.free",
        "os.memory.max",
        "os.memory.total",
    ]
    assert re.fullmatch(f"zookeeper.version={VERSION}", answer[1])


def test_wchs(server: Server, connect: Connect, top: str) -> None:
    # trap 9: the data registry only
    def counts() -> tuple[int, int, int]:
        match = re.fullmatch(
            r"(\d+) connections watching (\d+) paths\nTotal watches:(\d+)\n", ask(server, "wchs")
        )
        assert match
        return int(match[1]), int(match[2]), int(match[3])

    first, second = connect(), connect()
    before = counts()
    first.get(top, watch=True)
    first.exists(f"{top}/none", watch=True)
    second.add_watch(top, 0)
    first.children(top, watch=True)
    after = counts()
    assert tuple(a - b for a, b in zip(after, before, strict=True)) == (2, 2, 3)


def test_wchc_and_wchp(server: Server, client: WireClient, top: str) -> None:
    client.get(top, watch=True)
    client.add_watch(f"{top}/p", 1)
    client.children(top, watch=True)
    sid = f"0x{client.session_id:x}"
    by_session = ask(server, "wchc")
    assert by_session.endswith("\n\n")
    own = by_session.split(f"{sid}\n")[1].split("0x")[0].split()
    assert sorted(own) == [top, f"{top}/p"]
    by_path = ask(server, "wchp")
    assert by_path.endswith("\n\n")
    assert f"{top}\n\t{sid}\n" in by_path
    assert f"{top}/p\n\t{sid}\n" in by_path


MNTR_KEYS = [
    "avg_latency", "max_latency", "min_latency", "packets_received", "packets_sent", "num_alive_connections",
    "outstanding_requests", "znode_count", "watch_count", "ephemerals_count", "approximate_data_size",
    "open_file_descriptor_count", "max_file_descriptor_count", "uptime", "global_sessions", "local_sessions",
    "connection_drop_probability",
]  # fmt: skip


def test_mntr(server: Server, client: WireClient) -> None:
    answer = lines(server, "mntr")
    for line in answer:
        assert re.fullmatch(r"zk_[\w.:-]+\t.+", line), line
    assert re.fullmatch(f"zk_version\t{VERSION}", answer[0])
    assert answer[1] == "zk_server_state\tstandalone"
    values = dict(line.split("\t") for line in answer)
    for key in MNTR_KEYS:
        assert re.fullmatch(r"-?\d+(\.\d+(E-?\d+)?)?", values[f"zk_{key}"]), key
    assert int(values["zk_znode_count"]) == client.count_descendants("/").record.totalNumber + 2


def test_mntr_counts(server: Server, client: WireClient, top: str) -> None:
    def gauges() -> dict[str, str]:
        return dict(line.split("\t") for line in lines(server, "mntr"))

    before = gauges()
    client.create(f"{top}/ephemeral", b"data", flags=1)
    client.get(top, watch=True)
    client.children(top, watch=True)
    after = gauges()

    def rise(key: str) -> int:
        return int(after[key]) - int(before[key])

    assert rise("zk_ephemerals_count") == 1
    assert rise("zk_znode_count") == 1
    assert rise("zk_watch_count") == 2
    assert rise("zk_approximate_data_size") == len(f"{top}/ephemeral") + 4
    assert rise("zk_packets_received") >= 3


def test_hash(server: Server, client: WireClient, top: str) -> None:
    # operator-surface.md 1.3: empty before the first zxid divisible by 128
    while client.set(top, b"").zxid % 128:
        pass
    answer = ask(server, "hash")
    assert re.fullmatch(r"([0-9a-f]+: -?\d+\n)*", answer), answer
    if server.kind == "real":
        assert f"{client.ping().zxid:x}: " in answer


def test_mntr_response_sizes(server: Server, connect: Connect, top: str) -> None:
    """Of replies and events, headers included; not of handshakes and four-letter words."""

    def sizes() -> tuple[int, ...]:
        numbers = dict(line.split("\t") for line in lines(server, "mntr"))
        return tuple(int(numbers[f"zk_{which}_client_response_size"]) for which in ("last", "min", "max"))

    client, other = connect(), connect()
    ask(server, "srst")
    assert sizes() == (-1, -1, -1)
    connect()
    assert sizes() == (-1, -1, -1)
    path = f"{top}/a"
    client.create(path, b"x" * 100)
    created = 16 + 4 + len(path)
    assert sizes() == (created, created, created)
    client.get(path)
    got = 16 + 4 + 100 + 68
    assert sizes() == (got, created, got)
    client.exists(f"{top}/missing")
    assert sizes() == (16, 16, got)
    client.exists(path, watch=True)
    assert sizes() == (16 + 68, 16, got)
    client.ping()
    assert sizes() == (16, 16, got)
    ask(server, "srst")
    watched = f"{top}/{'n' * 100}"
    client.exists(watched, watch=True)
    other.create(watched)
    assert client.wait_event().path == watched
    created, event = 16 + 4 + len(watched), 16 + 4 + 4 + 4 + len(watched)
    assert sizes() == (created, 16, event)
    other.multi(delete_op(watched), delete_op(f"{top}/missing"))
    assert sizes() == (16 + 2 * (4 + 1 + 4 + 4) + 9, 16, event)
    ask(server, "srst")
    client.auth("digest", b"a:b")
    assert sizes() == (16, 16, 16)
    client.close_session()
    assert sizes() == (16, 16, 16)


# --- transport (operator-surface.md 1.1, wire.md section 3) -------------------------------------------------


@pytest.mark.parametrize("extra", [b"\n", b"\r\n", b"\tand more", b"\0" * 100])
def test_what_follows_the_word_is_ignored(server: Server, extra: bytes) -> None:
    # a blank: test_deliberate_differences.py
    assert ask(server, "ruok", extra) == "imok"


@pytest.mark.parametrize("word", ["ruok", "srvr", "mntr"])
def test_a_half_closed_client_is_answered(server: Server, word: str) -> None:
    # trap 4
    assert ask(server, word, half_close=True).startswith(("imok", "Zookeeper version", "zk_version"))


def test_a_word_may_come_in_two_segments(connect: Connect) -> None:
    client = connect(False)
    client.send_bytes(b"ru")
    client.send_bytes(b"ok")
    assert client.receive_rest() == b"imok"


def test_mntr_arrives_whole(server: Server) -> None:
    # a long answer; its last line is complete
    assert len(ask(server, "mntr")) > 1000

"""Nothing that a client or an operator asks for keeps the others waiting, or takes memory without a bound.

The bounds are a fifth, or less, of what the attack costs where nothing stands against it. Costs are in gets:
what a get costs the same server in the same run. benchmarks/stalls measures the same in full size.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable

import pytest

from benchmarks import servers, wire
from benchmarks.stalls.clients import tls_config
from benchmarks.stalls.rights import credentials_of
from benchmarks.stalls.scene import (
    NO_AUTH,
    batches,
    create_op,
    delete_op,
    drain,
    entries,
    exchange,
    get_op,
    set_op,
)
from benchmarks.wire import BenchmarkError
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.operations import OpCode

from .target import MB, PATIENCE, Target, attacked, size

QUOTA = "/zookeeper/quota"
ADMIN = {"admin.enableServer": "true", "admin.serverPort": 0}


# --- ACLs and credentials --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gets", "multiRead", "events"])
def test_an_acl_of_40_000_entries(how: str) -> None:
    with attacked() as server:
        acl = [*entries(40_000, perms=1), r.ACL(2, r.Id("ip", "127.0.0.1"))]
        client = server.client()
        client.ask(wire.request(OpCode.CREATE, r.CreateRequest("/g", b"", acl, 0)))
        watchers = server.clients(40 if how == "events" else 0)
        for watcher in watchers:
            watcher.ask(wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/g", AddWatchMode.PERSISTENT)))
        with server.costs_at_most(100_000):
            if how == "gets":
                client.ask(*[wire.get("/g")] * size(32, 320), may_fail=[NO_AUTH])
            elif how == "multiRead":
                client.ask(wire.multi_of([get_op("/g")] * size(200, 45_000), OpCode.MULTI_READ))
            else:
                client.ask(wire.set_data("/g", b""))


@pytest.mark.parametrize("credentials", [30, 100])
def test_auth_entries_times_credentials(credentials: int) -> None:
    with attacked() as server:
        client = server.client()
        with contextlib.suppress(OSError, BenchmarkError):  # there may be a bound of credentials
            client.ask_all(credentials_of(credentials))
        acl = [r.ACL(n, r.Id("auth", "")) for n in range(60_000)]
        with contextlib.suppress(OSError, BenchmarkError):  # it may be refused
            client.ask(wire.request(OpCode.CREATE, r.CreateRequest("/auth", b"", acl, 0)))
        assert server.peak() < 50 * MB


def test_credentials_of_one_connection() -> None:
    with attacked() as server, server.costs_at_most(50_000):
        client = server.client()
        count = 10_000
        with contextlib.suppress(OSError, BenchmarkError):
            exchange(client, b"".join(credentials_of(count)), count)


# --- quotas ----------------------------------------------------------------------------------------------


def test_a_quota_that_is_counted_again_and_again() -> None:
    stats = f"{QUOTA}/t/zookeeper_stats"
    with attacked() as server:
        server.fill(["/t", *(f"/t/{n}" for n in range(50_000))])
        server.fill([f"{QUOTA}/t", f"{QUOTA}/t/zookeeper_limits", stats])
        client = server.client()
        with server.costs_at_most(40_000):
            client.ask(wire.multi_of(op for _ in range(50) for op in (delete_op(stats), create_op(stats))))


def test_quotas_whose_usage_cannot_be_read() -> None:
    with attacked() as server:
        server.fill(["/t", *(f"/t/{n}" for n in range(50_000))])
        prefixes = [f"{QUOTA}/t", *(f"{QUOTA}/t/{n}" for n in range(60))]
        leaves = ("zookeeper_limits", "zookeeper_stats")
        server.fill([*prefixes, *(f"{prefix}/{leaf}" for prefix in prefixes for leaf in leaves)])
        junk = [wire.set_data(f"{prefix}/zookeeper_stats", b"junk") for prefix in prefixes]
        client = server.client()
        with server.costs_at_most(40_000):
            client.ask(*junk)
            client.ask(wire.multi_of([set_op("/t")]))
            server.word(b"mntr")
            client.ask(junk[0], wire.create("/t/new"), junk[0], wire.create("/t/newer"))


def test_many_quotas() -> None:
    count = size(20_000, 50_000)
    with attacked() as server:
        client = server.client()
        client.make(*(f"{QUOTA}/q{n}" for n in range(count)))
        client.ask_all(wire.create(f"{QUOTA}/q{n}/zookeeper_limits", b"count=10") for n in range(count))
        client.make("/a")
        with server.costs_at_most(20_000):
            client.ask(*[wire.multi_of([set_op("/a")])] * 10)


def test_limits_of_a_megabyte() -> None:
    prefix = f"{QUOTA}/l"
    with attacked() as server:
        server.fill(["/l", prefix, f"{prefix}/zookeeper_limits", f"{prefix}/zookeeper_stats"])
        client = server.client()
        limits = b"count=1," * (MB // 8)
        client.ask(wire.set_data(f"{prefix}/zookeeper_limits", limits))
        with server.costs_at_most(35_000):
            client.ask(*(wire.create(f"/l/{n}") for n in range(32)), may_fail=[-125])


# --- turns -----------------------------------------------------------------------------------------------


def test_requests_in_flight_that_each_take_long() -> None:
    with attacked() as server:
        parents = [f"/t/{n}" for n in range(size(200, 1000))]
        server.fill(["/t", *parents])
        server.fill(f"{parent}/{n}" for parent in parents for n in range(1000))
        client = server.client()
        count = wire.request(OpCode.GET_ALL_CHILDREN_NUMBER, r.GetAllChildrenNumberRequest("/t"))
        client.socket.sendall(count * 32)
        server.bystander_waits_at_most(15_000)
        client.take_replies(32)


def lost_while_stopped(server: Target, open_all: Callable[[int], list[socket.socket]]) -> int:
    """Open sessions, and stop the server for longer than their timeout, while each of them sends a sign of
    life. Returns how many are lost. The timeout is three times as long as it takes to open them all, or more:
    else the first would expire before the server is stopped.

    :param open_all: opens the sessions, given their timeout in ms.
    """
    for timeout in (1500, 3000, 6000, 12_000, 24_000):
        begun = time.monotonic()
        socks = open_all(timeout)
        if 3 * (time.monotonic() - begun) < timeout / 1000:
            break
        server.reset(*socks)
    os.kill(server.server.pid, signal.SIGSTOP)
    try:
        for sock in socks:
            sock.sendall(wire.request(OpCode.PING, xid=-2))
        time.sleep(timeout / 1000 + 1)
    finally:
        os.kill(server.server.pid, signal.SIGCONT)
    lost = 0
    for sock in socks:
        try:
            with sock:
                lost += not sock.recv(100)
        except OSError:
            lost += 1
    return lost


def test_signs_of_life_that_came_while_the_server_was_stopped() -> None:
    servers.raise_file_limit(4096)
    with attacked(tickTime=200, minSessionTimeout=1500) as server:

        def open_all(timeout: int) -> list[socket.socket]:
            return [client.socket for client in server.clients(3000, timeout)]

        assert lost_while_stopped(server, open_all) == 0


def test_signs_of_life_over_tls_that_came_while_the_server_was_stopped() -> None:
    with attacked(tickTime=200, minSessionTimeout=1500, **tls_config()) as server:

        def open_all(timeout: int) -> list[socket.socket]:
            socks = [_secure(server) for _ in range(50)]
            for sock in socks:
                sock.sendall(wire.hello(timeout))
                assert sock.recv(100)
            return socks

        assert lost_while_stopped(server, open_all) == 0


# --- watches ---------------------------------------------------------------------------------------------


def test_a_recursive_watch_far_above() -> None:
    depth = size(4000, 8000)
    with attacked() as server:
        client = server.client()
        path, paths = "", []
        for _ in range(depth):
            path += "/d"
            paths.append(path)
        client.ask_all(wire.create(path, b"") for path in paths)
        deepest = wire.multi_of(set_op(path) for path in paths[-MB // (2 * depth + 30) :])
        writer = server.client()

        def cost() -> float:
            return min(server.cost_of(lambda: writer.ask(deepest)) for _ in range(3))

        alone = cost()
        client.ask(wire.request(OpCode.ADD_WATCH, r.AddWatchRequest("/", AddWatchMode.PERSISTENT_RECURSIVE)))
        assert cost() < 15 * alone


def test_as_many_watches_as_one_likes() -> None:
    count = size(400_000, 1_000_000)
    with attacked(**ADMIN) as server:
        client = server.client()
        for number in range(0, count, 20_000):
            paths = [f"/watched/{n}" for n in range(number, number + 20_000)]
            client.ask(wire.request(OpCode.SET_WATCHES, r.SetWatches(0, [], paths, [])))
        for word in (b"wchp", b"wchc", b"wchs", b"mntr"):
            sock = server.connect()
            sock.sendall(word)
            server.bystander_waits_at_most(15_000)
            drain(sock)
        for command in ("watches_by_path", "watches", "watch_summary"):
            sock = server.http(command)
            server.bystander_waits_at_most(15_000)
            drain(sock)
        client.drop()
        server.bystander_waits_at_most(15_000)
        server.until(lambda: "1 connections watching 1 paths" in server.word(b"wchs"), "watches are left")


def test_set_watches_whose_events_end_its_own_connection() -> None:
    """Whether it comes to its end or not: once the connection is gone, so are its watches."""
    with attacked(**{"jute.maxbuffer": 10 * MB}) as server:
        client = server.client()
        client.ask(wire.set_data("/", b""))
        changed = ["/"] * 1_300_000  # 33 bytes of event for each: more than one connection may have unread
        client.socket.sendall(
            wire.request(OpCode.SET_WATCHES2, r.SetWatches2(0, changed, [], [], ["/left"], ["/left"]))
        )
        select.select([client.socket], [], [], PATIENCE)  # events, or an end: it is being dealt with
        server.bystander.ask(wire.get("/bystander"))
        client.drop()
        server.until(lambda: "1 connections watching 1 paths" in server.word(b"wchs"), "watches of nobody")


# --- memory ----------------------------------------------------------------------------------------------


def test_answers_that_nobody_reads() -> None:
    """537 bytes ask for 32 MB: there is a bound for all connections together."""
    with attacked() as server:
        server.client().ask(wire.create("/large", bytes(MB)))
        request = wire.multi_of([get_op("/large")] * 32, OpCode.MULTI_READ)
        for client in server.clients(40):
            client.socket.sendall(request)
        for _ in range(20):
            server.bystander.ask(wire.get("/bystander"))
        assert server.peak() < 600 * MB


def _secure(server: Target) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(server.connect(server.server.others["secure"]))


def _unfinished(server: Target) -> None:
    sock = server.connect(server.server.others["secure"])
    sock.sendall(bytes.fromhex("1603010005010000010303"))  # the beginning of a ClientHello
    sock.close()


def test_nothing_is_left_of_tls_handshakes_that_are_not_finished() -> None:
    with attacked(**tls_config()) as server:

        def crowd(count: int) -> int:
            for _ in range(count):
                _unfinished(server)
            server.until(lambda: server.descriptors() <= server.descriptors_before + 2, "they stay")
            return server.server.memory()

        before = crowd(400)
        count = size(1200, 20_000)
        each = (crowd(count) - before) / count
        assert each < 1000, f"{each:,.0f} bytes of each client are left"


def test_nothing_is_left_of_tls_clients_that_stayed_for_long() -> None:
    """Long is what the garbage collector takes for it: many objects have been made meanwhile. A history would
    keep something of the large requests that make them."""
    count = 100
    with attacked((*servers.OURS, "--record", "none"), **tls_config()) as server:
        cleaner = server.client()

        def crowd() -> int:
            socks = [_secure(server) for _ in range(count)]
            for sock in socks:
                sock.sendall(wire.hello(10_000))
                assert sock.recv(100)
            names = [f"/n{n}" for n in range(80_000)]
            server.fill(names)
            for batch in batches(names, 1000):
                cleaner.ask(wire.multi_of(map(delete_op, batch)))
            for sock in socks:
                sock.sendall(wire.CLOSE_SESSION)
                drain(sock)
                sock.close()
            server.until(lambda: server.descriptors() <= server.descriptors_before + 3, "they stay")
            return server.server.memory()

        crowd()
        memory = [crowd() for _ in range(size(6, 20))]
        # the median: the allocator takes a few MB at a time
        each = statistics.median(after - before for before, after in itertools.pairwise(memory)) / count
        assert each < 6000, f"{each:,.0f} bytes of each client are left"


# --- operators -------------------------------------------------------------------------------------------


def test_a_log_that_nobody_reads() -> None:
    with attacked(log=subprocess.PIPE) as server:
        for _ in range(2000):
            sock = server.connect()
            sock.settimeout(5)
            sock.sendall(b"\xff\xff\xff\xffjunk")
            sock.recv(1)
            sock.close()


@pytest.mark.parametrize(
    "headers",
    [{"Host": "attacker.example"}, {"Origin": "https://attacker.example"}, {"Origin": "null"}],
    ids=["a rebound name", "a page", "a sandboxed page"],
)
@pytest.mark.parametrize("request_line", ["GET /commands/stat_reset", "POST /commands/shed_connections"])
def test_what_a_web_page_asks_of_the_admin_server(headers: dict[str, str], request_line: str) -> None:
    with attacked(**ADMIN) as server:
        before = int(wire.monitor(server.server.address)["zk_packets_received"])
        host = f"localhost:{server.server.others['admin'][1]}"
        fields = {"Host": host, "Authorization": "digest any:body", "Content-Length": "19", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        sock = server.connect(server.server.others["admin"])
        sock.sendall(f'{request_line} HTTP/1.1\r\n{head}\r\n{{"percentage": 100}}'.encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 4")
        assert int(wire.monitor(server.server.address)["zk_packets_received"]) > before
        assert server.bystander.ask(wire.get("/bystander"))

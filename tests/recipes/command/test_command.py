"""``pyzk-lock`` as people run it: processes, signals, terminals, exit statuses."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import tomllib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from trio.testing import MockClock

from pyzk.cli.lock import main, running
from pyzk.cli.lock.arguments import Options, parse
from pyzk.cli.lock.listing import Entry, Survey, age, as_json, entries, table
from pyzk.cli.lock.running import Job, contend, grace
from pyzk.cli.status import Failure, Status
from pyzk.client import Stat, ZooKeeper
from pyzk.protocol.version import __version__
from pyzk.recipes import Contender, ContenderKind, Grant, LockLost
from pyzk.server.testing import EmbeddedServer

from ...support.lab import SESSION_TIMEOUT, Lab
from ...support.waiting import wait_until

PATIENCE = 30.0
COMMAND = [sys.executable, "-W", "error", "-m", "pyzk.cli.lock"]
BUSY_WAIT = "while :; do sleep 0.02; done"
SHELL_REPORTS = re.compile(r"^.*\b(Terminated|Killed)\b.*\n", re.MULTILINE)
"""What a shell may say of its children's deaths."""
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells of the children of children"
)


@pytest.fixture(autouse=True)
def signals_are_heeded() -> Iterator[None]:
    """Whoever runs the tests may ignore signals; what we start must not."""
    ignored = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000) as server:
        yield server


@pytest.fixture
def other(server: EmbeddedServer) -> Iterator[KazooClient]:
    """Somebody else."""
    client = KazooClient(server.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def occupy(other: KazooClient, path: str = "/x", data: bytes = b"somebody") -> str:
    """Let somebody else hold a lock; returns the znode to delete."""
    name = f"{path}/_c_{uuid.uuid4()}-lock-"
    return other.create(name, data, ephemeral=True, sequence=True, makepath=True)  # type: ignore[no-any-return]


def queue_up(other: KazooClient, *markers: str) -> None:
    for marker in markers:
        name = f"/x/_c_{uuid.uuid4()}{marker}"
        other.create(name, "Zoë".encode(), ephemeral=True, sequence=True, makepath=True)


class Process:
    """One ``pyzk-lock``, without a terminal. No wait for it is for ever."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.popen = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._timer = threading.Timer(PATIENCE, self.popen.kill)
        self._timer.start()

    def line(self) -> str:
        """The next line of the command's output."""
        assert self.popen.stdout
        return self.popen.stdout.readline().rstrip("\n")

    def complaint(self) -> str:
        """The next line that pyzk-lock itself says."""
        assert self.popen.stderr
        return self.popen.stderr.readline().rstrip("\n")

    def write(self, text: str) -> None:
        assert self.popen.stdin
        self.popen.stdin.write(text)
        self.popen.stdin.flush()

    def end(self) -> tuple[int, str, str]:
        """Wait for the end of all that has the output open; the status, the output, the complaints."""
        output, errors = self.popen.communicate(timeout=PATIENCE)
        self._timer.cancel()
        return self.popen.returncode, output, SHELL_REPORTS.sub("", errors)

    def kill(self) -> None:
        self._timer.cancel()
        self.popen.kill()
        with self.popen:
            pass


Start = Callable[..., Process]


@pytest.fixture
def start(server: EmbeddedServer) -> Iterator[Start]:
    """Starts ``pyzk-lock`` with these arguments."""
    processes: list[Process] = []

    def start(*arguments: str, by: tuple[str, ...] = (), **environment: str) -> Process:
        environment = os.environ | {"PYZK_HOSTS": server.hosts} | environment
        processes.append(Process([*by, *COMMAND, *arguments], environment))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def contenders(server: EmbeddedServer, path: str = "/x") -> list[str]:
    return [znode for znode in server.dump() if znode.startswith(f"{path}/")]


def holding(start: Start, *arguments: str, script: str = "read line") -> tuple[Process, int]:
    """One that holds the lock until it is sent a line, and its session."""
    process = start(*arguments, "--", "sh", "-c", f"echo $PYZK_LOCK_SESSION; {script}")
    return process, int(process.line(), 16)


# --- running a command --------------------------------------------------------------------------------------


def test_the_command_runs_while_the_lock_is_held(
    server: EmbeddedServer, start: Start, other: KazooClient
) -> None:
    variables = ("PATH", "NODE", "TOKEN", "SESSION")
    script = "".join(f"echo $PYZK_LOCK_{name}; " for name in variables) + "read line; exit 7"
    process = start("/x", "--", "sh", "-c", script)
    path, node, token, session = (process.line() for _ in variables)
    assert path == "/x"
    assert contenders(server) == [node]
    data, stat = other.get(node)
    assert int(token) == stat.czxid
    assert int(session, 16) == stat.ephemeralOwner
    assert data.decode().endswith(f"pid {process.popen.pid}: sh")

    process.write("\n")
    assert process.end() == (7, "", "")
    assert contenders(server) == []
    assert len(server.sessions()) == 1


def test_input_and_output_are_the_command_s(start: Start) -> None:
    process = start("/x", "--", "cat")
    process.write("hello\n")
    assert process.line() == "hello"
    assert process.end() == (0, "", "")


def test_a_death_by_signal_is_passed_on_as_shells_do(start: Start) -> None:
    assert start("/x", "--", "sh", "-c", "kill -9 $$").end() == (137, "", "")


def test_a_command_that_is_not_there_does_not_wait(start: Start) -> None:
    status, _, complaint = start("--hosts", "127.0.0.1:1", "/x", "--", "no-such-command").end()
    assert (status, complaint) == (127, "pyzk-lock: no-such-command: No such file or directory\n")


def test_a_command_that_cannot_be_run(server: EmbeddedServer, start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\0not a program")
    status, _, complaint = start("/x", "--", str(program)).end()
    assert (status, complaint) == (126, f"pyzk-lock: {program}: Permission denied\n")
    program.chmod(0o755)
    status, _, complaint = start("/x", "--", str(program)).end()
    assert (status, complaint) == (126, f"pyzk-lock: {program}: Exec format error\n")
    assert contenders(server) == []


def test_no_server(start: Start) -> None:
    # Long enough for a busy machine to be refused at all.
    status, _, complaint = start("--hosts", "127.0.0.1:1", "--timeout", "2", "/x", "--", "true").end()
    assert status == 69
    assert re.fullmatch(
        r"pyzk-lock: no session with .* within 2\.0 s .*refused.*; check --hosts or PYZK_HOSTS\n", complaint
    )


@pytest.mark.parametrize("by", ["environment", "file"])
def test_identities_come_from_where_nobody_sees_them(
    by: str, start: Start, other: KazooClient, tmp_path: Path
) -> None:
    other.create("/guarded", acl=[make_digest_acl("ann", "s3cret", all=True)])
    status, _, complaint = start("/guarded", "--", "true").end()
    assert status == 77
    assert re.fullmatch(r"pyzk-lock: Not allowed .* /guarded.*; check --auth-file or PYZK_AUTH\n", complaint)

    file = tmp_path / "auth"
    file.write_text("# who we are\ndigest:ann:s3cret\n")
    if by == "environment":
        process = start("/guarded", "--", "true", PYZK_AUTH="digest:ann:s3cret")
    else:
        process = start("--auth-file", str(file), "/guarded", "--", "true")
    assert process.end() == (0, "", "")


# --- waiting ------------------------------------------------------------------------------------------------


def test_it_waits_for_its_turn(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    process = start("-v", "/x", "--", "echo", "mine")
    assert re.fullmatch(
        r"pyzk-lock: waiting: /x is held by somebody \(session 0x[0-9a-f]+, for \d+ s\)", process.complaint()
    )
    other.delete(held)
    status, output, complaints = process.end()
    assert (status, output) == (0, "mine\n")
    assert re.fullmatch(r"pyzk-lock: /x was granted, token \d+\npyzk-lock: /x was released\n", complaints)


def test_it_does_not_wait_if_told_so(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    for limit in (["--try"], ["--timeout", "2"]):  # which has to do for a session as well
        status, output, complaint = start(*limit, "/x", "--", "echo", "mine").end()
        assert (status, output) == (75, "")
        assert complaint.startswith("pyzk-lock: /x is held by somebody (session 0x")
        assert complaint.endswith("; try again later, or wait longer: --timeout\n")
        assert contenders(server) == [held]
    other.delete(held)
    assert start("--try", "/x", "--", "echo", "mine").end() == (0, "mine\n", "")


def test_a_wait_outlives_the_session(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    held = occupy(other)
    process = start("/x", "--", "echo", "mine")
    wait_until(lambda: len(contenders(server)) == 2)
    server.expire(next(s for s in server.sessions() if held not in s.ephemerals))
    wait_until(lambda: len(contenders(server)) == 2)
    other.delete(held)
    assert process.end() == (0, "mine\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait(
    number: signal.Signals, server: EmbeddedServer, start: Start, other: KazooClient
) -> None:
    held = occupy(other)
    process = start("/x", "--", "echo", "mine")
    wait_until(lambda: len(contenders(server)) == 2)
    process.popen.send_signal(number)
    assert process.end() == (128 + number, "", "")
    assert contenders(server) == [held]
    assert len(server.sessions()) == 1


def test_readers_hold_it_side_by_side(start: Start, other: KazooClient) -> None:
    queue_up(other, "-__READ__")
    reader, session = holding(start, "--shared", "/x")
    assert start("--try", "/x", "--", "true").end()[0] == 75
    status, listing, _ = start("--list", "/x").end()
    assert status == 0
    title, header, first, second = listing.splitlines()
    assert title == "/x: 2 holding, 0 waiting"
    assert header.split() == ["KIND", "SESSION", "AGE", "DATA"]
    assert re.fullmatch(r"holder  read \(curator\)  0x[0-9a-f]+ +\d+ s  Zoë", first)
    assert re.fullmatch(
        rf"holder  read \(curator\)  0x{session:x} +\d+ s  .* pid {reader.popen.pid}: sh", second
    )


def take_slot(other: KazooClient, layout: str) -> Callable[[], object]:
    """Let somebody else have one of two slots; returns what gives it back."""
    if layout == "kazoo":
        semaphore = other.Semaphore("/x", max_leases=2)
        semaphore.acquire()
        return semaphore.release  # type: ignore[no-any-return]
    name = f"/x/leases/_c_{uuid.uuid4()}-lease-"
    return partial(other.delete, other.create(name, ephemeral=True, sequence=True, makepath=True))


@pytest.mark.parametrize("layout", ["curator", "kazoo"])
def test_slots(layout: str, server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    options = ["--layout", layout, "--slots", "2", "/x"]
    give_back = take_slot(other, layout)
    holding(start, *options)
    waiting = start(*options, "--", "echo", "mine")
    wait_until(lambda: any(re.search(r"lock(-|__)\d{10}$", path) for path in server.dump()))
    found = json.loads(start("--list", "--json", "/x").end()[1])
    assert [(c["holds"], c["position"], c["kind"], c["libraries"]) for c in found["contenders"]] == [
        (True, 0, "lease", [layout]),
        (True, 0, "lease", [layout]),
        (False, 1, "lock", [layout]),
    ]
    give_back()
    assert waiting.end() == (0, "mine\n", "")


def test_no_slot(start: Start, other: KazooClient) -> None:
    for _ in range(2):
        take_slot(other, "curator")
    status, _, complaint = start("--slots", "2", "--try", "/x", "--", "true").end()
    assert status == 75
    assert " and 1 more; try again later" in complaint


def test_a_semaphore_has_one_limit(start: Start, other: KazooClient) -> None:
    take_slot(other, "kazoo")
    status, _, complaint = start("--slots", "3", "--layout", "kazoo", "/x", "--", "true").end()
    assert (status, complaint) == (70, "pyzk-lock: /x allows 2 leases, not 3\n")


def test_kazoo_and_we_wait_for_each_other(server: EmbeddedServer, start: Start, other: KazooClient) -> None:
    lock = other.Lock("/x", "kazoo")
    lock.acquire()
    process = start("--layout", "both", "/x", "--", "sh", "-c", "echo mine; read line")
    wait_until(lambda: len(contenders(server)) == 3)
    assert select.select([process.popen.stdout], [], [], 0)[0] == []
    lock.release()
    assert process.line() == "mine"
    assert not other.Lock("/x").acquire(blocking=False)
    process.write("\n")
    assert process.end()[0] == 0
    assert other.Lock("/x").acquire(blocking=False)


def test_a_command_is_told_of_both_znodes_of_a_bridge(start: Start) -> None:
    status, output, _ = start("--layout", "both", "/x", "--", "sh", "-c", 'echo "$PYZK_LOCK_NODE"').end()
    curator, kazoo = output.splitlines()
    assert status == 0
    assert curator.startswith("/x/_c_")
    assert kazoo.startswith("/x/z")


# --- losing it ----------------------------------------------------------------------------------------------


def test_a_lost_session_ends_the_command(server: EmbeddedServer, start: Start) -> None:
    # It does not want to go; but another may hold the lock by now.
    process, session = holding(start, "/x", script=f"trap '' TERM; {BUSY_WAIT}")
    server.expire(session)
    assert process.end() == (
        76,
        "",
        "pyzk-lock: /x was lost: the session expired; the command was ended\n",
    )
    assert contenders(server) == []


def test_an_operator_who_deletes_the_znode_ends_the_command(
    server: EmbeddedServer, start: Start, other: KazooClient
) -> None:
    process, _ = holding(start, "/x", script=BUSY_WAIT)
    (node,) = contenders(server)
    other.delete(node)
    assert process.end() == (
        76,
        "",
        "pyzk-lock: /x was lost: its znode was deleted; the command was ended\n",
    )


def test_a_silent_server_ends_the_command_before_the_session_ends(start: Start) -> None:
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000, clock="frozen") as server:
        process = start(
            *("--session-timeout", "8", "/x", "--", "sh", "-c"),  # a tenth of it is there to go in
            "trap 'echo asked; exit' TERM; echo; sleep 1000 & wait",  # which ends the wait at once
            PYZK_HOSTS=server.hosts,
        )
        process.line()
        server.pause()
        status, output, complaint = process.end()
        assert (status, output) == (76, "asked\n")
        assert "the session may have ended" in complaint
        assert len(contenders(server)) == 1, "to the server, we hold it"


def test_who_wants_to_stop_early_gets_time(server: EmbeddedServer, start: Start) -> None:
    # What it starts to clean up is not asked to go.
    script = f"trap 'sleep 0.2 && echo bye; exit' TERM; {BUSY_WAIT}"
    process, session = holding(start, "--suspended", "cancel", "/x", script=script)
    server.disconnect(session)
    assert process.end() == (
        76,
        "bye\n",
        "pyzk-lock: /x was lost: the connection was lost; the command was ended\n",
    )


def test_who_does_not_go_in_time_is_killed(server: EmbeddedServer, start: Start) -> None:
    process, session = holding(
        start,
        *("--suspended", "cancel", "--kill-after", "2", "/x"),
        script=f"trap 'echo asked' TERM; {BUSY_WAIT}",
    )
    server.disconnect(session)
    status, output, _ = process.end()
    assert (status, output) == (76, "asked\n")


def test_a_short_loss_of_connection_does_not_matter(server: EmbeddedServer, start: Start) -> None:
    process, session = holding(start, "/x")
    server.disconnect(session)
    wait_until(lambda: server.sessions()[0].connected)
    process.write("\n")
    assert process.end() == (0, "", "")


async def test_the_time_to_go_is_over_before_the_lease(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            assert grace(grant, 3.0) == 3.0
            lab.cut_off(zk)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            left = zk.session.lease_deadline() - trio.current_time()
            assert grace(grant, 5.0) == pytest.approx(left / 2) == pytest.approx(1.0)
            assert grace(grant, 0.5) == 0.5
            lab.let_through(zk)
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


async def test_the_time_to_go_is_over_before_the_lease_if_another_server_has_granted_a_longer_timeout(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            zk._machine.data.timeout = 4 * SESSION_TIMEOUT
            lab.cut_off(zk)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            assert grace(grant, 5.0) <= zk.session.lease_deadline() - trio.current_time()
            lab.let_through(zk)
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


async def test_there_is_no_time_to_go_when_it_is_too_late(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            lab.server.expire(zk.session.id)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            assert grace(grant, 5.0) == 0.0
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


def test_what_is_left_has_no_more_time_than_the_lock(server: EmbeddedServer, start: Start) -> None:
    script = "trap '' TERM; sleep 1000 & echo left; exit 3"
    process, session = holding(start, "--kill-after", "1000", "/x", script=script)
    assert process.line() == "left"
    server.expire(session)
    assert process.end()[0] == 76


# --- signals and what is left -------------------------------------------------------------------------------


def test_a_signal_is_the_command_s_and_the_lock_stays_until_it_has_ended(
    server: EmbeddedServer, start: Start
) -> None:
    process, _ = holding(start, "/x", script=f"trap 'echo got; read line; exit 9' TERM; echo; {BUSY_WAIT}")
    process.line()
    process.popen.terminate()
    assert process.line() == "got"
    assert len(contenders(server)) == 1
    process.write("\n")
    assert process.end() == (9, "", "")
    assert contenders(server) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signals_that_are_passed_on(number: signal.Signals, start: Start) -> None:
    process, _ = holding(start, "/x", script="exec sleep 1000")
    process.popen.send_signal(number)
    assert process.end() == (128 + number, "", "")


def test_what_is_ignored_stays_ignored(start: Start) -> None:
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    process = start("/x", "--", "sh", "-c", "echo; read line", by=nohup)
    process.line()
    process.popen.send_signal(signal.SIGHUP)
    process.write("\n")
    assert process.end() == (0, "", "")


@pytest.mark.parametrize(
    ("script", "grace"),
    [
        ("sleep 1000 & exit 3", "1000"),
        pytest.param("setsid sleep 1000 & exit 3", "1000", marks=needs_linux),
        ("trap '' TERM; sleep 1000 & exit 3", "0.1"),
        ("sleep 1000 & kill -STOP $!; exit 3", "1000"),
    ],
    ids=["background", "daemon", "stubborn", "stopped"],
)
def test_nothing_of_the_command_outlives_the_lock(script: str, grace: str, start: Start) -> None:
    # The output ends when the last that has it open is gone.
    assert start("--kill-after", grace, "/x", "--", "sh", "-c", script).end() == (3, "", "")


@needs_linux
def test_children_that_a_shell_has_left_us_are_not_the_command_s(start: Start) -> None:
    shell = ("sh", "-c", 'sleep 1000 >&- 2>&- <&- & echo $!; exec "$@"', "sh")
    process = start("/x", "--", "sh", "-c", "setsid sleep 1000 & exit 3", by=shell)
    pid = int(process.line())
    try:
        assert process.end() == (3, "", "")
        os.kill(pid, 0)  # it is there
    finally:
        os.kill(pid, signal.SIGKILL)


@needs_linux
def test_the_command_does_not_outlive_a_pyzk_lock_that_is_killed(start: Start) -> None:
    process, _ = holding(start, "/x", script="exec sleep 1000")
    process.popen.kill()
    assert process.end() == (-signal.SIGKILL, "", "")


# --- the moments in between, in virtual time ----------------------------------------------------------------


class FakeChild:
    """A command that runs until it is told to end."""

    status = 5

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.ended = trio.Event()
        FakeChild.latest = self

    latest: FakeChild | None = None

    async def end(self, grace: float) -> None:
        await trio.lowlevel.checkpoint()


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, zk: ZooKeeper) -> None:
    monkeypatch.setattr(running, "_client", lambda options: nullcontext(zk))
    monkeypatch.setattr(running, "Child", FakeChild)
    monkeypatch.setattr(FakeChild, "latest", None)


async def test_the_time_to_wait_is_not_the_time_to_run(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, fakes: None
) -> None:
    async def run() -> None:
        assert await Job(options("--timeout", "5", "/x", "--", "true"), nursery).hold_and_run() == 5
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(60)
        assert FakeChild.latest is not None
        FakeChild.latest.ended.set()


async def test_a_signal_that_comes_with_the_lock_leaves_no_command(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, fakes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def one_signal() -> AsyncIterator[int]:
        await granted.wait()
        yield signal.SIGTERM

    @asynccontextmanager
    async def contend(zk: ZooKeeper, options: Options) -> AsyncIterator[Grant]:
        async with running_contend(zk, options) as grant:
            granted.set()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            yield grant

    granted = trio.Event()
    running_contend = running.contend
    monkeypatch.setattr(running, "contend", contend)
    async with trio.open_nursery() as nursery:
        job = Job(options("/x", "--", "true"), nursery)
        nursery.start_soon(job.listen, one_signal())
        await job.hold_and_run()
    assert job.stopped_by == signal.SIGTERM
    assert FakeChild.latest is None
    assert contenders(lab.server) == []


# --- at a terminal ------------------------------------------------------------------------------------------


class Terminal:
    """A terminal in which ``pyzk-lock`` runs."""

    def __init__(self, server: EmbeddedServer, *arguments: str) -> None:
        self._master, self._slave = os.openpty()
        # The first terminal that a session's leader opens is that session's.
        shell = ["sh", "-c", 'exec <>"$1" >&0 2>&0; shift; exec "$@"', "sh", os.ttyname(self._slave)]
        environment = os.environ | {"PYZK_HOSTS": server.hosts, "PS1": "$ ", "TERM": "dumb"}
        self._popen = subprocess.Popen(
            [*shell, *COMMAND, *arguments], env=environment, start_new_session=True
        )
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        """Read until this appears; returns what came before."""
        while text not in self._seen:
            assert select.select([self._master], [], [], PATIENCE)[0], f"only {self._seen!r} came"
            self._seen += os.read(self._master, 1000).decode()
        before, _, self._seen = self._seen.partition(text)
        return before

    def send_signal(self, number: signal.Signals) -> None:
        """To pyzk-lock alone."""
        self._popen.send_signal(number)

    def foreground(self) -> str:
        """The command line of the group in the foreground."""
        with suppress(OSError):
            return Path(f"/proc/{os.tcgetpgrp(self._master)}/cmdline").read_text().replace("\0", " ")
        return ""

    def end(self) -> int:
        return self._popen.wait(PATIENCE)

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def terminal(server: EmbeddedServer) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        terminals.append(Terminal(server, *arguments))
        return terminals[-1]

    yield open_terminal
    for terminal in terminals:
        terminal.close()


def test_the_command_has_the_terminal(terminal: Callable[..., Terminal]) -> None:
    it = terminal("/x", "--", "cat")
    it.type("hello\n")
    it.expect("hello\r\nhello\r\n")  # the echo, and what cat says
    it.type("\x03")
    assert it.end() == 130


def test_an_interrupt_at_the_terminal_is_not_passed_on_once_more(terminal: Callable[..., Terminal]) -> None:
    traps = "trap 'echo interrupted' INT; trap 'echo passed on' USR1"
    it = terminal("/x", "--", "sh", "-c", f"{traps}; echo go; {BUSY_WAIT}")
    it.expect("go")
    it.send_signal(signal.SIGINT)
    it.send_signal(signal.SIGUSR1)
    assert "interrupted" not in it.expect("passed on")
    it.type("\x03")
    it.expect("interrupted")
    it.send_signal(signal.SIGTERM)
    assert it.end() == 143


def test_a_shell_with_its_jobs(terminal: Callable[..., Terminal], server: EmbeddedServer) -> None:
    it = terminal("/x", "--", "bash", "--norc", "-i")
    it.expect("$ ")
    it.type("echo token=$PYZK_LOCK_TOKEN\n")
    it.expect("token=")
    it.type("sleep 1000\n")
    wait_until(lambda: "sleep 1000" in it.foreground())
    it.type("\x1a")
    it.expect("Stopped")
    it.type("exit 4\n")
    it.expect("stopped jobs")
    it.type("exit 4\n")
    assert it.end() == 4
    assert contenders(server) == []


# --- arguments ----------------------------------------------------------------------------------------------


def options(*argv: str, **environ: str) -> Options:
    return parse(argv, environ)


def test_defaults() -> None:
    found = options("/x", "--", "git", "log", "--", "file")
    assert found.command == ("git", "log", "--", "file")
    assert found.hosts == "127.0.0.1:2181"
    assert found.timeout == float("inf")
    assert found.kill_after == 5
    assert found.auth == ()
    assert found.data.decode().endswith(f" pid {os.getpid()}: git"), "arguments may be secrets"


def test_the_environment_gives_what_the_arguments_do_not() -> None:
    environ = {"PYZK_HOSTS": "zk1,zk2/app", "PYZK_AUTH": "digest:ann:s3cret"}
    assert options("/x", "--", "true", **environ).hosts == "zk1,zk2/app"
    assert options("--hosts", "zk3", "/x", "--", "true", **environ).hosts == "zk3"
    assert options("/x", "--", "true", **environ).auth == (("digest", "ann:s3cret"),)
    assert "s3cret" not in repr(options("/x", "--", "true", **environ))


@pytest.mark.parametrize("limit", [("--try",), ("-n",), ("--timeout", "0"), ("-w", "0")])
def test_ways_not_to_wait(limit: tuple[str, ...]) -> None:
    assert options(*limit, "/x", "--", "true").timeout == 0


def test_the_file_of_identities_wins(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("\n# both of us\ndigest:ann:s3cret\nip:10.0.0.1\n")
    found = options("--auth-file", str(file), "/x", "--", "true", PYZK_AUTH="digest:bob:other")
    assert found.auth == (("digest", "ann:s3cret"), ("ip", "10.0.0.1"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the following arguments are required: PATH"),
        ("/x", "no command to run: pyzk-lock /x -- COMMAND"),
        ("/x --", "no command to run: pyzk-lock /x -- COMMAND"),
        ("/x make all", "put -- before the command: pyzk-lock /x -- make all"),
        ("/x --wait -- true", "no such option: --wait"),
        ("/x /y -- true", "there must be only one PATH; put -- before the command, or leave out: /y"),
        ("--list /x -- true", "--list runs no command; leave out -- and the command"),
        ("--json /x -- true", "--json needs --list"),
        ("x -- true", "a path must start with /: x"),
        ("/x/ -- true", "a path must not end with / nor hold an empty component: /x/"),
        ("--hosts : /x -- true", "':' is not host:port"),
        ("--timeout soon /x -- true", "argument -w/--timeout: invalid seconds value: 'soon'"),
        ("--timeout -1 /x -- true", "argument -w/--timeout: invalid seconds value: '-1'"),
        ("--kill-after nan /x -- true", "argument -k/--kill-after: invalid seconds value: 'nan'"),
        ("--session-timeout 0 /x -- true", "--session-timeout must be more than 0"),
        ("--slots 0 /x -- true", "argument --slots: invalid number value: '0'"),
        ("-n -w 1 /x -- true", "argument -w/--timeout: not allowed with argument -n/--try"),
        ("--slots 2 --shared /x -- true", "argument -s/--shared: not allowed with argument --slots"),
        (
            "--slots 2 --layout both /x -- true",
            "--slots does not go with --layout both: the znodes of a semaphore are Curator's or kazoo's",
        ),
        ("--auth-file /nowhere /x -- true", "cannot read --auth-file /nowhere: No such file or directory"),
    ],
)
def test_arguments_that_make_no_sense(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"pyzk-lock: {message} (see pyzk-lock --help)\n"


@pytest.mark.parametrize("text", ["s3cret", ":s3cret", "digest:ann:pass\ns3cret"])
def test_a_malformed_identity_is_not_shown(text: str) -> None:
    with pytest.raises(Failure, match=r"PYZK_AUTH, line \d: it must be SCHEME:CREDENTIAL") as caught:
        options("/x", "--", "true", PYZK_AUTH=text)
    assert caught.value.status is Status.USAGE
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert {"--help": "usage: pyzk-lock [OPTIONS] PATH", "--version": f"pyzk-lock {__version__}"}[
        option
    ] in capsys.readouterr().out


def test_it_is_installed_as_a_command() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["pyzk-lock"] == f"{main.__module__}:{main.__qualname__}"
    assert main.__module__ in project["tool"]["setuptools"]["packages"]


# --- showing who holds it -----------------------------------------------------------------------------------


def entry(kind: str = "lock", data: bytes = b"ann", **changes: object) -> Entry:
    made = Entry(kind, ("curator",), kind == "read", 0x1A, 1000.0, 77, ("/x/n",), data)
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


def test_the_table() -> None:
    found = Survey(
        [entry("read"), entry("read", b"bob", session=0x1B, came=900.0)],
        [
            entry("lock", b"\xff\x00", libraries=("curator", "kazoo")),
            entry("lock", b"a\nb"),
            entry("lock", b"x" * 200),
        ],
    )
    assert table("/x", found, 1002.0) == "\n".join(
        [
            "/x: 2 holding, 3 waiting",
            "        KIND                  SESSION  AGE         DATA",
            "holder  read (curator)        0x1a     2 s         ann",
            "holder  read (curator)        0x1b     1 min 42 s  bob",
            r"1       lock (curator+kazoo)  0x1a     2 s         b'\xff\x00'",
            r"2       lock (curator)        0x1a     2 s         b'a\nb'",
            "3       lock (curator)        0x1a     2 s         " + "x" * 119 + "…",
        ]
    )


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"ann", "ann"),
        (b"", "a contender without data"),
        (b"x" * 200, "x" * 200),
        (b"x" * 900_000, "x" * 200 + "… (900,000 bytes)"),
        (b"\x1b[2J\n", r"b'\x1b[2J\n'"),
        ("\u202egnp".encode(), r"b'\xe2\x80\xaegnp'"),
        (b"\x1b" * 1000, "b'" + r"\x1b" * 49 + r"\x… (1,000 bytes)"),
    ],
)
def test_a_holder_in_a_few_words(data: bytes, shown: str) -> None:
    words = entry(data=data).describe(1002.0)
    assert words == f"{shown} (session 0x1a, for 2 s)"
    assert words.isprintable()


def test_the_table_of_nobody() -> None:
    assert table("/x", Survey([], []), 1000.0) == "/x: nobody holds it"


def test_the_table_for_machines() -> None:
    found = json.loads(as_json("/x", Survey([entry(came=2000.0)], [entry(token=2**60 + 1)]), 1002.5))
    assert found["path"] == "/x"
    holder, waiting = found["contenders"]
    assert holder == {
        "holds": True,
        "position": 0,
        "kind": "lock",
        "libraries": ["curator"],
        "session": "0x1a",
        "token": "77",
        "age": 0.0,
        "data": "ann",
        "nodes": ["/x/n"],
    }
    assert (waiting["holds"], waiting["position"], waiting["token"]) == (False, 1, str(2**60 + 1))
    assert waiting["age"] == 2.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (200_000, "2 d 7 h")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_one_with_two_names_is_one() -> None:
    def contender(name: str, kind: ContenderKind, session: int, zxid: int) -> Contender:
        stat = Stat(zxid, zxid, 5000, 5000, 0, 0, 0, session, 0, 0, zxid)
        return Contender(f"/x/{name}", name, kind, 0, b"d", stat)

    found = entries(
        [
            contender("a", ContenderKind.CURATOR_LOCK, 1, 10),
            contender("b", ContenderKind.KAZOO_LOCK, 1, 10),
            contender("c", ContenderKind.KAZOO_READ, 1, 11),
            contender("d", ContenderKind.AIOZK_WRITE, 2, 11),
        ]
    )
    assert [(one.kind, one.libraries, one.paths) for one in found] == [
        ("lock", ("curator", "kazoo"), ("/x/a", "/x/b")),
        ("read", ("kazoo",), ("/x/c",)),
        ("write", ("aiozk",), ("/x/d",)),
    ]
    assert found[0].came == 5.0


def test_readers_hold_until_the_first_writer(start: Start, other: KazooClient) -> None:
    queue_up(other, "-__READ__", "-__READ__", "-__WRIT__", "-__READ__")
    found = json.loads(start("--list", "--json", "/x").end()[1])["contenders"]
    assert [(one["kind"], one["position"], one["data"]) for one in found] == [
        ("read", 0, "Zoë"),
        ("read", 0, "Zoë"),
        ("write", 1, "Zoë"),
        ("read", 2, "Zoë"),
    ]


def test_a_terminal_that_cannot_show_everything(start: Start, other: KazooClient) -> None:
    queue_up(other, "-lock-", "-__READ__")
    status, output, _ = start("--list", "/x", PYTHONIOENCODING="ascii").end()
    assert status == 0
    _, _, *rows = (line.split() for line in output.splitlines())
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("holder", "lock", r"Zo\xeb"),
        ("1", "read", r"Zo\xeb"),
    ]

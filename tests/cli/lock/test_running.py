"""A command runs while ``pyzk-lock`` holds the lock."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
import trio
import trio.testing
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from trio.testing import MockClock

from pyzk.cli.lock import running
from pyzk.cli.lock.arguments import Options
from pyzk.cli.lock.running import Job
from pyzk.client import ZooKeeper
from pyzk.recipes import Grant
from pyzk.server.testing import EmbeddedServer

from ...support.lab import Lab
from .process import Start, contenders, options


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
        r"(pyzk-lock: no server yet \(127\.0\.0\.1:1: Connection refused\); trying for 2 s in all\n)?"
        r"pyzk-lock: no session with .* within 2\.0 s .*refused.*; check --hosts or PYZK_HOSTS\n",
        complaint,
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

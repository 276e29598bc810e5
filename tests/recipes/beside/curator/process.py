"""The recipes of Apache Curator, driven from trio: a process of :file:`CuratorPeer.java`.

async with peer.client(hosts) as curator:
    mutex = await curator.make("mutex", "/lock")
    await mutex("acquire")
    waiting = other.start("acquire")  # to be looked at: waiting.done
"""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import trio

from ....support.jvm import CURATOR, class_path, java, tool
from ....support.waiting import PATIENCE

SOURCE = Path(__file__).parent / "CuratorPeer.java"
SESSION_TIMEOUT = 10_000
"""In ms. The server has the last word."""


class CuratorError(Exception):
    """What Curator has thrown.

    :ivar kind: the class, without its package.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Reply:
    """The result of a command, once it is there."""

    def __init__(self, command: str) -> None:
        self.command = command
        self._settled = trio.Event()
        self._fields: list[str] = []

    def settle(self, fields: list[str]) -> None:
        self._fields = fields
        self._settled.set()

    @property
    def done(self) -> bool:
        return self._settled.is_set()

    async def wait(self, patience: float = PATIENCE) -> Any:
        """The result; raises :class:`CuratorError`."""
        with trio.move_on_after(patience):
            await self._settled.wait()
        if not self.done:
            raise AssertionError(f"no answer to {self.command} within {patience} s")
        status, *values = self._fields
        if status == "error":
            raise CuratorError(*values)
        results = [_value(value) for value in values]
        return results if status == "list" else results[0]


class Remote:
    """An object of Curator's. Its commands are carried out one after the other: what comes behind an acquire
    that waits has to wait with it."""

    def __init__(self, process: CuratorProcess, name: str) -> None:
        self.name = name
        self._process = process
        self._send, self._events = trio.open_memory_channel[list[Any]](1000)

    def start(self, verb: str, *arguments: str | int | bytes) -> Reply:
        """Give a command without waiting for its result."""
        return self._process.submit(self, verb, arguments)

    async def __call__(self, verb: str, *arguments: str | int | bytes) -> Any:
        """Give a command and wait for its result."""
        return await self.start(verb, *arguments).wait()

    def happened(self, values: list[str]) -> None:
        self._send.send_nowait([_value(value) for value in values])

    async def event(self) -> Any:
        """The next event."""
        with trio.move_on_after(PATIENCE):
            (value,) = await self._events.receive()
            return value
        raise AssertionError(f"no event of {self.name} within {PATIENCE} s")

    async def wait_event(self, expected: Any) -> None:
        """Wait for one event among others."""
        while await self.event() != expected:
            pass

    @property
    def quiet(self) -> bool:
        """Whether there is no event that has not been taken."""
        return self._events.statistics().current_buffer_used == 0


class Curator:
    """A client, with a session of its own.

    :ivar remote: the client itself; its events are the states of the connection.
    """

    def __init__(self, process: CuratorProcess, remote: Remote, session: int) -> None:
        self.remote = remote
        self.session = session
        self._process = process

    async def make(self, kind: str, *arguments: str | int | bytes) -> Remote:
        """An object of one of the kinds in the Java source."""
        return await self._process.make(kind, self.remote.name, *arguments)


class CuratorProcess:
    """The process. It may serve several trio runs, one after the other.

    :param folder: where the class goes, and the log.
    """

    def __init__(self, folder: Path) -> None:
        command = tool("javac", "-d", folder, "-cp", class_path(CURATOR), SOURCE)
        subprocess.run(command, check=True, capture_output=True)
        self._log: IO[bytes] = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            java("CuratorPeer", jars=CURATOR, folders=(folder,), log_level="error"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._replies: dict[str, tuple[Reply, trio.lowlevel.TrioToken]] = {}
        self._remotes: dict[str, tuple[Remote, trio.lowlevel.TrioToken]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # which ends it
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *fields = line.rstrip("\n").split("\t")
            try:
                if number == "*":
                    remote, token = self._remotes[fields[0]]
                    token.run_sync_soon(remote.happened, fields[1:])
                else:
                    reply, token = self._replies.pop(number)
                    token.run_sync_soon(reply.settle, fields)
            except (KeyError, trio.RunFinishedError):
                pass  # from a test that is over

    def submit(self, remote: Remote, verb: str, arguments: tuple[str | int | bytes, ...]) -> Reply:
        assert self._process.stdin is not None
        number = str(next(self._numbers))
        fields = [argument.hex() if isinstance(argument, bytes) else str(argument) for argument in arguments]
        reply = Reply(" ".join([remote.name, verb, *fields]))
        self._replies[number] = reply, trio.lowlevel.current_trio_token()
        self._process.stdin.write("\t".join([number, remote.name, verb, *fields]) + "\n")
        self._process.stdin.flush()
        return reply

    async def make(self, kind: str, *arguments: str | int | bytes, patience: float = PATIENCE) -> Remote:
        remote = Remote(self, f"{kind}-{next(self._numbers)}")
        self._remotes[remote.name] = remote, trio.lowlevel.current_trio_token()
        await remote.start("new", kind, *arguments).wait(patience)
        return remote

    @asynccontextmanager
    async def client(self, hosts: str, *, patience: float = PATIENCE) -> AsyncIterator[Curator]:
        """A client of Curator's, for the length of a block."""
        servers, slash, chroot = hosts.partition("/")
        # The Java client waits for a second before it tries its last server again: of two that is another.
        remote = await self.make(
            "client", f"{servers},{servers}{slash}{chroot}", SESSION_TIMEOUT, patience=patience
        )
        try:
            yield Curator(self, remote, await remote("session"))
        finally:
            remote.start("close")  # which takes a tenth of a second: there is no need to wait for it


def _value(field: str) -> Any:
    kind, _, text = field.partition(":")
    match kind:
        case "s":
            return text
        case "b":
            return bytes.fromhex(text)
        case "i":
            return int(text)
        case "z":
            return text == "true"
        case _:
            return None

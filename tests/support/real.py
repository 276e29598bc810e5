"""Real Apache ZooKeeper servers on loopback, as Debian's package ``zookeeper`` installs them.

with Ensemble(3) as ensemble:
    ensemble.hosts                  # a connect string
    leader = ensemble.leader()
    leader.kill()
    leader.start()
"""

from __future__ import annotations

import functools
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from . import jvm
from .jvm import SERVER, scratch
from .links import HOST, Link
from .ports import kept_ports

START_TIMEOUT = 60.0
ATTEMPTS = 5
TICK = 200
"""The default tick in ms: short, so that elections and expiry are quick."""


T = TypeVar("T")


class StartError(Exception):
    """A server did not come up."""


class Node:
    """One server.

    :ivar port: its client port.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        port: int,
        servers: list[str],
        *,
        tick: int,
        sync_limit: int,
        read_only: bool = False,
        more: Mapping[str, object] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.number = number
        self._flags = flags
        self.port = port
        self._folder = folder
        self._read_only = read_only
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(f"{number}\n")
        settings = {
            "tickTime": tick,
            "initLimit": 50,
            "syncLimit": sync_limit,
            "dataDir": folder / "data",
            "clientPort": self.port,
            "clientPortAddress": HOST,
            "maxClientCnxns": 0,
            "minSessionTimeout": 2 * tick,
            "maxSessionTimeout": 60_000,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "extendedTypesEnabled": "true",
            "forceSync": "no",
            "preAllocSize": 64,
        }
        if read_only:
            settings |= {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"}
        settings |= more or {}
        lines = [f"{key}={value}" for key, value in settings.items()] + servers
        (folder / "zoo.cfg").write_text("\n".join(lines) + "\n")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; :meth:`mode` tells when it serves."""
        assert not self.running
        options = [*self._flags, "-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true"]
        # Else empty containers are removed each minute, while a test looks into one perhaps.
        options += ["-Dznode.container.checkIntervalMs=86400000"]
        if self._read_only:
            options.append("-Dreadonlymode.enabled=true")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                jvm.java(*options, SERVER, str(self._folder / "zoo.cfg")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """The process dies at once, as in a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """The process ends itself."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def pause(self) -> None:
        """The process stands still; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def mode(self) -> str | None:
        """``leader``, ``follower`` or ``standalone``; None while it does not serve."""
        try:
            with socket.create_connection((HOST, self.port), timeout=2) as sock:
                sock.sendall(b"srvr")
                answer = b"".join(iter(functools.partial(sock.recv, 4096), b"")).decode()
        except OSError:
            return None
        for line in answer.splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class Ensemble:
    """``size`` servers; a single one runs standalone. Starts when the block begins, on ports of the kernel's
    choosing, with its data in memory where that is possible.

    :param sync_limit: the ticks after which the leader and its followers give up on one that stands still.
    :param tick: in ms.
    :param read_only: servers without a quorum serve reads (ensemble.md section 7).
    :param linked: followers reach the leader through links that :meth:`cut` can silence.
    :param observers: further servers, which do not vote. Their numbers follow.
    :param reconfig: clients may change the members; the lines of the servers hold the addresses for clients.
    :param settings: further lines of each server's zoo.cfg.
    :param flags: of each server's JVM.

    :ivar links: the ways between the servers, by their numbers: ``(1, 2)`` is that of server 1 to server 2.
    """

    def __init__(
        self,
        size: int,
        *,
        sync_limit: int = 10,
        tick: int = TICK,
        linked: bool = False,
        read_only: bool = False,
        observers: int = 0,
        reconfig: bool = False,
        settings: Mapping[str, object] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.size = size
        self._flags = flags
        self._reconfig = reconfig
        self._settings = {**(settings or {}), **({"reconfigEnabled": "true"} if reconfig else {})}
        self._read_only = read_only
        self._observers = observers
        self._linked = linked
        self.links: dict[tuple[int, int], Link] = {}
        self._sync_limit = sync_limit
        self._tick = tick
        self.nodes: list[Node] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ports = ExitStack()

    @property
    def hosts(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        if not self._flags:
            keep_classes()
        self._folder = scratch()
        try:
            for attempt in range(ATTEMPTS):
                try:
                    self._start(Path(self._folder.name) / f"attempt{attempt}")
                    return self
                except StartError:  # rarely they do not serve in time: they elect one after the other
                    self._kill()
                    if attempt == ATTEMPTS - 1:
                        raise
            raise AssertionError("not reached")
        except BaseException:
            self._stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        print(self.logs())  # shown with the test if it fails: the fault may be a server's
        self._stop()

    def cut(self, one: Node, *others: Node) -> None:
        """Nothing passes between a server and others, and none of them is told."""
        for link in self.links_between(one, *others):
            link.silence()

    def heal(self, one: Node, *others: Node) -> None:
        for link in self.links_between(one, *others):
            link.heal()

    def links_between(self, one: Node, *others: Node) -> list[Link]:
        """List all ways between a server and others, in both directions."""
        pairs = [(one.number, other.number) for other in others]
        return [self.links[pair] for a, b in pairs for pair in ((a, b), (b, a)) if pair in self.links]

    def leader(self) -> Node:
        """The leader, or the only node, once there is one."""
        return self._wait_for(lambda: next((n for n in self.nodes if _leads(n.mode())), None), "no leader")

    def wait_until_whole(self) -> None:
        """Wait until every running node serves."""
        self._wait_for(
            lambda: all(node.mode() for node in self.nodes if node.running) or None, "not every node serves"
        )

    def _wait_for(self, look: Callable[[], T | None], problem: str) -> T:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            found = look()
            if found is not None:
                return found
            dead = [node for node in self.nodes if not node.running]
            if len(dead) > self.size // 2:
                break
            time.sleep(0.05)  # between two looks: nothing announces it
        raise StartError(f"{problem}:\n{self.logs()}")

    def logs(self) -> str:
        """What each server has logged last, without stack frames and clients that are not served."""
        left = "NIOServerCnxn - Unexpected exception|EndOfStreamException"
        dull = re.compile(rf"\s+at |.*(ZooKeeperServer not running|Close of session 0x0|{left})")
        parts = []
        for node in self.nodes:
            lines = [line for line in node.log.splitlines() if not dull.match(line)]
            parts.append("\n".join([f"--- server {node.number}, port {node.port}", *lines[-60:]]))
        return "\n".join(parts)

    def _start(self, folder: Path) -> None:
        # Kept to the end: a server that was killed must find them free when it starts again.
        ports = self._ports.enter_context(kept_ports(3 * (self.size + self._observers)))
        triples = [(ports[i], ports[i + 1], ports[i + 2]) for i in range(0, len(ports), 3)]
        self.nodes = [
            Node(
                number,
                folder / str(number),
                triple[0],
                self._servers(number, triples),
                tick=self._tick,
                sync_limit=self._sync_limit,
                read_only=self._read_only,
                more=self._settings,
                flags=self._flags,
            )
            for number, triple in enumerate(triples, 1)
        ]
        for node in self.nodes:
            node.start()
        self.leader()
        self.wait_until_whole()

    def _servers(self, own: int, triples: list[tuple[int, int, int]]) -> list[str]:
        """The servers as one of them sees them."""
        if self.size == 1:
            return []
        lines = []
        for number, (client, peer, election) in enumerate(triples, 1):
            if self._linked and number != own:
                link = self.links[own, number] = Link(peer)
                peer = link.port
            role = "participant" if number <= self.size else "observer"
            line = f"server.{number}={HOST}:{peer}:{election}:{role}"
            lines.append(f"{line};{HOST}:{client}" if self._reconfig else line)
        return lines

    def _kill(self) -> None:
        for node in self.nodes:
            node.kill()
        for link in self.links.values():
            link.close()
        self.links.clear()

    def _stop(self) -> None:
        self._kill()
        self._ports.close()
        if self._folder is not None:
            self._folder.cleanup()


def keep_classes() -> None:
    """Make the archive of the server's classes, unless it is there or another process makes it."""
    archive = jvm.archive()
    made, making = archive.with_suffix(".new"), archive.with_suffix(".making")
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        making.mkdir()
    except FileExistsError:
        return
    try:
        flags = ["-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={made}"]
        with Ensemble(3, flags=flags) as ensemble:
            ensemble.leader().stop()  # which writes the archive; a server that is killed does not
        if made.exists():  # a JVM before release 13 has none
            made.rename(archive)
    finally:
        making.rmdir()


def _leads(mode: str | None) -> bool:
    return mode in ("leader", "standalone")

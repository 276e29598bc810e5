"""The servers that are measured: ours, started here, and a real ZooKeeper if there is one."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from pyzk.protocol.version import __version__

from .wire import Address, BenchmarkError, Client, four_letter_word

_JARS = Path("/usr/share/java")  # where Debian's packages zookeeper and libslf4j-java put theirs
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PATIENCE = 60.0  # seconds


class Server:
    """A server that runs.

    :ivar name: as the tables call it.
    :ivar addresses: of all servers, if it is an ensemble; ``address`` is the first one.
    :ivar process: None if it was not started here.
    :ivar others: its other listeners by name: ``secure``, ``admin``, ``metrics``.
    """

    def __init__(self, name: str, address: Address, process: subprocess.Popen[str] | None = None) -> None:
        self.name = name
        self.address = address
        self.addresses = [address]
        self.process = process
        self.others: dict[str, Address] = {}

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def memory(self, field: str = "VmRSS") -> int:
        """What is resident, in bytes; with ``field="VmHWM"`` the most that ever was."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(rf"{field}:\s+(\d+) kB", status)[0]) * 1024

    def forget_peak(self) -> None:
        """Let the most that was ever resident be what is resident now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def cpu(self) -> float:
        """The CPU time it has consumed, in seconds."""
        return cpu_of(self.pid)

    def version(self) -> str:
        """The release that it says it is, if it says so."""
        with contextlib.suppress(OSError, IndexError):
            return str(re.findall(r"version: ([\w.]+)", four_letter_word(self.address, b"srvr"))[0])
        return "unknown"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def cpu_of(pid: int) -> float:
    """The CPU time that a process has consumed, in seconds, to the microsecond."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock that clock_getcpuclockid(3) would return


OURS = (sys.executable, "-m", "pyzk.server")


@contextlib.contextmanager
def ours(
    command: Sequence[str] = OURS,
    stderr: IO[str] | int | None = None,
    log_level: str = "warning",
    **config: object,
) -> Iterator[Server]:
    """pyzk-server with its defaults, but for ``config`` (keys of zoo.cfg) and any number of clients.

    :param command: what starts it, without arguments.
    :param stderr: where its log goes, as for :class:`subprocess.Popen`.
    """
    with _scratch() as folder:
        file = folder / "zoo.cfg"
        file.write_text(_lines({"maxClientCnxns": 0, **config}))
        process = subprocess.Popen(
            [*command, "--port", "0", "--config", str(file), "--log-level", log_level],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
        )
        assert process.stdout is not None
        found = dict(re.findall(r"(\w+) (\S+:\d+)", process.stdout.readline()))
        addresses = [_address(text) for text in found.pop("at", ":0").split(",")]
        server = Server("pyzk-server", addresses[0], process)
        server.addresses = addresses
        server.others = {name: _address(text) for name, text in found.items()}
        try:
            if not server.address[0]:
                raise BenchmarkError("pyzk-server did not start")
            yield server
        finally:
            server.stop()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def missing_zookeeper() -> str | None:
    """Why no real server can be started here; None if one can."""
    if not shutil.which("java"):
        return "there is no java on the PATH"
    if not (_JARS / "zookeeper.jar").exists():
        return f"there is no {_JARS}/zookeeper.jar (Debian: apt-get install zookeeper)"
    return None


@contextlib.contextmanager
def zookeeper(count: int = 1) -> Iterator[Server]:
    """Debian's Apache ZooKeeper, data on a RAM disk if there is one, and no fsync.

    :param count: how many servers; more than one are an ensemble, each in a JVM of its own.
    """
    with contextlib.ExitStack() as stack:
        clients, quorum, election = (_free_ports(count) for _ in range(3))
        config: dict[str, object] = {}
        if count > 1:
            ports = enumerate(zip(quorum, election, strict=True), 1)
            config = {f"server.{number}": f"127.0.0.1:{one}:{other}" for number, (one, other) in ports}
            config |= {"initLimit": 10, "syncLimit": 5}
        running = [stack.enter_context(_jvm(number, port, config)) for number, port in enumerate(clients, 1)]
        for server in running:
            _wait_for(server)
        running[0].addresses = [server.address for server in running]
        yield running[0]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:  # all at once: no port is found twice
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in found]


@contextlib.contextmanager
def _jvm(number: int, port: int, config: dict[str, object]) -> Iterator[Server]:
    """One server in a JVM; it may not serve yet.

    :param config: what it has of an ensemble.
    """
    with _scratch() as folder:
        common = {
            "tickTime": 2000,
            "dataDir": folder / "data",
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "clientPortListenBacklog": 2048,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        file = folder / "zoo.cfg"
        file.write_text(_lines({**common, **config}))
        (folder / "data").mkdir()
        (folder / "data" / "myid").write_text(str(number))
        jars = os.pathsep.join(str(_JARS / name) for name in ("zookeeper.jar", "slf4j-simple.jar"))
        options = ["-Xmx2g", "-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        process = subprocess.Popen(
            ["java", *options, "-Dzookeeper.admin.enableServer=false", "-cp", jars, _MAIN, str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        server = Server("ZooKeeper", ("127.0.0.1", port), process)
        try:
            yield server
        finally:
            server.stop()


def _wait_for(server: Server) -> None:
    assert server.process is not None
    deadline = time.monotonic() + _PATIENCE
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            Client(server.address, patience=0.5).leave()  # who comes too early may never be answered
        except (OSError, BenchmarkError):
            time.sleep(0.003)  # between two tries: nothing announces readiness
        else:
            return
    raise BenchmarkError(f"{server.name} did not start")


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="benchmark-", dir=memory if os.access(memory, os.W_OK) else None
    ) as folder:
        yield Path(folder)


def _lines(config: dict[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in config.items())


def raise_file_limit(wanted: int) -> int:
    """Let this process, and those it starts, open ``wanted`` files if possible; returns how many it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        with contextlib.suppress(ValueError, OSError):  # only root may
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return wanted if soft == resource.RLIM_INFINITY else soft


def machine() -> dict[str, str]:
    """Where the figures come from."""
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
        "pyzk-server": __version__,
    }

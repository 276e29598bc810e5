"""How long a test waits for its server: start, first session, stop; beside a real ZooKeeper.

    python benchmarks/embedded.py [--rounds 200] [--zookeeper DIR]

The clock runs from the server's construction to the answer to a client's first message. A real server is
measured if there is a java, and its jars in DIR (default: /usr/share/java, where Debian's package puts them).
What recording costs is measured with requests through a memory stream, so that no socket hides it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio

from pyzk.protocol.framing import frame
from pyzk.protocol.records import ConnectRequest, ExistsRequest
from pyzk.server.testing import EmbeddedServer, open_server
from pyzk.server.testing.process import ProcessServer

HELLO = frame(ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode() + b"\0")
PATIENCE = 60.0  # seconds for a real server


def first_session(port: int, timeout: float = PATIENCE) -> None:
    """Raises OSError unless the server answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as sock:
        sock.sendall(HELLO)
        if len(sock.recv(100)) < 40:
            raise OSError("no session")


def embedded() -> tuple[float, float]:
    begin = time.perf_counter()
    server = EmbeddedServer().start()
    first_session(server.port)
    ready = time.perf_counter()
    server.stop()
    return ready - begin, time.perf_counter() - ready


def in_trio() -> tuple[float, float]:
    async def main() -> tuple[float, float]:
        begin = time.perf_counter()
        async with open_server() as server:
            stream = server.open_stream()
            await stream.send_all(HELLO)
            assert await stream.receive_some()
            ready = time.perf_counter()
        return ready - begin, time.perf_counter() - ready

    return trio.run(main)


def process() -> tuple[float, float]:
    begin = time.perf_counter()
    server = ProcessServer().start()
    first_session(server.port)
    ready = time.perf_counter()
    server.stop()
    return ready - begin, time.perf_counter() - ready


def real(jars: Path) -> tuple[float, float]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        config = Path(folder, "zoo.cfg")
        config.write_text(f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
        path = os.pathsep.join(str(jars / name) for name in ("zookeeper.jar", "slf4j-simple.jar"))
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
        command += ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no"]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        begin = time.perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    first_session(port, timeout=0.1)  # one that comes too early is never answered
                    break
                except OSError:
                    if server.poll() is not None or time.perf_counter() - begin > PATIENCE:
                        raise
                    time.sleep(0.005)
            ready = time.perf_counter()
        finally:
            server.terminate()
            server.wait()
        return ready - begin, time.perf_counter() - ready


def report(name: str, run: Callable[[], tuple[float, float]], rounds: int) -> None:
    run()  # imports, and the first of everything
    starts, stops = zip(*(run() for _ in range(rounds)), strict=True)
    p95 = sorted(starts)[int(0.95 * (rounds - 1))]
    print(
        f"{name:34} {statistics.median(starts) * 1e3:9.2f} {p95 * 1e3:9.2f} "
        f"{statistics.median(stops) * 1e3:9.2f} {rounds:7}"
    )


def recording(requests: int) -> None:
    """What a request costs with and without the recorder, turn by turn: both see the same machine."""

    async def main() -> dict[bool, float]:
        best = {True: 1.0, False: 1.0}
        batch = b"".join(
            frame(struct.pack(">ii", n, 3) + ExistsRequest("/", False).encode()) for n in range(50)
        )
        async with open_server(record=True) as on, open_server(record=False) as off:
            streams = {True: on.open_stream(), False: off.open_stream()}
            for stream in streams.values():
                await stream.send_all(HELLO)
                await stream.receive_some()
            for _ in range(requests // 50):
                for record, stream in streams.items():
                    begin = time.perf_counter()
                    await stream.send_all(batch)
                    await stream.receive_some()
                    best[record] = min(best[record], (time.perf_counter() - begin) / 50)
        return best

    best = trio.run(main)
    print(
        f"\none `exists` through a memory stream: {best[False] * 1e6:.2f} us, "
        f"recorded: {best[True] * 1e6:.2f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--zookeeper", type=Path, default=Path("/usr/share/java"), metavar="DIR")
    arguments = parser.parse_args()
    print(f"{'milliseconds':34} {'start p50':>9} {'p95':>9} {'stop p50':>9} {'rounds':>7}")
    report("EmbeddedServer, TCP client", embedded, arguments.rounds)
    report("open_server, memory stream", in_trio, arguments.rounds)
    report("pyzk-server as a process", process, max(3, arguments.rounds // 40))
    if shutil.which("java") and (arguments.zookeeper / "zookeeper.jar").exists():
        report("Apache ZooKeeper as a process", lambda: real(arguments.zookeeper), 5)
    else:
        print("Apache ZooKeeper: not measured, no java or no zookeeper.jar", file=sys.stderr)
    recording(20_000)


if __name__ == "__main__":
    main()

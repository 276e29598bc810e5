"""What both kinds of server have in common for the tests: an address, a configuration, a way to start one."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import attrs

HOST = "127.0.0.1"
SUPER_CREDENTIALS = "super:test"
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

Config = Mapping[str, str]

# Short ticks keep expiry tests quick; the timeout range is stated, so that tests may rely on it.
CONFIG: Config = {
    "tickTime": "250",
    "minSessionTimeout": "500",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "4lw.commands.whitelist": "*",
    "extendedTypesEnabled": "true",
    "enforceQuota": "true",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    "znode.container.checkIntervalMs": "200",
}


class StartError(RuntimeError):
    """A server did not come up; the message holds what it wrote."""


@attrs.frozen
class Server:
    """A running server.

    :ivar kind: ``ours`` or ``real``.
    :ivar version: the release that the server announces, as three numbers.
    """

    kind: str
    host: str
    port: int
    version: tuple[int, ...]
    process: subprocess.Popen[bytes] = attrs.field(repr=False)
    config: Config = attrs.field(repr=False)

    @property
    def hosts(self) -> str:
        """The connect string."""
        return f"{self.host}:{self.port}"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def four_letter_word(
    address: tuple[str, int], word: bytes, *, half_close: bool = False, timeout: float = 10.0
) -> bytes:
    """Everything the server answers to ``word``, up to its close."""
    with socket.create_connection(address, timeout=timeout) as sock:
        sock.sendall(word)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while data := sock.recv(65536):
            answer += data
        return bytes(answer)


def announced_version(address: tuple[str, int], timeout: float) -> tuple[int, ...] | None:
    """The release in the answer to ``srvr``; None while nobody serves requests at that address."""
    try:
        answer = four_letter_word(address, b"srvr", timeout=timeout)
    except OSError:
        return None
    match = re.match(rb"Zookeeper version: (\d+)\.(\d+)\.(\d+)", answer)
    return tuple(int(number) for number in match.groups()) if match else None


def write_config(config: Config, directory: Path) -> Path:
    path = directory / "zoo.cfg"
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return path


def launch(
    command: list[str], directory: Path, *, logs_output: bool = False
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a server's process; returns it and the file its errors go to.

    :param logs_output: its standard output goes there too.
    """
    log = directory / "log.txt"
    stderr: IO[bytes]
    with log.open("wb") as stderr:
        stdout = stderr if logs_output else subprocess.PIPE
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=directory
        )
    return process, log

"""The programs of clients on this machine, on systems that show them (Linux).

The rules:

1. ``/proc/net/tcp`` and ``tcp6`` name the socket at the other end of a connection. ``/proc/PID/fd`` names the
   process that has the socket. The system shows the sockets of other users only to root.
2. The search runs only if an operator asks for programs or for a timeline, and only once for each connection.
   On a server for others the search runs in a separate thread. The search stops after a number of files,
   because a machine may have many processes.
3. A program is shown by its name and its script: ``python worker.py (pid 4711)``. Further arguments are not
   shown, because they may be secrets.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from ...protocol.text import printable
from .connection import Connection
from .service import java_address

_MOST_FILES: Final = 100_000
_SHOWN: Final = 80  # characters of a program
_SCRIPT: Final = re.compile(r"[^/]+\.(?:py|pyz|jar|js|mjs|cjs|ts|rb|pl|sh)")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$]+)*", re.ASCII)
_JAVA_VALUES: Final = frozenset(
    (
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--add-modules",
        "--add-opens",
        "--add-exports",
    )
)
"""The options of Java that have a value as the next word."""

_CODE: Final = {
    "python|pypy|bash|sh": ("-c",),
    "node|deno|bun|ruby|perl": ("-e", "--eval", "-p", "--print"),
}
"""The options of interpreters that have the text of a program as the next word."""

Ends = tuple[str, int, int]
"""A connection in the view of the client's system: its own address and port, and the port of the server."""


async def look_for_programs(connections: Iterable[Connection], ports: Collection[int]) -> None:
    """Find the programs of connections that are not yet known, and set :attr:`.Connection.program`.

    :param ports: the ports of the server.
    """
    if new := _unknown(connections):
        _set(new, await trio.to_thread.run_sync(_find, {each.peer for each in new}, frozenset(ports)))


def look_now(connections: Iterable[Connection], ports: Collection[int]) -> None:
    """Do the same as :func:`look_for_programs`, in this thread."""
    if new := _unknown(connections):
        _set(new, _find({each.peer for each in new}, frozenset(ports)))


def _unknown(connections: Iterable[Connection]) -> list[Connection]:
    """Return the connections that can be looked for. None of these connections is looked for again."""
    new = [each for each in list(connections) if each.program is None]
    for connection in new:
        connection.program = ""
    if not sys.platform.startswith("linux"):
        return []
    return [each for each in new if _is_loopback(each.peer[0])]


def _set(connections: Iterable[Connection], found: Mapping[tuple[str, int], str]) -> None:
    for connection in connections:
        connection.program = found.get(connection.peer, "")


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "0:0:0:0:0:0:0:1"


def _find(peers: Collection[tuple[str, int]], ports: Collection[int]) -> dict[tuple[str, int], str]:
    sockets = {
        f"socket:[{inode}]": (host, port)
        for file in ("/proc/net/tcp", "/proc/net/tcp6")
        for (host, port, remote), inode in _connections(file)
        if remote in ports and (host, port) in peers
    }
    if not sockets:  # perhaps the system has no /proc
        return {}
    return {sockets[name]: program_of(process) for name, process in _owners(sockets).items()}


def _connections(file: str) -> Iterator[tuple[Ends, str]]:
    """Yield the connections of one address family, each with the number of its socket."""
    with suppress(OSError, ValueError, IndexError), open(file, encoding="ascii") as lines:
        next(lines, None)
        for line in lines:
            words = line.split()
            host, port = words[1].split(":")
            yield (_address(host), int(port, 16), int(words[2].rpartition(":")[2], 16)), words[9]


def _address(digits: str) -> str:
    """Read an address. Each group of four bytes is a number in the byte order of this machine."""
    numbers = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    family = socket.AF_INET if len(numbers) == 1 else socket.AF_INET6
    return java_address(socket.inet_ntop(family, b"".join(numbers)))


def _owners(sockets: Mapping[str, object]) -> dict[str, int]:
    """Return the processes that have these sockets."""
    found: dict[str, int] = {}
    left = _MOST_FILES
    for process in sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), reverse=True):
        folder = f"/proc/{process}/fd"
        with suppress(OSError):  # the process has ended, or belongs to another user
            for name in os.listdir(folder):
                left -= 1
                with suppress(OSError):
                    file = os.readlink(f"{folder}/{name}")
                    if file in sockets:
                        found[file] = process
        if left <= 0 or len(found) == len(sockets):
            break
    return found


def program_of(process: int) -> str:
    """Return the program of a process as text; empty if the process has ended.

    :param process: the number of the process.
    """
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    shown = printable(" ".join([Path(words[0]).name, *script_of(words)]))
    return f"{shown[:_SHOWN]} (pid {process})"


def script_of(words: list[str]) -> list[str]:
    """Return the script of a command line, if its program is an interpreter.

    :param words: the words of the command line.
    """
    program = Path(words[0]).name
    arguments = [word for word in words[1:] if word]
    if program == "java":
        return _main_class(arguments)
    for interpreter, code in _CODE.items():
        if re.fullmatch(rf"(?:{interpreter})[\d.]*", program):
            return _script(arguments, code)
    return []


def _script(arguments: list[str], code: Collection[str]) -> list[str]:
    before = ""
    for word in arguments:
        if word in code:
            return []
        if before == "-m" and _NAME.fullmatch(word):
            return ["-m", word]
        if not word.startswith("-") and word != "run":
            name = Path(word).name
            if _SCRIPT.fullmatch(name) or _is_command(word):
                return [name]
            if not before.startswith("-"):  # the word is not the value of an option, so arguments follow
                return []
        before = word
    return []


def _is_command(word: str) -> bool:
    """Return whether a word is the path of a program, such as ``/srv/bin/celery``: it is no secret."""
    return os.path.isabs(word) and os.path.isfile(word) and os.access(word, os.X_OK)


def _main_class(arguments: list[str]) -> list[str]:
    before = ""
    for word in arguments:
        if before == "-jar":
            return ["-jar", Path(word).name]
        if not word.startswith("-") and before not in _JAVA_VALUES:
            return [word] if _NAME.fullmatch(word) else []
        before = word
    return []

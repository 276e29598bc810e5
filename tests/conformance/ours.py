"""Our server as its users start it: a process of its own, configured by a zoo.cfg."""

from __future__ import annotations

import re
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from .servers import HOST, Config, Server, StartError, announced_version, launch, write_config

START_TIMEOUT = 20.0


def start(config: Config, directory: Path, port: int = 0, *, arguments: Sequence[str] = ()) -> Server:
    """Start our server, by default on a port of the kernel's choosing; raises :class:`StartError`.

    :param arguments: more of its command line.
    """
    file = write_config({**config, "clientPortAddress": HOST}, directory)
    command = [sys.executable, "-m", "pyzk.server", "--port", str(port), "--config", str(file), *arguments]
    process, log = launch(command, directory)
    assert process.stdout is not None
    with process.stdout as stdout:
        ready, _, _ = select.select([stdout], [], [], START_TIMEOUT)
        line = stdout.readline().decode() if ready else ""
    match = re.fullmatch(r"pyzk-server is ready at (\S+):(\d+)( admin \S+)?\n", line)
    if not match:
        process.kill()
        process.wait()
        raise StartError(f"no readiness line but {line!r}; standard error:\n{log.read_text()}")
    address = match[1], int(match[2])
    version = announced_version(address, START_TIMEOUT)
    if version is None:
        raise StartError("srvr does not announce a version")
    return Server("ours", *address, version=version, process=process, config=config)

"""A real Apache ZooKeeper, standalone: Debian's, or that of ``PYZK_JARS`` (:mod:`..support.jvm`)."""

from __future__ import annotations

import time
from pathlib import Path

from ..support.jvm import SERVER, java
from ..support.ports import kept_ports
from .servers import HOST, Config, Server, StartError, announced_version, launch, write_config

START_TIMEOUT = 60.0
ATTEMPTS = 5

# Options that the real server takes only as Java system properties (operator-surface.md 4.1).
PROPERTIES = (
    *("jute.maxbuffer", "znode.container.checkIntervalMs", "readonlymode.enabled"),
    "java.security.auth.login.config",
)


def start(config: Config, directory: Path, *, admin: bool = False) -> Server:
    """Start a real server; raises :class:`StartError`.

    :param admin: with its admin server.
    """
    error = StartError("not tried")
    for attempt in range(ATTEMPTS):
        folder = directory / f"attempt{attempt}"
        folder.mkdir()
        try:
            with kept_ports(1) as (port,):
                return _start(config, folder, port, admin)
        except StartError as failure:
            error = failure
    raise error


def _start(config: Config, directory: Path, port: int, admin: bool) -> Server:
    options = [f"-D{key}={config[key]}" for key in PROPERTIES if key in config]
    settings = {key: value for key, value in config.items() if key not in PROPERTIES}
    settings |= {
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "dataDir": str(directory / "data"),
        "forceSync": "no",
        "preAllocSize": "64",
        "admin.enableServer": str(admin).lower(),
    }
    file = write_config(settings, directory)
    options.append(f"-Dzookeeper.admin.enableServer={str(admin).lower()}")
    process, log = launch(java(*options, SERVER, str(file)), directory, logs_output=True)
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        # A server that is just starting may leave a connection without an answer: ask again soon.
        version = announced_version((HOST, port), timeout=0.5)
        if process.poll() is not None:
            break
        if version:
            return Server("real", HOST, port, version=version, process=process, config=config)
        time.sleep(0.05)  # between two polls: nothing announces readiness
    process.kill()
    process.wait()
    raise StartError(f"the real server did not come up:\n{log.read_text()}")

"""The real zkCli.sh, as Debian's package ``zookeeper`` installs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Protocol

ZKCLI = Path("/usr/share/zookeeper/bin/zkCli.sh")
TIMEOUT = 60.0


class HasHosts(Protocol):
    @property
    def hosts(self) -> str:
        """The connect string."""


def zkcli(server: HasHosts, *arguments: str, script: str = "", flags: str = "") -> tuple[int, str]:
    """The exit status and everything printed, errors in their place.

    :param flags: of the JVM.
    """
    environment = {
        **os.environ,
        "CLIENT_JVMFLAGS": f"-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 {flags}",
        "JVMFLAGS": "-Duser.timezone=UTC",
    }
    process = subprocess.run(
        [str(ZKCLI), "-server", server.hosts, *arguments],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=TIMEOUT,
        check=False,
    )
    return process.returncode, process.stdout

"""Java programs: the real server, its client, Curator.

They are those that Debian's packages install. ``PYZK_JARS=DIR`` names a folder with the jars of other
releases, and with all that these need; Debian's Jetty serves its admin server.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path
from zlib import crc32

_ARCHIVES = Path(__file__).parents[2] / "build" / "classes"
_JARS = Path("/usr/share/java")
SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
ZOOKEEPER = ("zookeeper.jar", "slf4j-simple.jar")
"""Without a log binding slf4j is silent but for a warning; slf4j-simple writes to standard error."""
CURATOR = ("curator-recipes.jar", "slf4j-simple.jar")
"""The manifest of the first names the others."""
CURATOR_TEST = ("curator-test.jar",)
JUNIT = (
    "junit-platform-console-standalone.jar",
    "junit-jupiter-api.jar",
    "opentest4j.jar",
    "apiguardian-api.jar",
)
_CHOSEN = os.environ.get("PYZK_JARS", "")
_JETTY = ("http", "io", "security", "server", "servlet", "util", "util-ajax")
_PACKAGES = {
    ZOOKEEPER: "zookeeper",
    CURATOR: "libcurator-recipes-java",
    CURATOR_TEST: "libcurator-test-java",
    JUNIT: "junit5",
}


@functools.cache
def missing(jars: tuple[str, ...] = ZOOKEEPER, *commands: str) -> str | None:
    """Why these cannot be run on this machine; None if they can.

    :param commands: what is needed besides ``java``.
    """
    for command in ("java", *commands):
        if not shutil.which(command):
            return f"no {command} on the PATH"
    if _CHOSEN and jars in (ZOOKEEPER, CURATOR):
        pattern = f"{jars[0].removesuffix('.jar')}-[0-9]*.jar"
        return None if list(Path(_CHOSEN).glob(pattern)) else f"no {pattern} in PYZK_JARS={_CHOSEN}"
    for jar in jars:
        if not (_JARS / jar).exists():
            return f"no {_JARS / jar} (Debian: apt-get install {_PACKAGES[jars]})"
    return None


def class_path(jars: tuple[str, ...], *folders: Path) -> str:
    """For ``-cp``: these jars, and folders before them."""
    if _CHOSEN and jars in (ZOOKEEPER, CURATOR):
        found: tuple[Path, ...] = (Path(_CHOSEN) / "*", *(_JARS / f"jetty9-{part}.jar" for part in _JETTY))
    else:
        found = tuple(_JARS / jar for jar in jars)
    return os.pathsep.join(map(str, (*folders, *found)))


def version_of(name: str) -> tuple[int, ...]:
    """The version of a jar, by the name of its file: ``curator-recipes`` for ``curator-recipes-5.4.0.jar``.
    Empty if there is none."""
    found = sorted((Path(_CHOSEN) if _CHOSEN else _JARS).glob(f"{name}-[0-9]*.jar"))
    if not found:
        return ()
    return tuple(int(part) for part in found[-1].stem.removeprefix(f"{name}-").split("."))


@functools.cache
def archive() -> Path:
    """Where the archive of the real server's classes lies, once ``Ensemble`` has made it. A server
    needs 30 % less of the processor's time with it. The JVM ignores an archive that does not fit."""
    java_itself = os.path.realpath(shutil.which("java") or "")
    places = [java_itself, *class_path(ZOOKEEPER).split(os.pathsep)]
    state = [(place, os.stat(place).st_mtime_ns) for place in places if os.path.exists(place)]
    return _ARCHIVES / f"zookeeper-{crc32(repr(state).encode()):08x}.jsa"


def java(
    *arguments: str,
    jars: tuple[str, ...] = ZOOKEEPER,
    folders: tuple[Path, ...] = (),
    memory: int = 256,
    log_level: str = "warn",
) -> list[str]:
    """A command line, small and quick to start.

    :param folders: further places for classes.
    :param memory: in MB.
    """
    options = [f"-Xmx{memory}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    options.append("-XX:-UsePerfData")
    if jars == ZOOKEEPER and not folders and archive().exists():
        options += [f"-XX:SharedArchiveFile={archive()}", "-Xlog:cds*=off"]
    options.append(f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}")
    options.append(f"-Dlog4j2.level={log_level}")  # of the jars in PYZK_JARS; log4j writes to standard output
    return ["java", *options, "-cp", class_path(jars, *folders), *arguments]


def tool(name: str, *arguments: str | Path) -> list[str | Path]:
    """A command line of a tool of the JDK, which runs too briefly for the JVM's best code."""
    return [name, "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", *arguments]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for a server's data: in memory where that is possible, every transaction is written."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="zookeeper-", dir=memory if os.access(memory, os.W_OK) else None
    )

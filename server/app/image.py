"""The entry point of the container image. It understands the environment of other ZooKeeper images.

Rules:

* ``KEYS`` and ``BITNAMI_TLS`` map variables to keys of zoo.cfg. A variable of Confluent's image is a key if
  it is a key with ``PYZK_`` instead of ``ZOOKEEPER_``. A ``-D`` in ``JVMFLAGS`` and similar variables is a
  key too.
* ``PYZK_...`` overrides all these variables. If a zoo.cfg is mounted at the path that the other images use,
  it is read. Then these variables have no effect, as in the other images.
* The server listens on all addresses of the container, because otherwise nobody could reach it. A line of the
  output says this. Outside of the image pyzk-server listens on 127.0.0.1.
* Data is kept if a volume is mounted at the data directory of the other images, and the user can write there.
* Several servers in ``ZOO_SERVERS`` are refused, because separate containers would share no data.
* Arguments that begin with ``-`` are flags of pyzk-server. Other arguments are a command, which finds the
  server's port in ``PYZK_HOSTS``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..config.overrides import NAMES, variable
from .flags import PROG

KEYS: Final = {
    "ZOO_TICK_TIME": "tickTime",
    "ZOO_INIT_LIMIT": "initLimit",
    "ZOO_SYNC_LIMIT": "syncLimit",
    "ZOO_MAX_CLIENT_CNXNS": "maxClientCnxns",
    "ZOO_4LW_COMMANDS_WHITELIST": "4lw.commands.whitelist",
    # the official image alone
    "ZOO_STANDALONE_ENABLED": "standaloneEnabled",
    "ZOO_ADMINSERVER_ENABLED": "admin.enableServer",
    "ZOO_AUTOPURGE_PURGEINTERVAL": "autopurge.purgeInterval",
    "ZOO_AUTOPURGE_SNAPRETAINCOUNT": "autopurge.snapRetainCount",
    # that of Bitnami alone
    "ZOO_PORT_NUMBER": "clientPort",
    "ZOO_MAX_CNXNS": "maxCnxns",
    "ZOO_MIN_SESSION_TIMEOUT": "minSessionTimeout",
    "ZOO_MAX_SESSION_TIMEOUT": "maxSessionTimeout",
    "ZOO_RECONFIG_ENABLED": "reconfigEnabled",
    "ZOO_SNAPCOUNT": "snapCount",
    "ZOO_PRE_ALLOC_SIZE": "preAllocSize",
    "ZOO_AUTOPURGE_INTERVAL": "autopurge.purgeInterval",
    "ZOO_AUTOPURGE_RETAIN_COUNT": "autopurge.snapRetainCount",
    "ZOO_LISTEN_ALLIPS_ENABLED": "quorumListenOnAllIPs",
    "ZOO_ENABLE_ADMIN_SERVER": "admin.enableServer",
    "ZOO_ADMIN_SERVER_PORT_NUMBER": "admin.serverPort",
    "ZOO_ADMIN_SERVER_ADDRESS": "admin.serverAddress",
    "ZOO_FIPS_MODE": "fips-mode",
}
BITNAMI_TLS: Final = {
    "ZOO_TLS_PORT_NUMBER": "secureClientPort",
    "ZOO_TLS_CLIENT_KEYSTORE_FILE": "ssl.keyStore.location",
    "ZOO_TLS_CLIENT_KEYSTORE_PASSWORD": "ssl.keyStore.password",
    "ZOO_TLS_CLIENT_TRUSTSTORE_FILE": "ssl.trustStore.location",
    "ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD": "ssl.trustStore.password",
    "ZOO_TLS_CLIENT_AUTH": "ssl.clientAuth",
}
"""With ``ZOO_TLS_CLIENT_ENABLE``."""
BITNAMI_METRICS: Final = {"ZOO_PROMETHEUS_METRICS_PORT_NUMBER": "metricsProvider.httpPort"}
"""With ``ZOO_ENABLE_PROMETHEUS_METRICS``."""
_METRICS: Final = {
    "metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
    "metricsProvider.httpHost": "0.0.0.0",
}
_SILENT: Final = frozenset(
    f"ZOO_{name}"
    for name in (
        *("MY_ID", "SERVER_ID", "SERVERS", "CFG_EXTRA", "CONF_DIR", "DATA_DIR", "DATA_LOG_DIR", "LOG_DIR"),
        *("LOG4J_PROP", "HEAP_SIZE", "LOG_LEVEL", "ENABLE_AUTH", "SERVER_USERS", "SERVER_PASSWORDS"),
        *("CLIENT_USER", "CLIENT_PASSWORD", "TLS_CLIENT_ENABLE", "TLS_QUORUM_ENABLE"),
        "ENABLE_PROMETHEUS_METRICS",
    )
)
"""Variables that other parts of this module read, and variables that have no meaning for one server without a
JVM."""
_TAKEN: Final = frozenset({*KEYS, *BITNAMI_TLS, *BITNAMI_METRICS, *_SILENT})
_FILES: Final = ("/conf/zoo.cfg", "/opt/bitnami/zookeeper/conf/zoo.cfg", "/bitnami/zookeeper/conf/zoo.cfg")
_VOLUMES: Final = (
    ("/data", "/datalog"),
    ("/bitnami/zookeeper/data", ""),
    ("/bitnami/zookeeper", ""),
    ("/bitnami", ""),
    ("/var/lib/zookeeper/data", "/var/lib/zookeeper/log"),
)
"""The directories of the other images for their data and their logs."""
_LEVELS: Final = {"ALL": "debug", "TRACE": "debug", "WARN": "warning", "FATAL": "critical", "OFF": "critical"}
_YES: Final = ("yes", "true", "1")
_FLAG: Final = re.compile(r"-D(?:zookeeper\.)?([\w.]+)=(\S+)")
_LISTS: Final = re.compile(r"[,;\s]+")


class Started(NamedTuple):
    """The configuration from the environment."""

    arguments: list[str]
    """Of pyzk-server."""
    notes: list[str]
    """Notes for the user, one line each."""
    port: str
    """Where clients connect."""


class Unfit(Exception):
    """The environment requires something that a single server cannot do."""


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in _YES


def _with_files(environment: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    """Return the variables. ``ZOO_..._FILE`` names a file that has the value of ``ZOO_...``, as for Bitnami's
    image."""
    found = dict(environment)
    for name in (*_TAKEN, "JVMFLAGS"):
        if file := found.pop(f"{name}_FILE", ""):
            found[name] = read(file).rstrip("\n")
    return found


def _of_keys(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield keys and values. Later values override earlier ones."""
    yield "admin.enableServer", "true"
    table = KEYS
    if _is_on(environment, "ZOO_TLS_CLIENT_ENABLE"):
        table = table | BITNAMI_TLS
    if _is_on(environment, "ZOO_ENABLE_PROMETHEUS_METRICS"):
        table = table | BITNAMI_METRICS
        yield from _METRICS.items()
    for name, key in table.items():
        if environment.get(name):
            value = environment[name]
            yield key, {"yes": "true", "no": "false"}.get(value.lower(), value)
    known = {variable(key): key for key in NAMES}
    for name, value in environment.items():
        if (found := known.get(f"PYZK_{name.removeprefix('ZOOKEEPER_')}")) and name.startswith("ZOOKEEPER_"):
            yield found, value
    for name in ("JVMFLAGS", "SERVER_JVMFLAGS", "KAFKA_OPTS"):
        yield from (flag for flag in _FLAG.findall(environment.get(name, "")) if flag[0] in NAMES)
    for entry in environment.get("ZOO_CFG_EXTRA", "").split():
        key, _, value = entry.partition("=")
        yield key, value


def _users(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys for the users in the variables of Bitnami's image, who log in by SASL.

    :raises Unfit: the number of passwords is not the number of users.
    """
    if not _is_on(environment, "ZOO_ENABLE_AUTH"):
        return
    users, passwords = (
        [part for part in _LISTS.split(environment.get(name, "")) if part]
        for name in ("ZOO_SERVER_USERS", "ZOO_SERVER_PASSWORDS")
    )
    if len(users) != len(passwords):
        raise Unfit(f"ZOO_SERVER_USERS has {len(users)} names, and there are {len(passwords)} passwords")
    for user, password in zip(users, passwords, strict=True):
        yield f"sasl.user.{user}", password
    if not _is_on(environment, "ALLOW_ANONYMOUS_LOGIN"):
        yield "sessionRequireClientSASLAuth", "true"


def _one_server(environment: Mapping[str, str]) -> str:
    """Return the port for clients of the only named server, if it has one.

    :raises Unfit: there are several.
    """
    for name in ("ZOO_SERVERS", "ZOOKEEPER_SERVERS"):
        text = environment.get(name, "")
        servers = text.split() if "=" in text else [part for part in _LISTS.split(text) if part]
        if len(servers) > 1:
            raise Unfit(
                f"{name} names {len(servers)} servers, but containers of this image share no data: keep "
                "one of these services, and give it the names of the other services (networks: NAME: "
                "aliases: [...]);"
                f" several servers in one container, for tests: {PROG} --ensemble N"
            )
        if servers and ";" in servers[0]:
            return servers[0].rpartition(";")[2].rpartition(":")[2]
    return ""


def _kept(is_volume: Callable[[str], bool], may_write: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Return the flags about files, and the notes."""
    for data, log in _VOLUMES:
        if is_volume(data):
            places = [data, log] if log and is_volume(log) else [data]
            locked = [place for place in places if not may_write(place)]
            if locked:
                note = f"nothing is kept: user {os.getuid()} may not write to {' and '.join(locked)}"
                return [], [f"{note}; make it writable, or leave the volume out"]
            flags = ["--data", data, *(["--data-log", log] if len(places) > 1 else [])]
            return flags, [f"data is kept in {data}, as a volume is mounted there"]
    return [], []


def understand(
    environment: Mapping[str, str],
    *,
    exists: Callable[[str], bool] = os.path.exists,
    is_volume: Callable[[str], bool] = os.path.ismount,
    may_write: Callable[[str], bool] = lambda path: os.access(path, os.W_OK),
    read: Callable[[str], str] = lambda path: Path(path).read_text(),
) -> Started:
    """Return the configuration from the environment and the directories of a container.

    :raises Unfit: the configuration is impossible for a single server.
    """
    settings: dict[str, str] = {}
    environment = _with_files(environment, read)
    file = next((path for path in _FILES if exists(path)), None)
    notes = ["listening on all addresses of this container; publish the port as 127.0.0.1:2181:2181"]
    if file is None:
        port = _one_server(environment)
        found = [
            *([("clientPort", port)] if port else []),
            *_of_keys(environment),
            *_users(environment),
        ]
        settings = {key: value for key, value in found if variable(key) not in environment}
        if (
            settings.get("admin.enableServer") == "true"
            and variable("admin.serverAddress") not in environment
        ):
            settings.setdefault("admin.serverAddress", "0.0.0.0")
    idle = sorted(
        name for name in environment if name.startswith("ZOO_") and (file is not None or name not in _TAKEN)
    )
    if idle:
        why = f", because {file} is read" if file else ""
        notes.append(f"without effect{why}: {', '.join(idle)}")
    flags, kept = _kept(is_volume, may_write)
    level = environment.get("ZOO_LOG_LEVEL", "").upper()
    arguments = ["--config", file] if file else []
    arguments += ["--host", "0.0.0.0"] if variable("clientPortAddress") not in environment else []
    arguments += ["--log-level", _LEVELS.get(level, level.lower())] if level else []
    arguments += [*flags, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]
    port = environment.get(variable("clientPort")) or settings.get("clientPort") or "2181"
    return Started(arguments, [*notes, *kept], port)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server, or a command beside it; returns the exit status.

    :param argv: the arguments without the program's name; by default the arguments of the process.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        started = understand(os.environ)
    except (Unfit, OSError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2
    if given and not given[0].startswith("-"):
        os.environ.setdefault("PYZK_HOSTS", f"127.0.0.1:{started.port}")
        try:
            os.execvp(given[0], given)
        except OSError as error:
            print(f"{PROG}: cannot run {given[0]}: {error.strerror}", file=sys.stderr)
            return 2
    from .cli import main as serve

    for note in started.notes:
        print(f"{PROG}: {note}", file=sys.stderr)
    return serve([*started.arguments, *given])


if __name__ == "__main__":
    sys.exit(main())

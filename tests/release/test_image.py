"""The container image: its files, the environment of other images, compose files with one changed line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as profile
from ruamel.yaml import YAML

from pyzk.server.app import image
from pyzk.server.config import overrides
from release.build import build

from .conftest import files_of_the_code

ROOT = Path(__file__).parents[2]
COMPOSE = Path(__file__).parent / "compose"
NOWHERE = {"exists": lambda path: False, "is_volume": lambda path: False}
ADMIN = {"admin.enableServer": "true", "admin.serverAddress": "0.0.0.0"}


def service(name: str) -> dict[str, Any]:
    """The service of a compose file whose image is changed: its variables are a mapping."""
    found = YAML(typ="safe").load(COMPOSE / name)["services"]
    (one, *_) = (each for each in found.values() if "zookeeper" in each["image"])
    given = one.get("environment", {})
    pairs = given.items() if isinstance(given, dict) else (each.partition("=")[::2] for each in given)
    return {**one, "environment": {key: str(value) for key, value in pairs}}


def keys(started: image.Started) -> dict[str, str]:
    words = started.arguments
    pairs = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "--set"]
    return {key: value for key, _, value in pairs}


def understood(environment: Mapping[str, str], **places: Any) -> image.Started:
    return image.understand(environment, **{**NOWHERE, **places})


def test_every_variable_is_of_a_key_that_exists() -> None:
    tables = (image.KEYS, image.BITNAMI_TLS, image.BITNAMI_METRICS)
    for key in (*(key for table in tables for key in table.values()), *image._METRICS):
        overrides.check_key(key, "the table")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bitnami.yaml", ADMIN),
        ("bitnami-health.yaml", {**ADMIN, "4lw.commands.whitelist": "srvr,ruok,wchs,cons"}),
        (
            "bitnami-many.yaml",
            {
                "clientPort": "12181",
                "quorumListenOnAllIPs": "true",
                "admin.enableServer": "false",
                "4lw.commands.whitelist": "*",
                "tickTime": "3000",
                "initLimit": "5",
                "syncLimit": "2",
                "maxClientCnxns": "60",
            },
        ),
        (
            "bitnami-sasl.yaml",
            {
                **ADMIN,
                "sasl.user.admin": "secret",
                "sasl.user.broker": "other",
                "sessionRequireClientSASLAuth": "true",
            },
        ),
        (
            "official.yaml",
            {
                "clientPort": "2181",
                "4lw.commands.whitelist": "*",
                "maxClientCnxns": "60",
                "admin.enableServer": "false",
                "standaloneEnabled": "true",
                "minSessionTimeout": "500",
                "extendedTypesEnabled": "true",
                "jute.maxbuffer": "4194304",
            },
        ),
        (
            "confluent.yaml",
            {
                "clientPort": "22181",
                "tickTime": "2000",
                "admin.enableServer": "false",
                "4lw.commands.whitelist": "ruok",
            },
        ),
    ],
)
def test_the_variables_become_keys(name: str, expected: dict[str, str]) -> None:
    started = understood(service(name)["environment"])
    assert keys(started) == expected
    assert started.port == expected.get("clientPort", "2181")
    assert started.arguments[:2] == ["--host", "0.0.0.0"]
    assert len(started.notes) == 1
    assert "all addresses" in started.notes[0]


def test_the_level_of_the_log() -> None:
    for level, expected in (("WARN", "warning"), ("INFO", "info"), ("TRACE", "debug"), ("OFF", "critical")):
        assert ["--log-level", expected] == understood({"ZOO_LOG_LEVEL": level}).arguments[2:4]


def test_several_containers_are_refused_with_the_way_out() -> None:
    for environment in (
        service("official-ensemble.yaml")["environment"],
        {"ZOO_SERVERS": "zoo1:2888:3888,zoo2:2888:3888"},
        {"ZOOKEEPER_SERVERS": "zk-1:2888:3888;zk-2:2888:3888"},
    ):
        with pytest.raises(image.Unfit, match=r"share no data.*aliases"):
            understood(environment)


def test_our_own_variables_win() -> None:
    environment = {"ZOO_TICK_TIME": "3000", "PYZK_TICK_TIME": "100", "PYZK_CLIENT_PORT": "5"}
    started = understood({**environment, "PYZK_CLIENT_PORT_ADDRESS": "127.0.0.1"})
    assert keys(started) == ADMIN
    assert "--host" not in started.arguments
    assert started.port == "5"


def test_a_file_wins_over_the_variables_of_others() -> None:
    started = understood({"ZOO_TICK_TIME": "3000"}, exists=lambda path: path == "/conf/zoo.cfg")
    assert started.arguments == ["--config", "/conf/zoo.cfg", "--host", "0.0.0.0"]
    assert "without effect, because /conf/zoo.cfg is read: ZOO_TICK_TIME" in started.notes


def test_what_means_nothing_is_named() -> None:
    assert "without effect: ZOO_FOO" in understood({"ZOO_FOO": "1", "ZOO_MY_ID": "3", "PATH": "/"}).notes


def test_tls_of_bitnami() -> None:
    environment = {"ZOO_TLS_PORT_NUMBER": "3181", "ZOO_TLS_CLIENT_KEYSTORE_FILE": "/server.pem"}
    assert keys(understood(environment)) == ADMIN
    on = understood({**environment, "ZOO_TLS_CLIENT_ENABLE": "true"})
    assert keys(on) == {**ADMIN, "secureClientPort": "3181", "ssl.keyStore.location": "/server.pem"}


def test_metrics_of_bitnami() -> None:
    environment = {"ZOO_PROMETHEUS_METRICS_PORT_NUMBER": "7070"}
    assert keys(understood(environment)) == ADMIN
    found = keys(understood({**environment, "ZOO_ENABLE_PROMETHEUS_METRICS": "yes"}))
    assert found == {**ADMIN, **image._METRICS, "metricsProvider.httpPort": "7070"}


def test_the_address_of_the_admin_server() -> None:
    found = keys(understood({"ZOO_ADMIN_SERVER_ADDRESS": "127.0.0.1", "ZOO_FIPS_MODE": "yes"}))
    assert found == {**ADMIN, "admin.serverAddress": "127.0.0.1", "fips-mode": "true"}


def test_a_variable_may_be_in_a_file() -> None:
    files = {"/port": "2222\n", "/flags": "-Djute.maxbuffer=4194304\n"}
    environment = {"ZOO_PORT_NUMBER_FILE": "/port", "JVMFLAGS_FILE": "/flags", "ZOO_FOO_FILE": "/foo"}
    started = understood(environment, read=files.__getitem__)
    assert keys(started) == {**ADMIN, "clientPort": "2222", "jute.maxbuffer": "4194304"}
    assert started.port == "2222"
    assert "without effect: ZOO_FOO_FILE" in started.notes


OF_THE_OFFICIAL_IMAGE = """
    CONF_DIR DATA_DIR DATA_LOG_DIR LOG_DIR TICK_TIME INIT_LIMIT SYNC_LIMIT AUTOPURGE_SNAPRETAINCOUNT
    AUTOPURGE_PURGEINTERVAL MAX_CLIENT_CNXNS STANDALONE_ENABLED ADMINSERVER_ENABLED SERVERS
    4LW_COMMANDS_WHITELIST CFG_EXTRA MY_ID"""
"""The variables that docker-entrypoint.sh of release 3.9.5 reads, without ``ZOO_``."""
OF_BITNAMI = """
    DATA_LOG_DIR PORT_NUMBER SERVER_ID SERVERS ENABLE_ADMIN_SERVER ADMIN_SERVER_ADDRESS
    ADMIN_SERVER_PORT_NUMBER PEER_TYPE TICK_TIME INIT_LIMIT SYNC_LIMIT MAX_CNXNS MAX_CLIENT_CNXNS
    AUTOPURGE_INTERVAL AUTOPURGE_RETAIN_COUNT LOG_LEVEL 4LW_COMMANDS_WHITELIST RECONFIG_ENABLED
    LISTEN_ALLIPS_ENABLED ENABLE_PROMETHEUS_METRICS PROMETHEUS_METRICS_PORT_NUMBER MAX_SESSION_TIMEOUT
    PRE_ALLOC_SIZE SNAPCOUNT HC_TIMEOUT FIPS_MODE TLS_CLIENT_ENABLE TLS_PORT_NUMBER
    TLS_CLIENT_KEYSTORE_FILE TLS_CLIENT_KEYSTORE_TYPE TLS_CLIENT_KEYSTORE_PASSWORD
    TLS_CLIENT_TRUSTSTORE_FILE TLS_CLIENT_TRUSTSTORE_TYPE TLS_CLIENT_TRUSTSTORE_PASSWORD TLS_CLIENT_AUTH
    TLS_QUORUM_ENABLE TLS_QUORUM_KEYSTORE_FILE TLS_QUORUM_KEYSTORE_TYPE TLS_QUORUM_KEYSTORE_PASSWORD
    TLS_QUORUM_TRUSTSTORE_FILE TLS_QUORUM_TRUSTSTORE_TYPE TLS_QUORUM_TRUSTSTORE_PASSWORD
    TLS_QUORUM_CLIENT_AUTH HEAP_SIZE ENABLE_AUTH CLIENT_USER SERVER_USERS CLIENT_PASSWORD SERVER_PASSWORDS
    ENABLE_QUORUM_AUTH QUORUM_LEARNER_USER QUORUM_LEARNER_PASSWORD QUORUM_SERVER_USERS
    QUORUM_SERVER_PASSWORDS"""
"""The variables of zookeeper-env.sh of Bitnami's image 3.9, without ``ZOO_``."""


def test_each_variable_of_the_other_images_is_taken_or_on_the_page() -> None:
    page = (ROOT / "docs/install.md").read_text()
    for name in {f"ZOO_{each}" for each in (*OF_THE_OFFICIAL_IMAGE.split(), *OF_BITNAMI.split())}:
        family = re.sub(r"QUORUM.*", "QUORUM_...", name)
        assert name in image._TAKEN or f"`{name}`" in page or f"`{family}`" in page, name


def test_users_and_passwords_that_do_not_fit() -> None:
    environment = {"ZOO_ENABLE_AUTH": "yes", "ZOO_SERVER_USERS": "a,b", "ZOO_SERVER_PASSWORDS": "x"}
    with pytest.raises(image.Unfit, match="2 names, and there are 1 passwords"):
        understood(environment)
    environment |= {"ZOO_SERVER_PASSWORDS_FILE": "/secret", "ALLOW_ANONYMOUS_LOGIN": "yes"}
    started = understood(environment, read={"/secret": "x y\n"}.__getitem__)
    assert keys(started) == {**ADMIN, "sasl.user.a": "x", "sasl.user.b": "y"}


@pytest.mark.parametrize(
    ("volumes", "flags"),
    [
        ({"/data"}, ["--data", "/data"]),
        ({"/data", "/datalog"}, ["--data", "/data", "--data-log", "/datalog"]),
        ({"/bitnami/zookeeper"}, ["--data", "/bitnami/zookeeper"]),
        ({"/datalog"}, []),
    ],
)
def test_data_are_kept_where_a_volume_is(volumes: set[str], flags: list[str]) -> None:
    started = understood(
        {"PYZK_ADMIN_ENABLE_SERVER": "false"}, is_volume=volumes.__contains__, may_write=lambda path: True
    )
    assert started.arguments == ["--host", "0.0.0.0", *flags]
    assert len(started.notes) == (2 if flags else 1)


def test_a_volume_that_cannot_be_written_is_named() -> None:
    started = understood({}, is_volume=lambda path: path == "/data", may_write=lambda path: False)
    assert "--data" not in started.arguments
    assert "nothing is kept" in started.notes[1]


def steps() -> Iterator[tuple[str, str]]:
    """The instructions of the Dockerfile and their words."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def health_check() -> list[str]:
    (words,) = (words for name, words in steps() if name == "HEALTHCHECK")
    command: list[str] = json.loads(words.partition("CMD ")[2])
    return command


PATH = f"{Path(sys.executable).parent}:{ROOT / 'release/image'}:{os.environ['PATH']}"


@contextmanager
def container(environment: Mapping[str, str], *arguments: str) -> Iterator[tuple[str, dict[str, str]]]:
    """What the image starts, at this machine's loopback address: the port, and the variables of a check."""
    around = {"PATH": PATH, **environment, "PYZK_ADMIN_ENABLE_SERVER": "false"}
    given = [*arguments, "--host", "127.0.0.1", "--port", "0", "--end-with-stdin"]
    line = [sys.executable, "-m", "pyzk.server.app.image", *given]
    with subprocess.Popen(
        line, env=around, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().rpartition(":")[2].strip()
        yield port, {**around, "PYZK_CLIENT_PORT": port}
        process.communicate()
        assert process.returncode == 0


def run(command: list[str], around: Mapping[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=around, input=given, capture_output=True, text=True)


def test_the_page_has_each_file_and_the_line_that_changes() -> None:
    rows = re.findall(r"^\| `(\S+\.yaml)` \| `image: (\S+)` \|", (ROOT / "docs/install.md").read_text(), re.M)
    assert dict(rows) == {path.name: service(path.name)["image"] for path in COMPOSE.iterdir()}


@pytest.mark.parametrize(
    "name", ["bitnami-health.yaml", "bitnami-many.yaml", "official.yaml", "confluent.yaml"]
)
def test_the_health_checks_of_compose_files(name: str) -> None:
    found = service(name)
    kind, *words = found["healthcheck"]["test"]
    with container(found["environment"]) as (port, around):
        command = [re.sub(r"\b\d*2181\b", port, word) for word in words]
        command = ["sh", "-c", *command] if kind == "CMD-SHELL" else command
        assert run(command, around).returncode == 0
    assert run(command, around).returncode != 0


def test_the_commands_of_the_other_images() -> None:
    with container({"ALLOW_ANONYMOUS_LOGIN": "yes"}) as (port, around):
        health = health_check()
        assert run(health, around).returncode == 0
        assert run(["nc", "-w", "2", "127.0.0.1", port], around, "ruok").stdout == "imok"
        assert run(["zkCli.sh", "-server", f"127.0.0.1:{port}", "ls", "/"], around).stdout == "zookeeper\n"
        assert run(["zkCli.sh", "ls", "/"], around).stdout == "zookeeper\n"
        assert run(["zkServer.sh", "stop"], around).returncode == 2


def test_one_line_says_why_it_does_not_start() -> None:
    line = [sys.executable, "-m", "pyzk.server.app.image"]
    done = run(line, {"ZOO_SERVERS": "a:1:2,b:1:2"})
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    done = run([*line, "no-such-command"], {})
    assert (done.returncode, done.stderr) == (
        2,
        "pyzk-server: cannot run no-such-command: No such file or directory\n",
    )


def test_the_dockerfile() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert len(lines) <= 15
    steps = {line.split()[0] for line in lines}
    assert {"LABEL", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"} <= steps
    assert "USER 1000" in lines
    bake = (ROOT / "docker-bake.hcl").read_text()
    assert all(f'"linux/{each}"' in bake for each in ("amd64", "arm64"))
    version = (ROOT / "protocol/version.py").read_text().split('"')[-2]
    assert f'"VERSION" {{ default = "{version}" }}' in bake


CHROOT = r"""
set -e
mount -t tmpfs none "$R"
cd "$R"
mkdir -p usr etc tmp proc dev run source ".$PREFIX"
chmod 1777 tmp
for each in /bin /sbin /lib /lib64; do cp -P $each .; done
mount --rbind /usr usr
mount -t tmpfs none usr/local
mkdir usr/local/bin
mount --rbind "$PREFIX" ".$PREFIX"
if [ -d /opt ]; then mkdir opt; mount --rbind /opt opt; fi
mount --rbind /proc proc
mount --rbind /dev dev
cp -a /etc/. etc
echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd
echo 'root:x:0:' > etc/group
rm -f etc/shadow etc/gshadow
cp -a "$SOURCE/." source
chroot . "$PREFIX/bin/python3" -m venv /usr/local
cp -a source/release/image/. usr/local/bin
chroot . sh -ec "$STEPS"
exec chroot . setpriv --reuid 1000 --regid 1000 --clear-groups "$@"
"""


def copied(source: Path) -> None:
    """Copy what the ``.dockerignore`` lets the builder see."""
    source.mkdir()
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        path = ROOT / line.removeprefix("!")
        if line.startswith("!") and path.is_dir():
            shutil.copytree(path, source / path.name, symlinks=True)
        elif line.startswith("!"):
            shutil.copy(path, source)


def test_what_the_builder_sees_can_be_installed(tmp_path: Path) -> None:
    copied(tmp_path / "source")
    with zipfile.ZipFile(build("wheel", tmp_path / "source", tmp_path)) as wheel:
        assert {name for name in wheel.namelist() if name.startswith("pyzk/")} == files_of_the_code()


@pytest.mark.skipif(
    profile.get_current_profile_name() != "nightly" or os.geteuid() != 0,
    reason="nightly, by root on Linux: it installs what the image has",
)
def test_the_steps_of_the_dockerfile_in_a_chroot(tmp_path: Path) -> None:
    source, root = tmp_path / "source", tmp_path / "root"
    copied(source)
    root.mkdir()
    commands = [re.sub(r"^--mount=\S+ ", "", words) for name, words in steps() if name == "RUN"]
    (entry,) = (json.loads(words) for name, words in steps() if name == "ENTRYPOINT")
    around = {
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "R": str(root),
        "SOURCE": str(source),
        "PREFIX": sys.base_prefix,
        "STEPS": " && ".join(commands),
        "ZOO_ADMINSERVER_ENABLED": "false",
    }
    line = ["unshare", "--mount", "sh", "-c", CHROOT, "sh", *entry, "--port", "0", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*line, "--end-with-stdin"], env=around, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if "is ready at" in line), "")
        assert ready
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.search(r"^Uid:\t1000\t1000\t1000\t1000$", status, re.MULTILINE)
        check = ["nsenter", f"--mount=/proc/{process.pid}/ns/mnt", "chroot", str(root)]
        asked = {**around, "PYZK_CLIENT_PORT": ready.rpartition(":")[2].strip()}
        health = health_check()
        done = run([*check, *health], asked)
        assert done.returncode == 0, done.stderr
        process.communicate()
        assert process.returncode == 0

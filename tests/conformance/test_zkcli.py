"""The real zkCli.sh runs a script against both servers: what it prints must be the same."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from ..support.needs import need
from ..support.zkcli import ZKCLI, zkcli
from .conftest import running
from .servers import CONFIG, Server

SCRIPT = """
ls /
create /a hello
create /a
create /none/x
create -s /a/s x
create -e /a/e
create -s -e /a/se
create -c /a/c
create -t 100000 /a/t ttl
create -t 0 /a/t0 ttl
create /a/e/child
create /zookeeper/config/x
ls -R /a
ls -s /a
ls /none
get /a
get -s /a
get /none
get /a/c
stat /a
stat /none
set /a new
set -s /a newer
set -v 7 /a x
set -v 2 /a ok
getAcl /a
getAcl -s /a
setAcl /a world:anyone:cdrwa
setAcl -s /a world:anyone:cdrwa
setAcl -v 9 /a world:anyone:r
setAcl /a nonsense:x:r
create /secret x world:anyone:ca
get /secret
setAcl /secret world:anyone:cdrwa
create /p x auth::cdrwa
addauth digest me:secret
whoami
create /p x auth::cdrwa
getAcl /p
sync /a
sync /none
setquota -n 2 /a
listquota /a
setquota -N 7 /a
setquota -B 20 /a
setquota -n 1 /a/c
listquota /a
create /a/q 1
create /a/r 1
create /a/q2 12345678901234567890
set /a 12345678901234567890
listquota /a
delquota -n /a
delquota -N /a
listquota /a
delquota /a
listquota /a
getEphemerals
getEphemerals /a
getEphemerals /none
getAllChildrenNumber /a
getAllChildrenNumber /none
addWatch /a
create /a/w
set /a/w x
delete /a/w
removewatches /a -a
removewatches /none -a
addWatch -m PERSISTENT /a
create /a/w
get -w /a/w
set /a/w again
ls -w /a
delete /a/w
removewatches /a
config
config -s
reconfig -add server.1=localhost:2888:3888;2181
delete /a
delete /none
delete -v 7 /a/q
delete /zookeeper
deleteall /a
deleteall /none
deleteall /p
deleteall /secret
ls /
ls -R /zookeeper
nonsense
version
quit
"""

# Printed whole by a thread of its own, wherever the other has got to: even in the middle of a list.
EVENT = re.compile(r"\n(?:WATCHER::|(WatchedEvent .*))\n")


class Normalised:
    """What zkCli printed, without what must differ between two servers: times, ids, and where zxids began."""

    def __init__(self, printed: str) -> None:
        self._base: int | None = None
        # its own end the client tells only if it finds the time
        events: list[str] = EVENT.findall(printed)
        self.events = [event for event in events if event and "state:Closed" not in event]
        self.lines = [
            self._line(line)
            for line in EVENT.sub("", printed).splitlines()
            if line and not line.startswith(("SLF4J", "Connecting to", "log4j"))
        ]
        self._sort_identities()

    def _line(self, line: str) -> str:
        line = re.sub(r"^(c|m)time = .*", r"\1time", line)
        line = re.sub(r"^(cZxid|mZxid|pZxid) = 0x(\w+)", self._zxid, line)
        line = re.sub(r"^ephemeralOwner = 0x[1-9a-f]\w*", "ephemeralOwner = some session", line)
        # children and ephemerals come in any order
        return re.sub(r"^\[(.*)\]$", lambda match: f"[{', '.join(sorted(match[1].split(', ')))}]", line)

    def _zxid(self, match: re.Match[str]) -> str:
        zxid = int(match[2], 16)
        if zxid and self._base is None:
            self._base = zxid
        return f"{match[1]} = {zxid - self._base if zxid and self._base else zxid}"

    def _sort_identities(self) -> None:
        start = self.lines.index("Auth scheme: User") + 1 if "Auth scheme: User" in self.lines else 0
        if start:
            self.lines[start : start + 2] = sorted(self.lines[start : start + 2])


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    need(None if ZKCLI.exists() else f"no {ZKCLI} (Debian: apt-get install zookeeper)")
    with contextlib.ExitStack() as stack:
        real = stack.enter_context(running("real", CONFIG))
        yield stack.enter_context(running("ours", CONFIG)), real


def test_a_scripted_session(pair: tuple[Server, Server]) -> None:
    outputs = [zkcli(server, script=SCRIPT) for server in pair]
    ours, real = (Normalised(printed) for _, printed in outputs)
    assert ours.lines == real.lines
    assert ours.events == real.events
    assert outputs[0][0] == outputs[1][0]
    # the script did what it was written for
    text = "\n".join(real.lines)
    for words in (
        "Created /a/s0000000000",
        "Node already exists: /a",
        "Ephemerals cannot have children: /a/e",
        "Insufficient permission : /secret",
        "version No is not valid : /a",
        "Acl is not valid : /a",
        "Quota has exceeded : /a/r",
        "Sync is OK",
        "KeeperErrorCode = Reconfig is disabled",
        "Node not empty: /a",
        "Arguments are not valid : /zookeeper",
    ):
        assert words in text
    types = re.findall(r"type:(\w+)", " ".join(real.events))
    assert {"NodeCreated", "NodeDataChanged", "NodeDeleted", "PersistentWatchRemoved"} <= set(types)


@pytest.mark.parametrize(
    "arguments",
    [["ls", "/"], ["ls", "/none"], ["delete", "/zookeeper/quota"]],
    ids=lambda words: " ".join(words),
)
def test_a_single_command(pair: tuple[Server, Server], arguments: list[str]) -> None:
    outputs = [zkcli(server, *arguments) for server in pair]
    ours, real = (Normalised(printed).lines for _, printed in outputs)
    assert ours == real
    assert outputs[0][0] == outputs[1][0]

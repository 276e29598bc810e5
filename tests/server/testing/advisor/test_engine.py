"""What the advisor reads, when, and how much it remembers."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import attrs
import pytest

from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer, Entry
from pyzk.server.testing.advisor import table
from pyzk.server.testing.advisor.engine import Advisor
from pyzk.server.testing.advisor.table import Table
from tests.support.wire import WireClient

from .clients import EPHEMERAL, Clients


def test_advice_grows_with_the_history() -> None:
    with EmbeddedServer(clock="frozen") as server, Clients(server) as clients:
        client = clients.new()
        for _ in range(19):
            client.exists("/ready")
        assert server.advice() == []
        client.exists("/ready")
        (finding,) = server.advice()
        assert (finding.rule, finding.count) == ("polling", 20)
        assert finding.evidence == "exists of /ready had the same answer 20 times in turn"
        client.exists("/ready")
        assert [found.count for found in server.advice()] == [21]
        assert [found.count for found in server.advice()] == [21]  # nothing is read twice
        assert finding.sessions == (client.session_id,)
        assert finding.paths == ("/ready",)


def test_what_the_history_has_lost_is_not_looked_at() -> None:
    with EmbeddedServer(clock="frozen", history_limit=20) as server, Clients(server) as clients:
        client = clients.new()
        for _ in range(30):
            client.exists("/ready")
        assert server.advice() == []  # 10 requests and their replies are left
        for _ in range(10):
            client.exists("/ready")
        assert [found.count for found in server.advice()] == [20]


def test_a_reset_forgets() -> None:
    with EmbeddedServer(clock="frozen") as server:
        with Clients(server) as clients:
            client = clients.new()
            for _ in range(20):
                client.exists("/ready")
            assert len(server.advice()) == 1
        server.reset()
        assert server.advice() == []


def test_nothing_is_recorded() -> None:
    with EmbeddedServer(clock="frozen", record=False) as server, Clients(server) as clients:
        client = clients.new()
        for _ in range(20):
            client.exists("/ready")
        assert server.advice() == []


def test_an_ensemble() -> None:
    """A session that polls at one server and then at another is one session."""
    with EmbeddedEnsemble(3, clock="frozen") as ensemble, ExitStack() as stack:
        client = stack.enter_context(WireClient(("127.0.0.1", ensemble[1].port)))
        client.connect()
        for _ in range(10):
            client.exists("/ready")
        assert ensemble.advice() == []
        client.drop()
        again = stack.enter_context(WireClient(("127.0.0.1", ensemble[2].port)))
        again.connect(session_id=client.session_id, password=client.password)
        for _ in range(10):
            again.exists("/ready")
        (finding,) = ensemble.advice()
        assert (finding.rule, finding.count, finding.sessions) == ("polling", 20, (client.session_id,))
        again.close_session()


def test_an_ensemble_goes_on_from_where_it_was() -> None:
    with EmbeddedEnsemble(3, clock="frozen", history_limit=20) as ensemble, ExitStack() as stack:
        client = stack.enter_context(WireClient(("127.0.0.1", ensemble[1].port)))
        client.connect()
        for _ in range(30):
            client.exists("/ready")
        assert ensemble.advice() == []  # 10 requests and their replies are left
        for _ in range(10):
            client.exists("/ready")
        assert [found.count for found in ensemble.advice()] == [20]
        assert [found.count for found in ensemble.advice()] == [20]  # nothing is read twice


def test_off_it_is_not_imported() -> None:
    code = (
        "import sys; from pyzk.server.testing import EmbeddedServer\n"
        "with EmbeddedServer() as server: server.history()\n"
        "print([name for name in sys.modules if 'advis' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_entries_in_findings_out() -> None:
    """The engine needs no server: a recorded history is enough, at once or in pieces."""
    with EmbeddedServer(clock="frozen") as server, Clients(server) as clients:
        client = clients.new()
        for _ in range(25):
            client.exists("/ready")
        entries = server.history()
    whole, pieces = Advisor(1_000_000), Advisor(1_000_000)
    whole.read(entries)
    for entry in entries:
        pieces.read([entry])
    assert whole.findings() == pieces.findings() == server_findings(entries)
    assert len(whole.findings()) == 1


def server_findings(entries: list[Entry]) -> list[object]:
    later = Advisor(1_000_000)
    later.read(attrs.evolve(entry, text="") for entry in entries)  # the words do not matter
    return list(later.findings())


def test_a_table_forgets_the_oldest() -> None:
    found: Table[int, list[int]] = Table(list, 3)
    for key in range(5):
        found[key].append(key)
    found[2].append(2)
    assert dict(found) == {2: [2, 2], 3: [3], 4: [4]}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that come and do not go, each with paths of its own: the oldest are forgotten."""
    monkeypatch.setattr(table, "MOST", 50)
    with EmbeddedServer(clock="frozen") as server, Clients(server) as clients:
        client = clients.new()
        client.create("/a", flags=EPHEMERAL)
        client.create("/a", flags=EPHEMERAL)
        client.exists("/a", watch=True)
        client.children("/")
        client.get("/a")
        entries = server.history()
    advisor = Advisor(1_000_000)

    def others(numbers: range) -> Iterator[Entry]:
        for number in numbers:
            for entry in entries:
                if entry.facts.step not in ("closed", "over") and entry.op != "close_session":
                    asked = [attrs.evolve(each, path=f"/{number}") for each in entry.facts.asked]
                    facts = attrs.evolve(entry.facts, asked=asked)
                    yield attrs.evolve(entry, session=number, connection=number, facts=facts)

    def size() -> int:
        gc.collect()
        return sum(len(each) for each in gc.get_objects() if isinstance(each, Table))

    advisor.read(others(range(1, 51)))
    full = size()
    assert full > 5 * 50
    advisor.read(others(range(51, 351)))
    assert size() <= full + 300  # owners of ephemerals have a larger table

"""The log of an ensemble, its links and what a server knows of sessions, each alone."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL
from pyzk.server.core.txn import Create, Delete, Multi, Refused, SetData, Txn
from pyzk.server.ensemble import log as module
from pyzk.server.ensemble.links import Links
from pyzk.server.ensemble.log import Log, Proposal
from pyzk.server.ensemble.serving import most_outstanding
from pyzk.server.ensemble.sessions import place_of_ephemeral


@attrs.frozen
class Server:
    number: int


ONE, TWO, THREE = servers = [Server(number) for number in (1, 2, 3)]
NUMBERS = [1, 2, 3]


def proposal(zxid: int) -> Proposal:
    return Proposal(Txn(zxid, 0, 0, Refused(-1)), (zxid, -1, b""))


# --- the log -----------------------------------------------------------------------------------------------


def test_what_is_committed_is_no_longer_proposed() -> None:
    log = Log()
    told: list[int] = []
    log.on_commit = lambda txn: told.append(txn.zxid)
    assert (log.last_zxid, log.committed, log.first_kept) == (0, 0, 0)
    first, second, third = made = [proposal(zxid) for zxid in (5, 6, 7)]
    log.proposed += made
    log.commit(first, [0])
    assert (log.last_zxid, log.committed, log.proposed) == (5, 1, [second, third])
    log.on_commit = None
    log.commit(second, [0])
    other = proposal(9)
    log.commit(other, [0])  # as by a leader that comes with it
    assert (log.last_zxid, log.committed, log.proposed, told) == (9, 3, [third], [5])
    assert list(log.since(0)) == [first, second, other]
    assert list(log.since(2)) == [other]
    assert list(log.since(3)) == []


def test_so_many_entries_are_kept_unless_all_servers_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 3)
    log = Log()
    for zxid in range(1, 6):
        log.commit(proposal(zxid), [0, 0])
    assert (log.first_kept, len(log.since(0))) == (0, 5), "nobody has them"
    log.commit(proposal(6), [0, 1])
    assert (log.first_kept, [each.zxid for each in log.since(1)]) == (1, [2, 3, 4, 5, 6])
    log.commit(proposal(7), [0, 1])
    assert log.first_kept == 1
    log.commit(proposal(8), [2, 8])
    assert log.first_kept == 2
    assert [each.zxid for each in log.since(4)] == [5, 6, 7, 8]


def test_what_is_kept_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES", 1000)
    log = Log()

    def commit(zxid: int, effect: Any, applied: list[int]) -> None:
        log.commit(Proposal(Txn(zxid, 0, 0, effect), (zxid, 0, b"")), applied)

    for zxid in range(1, 5):
        commit(zxid, SetData("/a", bytes(398), 0), [0, 0])
    assert log.first_kept == 0, "nobody has them"
    commit(5, Create("/a", "a", bytes(198), OPEN_ACL, 0), [0, 4])
    assert [each.zxid for each in log.since(log.first_kept)] == [3, 4, 5]
    commit(6, Delete("/a", "a"), [5])
    assert log.first_kept == 2
    commit(7, Multi((SetData("/a", None, 0), SetData("/a", bytes(396), 0))), [5])
    assert [each.zxid for each in log.since(log.first_kept)] == [4, 5, 6, 7]
    commit(8, SetData("/a", bytes(2000), 0), [8])
    assert log.first_kept == 8


# --- links -------------------------------------------------------------------------------------------------


def pairs(links: Any) -> set[tuple[int, int]]:
    return {
        (one.number, other.number)
        for one in servers
        for other in servers
        if one.number < other.number and links.is_cut(one, other)
    }


@pytest.mark.parametrize("silent", [True, False])
def test_links_are_cut_between_groups(silent: bool) -> None:
    links: Any = Links()
    assert (links.are_whole, pairs(links)) == (True, set())
    links.part(NUMBERS, [[ONE]], silent)
    assert (links.are_whole, pairs(links)) == (False, {(1, 2), (1, 3)})
    assert links.is_cut(TWO, ONE)
    assert links.is_reset(ONE, TWO) is not silent
    assert not links.is_reset(TWO, THREE), "it is whole"
    assert [links.is_apart(server) for server in servers] == [True, True, True]
    assert sorted(links.cuts_of(ONE)) == [(2, silent), (3, silent)]
    assert list(links.cuts_of(TWO)) == [(1, silent)]
    links.join([TWO])
    assert (links.are_whole, pairs(links)) == (False, {(1, 3)})
    assert [links.is_apart(server) for server in servers] == [True, False, True]
    links.join([THREE])
    assert (links.are_whole, pairs(links)) == (True, set())


def test_three_groups_and_servers_in_none() -> None:
    links: Any = Links()
    links.part(NUMBERS, [[ONE], [TWO], [THREE]], True)
    assert pairs(links) == {(1, 2), (1, 3), (2, 3)}
    other: Any = Links()
    other.part(NUMBERS, [[ONE, TWO]], True)
    assert pairs(other) == {(1, 3), (2, 3)}
    other.part(NUMBERS, [[ONE, TWO, THREE]], True)
    assert pairs(other) == {(1, 3), (2, 3)}, "what was cut stays cut"
    whole: Any = Links()
    whole.part(NUMBERS, [[ONE, ONE, TWO, THREE]], True)
    assert whole.are_whole
    with pytest.raises(ValueError, match="server 1 is in two groups"):
        whole.part(NUMBERS, [[ONE], [TWO, ONE]], True)


# --- ephemerals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", range(7))
@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER])
def test_which_creates_ask_for_an_ephemeral(op: OpCode, flags: int) -> None:
    frame = bytes(8) + r.CreateRequest("/a", b"", r.OPEN_ACL, flags).encode()
    expected = 0 if flags in (1, 3) and op is not OpCode.CREATE_CONTAINER else None
    assert place_of_ephemeral(op, frame) == expected


def test_the_first_ephemeral_of_a_multi() -> None:
    def place(*flags: int | None) -> int | None:
        parts = [
            MultiOp(OpCode.DELETE, r.DeleteRequest("/a", -1))
            if each is None
            else MultiOp(OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, each))
            for each in flags
        ]
        return place_of_ephemeral(OpCode.MULTI, bytes(8) + encode_multi(parts))

    assert place() is None
    assert place(0, None, 2) is None
    assert place(0, None, 3, 1) == 2
    assert place(1) == 0
    assert place_of_ephemeral(OpCode.MULTI, bytes(8) + b"\xff") is None, "the leader says so"
    assert place_of_ephemeral(OpCode.CREATE, bytes(8) + b"\xff") is None
    assert place_of_ephemeral(OpCode.SET_DATA, bytes(8)) is None


@pytest.mark.parametrize(("voters", "most"), [(1, 1000), (2, 1000), (3, 500), (5, 250), (7, 166)])
def test_how_many_requests_may_wait_at_a_server(voters: int, most: int) -> None:
    """1,000 by default, shared by the servers that follow."""
    assert most_outstanding(voters) == most

"""The arithmetic of a lease, with a timeout of 24 s, of which most parts are whole seconds."""

from __future__ import annotations

import math

import pytest

from pyzk.client.lease import LeaderSync, Lease
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import SyncRequest

T = 24.0
PERIOD, SHORT = 4.8, 4.8


@pytest.fixture
def lease() -> Lease:
    """The handshake went out at 100, and was answered at 101."""
    lease = Lease()
    lease.attached(100, 101, T)
    return lease


def test_there_is_none_at_first() -> None:
    lease = Lease()
    assert (lease.timeout, lease.deadline, lease.acknowledged) == (math.inf, -math.inf, -math.inf)
    assert (lease.proof_due, lease.kept, lease.warned, lease.short_at) == (math.inf, False, False, math.inf)
    lease.keep(lambda: None, 0)
    assert lease.short_at == math.inf, "nothing can be short"
    assert not lease.warned


def test_a_handshake_counts_from_when_it_was_sent(lease: Lease) -> None:
    assert (lease.timeout, lease.deadline, lease.acknowledged) == (T, 100 + T, 100)
    assert lease.proof_due == pytest.approx(100 + PERIOD)


def test_a_shorter_timeout_counts_at_once_and_a_longer_one_never(lease: Lease) -> None:
    lease.attached(102, 103, 12)
    assert (lease.timeout, lease.deadline) == (12, 114)
    lease.attached(104, 105, T)
    assert (lease.timeout, lease.deadline) == (12, 116)


def test_an_answer_proves_nothing_by_itself(lease: Lease) -> None:
    lease.answered(105, 106)
    assert (lease.deadline, lease.acknowledged) == (100 + T, 105)
    lease.answered(104, 107)
    assert lease.acknowledged == 105, "an earlier message was answered later"


@pytest.mark.parametrize(("sent", "deadline"), [(113.9, 100 + T), (114, 105 + T), (120, 105 + T)])
def test_the_leader_proves_what_was_answered_a_third_before(
    lease: Lease, sent: float, deadline: float
) -> None:
    lease.answered(105, 106)
    lease.prove(sent)
    assert lease.deadline == deadline


def test_the_latest_of_what_is_proved_counts(lease: Lease) -> None:
    for sent in (105, 107, 109):
        lease.answered(sent, sent + 1)
    lease.prove(108 + 8)
    assert lease.deadline == 107 + T
    lease.prove(108 + 8)
    assert lease.deadline == 107 + T
    lease.prove(110 + 8)
    assert lease.deadline == 109 + T


def test_a_proof_never_moves_the_deadline_back(lease: Lease) -> None:
    lease.attached(110, 111, T)
    lease.answered(105, 112)
    lease.prove(130)
    assert lease.deadline == 110 + T


def test_answers_that_follow_soon_are_not_noted(lease: Lease) -> None:
    """A twenty-fourth is 1 s. The handshake was answered at 101."""
    lease.answered(101.5, 101.9)
    lease.prove(101.9 + 8)
    assert lease.deadline == 100 + T
    assert lease.acknowledged == 101.5
    lease.answered(101.5, 102)
    lease.prove(102 + 8)
    assert lease.deadline == 101.5 + T


def test_what_was_answered_long_ago_is_forgotten(lease: Lease) -> None:
    """Nothing older than 2/3 proves anything that a later answer does not: at most one is kept."""
    for now in range(102, 200):
        lease.answered(now - 1, now)
        assert len(lease._answered) <= 18
    assert lease._answered[0][1] == 199 - 16 - 1
    assert lease._answered[1][1] == 199 - 16


def test_answers_of_another_server_prove_nothing(lease: Lease) -> None:
    lease.answered(105, 106)
    lease.disconnected()
    lease.prove(120)
    assert lease.deadline == 100 + T
    assert lease.acknowledged == 105
    lease.answered(121, 122)
    lease.prove(130)
    assert lease.deadline == 121 + T


def test_the_answers_before_a_handshake_prove_nothing_behind_it(lease: Lease) -> None:
    lease.answered(105, 106)
    lease.attached(104, 107, T)
    lease.prove(114)
    assert lease.deadline == 104 + T


def test_when_the_leader_is_to_be_asked(lease: Lease) -> None:
    lease.prove(103)
    assert lease.proof_due == pytest.approx(103 + PERIOD), "a fifth behind the last proof"
    lease.prove(102)
    assert lease.proof_due == pytest.approx(103 + PERIOD), "an earlier one changes nothing"
    lease.answered(102.9, 103)
    lease.prove(108)
    lease.answered(109, 109.5)
    assert lease.proof_due == pytest.approx(108 + PERIOD), "to prove 102.9 would gain less than an eighth"


def test_the_leader_is_asked_earlier_for_a_gain() -> None:
    for sent, due in ((102.9, 110 + PERIOD), (103, 104 + 8)):
        lease = Lease()
        lease.attached(100, 101, T)
        lease.answered(sent, 104)
        lease.prove(110)  # the handshake alone was reported by 102
        assert lease.proof_due == pytest.approx(due)


def test_the_first_of_several_gains_counts(lease: Lease) -> None:
    lease.answered(103.5, 104)
    lease.answered(107, 108)
    lease.prove(110)
    assert lease.proof_due == pytest.approx(104 + 8)


def test_it_ends_with_the_session(lease: Lease) -> None:
    moved: list[float] = []
    lease.keep(lambda: moved.append(lease.deadline), 101)
    lease.answered(105, 106)
    lease.ended()
    assert (lease.timeout, lease.deadline, lease.acknowledged) == (math.inf, -math.inf, -math.inf)
    assert moved == [-math.inf]
    lease.attached(200, 201, 12)
    assert (lease.timeout, lease.deadline) == (12, 212)
    lease.prove(210)
    assert lease.deadline == 212, "nothing of the last session counts"
    assert moved == [-math.inf, 212]


def test_who_keeps_it_is_told_of_each_move(lease: Lease) -> None:
    moved: list[str] = []

    def one() -> None:
        moved.append("one")

    def two() -> None:
        moved.append("two")

    lease.keep(one, 101)
    lease.keep(two, 101)
    assert lease.kept
    lease.answered(105, 106)
    assert moved == []
    lease.prove(114)
    assert moved == ["one", "two"]
    lease.release(one)
    lease.release(one)
    assert lease.kept
    lease.attached(120, 121, T)
    assert moved == ["one", "two", "two"]
    lease.release(two)
    assert not lease.kept


def test_one_that_leaves_as_it_is_told_keeps_no_other_from_hearing(lease: Lease) -> None:
    moved: list[str] = []

    def one() -> None:
        lease.release(one)
        moved.append("one")

    lease.keep(one, 101)
    lease.keep(lambda: moved.append("two"), 101)
    lease.attached(120, 121, T)
    assert moved == ["one", "two"]


def test_when_it_is_short(lease: Lease) -> None:
    assert lease.short_at == math.inf, "nobody keeps it"
    lease.keep(lambda: None, 101)
    assert lease.short_at == pytest.approx(124 - SHORT)
    lease.warned = True
    assert lease.short_at == math.inf, "once"
    lease.attached(110, 111, T)
    assert not lease.warned
    assert lease.short_at == pytest.approx(134 - SHORT)


@pytest.mark.parametrize(("now", "warned"), [(119.1, False), (119.3, True)])
def test_a_lease_that_was_short_before_anybody_kept_it_is_no_news(
    lease: Lease, now: float, warned: bool
) -> None:
    lease.keep(lambda: None, now)
    assert lease.warned is warned
    lease.keep(print, 101)
    assert lease.warned is warned


# --- the syncs of a connection ----------------------------------------------------------------------------


def test_a_sync_is_asked_for_when_the_lease_needs_it() -> None:
    sync = LeaderSync(100)
    assert not sync.unsent
    assert sync.due(110, T) == 110
    assert sync.due(100.5, T) == 101, "not sooner than a twenty-fourth behind the last"
    assert sync.overdue(100, T) == math.inf


def test_one_sync_at_a_time() -> None:
    sync = LeaderSync(100)
    sync.ask(105)
    assert sync.unsent
    assert sync.due(110, T) == math.inf
    assert sync.overdue(103, T) == 105 + 6, "a quarter behind it"
    assert sync.overdue(108, T) == 108 + 6, "or behind what came since"
    request, data = sync.send(7, 106)
    assert not sync.unsent
    assert (request.opcode, request.path, request.xid, request.sent, request.sent_at) == (
        *(OpCode.SYNC, "/", 7, True),
        106,
    )
    body = SyncRequest("/").encode()
    assert data == (8 + len(body)).to_bytes(4, "big") + b"\0\0\0\7" + OpCode.SYNC.to_bytes(4, "big") + body
    assert sync.due(110, T) == math.inf
    request.succeed(None)
    assert sync.due(105.5, T) == 106, "a twenty-fourth behind the question"
    assert sync.overdue(103, T) == math.inf

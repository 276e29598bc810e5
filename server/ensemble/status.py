"""The view for operators of a server of an ensemble: the words and commands that depend on its role
(ensemble.md section 9).

The shown addresses for quorum and election are not real, because servers of a pretend ensemble have no such
ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar

from ...protocol.text import session_text
from ..monitoring import four_letter_words
from ..monitoring.commands import Ask
from ..net.connection import Connection
from .leader import Leader
from .member import Member
from .serving import MemberService

_STATES = {"leader": "leading", "follower": "following", "observer": "observing"}


def _member(service: Any) -> Member:
    """Return the member of an ensemble to which a service belongs."""
    found: MemberService = service
    return found.member


# --- figures -----------------------------------------------------------------------------------------------


def _totals(member: Member) -> Iterator[str]:
    """Yield the lines that only a leader adds to ``srvr``."""
    leader = member.own_leader
    if leader is not None:
        last, least, most = leader.proposal_sizes
        yield f"Proposal sizes last/min/max: {last}/{least}/{most}"


def _figures(member: Member) -> Iterator[tuple[str, int]]:
    """Yield the figures of a server in an ensemble."""
    ensemble, leader = member.ensemble, member.own_leader
    yield "quorum_size", len(member.config.voters)
    if leader is not None:
        others = [each for each in leader.followers.values() if each is not member]
        yield "learners", len(others)
        yield "synced_followers", sum(not each.observes for each in others)
        yield "synced_non_voting_followers", sum(not (each.votes or each.observes) for each in others)
        yield "synced_observers", sum(each.observes for each in others)
        yield "pending_syncs", sum(len(proposal.then) for proposal in leader.outstanding)
        yield "leader_uptime", ensemble.now - leader.began
        last, least, most = leader.proposal_sizes
        yield "last_proposal_size", last
        yield "min_proposal_size", least
        yield "max_proposal_size", most
    elif member.leader is not None and member.observes:
        yield "observer_master_id", member.leader.member.number


# --- words -------------------------------------------------------------------------------------------------


def _isro(service: Any, asker: Connection, now: float) -> str:
    return "ro" if service.is_read_only else "rw"


def _conf(service: Any, asker: Connection, now: float) -> str:
    member = _member(service)
    timing, line = member.ensemble.timing, member.address
    text = four_letter_words.conf(service, asker, now) + "\n".join(
        (
            f"initLimit={timing.init_limit}",
            f"syncLimit={timing.sync_limit}",
            "electionAlg=3",
            f"electionPort={line.election}",
            f"quorumPort={line.quorum}",
            f"peerType={int(member.observes)}\n",
        )
    )
    return text if member.is_read_only else f"{text}membership: \n{member.config.text}"


def _mntr(service: Any, asker: Connection, now: float) -> Iterator[str]:
    role = _member(service).role
    yield f"zk_version\t{four_letter_words.version_text(service.settings)}\nzk_server_state\t{service.mode}\n"
    if role in _STATES:
        yield f"zk_peer_state\t{_STATES[role]} - broadcast\n"
    for key, value in four_letter_words.monitored(service, now):
        yield f"zk_{key}\t{value}\n" if key else ""


def _dump(service: Any, asker: Connection, now: float) -> Iterator[str]:
    member = _member(service)
    leader = member.own_leader
    if leader is not None:
        known = four_letter_words.session_sets(service, leader.sessions, now)
    else:
        known = _global_sessions(member)
    if member.settings.local_sessions:
        local = four_letter_words.session_sets(service, member.engine.tracker, now)
        known = chain(("Local ",), local, ("Global ",) if leader is not None else (), known)
    return four_letter_words.dump(service, now, known)


def _global_sessions(member: Member) -> Iterator[str]:
    sessions = list(member.engine.tracker.known_to_all())
    yield f"Global Sessions({len(sessions)}):\n"
    for session in sessions:
        yield f"{session_text(session.id)}\t{session.timeout}ms\n"


_WORDS: Mapping[str, Callable[..., str | Iterator[str]]] = {
    "conf": _conf,
    "dump": _dump,
    "isro": _isro,
    "mntr": _mntr,
}

# --- commands of the admin server --------------------------------------------------------------------------


def _leader(ask: Ask) -> dict[str, Any]:
    member = _member(ask.service)
    leading = _followed(member).member
    return {
        "is_leader": leading is member,
        "leader_id": leading.number,
        "leader_ip": leading.address.host,
    }


def _zabstate(ask: Ask) -> dict[str, Any]:
    member = _member(ask.service)
    line, zxid = member.address, member.engine.zxid
    return {
        "myid": member.number,
        "is_leader": member.own_leader is not None,
        "quorum_address": {line.host: line.quorum},
        "election_address": {line.host: line.election},
        "client_address": member.client_address,
        "voting": member.number in member.config.voters,
        "last_zxid": f"0x{zxid:x}",
        "zab_epoch": zxid >> 32,
        "zab_counter": zxid & 0xFFFFFFFF,
        "zabstate": "election" if member.leader is None else "broadcast",
    }


def _voting_view(ask: Ask) -> dict[str, Any]:
    member = _member(ask.service)
    servers = member.ensemble.members
    return {
        "current_config": {
            str(number): {
                "server_addresses": [f"{line.host}:{line.quorum}"],
                "election_addresses": [f"{line.host}:{line.election}"],
                "client_address": line.client or servers[number].client_address,
                "learner_type": "PARTICIPANT",
            }
            for number, line in member.config.members.items()
            if line.votes
        }
    }


def _observers(ask: Ask) -> dict[str, Any]:
    leader = _member(ask.service).own_leader
    observers = [] if leader is None else [each for each in leader.followers.values() if each.observes]
    return {
        "synced_observers": len(observers),
        "observers": [
            {
                "remote_socket_address": f"{each.address.host}:{each.address.quorum}",
                "sid": each.number,
                "established": None,
                "queued_packets": len(each.stream),
                "queued_packets_size": 0,
                "packets_received": 0,
                "packets_sent": each.position,
                "requests": 0,
                "last_zxid": f"0x{each.engine.zxid:x}",
            }
            for each in observers
        ],
    }


def _followed(member: Member) -> Leader:
    assert member.leader is not None, "a server that serves has a leader"
    return member.leader


_COMMANDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "leader": _leader,
    "observers": _observers,
    "voting_view": _voting_view,
    "zabstate": _zabstate,
}


class ReportingService(MemberService):
    """The service of a server, with the answers for operators."""

    words: ClassVar[Mapping[str, Callable[..., str | Iterator[str]]]] = _WORDS
    commands: ClassVar[Mapping[str, Callable[..., dict[str, Any]]]] = _COMMANDS

    def totals_of_role(self) -> Iterator[str]:
        """Yield the last lines of ``srvr`` and ``stat``."""
        return _totals(self.member)

    def role_figures(self) -> Iterator[tuple[str, int]]:
        """Yield the figures of the server's role."""
        return _figures(self.member)

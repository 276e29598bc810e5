"""Servers that are read-only for lack of a leader (ensemble.md section 7), with sessions that are global."""

from __future__ import annotations

import struct

import pytest

from benchmarks.wire import hello

from ...support.ensemble import EnsembleWorld


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 1 has been alone for 2 s."""
    world = EnsembleWorld(3, read_only_mode=True)
    world[1].connect(timeout=10_000).create("/x", b"data")
    world.kill(3)
    world.kill(2)
    world.pass_time(1.99)
    assert world.role(1) == "looking"
    world.pass_time(0.01)
    return world


def say(world: EnsembleWorld, word: str) -> str:
    return world[1].open().exchange(word.encode()).decode()


def test_words_of_a_read_only_server(world: EnsembleWorld) -> None:
    assert world.role(1) == "read-only"
    assert say(world, "isro") == "ro"
    lines = say(world, "srvr").splitlines()
    assert lines[1] == "READ-ONLY mode; serving only read-only clients"
    assert "Mode: read-only" in lines
    assert "zk_server_state\tread-only\n" in say(world, "mntr")
    assert "zk_peer_state" not in say(world, "mntr")
    assert say(world, "conf").endswith("peerType=0\n")


def test_who_does_not_ask_for_it_is_closed(world: EnsembleWorld) -> None:
    for read_only in (False, None):
        peer = world[1].open()
        assert peer.exchange(hello(10_000, read_only=read_only)) == b""
        assert peer.closed


def test_a_new_session_gets_a_bare_error_and_silence(world: EnsembleWorld) -> None:
    peer = world[1].open()
    answer = peer.exchange(hello(10_000, read_only=True))
    assert answer == struct.pack(">iiqi", 16, 0, world.zxid(1), -119)
    assert not peer.closed
    assert peer.exchange(bytes(12)) == b""
    assert peer.exchange(hello(10_000, 5, bytes(16), read_only=True)) == b"", "it is not read"
    assert not peer.closed


def test_sessions_of_the_ensemble_are_closed_whatever_the_password(world: EnsembleWorld) -> None:
    (session,) = world[1].engine.sessions
    for password in (session.password, b"x" * 16):
        peer = world[1].open()
        assert peer.exchange(hello(10_000, session.id, password, read_only=True)) == b""
        assert peer.closed


def test_unknown_sessions_are_invalid(world: EnsembleWorld) -> None:
    peer = world[1].open()
    answer = peer.exchange(hello(10_000, 5, bytes(16), read_only=True))
    assert answer[-1:] == b"\1"
    assert answer[8:20] == bytes(12)
    assert peer.closed


def test_who_is_from_the_future_is_closed(world: EnsembleWorld) -> None:
    peer = world[1].open()
    assert peer.exchange(hello(10_000, last_zxid=2**62, read_only=True)) == b""
    assert peer.closed


def test_it_ends_with_a_leader(world: EnsembleWorld) -> None:
    mute = world[1].open()
    mute.exchange(hello(10_000, read_only=True))
    (session,) = world[1].engine.sessions
    world.start(2)
    world.pass_time(0.2)
    assert mute.closed
    assert world.role(1) == "follower"
    peer = world[1].connect(session_id=session.id, password=session.password)
    assert peer.get("/x").record.data == b"data"


def test_it_ends_when_it_leads_itself(world: EnsembleWorld) -> None:
    mute = world[1].open()
    mute.exchange(hello(10_000, read_only=True))
    world.start(2)
    world.elect(1)
    assert world.role(1) == "leader"
    assert say(world, "isro") == "rw"
    assert mute.closed


def test_without_the_setting_nobody_is_read_only() -> None:
    world = EnsembleWorld(3)
    world.kill(3)
    world.kill(2)
    world.pass_time(30)
    assert world.role(1) == "looking"
    assert say(world, "isro") == "null"


def test_a_server_that_starts_looks_from_then_on(world: EnsembleWorld) -> None:
    world.kill(1)
    world.pass_time(10)
    world.start(1)
    world.pass_time(1.99)
    assert world.role(1) == "looking"
    world.pass_time(0.02)
    assert world.role(1) == "read-only"

"""Identities: ACLs made of them, and servers that refuse them."""

from __future__ import annotations

import random
import struct

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    ACL,
    CREATOR_ALL_ACL,
    READ_ACL,
    AuthFailedError,
    Id,
    InvalidACLError,
    NoAuthError,
    Perms,
    SessionState,
    ZooKeeper,
    connect,
    make_digest_acl,
)
from pyzk.protocol.constants import AUTH_XID
from pyzk.recipes import Lock, LockLost
from pyzk.server.testing import Controls

from .memory import client, connector
from .tampered import tampered

ANN = [("digest", "ann:secret")]


# --- ACLs -----------------------------------------------------------------------------------------------


def test_the_identity_of_a_user() -> None:
    """The example of ZooKeeper's own documentation of DigestAuthenticationProvider."""
    assert make_digest_acl("super", "superpw") == (
        ACL(Perms.ALL, Id("digest", "super:g9oN2HttPfn8MMWJZ2r45Np/LIA=")),
    )
    assert make_digest_acl("u", "p", Perms.READ)[0].perms == Perms.READ
    assert make_digest_acl("u", "p", algorithm="sha256") != make_digest_acl("u", "p")
    with pytest.raises(ValueError, match="colon: 'a:b'"):
        make_digest_acl("a:b", "p")


def test_the_acls_that_are_needed_often() -> None:
    assert (ACL(31, Id("auth", "")),) == CREATOR_ALL_ACL
    assert (ACL(1, Id("world", "anyone")),) == READ_ACL


async def test_an_acl_for_one_user(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    async with client(server, auth=ANN) as ann:
        await zk.create("/hers", b"data", acl=make_digest_acl("ann", "secret") + READ_ACL)
        await ann.set("/hers", b"new")
        assert (await zk.get("/hers"))[0] == b"new"
        with pytest.raises(NoAuthError):
            await zk.set("/hers", b"")


async def test_an_acl_for_the_creator(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    async with client(server, auth=ANN) as ann:
        await ann.create("/hers", acl=CREATOR_ALL_ACL)
        assert (await ann.get_acl("/hers"))[0] == list(make_digest_acl("ann", "secret"))
        with pytest.raises(NoAuthError):
            await zk.get("/hers")
    with pytest.raises(InvalidACLError):
        await zk.create("/mine", acl=CREATOR_ALL_ACL)


# --- refused after a reconnect --------------------------------------------------------------------------


class Servers:
    """Several names of one server; those in ``refusing`` accept no identity.

    :ivar asked: the names that were connected to.
    """

    def __init__(self, server: Controls) -> None:
        self.refusing: set[str] = set()
        self.asked: list[str] = []
        self._good = connector(server)
        self._bad = tampered(server, self._refuse)

    def _refuse(self, payload: bytes) -> list[bytes]:
        xid, zxid, _ = struct.unpack_from(">iqi", payload.ljust(16))
        return [struct.pack(">iqi", xid, zxid, -115) if xid == AUTH_XID else payload]

    async def __call__(self, host: str, port: int) -> trio.abc.Stream:
        self.asked.append(host)
        return await (self._bad if host in self.refusing else self._good)(host, port)


@pytest.mark.parametrize("on_expired", ["cancel", "new_session"])
async def test_an_identity_that_all_servers_refuse_ends_the_client(
    autojump_clock: MockClock, server: Controls, on_expired: str
) -> None:
    servers = Servers(server)
    with pytest.raises(AuthFailedError, match="the server refused the digest credential"):
        async with connect("a,b,c", connector=servers, auth=ANN, on_expired=on_expired) as zk:  # type: ignore[arg-type]
            await trio.sleep(5)
            servers.refusing = {"a", "b", "c"}
            servers.asked.clear()
            server.disconnect_all()
            with pytest.raises(AuthFailedError):
                await zk.get("/")
            await trio.sleep_forever()
    assert sorted(servers.asked) == ["a", "b", "c"], "each was asked once"
    assert trio.current_time() < 10


async def test_an_identity_that_another_server_accepts_is_kept(
    autojump_clock: MockClock, server: Controls
) -> None:
    for seed in range(6):
        servers = Servers(server)
        async with connect("a,b,c", connector=servers, auth=ANN, rng=random.Random(seed)) as zk:
            await trio.sleep(5)
            servers.refusing = {"a", "b"}
            server.disconnect_all()
            await zk.get("/")
            assert zk.server is not None
            assert zk.server.name == "c"


async def test_what_is_held_ends_with_a_client_that_gives_up(
    autojump_clock: MockClock, server: Controls
) -> None:
    servers = Servers(server)
    with pytest.raises(LockLost):
        async with connect("a", connector=servers, auth=ANN) as zk, Lock(zk, "/lock"):
            servers.refusing = {"a"}
            server.disconnect_all()
            await trio.sleep_forever()
    assert zk.session.state is SessionState.CLOSED

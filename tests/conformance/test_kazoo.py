"""kazoo's client: znodes, watches, transactions, ACLs, sessions."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ReconfigDisabledError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from ..support.requests import digest_id
from ..support.threads import WAIT
from ..support.wire import WireClient
from .kazoo_fixtures import Events, MakeKazoo, States, kazoo, make_kazoo
from .servers import Server

__all__ = ["kazoo", "make_kazoo"]  # fixtures


# --- znodes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "final", "owned"),
    [
        ({}, "/n", False),
        ({"ephemeral": True}, "/n", True),
        ({"sequence": True}, "/n0000000000", False),
        ({"ephemeral": True, "sequence": True}, "/n0000000000", True),
    ],
)
def test_create_and_read_every_kind(
    kazoo: KazooClient, options: dict[str, bool], final: str, owned: bool
) -> None:
    assert kazoo.create("/n", b"data", **options) == final
    data, stat = kazoo.get(final)
    assert (data, stat.data_length, stat.version) == (b"data", 4, 0)
    assert stat.owner_session_id == (kazoo.client_id[0] if owned else None)
    assert kazoo.exists(final) == stat
    assert kazoo.get_children("/") == [final[1:]]


def test_create_with_its_stat(kazoo: KazooClient) -> None:
    path, stat = kazoo.create("/n", b"12", include_data=True)
    assert path == "/n"
    assert stat == kazoo.exists("/n")


def test_makepath_and_ensure_path(kazoo: KazooClient) -> None:
    kazoo.create("/a/b/c", b"x", makepath=True)
    kazoo.ensure_path("/a/b/d")
    assert sorted(kazoo.get_children("/a/b")) == ["c", "d"]
    children, stat = kazoo.get_children("/a/b", include_data=True)
    assert sorted(children) == ["c", "d"]
    assert stat.children_count == 2
    kazoo.delete("/a", recursive=True)
    assert kazoo.exists("/a") is None


def test_errors(kazoo: KazooClient) -> None:
    kazoo.create("/n")
    kazoo.create("/n/child")
    kazoo.create("/e", ephemeral=True)
    with pytest.raises(NodeExistsError):
        kazoo.create("/n")
    with pytest.raises(NoNodeError):
        kazoo.get("/none")
    with pytest.raises(NotEmptyError):
        kazoo.delete("/n")
    with pytest.raises(BadVersionError):
        kazoo.set("/n", b"", version=7)
    with pytest.raises(BadVersionError):
        kazoo.delete("/n/child", version=7)
    with pytest.raises(NoChildrenForEphemeralsError):
        kazoo.create("/e/child")
    with pytest.raises(InvalidACLError):
        kazoo.create("/m", acl=[make_acl("auth", "", all=True)])


def test_set_and_versions(kazoo: KazooClient) -> None:
    kazoo.create("/n", b"1")
    stat = kazoo.set("/n", b"22")
    assert (stat.version, stat.data_length) == (1, 2)
    assert kazoo.set("/n", b"333", version=1).version == 2
    assert kazoo.get("/n")[0] == b"333"


def test_async_calls(kazoo: KazooClient) -> None:
    results = [kazoo.create_async(f"/n{number}") for number in range(100)]
    assert [result.get(timeout=WAIT) for result in results] == [f"/n{number}" for number in range(100)]
    assert len(kazoo.get_children_async("/").get(timeout=WAIT)) == 100


def test_sync_and_the_server_version(server: Server, kazoo: KazooClient) -> None:
    kazoo.create("/n")
    assert kazoo.sync("/n") == "/n"
    assert kazoo.server_version() == server.version
    assert kazoo.command(b"ruok") == "imok"


# --- watches -----------------------------------------------------------------------------------------------


def test_one_shot_watches(kazoo: KazooClient) -> None:
    data, exist, child = Events(), Events(), Events()
    kazoo.create("/n")
    kazoo.get("/n", watch=data)
    assert kazoo.exists("/new", watch=exist) is None
    kazoo.get_children("/n", watch=child)
    kazoo.set("/n", b"x")
    kazoo.create("/new")
    kazoo.create("/n/child")
    assert data.wait() == [(EventType.CHANGED, "/n")]
    assert exist.wait() == [(EventType.CREATED, "/new")]
    assert child.wait() == [(EventType.CHILD, "/n")]
    kazoo.set("/n", b"y")
    kazoo.exists("/n", watch=data)
    kazoo.delete("/n/child")
    kazoo.delete("/n")
    assert data.wait(2) == [(EventType.CHANGED, "/n"), (EventType.DELETED, "/n")]


def test_watches_see_other_clients(make_kazoo: MakeKazoo) -> None:
    watcher, writer = make_kazoo(), make_kazoo()
    events = Events()
    writer.create("/n")
    watcher.get("/n", watch=events)
    writer.set("/n", b"x")
    assert events.wait() == [(EventType.CHANGED, "/n")]


# --- transactions ------------------------------------------------------------------------------------------


def test_a_transaction(kazoo: KazooClient) -> None:
    kazoo.create("/old")
    transaction = kazoo.transaction()
    transaction.create("/n", b"1")
    transaction.create("/seq-", sequence=True)
    transaction.check("/old", version=0)
    transaction.set_data("/n", b"22", version=0)
    transaction.delete("/old", version=0)
    path, sequential, checked, stat, deleted = transaction.commit()
    assert (path, sequential, checked, deleted) == ("/n", "/seq-0000000002", True, True)
    assert (stat.version, stat.data_length) == (1, 2)
    assert kazoo.exists("/old") is None


def test_a_failed_transaction(kazoo: KazooClient) -> None:
    transaction = kazoo.transaction()
    transaction.create("/n")
    transaction.delete("/none")
    transaction.create("/m")
    results = transaction.commit()
    assert [type(result) for result in results] == [RolledBackError, NoNodeError, RuntimeInconsistency]
    assert kazoo.get_children("/") == []


# --- ACLs and auth -----------------------------------------------------------------------------------------


def test_acls(make_kazoo: MakeKazoo) -> None:
    owner, other = make_kazoo(), make_kazoo()
    owner.add_auth("digest", "me:secret")
    owner.create("/n", b"x", acl=[make_digest_acl("me", "secret", all=True)])
    acls, stat = owner.get_acls("/n")
    assert acls == [make_acl("digest", digest_id("me:secret"), all=True)]
    assert stat.acl_version == 0
    for call in (
        lambda: other.get("/n"),
        lambda: other.set("/n", b""),
        lambda: other.set_acls("/n", OPEN_ACL_UNSAFE),
    ):
        with pytest.raises(NoAuthError):
            call()
    assert owner.set_acls("/n", OPEN_ACL_UNSAFE).acl_version == 1
    assert other.get("/n")[0] == b"x"


def test_auth_data_and_default_acl(make_kazoo: MakeKazoo) -> None:
    options: dict[str, Any] = {"auth_data": [("digest", "me:secret")]}
    owner = make_kazoo(default_acl=[make_digest_acl("me", "secret", all=True)], **options)
    owner.create("/n", b"x")
    with pytest.raises(NoAuthError):
        make_kazoo().get("/n")
    assert make_kazoo(**options).get("/n")[0] == b"x"


def test_reconfig_is_refused(kazoo: KazooClient) -> None:
    with pytest.raises(ReconfigDisabledError):
        kazoo.reconfig("", "", "")
    assert kazoo.create("/n") == "/n"


# --- sessions ----------------------------------------------------------------------------------------------


def test_reconnecting_within_a_session(kazoo: KazooClient) -> None:
    states = States(kazoo)
    session = kazoo.client_id
    kazoo.add_auth("digest", "me:secret")
    kazoo.create("/e", ephemeral=True, acl=[make_digest_acl("me", "secret", all=True)])
    kazoo._connection._socket.shutdown(2)  # the network takes the connection away
    states.wait_for(KazooState.SUSPENDED, KazooState.CONNECTED)
    assert kazoo.client_id == session
    assert kazoo.get("/e")[1].owner_session_id == session[0]  # kazoo has sent its credentials again


def test_stopping_ends_the_session(make_kazoo: MakeKazoo) -> None:
    leaver, stayer = make_kazoo(), make_kazoo()
    events = Events()
    leaver.create("/e", ephemeral=True)
    stayer.exists("/e", watch=events)
    leaver.stop()
    assert events.wait() == [(EventType.DELETED, "/e")]


def test_an_expired_session_is_replaced(server: Server, make_kazoo: MakeKazoo) -> None:
    kazoo = make_kazoo()
    states = States(kazoo)
    kazoo.create("/e", ephemeral=True)
    session, password = kazoo.client_id
    ended = threading.Event()
    kazoo.add_listener(lambda state: not ended.wait(WAIT))  # or kazoo may be back before the thief is done
    with WireClient((server.host, server.port)) as thief:  # who ends it behind kazoo's back
        thief.connect(session_id=session, password=password)
        thief.close_session()
    ended.set()
    states.wait_for(KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED)
    assert kazoo.client_id[0] != session
    assert kazoo.exists("/e") is None


def test_a_chroot(make_kazoo: MakeKazoo) -> None:
    inside, outside = make_kazoo(), make_kazoo(root=True)
    assert inside.create("/n", b"x") == "/n"
    top = inside.chroot
    assert outside.get(f"{top}/n")[0] == b"x"
    events = Events()
    inside.get("/n", watch=events)
    outside.set(f"{top}/n", b"y")
    assert events.wait() == [(EventType.CHANGED, "/n")]
    assert inside.get_children("/") == ["n"]

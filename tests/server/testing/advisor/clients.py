"""For each rule a client that does it wrong, and its twin that does it right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Final, TypeAlias

from pyzk.protocol.constants import CreateMode
from pyzk.server.testing import EmbeddedServer
from tests.support.requests import get_op
from tests.support.wire import ClosedError, WireClient

EPHEMERAL: Final = CreateMode.EPHEMERAL
SEQUENTIAL: Final = CreateMode.EPHEMERAL_SEQUENTIAL


class Clients(ExitStack):
    """Sessions on a server, closed at the end."""

    def __init__(self, server: EmbeddedServer) -> None:
        super().__init__()
        self.server = server

    def new(self, timeout: int = 10_000) -> WireClient:
        client = self.stray(timeout)
        self.callback(self._close, client)
        return client

    def stray(self, timeout: int = 10_000) -> WireClient:
        """One that nobody closes."""
        client = self.enter_context(WireClient(("127.0.0.1", self.server.port)))
        client.connect(timeout=timeout)
        return client

    def reconnect(self, client: WireClient) -> WireClient:
        """The next connection of a client's session."""
        client.drop()
        again = self.enter_context(WireClient(("127.0.0.1", self.server.port)))
        again.connect(session_id=client.session_id, password=client.password)
        return again

    def several(self, count: int) -> list[WireClient]:
        return [self.new() for _ in range(count)]

    @staticmethod
    def _close(client: WireClient) -> None:
        if client.socket.fileno() >= 0:
            client.close_session()


Scene: TypeAlias = Callable[[Clients], None]
FAULTY: dict[str, Scene] = {}
REPAIRED: dict[str, Scene] = {}


def faulty(rule: str) -> Callable[[Scene], Scene]:
    return lambda scene: FAULTY.setdefault(rule, scene)


def repaired(rule: str) -> Callable[[Scene], Scene]:
    return lambda scene: REPAIRED.setdefault(rule, scene)


# --- watches -----------------------------------------------------------------------------------------------


@faulty("watches-only-grow")
def waits_for_each_answer_and_never_stops(clients: Clients) -> None:
    client = clients.new()
    for number in range(510):
        client.exists(f"/answers-{number}", watch=True)


@repaired("watches-only-grow")
def waits_for_each_answer_until_it_comes(clients: Clients) -> None:
    client = clients.new()
    for number in range(510):
        client.exists(f"/answers-{number}", watch=True)
        client.create(f"/answers-{number}")


@faulty("watch-set-again")
def sets_a_watch_with_each_read(clients: Clients) -> None:
    client = clients.new()
    client.create("/config", b"1")
    for _ in range(6):
        client.get("/config", watch=True)


@repaired("watch-set-again")
def sets_a_watch_after_its_event(clients: Clients) -> None:
    client, other = clients.several(2)
    client.create("/config", b"1")
    for _ in range(6):
        client.get("/config", watch=True)
        other.set("/config", b"2")
        client.wait_event()


# --- holding -----------------------------------------------------------------------------------------------


def queue_up(client: WireClient, number: int, before: int | None = None) -> str:
    """Stand in the queue for the lock, and wait for another who does; returns the znode."""
    client.create("/lock/n-", flags=SEQUENTIAL)
    if before is not None:
        client.get(f"/lock/n-{before:010d}", watch=True)
    return f"/lock/n-{number:010d}"


@faulty("held-too-long")
def holds_a_lock_all_day(clients: Clients) -> None:
    holder, other = clients.several(2)
    holder.create("/lock")
    queue_up(holder, 0)
    for number in (1, 2, 3):
        own = queue_up(other, number, before=0)
        clients.server.clock.advance(5, keep_alive=True)
        other.delete(own)


@repaired("held-too-long")
def holds_a_lock_for_its_turn(clients: Clients) -> None:
    """And others try without waiting, or leave when they have had their turn."""
    holder, other, third = clients.several(3)
    holder.create("/lock")
    for number in range(0, 16, 4):
        held = queue_up(holder, number)
        own = queue_up(other, number + 1, before=number)
        clients.server.clock.advance(12, keep_alive=True)
        third.delete(queue_up(third, number + 2))
        holder.delete(held)
        other.wait_event()
        clients.server.clock.advance(12, keep_alive=True)
        third.delete(queue_up(third, number + 3))
        other.delete(own)


def members(clients: Clients) -> list[WireClient]:
    found = clients.several(6)
    found[0].create("/members")
    for number, client in enumerate(found):
        client.create(f"/members/{number}", flags=EPHEMERAL)
    return found


@faulty("everybody-watches-everybody")
def watches_each_other_member(clients: Clients) -> None:
    for number, client in enumerate(members(clients)):
        for other in range(6):
            if other != number:
                client.exists(f"/members/{other}", watch=True)


@repaired("everybody-watches-everybody")
def watches_the_list_of_members(clients: Clients) -> None:
    for client in members(clients):
        client.children("/members", watch=True)


@faulty("herd")
def all_try_for_one_znode(clients: Clients) -> None:
    contenders = clients.several(6)
    holder, *waiters = contenders
    holder.create("/lock", flags=EPHEMERAL)
    for _ in range(3):
        for waiter in waiters:
            waiter.exists("/lock", watch=True)
        holder.delete("/lock")
        for waiter in waiters:
            waiter.wait_event()
            waiter.create("/lock", flags=EPHEMERAL)
        holder = waiters[0]
        waiters = [client for client in contenders if client is not holder]


@repaired("herd")
def each_waits_for_the_one_before_it(clients: Clients) -> None:
    contenders = clients.several(6)
    contenders[0].create("/lock")
    queue = [(client, client.create("/lock/n-", flags=SEQUENTIAL).record.path) for client in contenders]
    for (_, path), (client, _) in pairwise(queue):
        client.children("/lock")
        client.exists(path, watch=True)
    for (holder, path), (client, _) in pairwise(queue):
        holder.delete(path)
        client.wait_event()
        client.children("/lock")


# --- reads -------------------------------------------------------------------------------------------------


def tasks(client: WireClient) -> list[str]:
    client.create("/tasks")
    for number in range(4):
        client.create(f"/tasks/{number}")
    return [f"/tasks/{number}" for number in range(4)]


@faulty("children-one-by-one")
def reads_all_children_one_by_one(clients: Clients) -> None:
    client = clients.new()
    paths = tasks(client)
    for _ in range(4):
        client.children("/tasks")
        for path in paths:
            client.get(path)


@repaired("children-one-by-one")
def reads_all_children_at_once(clients: Clients) -> None:
    client = clients.new()
    paths = tasks(client)
    for _ in range(4):
        client.children("/tasks")
        client.multi_read(*map(get_op, paths))


@faulty("polling")
def asks_whether_it_has_come(clients: Clients) -> None:
    client = clients.new()
    for _ in range(25):
        client.exists("/ready")


@repaired("polling")
def waits_until_it_has_come(clients: Clients) -> None:
    client, other = clients.several(2)
    client.exists("/ready", watch=True)
    other.create("/ready")
    client.wait_event()
    client.exists("/ready")


# --- writes ------------------------------------------------------------------------------------------------


@faulty("check-then-act")
def adds_to_what_it_has_read(clients: Clients) -> None:
    first, second = clients.several(2)
    first.create("/count", b"0")
    first.get("/count")
    second.set("/count", b"1", version=0)
    first.set("/count", b"1")


@repaired("check-then-act")
def adds_to_the_version_it_has_read(clients: Clients) -> None:
    first, second = clients.several(2)
    first.create("/count", b"0")
    version = first.get("/count").record.stat.version
    second.set("/count", b"1", version=0)
    assert first.set("/count", b"1", version=version).err
    version = first.get("/count").record.stat.version
    first.set("/count", b"2", version=version)


@faulty("blind-set")
def both_write_without_a_look(clients: Clients) -> None:
    first, second = clients.several(2)
    first.create("/state")
    for _ in range(3):
        second.set("/state", b"second")
        first.set("/state", b"first")


@repaired("blind-set")
def each_writes_its_own(clients: Clients) -> None:
    first, second = clients.several(2)
    first.create("/first")
    second.create("/second")
    for _ in range(3):
        second.set("/second", b"new")
        first.set("/first", b"new")


def lose_reply(clients: Clients, op: str, act: Callable[[WireClient], object]) -> WireClient:
    """A client whose request was applied and not answered, with its next connection."""
    client = clients.new()
    with clients.server.fault(op, when="after"), suppress(ClosedError):
        act(client)
    return clients.reconnect(client)


def enters(client: WireClient) -> object:
    return client.create("/queue-", flags=SEQUENTIAL)


@faulty("sequential-create-again")
def enters_again(clients: Clients) -> None:
    enters(lose_reply(clients, "create", enters))


@repaired("sequential-create-again")
def looks_whether_it_has_entered(clients: Clients) -> None:
    client = lose_reply(clients, "create", enters)
    names = client.children("/").record.children
    assert [name for name in names if name.startswith("queue-")]


@faulty("blind-retry")
def writes_again(clients: Clients) -> None:
    clients.new().create("/state")
    lose_reply(clients, "set_data", lambda client: client.set("/state", b"new")).set("/state", b"new")


@repaired("blind-retry")
def reads_and_writes_again(clients: Clients) -> None:
    clients.new().create("/state")
    client = lose_reply(clients, "set_data", lambda client: client.set("/state", b"new"))
    found = client.get("/state").record
    if found.data != b"new":
        client.set("/state", b"new", version=found.stat.version)


# --- sessions ----------------------------------------------------------------------------------------------


@faulty("left-to-expire")
def goes_without_a_word(clients: Clients) -> None:
    for _ in range(3):
        clients.stray().drop()
    clients.server.clock.advance(15)


@repaired("left-to-expire")
def closes(clients: Clients) -> None:
    for _ in range(3):
        clients.stray().close_session()
    clients.server.clock.advance(15)


@faulty("session-per-request")
def connects_for_each_request(clients: Clients) -> None:
    for number in range(11):
        client = clients.stray()
        client.create(f"/{number}")
        client.close_session()


@repaired("session-per-request")
def keeps_its_session(clients: Clients) -> None:
    client = clients.new()
    for number in range(11):
        client.create(f"/{number}")


def comes_back(clients: Clients) -> WireClient:
    """A client whose old session lives, and has registered it."""
    old = clients.stray(timeout=4000)
    old.create("/me", flags=EPHEMERAL)
    old.drop()
    clients.server.clock.advance(0.001)
    new = clients.new(timeout=30_000)
    assert new.create("/me", flags=EPHEMERAL).err
    return new


@faulty("ephemeral-of-old-session")
def is_glad_that_it_is_listed(clients: Clients) -> None:
    client = comes_back(clients)
    clients.server.clock.advance(10)
    assert client.exists("/me").err


@repaired("ephemeral-of-old-session")
def waits_until_its_old_session_is_over(clients: Clients) -> None:
    client = comes_back(clients)
    client.exists("/me", watch=True)
    clients.server.clock.advance(10)
    client.wait_event()
    client.create("/me", flags=EPHEMERAL)


@faulty("many-ephemerals")
def makes_one_for_each_task(clients: Clients) -> None:
    client = clients.new()
    for number in range(501):
        client.create(f"/{number}", flags=EPHEMERAL)


@repaired("many-ephemerals")
def deletes_them_when_they_are_done(clients: Clients) -> None:
    client = clients.new()
    for number in range(501):
        client.create(f"/{number}", flags=EPHEMERAL)
        client.delete(f"/{number}")


# --- sizes: the limit is 10,000 bytes here -----------------------------------------------------------------


@faulty("request-near-limit")
def writes_what_is_large(clients: Clients) -> None:
    client = clients.new()
    client.create("/report", b"x" * 9000)


@repaired("request-near-limit")
def writes_where_it_is(clients: Clients) -> None:
    client = clients.new()
    client.create("/report", b"https://example.org/report")
    client.get("/report")


@faulty("children-near-limit")
def lists_very_many(clients: Clients) -> None:
    clients.server.load({f"/tasks/{'x' * 80}{number:03d}": "" for number in range(100)})
    clients.new().children("/tasks")


@repaired("children-near-limit")
def lists_some(clients: Clients) -> None:
    clients.server.load({f"/tasks/{number:03d}": "" for number in range(100)})
    client = clients.new()
    client.children("/tasks")
    client.get("/tasks/000")

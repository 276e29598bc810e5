"""For each rule a client that does it wrong, and its twin that does it right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from typing import Final, TypeAlias

from pyzk.protocol.constants import CreateMode
from pyzk.server.testing import EmbeddedServer
from tests.support.requests import get_op
from tests.support.wire import WireClient

EPHEMERAL: Final = CreateMode.EPHEMERAL
SEQUENTIAL: Final = CreateMode.EPHEMERAL_SEQUENTIAL


class Clients(ExitStack):
    """Sessions on a server, closed at the end."""

    def __init__(self, server: EmbeddedServer) -> None:
        super().__init__()
        self.server = server

    def new(self, timeout: int = 10_000) -> WireClient:
        client = self.enter_context(self.stray(timeout))
        self.callback(self._close, client)
        return client

    def stray(self, timeout: int = 10_000) -> WireClient:
        """One that nobody closes."""
        client = WireClient(("127.0.0.1", self.server.port))
        client.connect(timeout=timeout)
        return client

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

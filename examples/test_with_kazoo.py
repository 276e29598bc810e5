"""Testing code that uses ZooKeeper, with kazoo and pytest.

    pip install . kazoo pytest    # in a clone of pyzk-server
    pytest examples/test_with_kazoo.py

The fixtures ``zk_server`` and ``zk_client`` come with pyzk-server: a fresh, empty server for each test, in
this process, and a client connected to it. No Java, no container, nothing to clean up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from pyzk.server.testing import EmbeddedServer, factories

# A second client has a session of its own. You can make any number of clients.
other_client = factories.zk_client()


def test_it_is_an_ordinary_server(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    zk_client.create("/app/config", b"debug=1", makepath=True)
    zk_client.create("/app/workers/w-", ephemeral=True, sequence=True, makepath=True)
    zk_server.assert_tree({"app": {"config": "debug=1", "workers": {"w-0000000000": ""}}})


def test_prepared_data(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    zk_server.load({"app": {"config": "debug=1", "workers": {}}})
    assert zk_client.get_children("/app") == ["config", "workers"]


def test_another_worker_takes_over_when_the_leader_dies(
    zk_server: EmbeddedServer, zk_client: KazooClient, other_client: KazooClient
) -> None:
    """The leader's session expires on the server: at once, and for real."""
    leading = zk_client.Lock("/leader", "first")
    leading.acquire(timeout=10)

    elected = threading.Event()

    def wait_for_leadership() -> None:
        with other_client.Lock("/leader", "second"):
            elected.set()

    thread = threading.Thread(target=wait_for_leadership)
    thread.start()

    zk_server.expire(zk_client)

    assert elected.wait(10)
    thread.join()


def test_a_lock_survives_a_lost_reply(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    """The server creates the znode, and the connection dies before the client hears of it.

    A recipe that does not look for its own znode then waits for itself for ever.
    """
    with zk_server.fault(op="create", path="/lock/*", when="after", action="disconnect"):
        lock = zk_client.Lock("/lock", "me")
        assert lock.acquire(timeout=10)

    assert len(zk_client.get_children("/lock")) == 1


def test_what_a_client_must_not_assume(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    """After a lost connection nobody knows whether a write was applied: here once it was, once it was not."""
    zk_client.create("/counter", b"0")

    with zk_server.fault(op="set_data", path="/counter", when="after"), pytest.raises(ConnectionLoss):
        zk_client.set("/counter", b"1")
    assert zk_server.dump()["/counter"] == b"1"

    zk_client.retry(zk_client.get, "/counter")  # wait until it is connected again
    with zk_server.fault(op="set_data", path="/counter", when="before"), pytest.raises(ConnectionLoss):
        zk_client.set("/counter", b"2")
    assert zk_server.dump()["/counter"] == b"1"


def test_the_second_request_comes_first(
    zk_server: EmbeddedServer, zk_client: KazooClient, other_client: KazooClient
) -> None:
    """Two requests change places on their way, as on a slow network: who asks first is served last."""
    zk_client.ensure_path("/queue")
    hold = zk_server.hold("request", op="create", path="/queue/*")
    first = zk_client.create_async("/queue/n-", sequence=True)
    wait_until(lambda: len(zk_server.held()) == 1)
    second = other_client.create_async("/queue/n-", sequence=True)
    wait_until(lambda: len(zk_server.held()) == 2)

    earlier, later = zk_server.held()
    zk_server.release(later.number, earlier.number)

    assert (first.get(10), second.get(10)) == ("/queue/n-0000000001", "/queue/n-0000000000")
    zk_server.stop_holding(hold)


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll: a client in a thread of its own sends when it likes."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.001)


def test_time_passes_when_you_say_so(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    """A client that is cut off: the server gives it up after its session timeout, without waiting for it."""
    zk_client.create("/me", ephemeral=True)
    zk_server.pause(zk_client)
    zk_server.clock.advance(30)
    zk_server.assert_tree({})


def test_the_history_tells_what_happened(zk_server: EmbeddedServer, zk_client: KazooClient) -> None:
    zk_client.create("/a", b"1")
    zk_client.set("/a", b"2")
    writes = [entry.text for entry in zk_server.history(kind="request", path="/a")]
    assert writes == ["create /a '1'", "set_data /a '2'"]
    print(zk_server.format_timeline())  # a failing test shows this by itself

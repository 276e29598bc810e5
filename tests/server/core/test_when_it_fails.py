"""What the core does where something fails or is cut short: a bug ends what it happened in, and nothing else;
work that is due gives way to clients, and goes on where it was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.errors import AuthFailedError, InvalidACLError, ZooKeeperError
from pyzk.protocol.jute import JuteError
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, OPEN_ACL, Id
from pyzk.protocol.text import session_text
from pyzk.server.config.settings import Settings
from pyzk.server.core import watches as core_watches
from pyzk.server.core.acl import AccessControl
from pyzk.server.core.failures import report
from pyzk.server.core.operations.long import Unfinished
from pyzk.server.core.sasl import NoLogin, _check_number
from pyzk.server.core.tree import DataTree
from pyzk.server.core.watches import Notification, WatchManager
from pyzk.server.core.znode import Znode, copy_tree

from ...support.histories import SETTINGS
from ...support.invariants import check_tree_invariants, check_world_invariants
from ...support.requests import create_op, delete_op, get_op
from ...support.world import Peer, World, creation
from .slow import Slow

READERS = (ACL(1, Id("ip", "127.0.0.1")),)


def failing(*args: object, **more: object) -> NoReturn:
    raise ValueError("a bug")


def after(calls: int) -> Callable[[], bool]:
    """Says that the time is over at the call of this number."""
    count = 0

    def is_over() -> bool:
        nonlocal count
        count += 1
        return count >= calls

    return is_over


# --- work that is due --------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_sessions_expire_one_by_one_until_the_time_is_over(world: World, calls: int) -> None:
    for _ in range(3):
        world.connect(timeout=4000)
    world.now += 60
    now = world.service.at(world.now)
    world.engine.advance(now, after(calls))
    assert len(world.engine.sessions) == 3 - calls
    assert world.engine.stats.sessions_expired == calls
    world.engine.advance(now)
    assert len(world.engine.sessions) == 0


def test_a_sign_of_life_counts_until_the_next_call() -> None:
    """What was not expired before its time was over may still live."""
    world = World()
    clients = [world.connect(timeout=4000) for _ in range(2)]
    world.now += 60
    now = world.service.at(world.now)
    world.engine.advance(now, after(1))
    left = next(iter(world.engine.sessions))
    world.engine.sessions.touch(left, now)
    world.engine.advance(now)
    assert [client.closed for client in clients].count(False) == 1


def test_znodes_are_reaped_one_by_one_until_the_time_is_over() -> None:
    world = World(**{**SETTINGS, "container_max_per_minute": 60_000})
    client = world.connect(timeout=40_000)
    for number in range(3):
        client.create(f"/{number}", op=OpCode.CREATE_CONTAINER)
        client.create(f"/{number}/x")
        client.delete(f"/{number}/x")
    world.now += 20
    client.ping()
    now = world.service.at(world.now)
    world.engine.advance(now, after(1))
    assert sum(f"/{number}" in world.tree.nodes for number in range(3)) == 2
    for _ in range(9):
        world.now += 3
        client.ping()
        world.engine.advance(world.service.at(world.now))
    assert not {"/0", "/1", "/2"} & set(world.tree.nodes)


def test_a_check_that_finds_nothing_gives_way_too(world: World) -> None:
    """The time is looked at once for each deadline, and for each piece of what is swept."""
    client = world.connect(timeout=40_000)
    client.create("/c", op=OpCode.CREATE_CONTAINER)
    client.create("/c/x")
    asked: list[int] = []

    def is_over() -> bool:
        asked.append(world.engine.reaper.next_check)
        return True

    checks = world.engine.reaper.next_check
    world.engine.sessions.touch(next(iter(world.engine.sessions)), checks)
    world.engine.advance(checks, is_over)
    assert len(asked) == 1
    assert world.engine.reaper.next_check > checks, "it was made"


def test_watches_of_a_connection_that_is_over_are_swept_piece_by_piece(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_watches, "_STEP", 2)
    client = world.connect()
    for number in range(5):
        client.get(f"/{number}", watch=True)
        client.exists(f"/{number}", watch=True)
    now = world.service.at(world.now)
    world.engine.watches.forget(client.connection)
    assert world.engine.next_deadline() == now
    for left in (3, 1):
        world.engine.advance(now, lambda: True)
        assert world.engine.watches.count() == left
    world.engine.advance(now)
    assert (world.engine.watches.count(), world.engine.watches.unswept) == (0, False)
    assert world.engine.next_deadline() > now


def test_who_is_connected_does_not_expire_where_that_is_switched_off() -> None:
    """A debugger may have stopped the client."""
    world = World(expire_connected=False)
    stopped, gone = world.connect(timeout=4000), world.connect(timeout=4000)
    gone.create("/gone", flags=1)
    world.service.closed(gone.connection, "its end")
    world.pass_time(100)
    assert [session.id for session in world.engine.sessions] == [stopped.session_id]
    assert not stopped.closed
    assert "/gone" not in world.tree.nodes
    session = world.engine.sessions.get(stopped.session_id)
    assert session is not None
    assert session.deadline > world.service.at(world.now), "it has its whole timeout again"
    world.service.closed(stopped.connection, "its end")
    world.pass_time(100)
    assert len(world.engine.sessions) == 0


def test_a_reaper_that_fails_is_told_and_tries_again(
    tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(**SETTINGS)
    client = world.connect(timeout=40_000)
    client.create("/c", op=OpCode.CREATE_CONTAINER)
    client.create("/c/x")
    client.delete("/c/x")
    failed: list[Exception] = []
    with monkeypatch.context() as patch:
        patch.setattr(world.engine, "_reap", failing)
        patch.setattr(world.engine, "write_failed", failed.append)
        world.pass_time(3.5)
    assert len(tracebacks) == len(failed) == 1
    assert "a container or TTL znode could not be deleted; the next check tries again" in tracebacks[0]
    assert "/c" in world.tree.nodes
    world.pass_time(3.5)
    assert "/c" not in world.tree.nodes


def test_an_ephemeral_that_cannot_be_deleted_costs_the_others_nothing(
    world: World, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = world.connect(), world.connect()
    for path in ("/a", "/b", "/c"):
        client.create(path, flags=1)
    other.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    failed: list[Exception] = []
    monkeypatch.setattr(world.engine, "write_failed", failed.append)
    fire = world.engine.fire

    def fail_once(changes: Any) -> None:
        fire(changes)
        if changes[0][0].path == "/b":
            raise ValueError("a bug")

    monkeypatch.setattr(world.engine, "fire", fail_once)
    assert client.close_session().err == 0
    assert not {"/a", "/b", "/c"} & set(world.tree.nodes)
    assert [event.path for event in other.take_events()] == ["/a", "/b", "/c"]
    name = f"session {session_text(client.session_id)}"
    assert [line.partition(";")[0] for line in tracebacks] == [f"{name} is over"]
    assert "/b remains, or not all clients got their events" in tracebacks[0]
    assert len(failed) == 1
    assert world.engine.client_of(world.engine.sessions.get(other.session_id)) is other.connection  # type: ignore[arg-type]


# --- requests ----------------------------------------------------------------------------------------------


def test_a_read_that_fails_is_answered_and_the_client_goes_on(
    world: World, client: Peer, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Znode, "packed_stat", failing)
        reply = client.exists("/")
    assert (reply.err, reply.zxid, client.closed) == (-5, world.zxid, False)
    assert len(tracebacks) == 1
    assert "a request of op 3 failed, and was answered with error -5" in tracebacks[0]
    assert client.exists("/").err == 0


def test_a_write_that_fails_raises_for_it_is_unknown_how_much_was_done(
    world: World, client: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[Exception] = []
    monkeypatch.setattr(world.engine, "write_failed", failed.append)
    monkeypatch.setattr(world.engine, "fire", failing)
    body = r.CreateRequest("/a", b"", OPEN_ACL, 0).encode()
    with pytest.raises(ValueError, match="a bug") as caught:
        world.engine.handle(client.connection, OpCode.CREATE, bytes(8) + body, 0)
    assert failed == [caught.value]


def test_who_listens_hears_of_each_refusal(world: World, client: Peer) -> None:
    heard: list[ZooKeeperError] = []
    world.engine.on_refusal = heard.append
    client.get("/none")
    client.delete("/none")
    client.multi(create_op("/a"), delete_op("/none"))
    client.create("/a")
    assert [error.code for error in heard] == [-101, -101, -101]


def test_a_session_that_is_not_known_is_refused_with_a_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    late = world.connect(session_id=77, password=bytes(16))
    assert (late.handshake.session_id, late.closed) == (0, True)  # type: ignore[union-attr]
    assert f"session {session_text(77)} is refused: it has expired or was closed" in caplog.text


def test_a_lack_of_memory_is_told_as_such(caplog: pytest.LogCaptureFixture, tracebacks: list[str]) -> None:
    for error, text in (
        (MemoryError(), "; memory ran out: raise its limit"),
        (KeyError(), "; this is a bug"),
    ):
        try:
            raise error
        except Exception:
            report("%s failed", "it")
        assert tracebacks[-1].startswith(f"it failed{text}")
        assert caplog.records[-1].funcName == "test_a_lack_of_memory_is_told_as_such"


def test_a_report_that_fails_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyzk.server.core.failures.logger.exception", failing)
    report("nobody reads this")


# --- events ------------------------------------------------------------------------------------------------


def test_a_client_that_cannot_be_told_is_ended_and_the_others_are_told(
    world: World, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, whole, writer = world.connect(), world.connect(), world.connect()
    for client in (broken, whole):
        client.get("/", watch=True)
    monkeypatch.setattr(broken.connection, "notify", failing)
    assert writer.set("/", b"x").err == 0
    assert (broken.closed, whole.closed) == (True, False)
    assert len(whole.take_events()) == 1
    assert len(tracebacks) == 1
    check_world_invariants(world)


def test_an_event_that_cannot_be_encoded_ends_all_whom_it_was_for(
    world: World, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They must not go on as if nothing had happened."""
    first, second, writer = world.connect(), world.connect(), world.connect()
    for client in (first, second):
        client.get("/", watch=True)
    with monkeypatch.context() as patch:
        patch.setattr(Notification, "frame", property(failing))
        assert writer.set("/", b"x").err == 0
    assert (first.closed, second.closed, writer.closed) == (True, True, False)
    assert len(tracebacks) == 2
    assert world.engine.stats.watch_bytes == 0


def test_a_permission_that_cannot_be_looked_up_ends_its_client_alone(
    world: World, tracebacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, whole = world.connect(), world.connect()
    whole.create("/a", b"", (*READERS, ACL(31, Id("ip", "127.0.0.1"))))
    for client in (broken, whole):
        client.get("/a", watch=True)
    allows = world.engine.access.allows

    def fail_once(acl: Any, perm: int, identities: Any) -> bool:
        if identities is broken.connection.identities:
            raise ValueError("a bug")
        return bool(allows(acl, perm, identities))

    monkeypatch.setattr(world.engine.access, "allows", fail_once)
    assert whole.set("/a", b"x").err == 0
    assert (broken.closed, whole.closed) == (True, False)
    assert len(whole.take_events()) == 1
    assert len(tracebacks) == 1


def test_who_was_forgotten_is_told_of_nothing_that_lasts() -> None:
    watches: WatchManager[str] = WatchManager()
    for name in ("anne", "bert", "carl"):
        for number in range(1001):
            watches.add_persistent(f"/{number}", name)
    assert watches.data_changed("/5")[0][2] == ["anne", "bert", "carl"]
    watches.forget("bert")
    assert watches.unswept
    for _ in range(2):
        assert watches.data_changed("/5")[0][2] == ["anne", "carl"]
        assert watches.created("/5/x", "/5")[-1][2] == ["anne", "carl"]
    while watches.unswept:
        watches.sweep()
    assert watches.data_changed("/5")[0][2] == ["anne", "carl"]
    assert watches.count() == 4 * 1001


# --- answers that are put together in steps ----------------------------------------------------------------


def stepwise(world: World, client: Peer, op: int, body: bytes) -> tuple[list[float], bytes]:
    """What each step says of the next one, and the answer."""
    slow, said = Slow(client), []

    def over(ahead: float = 0.0) -> bool:
        said.append(ahead)
        return True

    slow.turn_is_over = over  # type: ignore[method-assign]
    try:
        return said, world.engine.handle(slow, op, bytes(8) + body, 0)[2]  # type: ignore[arg-type]
    except Unfinished as unfinished:
        steps = unfinished.steps
    while True:
        try:
            return said, world.engine.resume(slow, op, steps)[2]  # type: ignore[arg-type]
        except Unfinished as unfinished:
            steps = unfinished.steps


@pytest.mark.parametrize(("size", "steps"), [(2**19, 0), (2**19 + 1, 1)])
def test_a_large_answer_is_put_together_in_a_step_of_its_own(
    world: World, client: Peer, size: int, steps: int
) -> None:
    """From 1 MiB on; a byte takes 0.3 ns."""
    client.create("/large", b"x" * size)
    said, answer = stepwise(world, client, OpCode.MULTI_READ, encode_multi([get_op("/large")] * 2))
    assert said == pytest.approx([2 * size * 3e-10] * steps)
    assert len(answer) > 2 * size


def test_a_usual_step_takes_no_time_to_speak_of(world: World, client: Peer) -> None:
    said, _ = stepwise(world, client, OpCode.MULTI_READ, encode_multi([get_op("/")] * 70))
    assert said == [0.0, 0.0]


@pytest.mark.parametrize(("reads", "fits"), [(3, True), (4, False)])
def test_a_client_may_not_ask_for_more_than_may_wait_for_it(reads: int, fits: bool) -> None:
    """What was read before the last one counts."""
    world = World(max_unsent=2000)
    client = world.connect()
    client.create("/a", b"x" * 1000)
    client.send(OpCode.MULTI_READ, encode_multi([get_op("/a")] * reads))
    assert client.closed is not fits


@pytest.mark.parametrize(("znodes", "steps"), [(999, 0), (1000, 1), (2899, 1), (2900, 2)])
def test_descendants_are_counted_1000_at_a_time(world: World, client: Peer, znodes: int, steps: int) -> None:
    """However they are spread."""
    tree = world.tree
    tree.apply(creation("/a"), 1, 1)
    for number in range(znodes):
        tree.apply(creation(f"/a/{number}" if number < 900 else f"/a/7/{number}"), 1, 1)
    body = r.GetAllChildrenNumberRequest("/a").encode()
    said, answer = stepwise(world, client, OpCode.GET_ALL_CHILDREN_NUMBER, body)
    assert (said, int.from_bytes(answer)) == ([0.0] * steps, znodes)


@pytest.mark.parametrize(("znodes", "steps"), [(0, 0), (1, 1), (1000, 1), (1001, 2)])
def test_ephemerals_are_listed_1000_at_a_time(world: World, client: Peer, znodes: int, steps: int) -> None:
    for number in range(znodes):
        world.tree.apply(creation(f"/{number}", b"", client.session_id), 1, 1)
    body = r.GetEphemeralsRequest("/1").encode()
    said, answer = stepwise(world, client, OpCode.GET_EPHEMERALS, body)
    assert said == [0.0] * steps
    found = r.GetEphemeralsResponse.decode(answer).ephemerals
    assert found == tuple(f"/{number}" for number in range(znodes) if str(number).startswith("1"))


# --- watches that are armed again --------------------------------------------------------------------------


def test_a_null_path_is_watched_by_the_persistent_kinds_alone(world: World, client: Peer) -> None:
    assert client.set_watches(0, [], [], [], [None], [None, "/a"]).err == 0
    assert sorted(world.engine.watches.paths_of(client.connection)) == ["/a", "null"]
    assert world.engine.watches.modes_of("null", client.connection) == (6, 2)


def test_a_client_that_is_told_too_much_as_it_arms_its_watches_is_closed() -> None:
    """The rest is not armed."""
    world = World(max_unsent=100)
    client = world.connect()
    client.send(OpCode.SET_WATCHES, r.SetWatches(0, [f"/{n}" for n in range(9)], ["/armed"], []))
    assert client.closed
    assert world.engine.watches.count() == 0


# --- access ------------------------------------------------------------------------------------------------

IDS = [
    ("x509", "CN=anne", True),
    ("x509", "CN=anne,OU=x", True),
    ("x509", " CN = anne , OU=x", True),
    ("x509", "1.2.840=x", True),
    ("x509", r"CN=an\,ne", True),
    ("x509", "CN=,O=", True),
    ("x509", "", False),
    ("x509", "CN", False),
    ("x509", "=anne", False),
    ("x509", "CN=anne,ne", False),
    ("x509", "C-N=anne", False),
    ("ensemble", "one", False),
    ("ensemble", "", False),
]


@pytest.mark.parametrize(("scheme", "text", "valid"), IDS)
def test_which_ids_of_other_providers_an_acl_may_hold(scheme: str, text: str, valid: bool) -> None:
    # semantics.md section 8.4
    access = AccessControl(Settings(x509_enabled=True, ensemble_names=frozenset({"one"})))
    entry = ACL(31, Id(scheme, text))
    if valid:
        assert access.validate([entry], [], "/p") == (entry,)
    else:
        with pytest.raises(InvalidACLError):
            access.validate([entry], [], "/p")


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([(1, None, "x"), (1, "ip", "10.0.0.1")], -114),
        ([(1, "ip", "10.0.0.1"), (1, None, "x")], -5),
        ([(1, "ip", "10.0.0.1"), (2, None, "x")], -114),
        ([(1, "nope", "x"), (1, "nope", None)], -5),
        ([(1, "nope", "x"), (2, "nope", None)], -114),
        ([(1, "nope", "x"), (1, "other", None)], -114),
        ([(1, "nope", None), (1, "nope", "x")], -114),
        ([(1, "nope", None), (1, "nope", None)], -5),
        ([(1, None, None), (1, None, None)], -5),
        ([(1, None, "x"), (1, None, "y")], -5),
        ([(1, None, "x"), (2, None, "y")], -114),
    ],
)
def test_nulls_that_cannot_be_compared_spoil_an_acl(
    entries: list[tuple[int, str | None, str | None]], code: int
) -> None:
    """With a null scheme: behind one with the same permissions. With a null id: the same scheme, too."""
    access = AccessControl(Settings())
    with pytest.raises(ZooKeeperError) as caught:
        access.validate([ACL(perms, Id(scheme, id_)) for perms, scheme, id_ in entries], [], "/p")
    assert caught.value.code == code


def test_a_login_by_a_digest_in_fips_mode_is_refused() -> None:
    login = NoLogin({"bob": "x"}, lambda size: bytes(size))
    with pytest.raises(AuthFailedError, match="set fips-mode=false"):
        login.answer(b"")
    assert (login.over, login.user) == (True, None)


@pytest.mark.parametrize(
    ("text", "base", "number"),
    [
        (b"1", 10, 1),
        (b"+1", 10, 1),
        (b"-7", 10, -7),
        (b"2147483647", 10, 2147483647),
        (b"2147483648", 10, None),
        (b"-2147483648", 10, -2147483648),
        (b"-2147483649", 10, None),
        (b"a", 10, None),
        (b"a", 16, 10),
        (b"A", 16, 10),
        (b"1_0", 10, None),
        (b" 1", 10, None),
        (b"", 10, None),
        (b"\xff", 10, None),
    ],
)
def test_numbers_of_a_token_are_read_as_java_reads_them(text: bytes, base: int, number: int | None) -> None:
    if number is None:
        with pytest.raises(JuteError, match="a SASL token whose maxbuf is no number of 32 bits"):
            _check_number("maxbuf", text, base)
    else:
        assert _check_number("maxbuf", text, base) == number


# --- the tree ----------------------------------------------------------------------------------------------


def test_a_create_for_which_memory_lacks_has_not_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = DataTree()

    def fail(self: DataTree, path: str, node: Znode) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(DataTree, "_own", fail)
        with pytest.raises(MemoryError):
            tree.apply(creation("/e", b"data", 77), 1, 1)
    assert "/e" not in tree.nodes
    check_tree_invariants(tree)
    tree.begin()
    with monkeypatch.context() as patch:
        patch.setattr(DataTree, "_own", fail)
        with pytest.raises(MemoryError):
            tree.apply(creation("/e", b"data", 77), 1, 1)
    tree.roll_back()
    check_tree_invariants(tree)
    assert tree.nodes["/"].children_created == 0


def test_a_copy_of_a_znode_without_children_has_none() -> None:
    top = Znode(b"x", OPEN_ACL, 3, 4)
    top.packed_stat()
    copied = copy_tree(top)
    assert copied is not top
    assert (copied.data, copied.children, copied.stat()) == (b"x", None, top.stat())

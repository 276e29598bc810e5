"""A tree that is loaded over HTTP: prepared in turns, and written as one transaction of a bounded size."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import AddWatchRequest, DeleteRequest
from pyzk.server.control.calls import tree
from pyzk.server.core.txn import Multi
from pyzk.server.testing import open_ensemble, tree_io
from tests.server.control.client import Api
from tests.support.rounds import rounds_while

pytestmark = pytest.mark.usefixtures("one_step_a_turn")


@pytest.fixture(autouse=True)
def one_znode_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_io, "_STEP", 1)


async def test_others_run_while_a_tree_is_prepared_and_it_is_written_at_once(api: Api) -> None:
    written: list[int] = []
    with api.server.running.following(
        lambda txn: written.append(len(txn.effect.effects) if isinstance(txn.effect, Multi) else 0)
    ):
        rounds = await rounds_while(lambda: api.post("/tree", znodes={f"/a/n{n}": "x" for n in range(100)}))
    assert rounds >= 300, "read, brought into order, prepared"
    assert written == [101]
    assert len(api.server.dump()) == 101


async def test_a_comparison_begins_in_turns(api: Api) -> None:
    api.server.load({"/a": ""})
    expected = {f"/a/n{n}": "x" for n in range(100)}
    assert await rounds_while(lambda: api.post("/tree/diff", znodes=expected)) >= 200


async def test_what_changes_meanwhile_counts(api: Api) -> None:
    client = await api.client()
    await client.create("/b")
    await client.create("/gone")
    await client.request(OpCode.ADD_WATCH, AddWatchRequest("/", 1))
    done = False

    async def change() -> None:
        while not done:
            await trio.lowlevel.checkpoint()
            if api.server.running.recorder is not None and "/c" not in api.server.dump():
                for _ in range(60):
                    await trio.lowlevel.checkpoint()
                await client.create("/c", b"of a client")
                await client.request(OpCode.DELETE, DeleteRequest("/gone", -1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        znodes = {"/b": "new", "/gone/below": "1"} | {f"/n{n}": "" for n in range(100)} | {"/c": "loaded"}
        await api.post("/tree", znodes=znodes)
        done = True
    found = api.server.dump()
    assert (found["/b"], found["/c"], found["/gone"], found["/gone/below"]) == (b"new", b"loaded", b"", b"1")


async def test_an_ephemeral_whose_owner_goes_meanwhile_is_refused(api: Api) -> None:
    client = await api.client()
    owner = f"0x{client.session_id:x}"
    znodes: dict[str, Any] = {"/e": {"data": "", "kind": "ephemeral", "owner": owner}}
    znodes |= {f"/n{n}": "" for n in range(100)}

    async def expire() -> None:
        for _ in range(250):
            await trio.lowlevel.checkpoint()
        api.server.expire(client.session_id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expire)
        status, detail = await api.refused("POST", "/tree", znodes=znodes)
    assert (status, "live session" in detail) == (400, True), detail
    assert api.server.dump() == {}, "all or nothing"


async def test_a_tree_is_no_larger_than_a_transaction_may_be(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_MOST_LOADED", 10)
    assert (await api.post("/tree", znodes={"/a/b/c": "", **{f"/n{n}": "" for n in range(7)}})) == {
        "loaded": 8
    }
    status, detail = await api.refused("POST", "/tree", znodes={f"/a/b/d{n}": "" for n in range(9)})
    assert (status, "POST /import" in detail) == (400, True)


async def test_a_path_with_very_many_parents_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_io, "_PARENTS", 1000)
    status, detail = await api.refused("POST", "/tree", znodes={"/a" * 50: ""})
    assert (status, "the parents to create exceed" in detail) == (409, True), detail
    assert api.server.dump() == {}


async def test_an_ensemble_is_loaded_by_its_leader() -> None:
    async with open_ensemble(3, clock="frozen") as ensemble:
        api = Api(ensemble[1])  # type: ignore[arg-type]
        assert await rounds_while(lambda: api.post("/tree", znodes={f"/n{n}": "" for n in range(50)})) >= 150
        assert all(len(ensemble[number].dump()) == 50 for number in ensemble.numbers)

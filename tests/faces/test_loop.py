"""The loop that clients share: who lends, who has forked."""

from __future__ import annotations

import os

import pytest

from pyzk.bridge.direct.lending import Lenders
from pyzk.bridge.loop import Loop


class Lender:
    """Has a connection to lend.

    :ivar told: what it was told.
    """

    def __init__(self, *, lends: bool = True, fails: bool = False) -> None:
        self.told: list[str] = []
        self._lends = lends
        self._fails = fails

    def lend(self) -> bool:
        self.told.append("lend")
        return self._lends

    def take_back(self) -> None:
        self.told.append("take back")
        if self._fails:
            raise ValueError("no")

    def end_connection(self, reason: str) -> None:
        self.told.append(reason)


def lenders(*offers: Lender) -> tuple[Lenders, list[int]]:
    wakes: list[int] = []
    made = Lenders(lambda: wakes.append(1))
    made.offers = dict.fromkeys(offers)
    return made, wakes


def test_connections_are_on_loan_while_the_loop_waits() -> None:
    one, other = Lender(), Lender()
    made, wakes = lenders(one, other)
    made.before_io_wait(1.0)
    assert one.told == other.told == ["lend"]
    made.after_io_wait(1.0)
    assert one.told == other.told == ["lend", "take back"]
    assert (made.offers, wakes) == ({}, [])


def test_a_loop_that_goes_on_at_once_lends_nothing() -> None:
    lender = Lender()
    made, wakes = lenders(lender)
    made.before_io_wait(0)
    made.after_io_wait(0)
    assert (lender.told, wakes) == ([], [])
    assert lender in made.offers


def test_a_connection_that_cannot_be_lent_now_wakes_the_loop() -> None:
    made, wakes = lenders(Lender(lends=False))
    made.before_io_wait(1.0)
    assert wakes == [1]


def test_a_lender_that_fails_ends_its_connection_and_harms_no_other() -> None:
    one, bad, other = Lender(), Lender(fails=True), Lender()
    made, _ = lenders(one, bad, other)
    made.after_io_wait(1.0)
    assert one.told == other.told == ["take back"]
    assert bad.told == ["take back", "after a loan: ValueError('no')"]


def test_a_fork_is_told_whose_client_it_is() -> None:
    loop = Loop()
    assert loop.parent == os.getpid()
    loop.forked = True
    for use in (lambda: loop.post(print), lambda: loop.ask(None), lambda: loop.look(print)):  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match=rf"belongs to the process {os.getpid()}, and this is a fork"):
            use()
    loop.detach(object())
    loop._bell.close()

"""A server or an ensemble whose clients take turns: which steps are possible, and how a step is made.

The rules:

1. Every request is held when it arrives. The first held request of each client is a possible step. In this
   step the request is handled and answered.
2. Every watch event is held when it is sent. A held event is also a possible step. A reply never overtakes
   the events that the server has sent before it, so these events are sent before the next reply to their
   client.
3. With the option ``replies``, each reply is a step of its own. Then an event does not overtake earlier
   replies: the earlier replies are sent together with the event.
4. Pings pass. The messages of a client that a fault has cut off are not held.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

import attrs
import trio

from ...protocol.operations import WRITES
from ..net.connection import Connection
from ..testing.observers import Observer
from . import footprints
from .faults import FAULTS
from .model import EVENT, POINT, REPLY, Cell, Endless, Outcome, Request, Step, without_numbers
from .orders import Order
from .servers import Held, Servers

_MOST_STEPS: Final = 5000
_UUID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_SESSION: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")


@attrs.frozen(eq=False)
class _Choice:
    step: Step
    take: Callable[[], str]


class Clients(Protocol):
    """The clients whose requests a stage orders (:class:`.driver.Driver`).

    The name of a client is the name of the endpoint to which the client connects.
    """

    servers: Servers

    async def settle(self) -> None:
        """Wait until each client waits for the server, or for a point in time."""

    @property
    def deadline(self) -> float:
        """The next time at which a client acts again by itself, except the times of trio's own timers."""


class Stage(Observer):
    """Holds the messages of a run, and makes its steps one after the other.

    :param clients: the clients whose requests the stage orders.
    :param order: the order of the steps.
    :param cell: the fault that must happen, and its request; None for a run without a fault.
    :param outcome: the outcome of the run, to which the stage adds the steps.
    :param replies: whether each reply is a step of its own.
    :cvar made: how many steps have been made in all runs.
    :cvar lag: the lag of a server in seconds, after a fault that lets it lag. A client that waits this long
        for a reply does not treat its connection as lost.
    :ivar is_open: whether messages are held.
    """

    made: ClassVar[int] = 0
    lag: ClassVar[float] = 3.0

    def __init__(
        self, clients: Clients, order: Order, cell: Cell | None, outcome: Outcome, replies: bool = False
    ) -> None:
        self.servers = clients.servers
        self.outcome = outcome
        self._clients = clients
        self._order = order
        self._cell = cell
        self._news = trio.Event()
        self.is_open = False
        self._requests: dict[str, int] = {}
        self._points: dict[str, Callable[[], None]] = {}
        self._words: dict[str, str] = {}
        self._replies = replies
        self._causes: dict[object, int] = {}

    # --- from the start to the end -----------------------------------------------------------------------

    def open(self) -> None:
        """Hold all messages from now on."""
        self.is_open = True
        self.servers.hold(self)

    def close(self) -> None:
        """Let all messages pass from now on."""
        if self.is_open:
            self.is_open = False
            self.servers.stop_holding(self)
        for proceed in self._points.values():
            proceed()
        self._points.clear()
        self._news.set()

    async def run(self) -> None:
        """Make one step after the other, until the task is cancelled."""
        while True:
            await self._clients.settle()
            choices = self._choices() if self.is_open else {}
            if choices:
                self._make(choices)
            else:
                self._news = trio.Event()
                with trio.move_on_at(self._clients.deadline):
                    await self._news.wait()

    def happened(self) -> None:
        self._news.set()

    async def point(self, client: str) -> None:
        """Wait until the order lets this client continue."""
        if not self.is_open:
            await trio.lowlevel.checkpoint()
            return
        reached = trio.Event()
        self.arrive(client, reached.set)
        await reached.wait()

    def arrive(self, client: str, proceed: Callable[[], None]) -> None:
        """Note that a client has come to a point of the scenario.

        :param proceed: called when the order lets it pass.
        """
        if self.is_open:
            self._points[client] = proceed
            self._news.set()
        else:
            proceed()

    # --- what is possible --------------------------------------------------------------------------------

    def _choices(self) -> dict[str, _Choice]:
        self._deliver_replies()
        found: dict[str, _Choice] = {}
        for held in self.servers.held():
            if not held.connection.frozen:
                step = self._step_of(held)
                if step.actor not in found:
                    found[step.actor] = _Choice(step, lambda held=held: self._take(held))  # type: ignore[misc]
        for client, proceed in self._points.items():
            step = Step(
                client + POINT, "a point of the scenario", footprints.OF_A_POINT, self._cause(proceed)
            )
            found[step.actor] = _Choice(step, lambda client=client: self._pass(client))  # type: ignore[misc]
        return dict(sorted(found.items()))

    def _step_of(self, held: Held) -> Step:
        message, client = held.message, self._name(held.connection)
        cause = self._cause(held.connection, message.number)
        if message.kind == "event":
            footprint = footprints.of_event(client, message.path or "/")
            return Step(client + EVENT, self.words(f"event: {message.text}"), footprint, cause)
        running = held.server.running
        op, frame = running.gate.request_held(message.number)
        ephemerals = running.engine.tree.ephemerals.get(held.connection.session_id, ())
        footprint = footprints.of_request(op, frame, ephemerals)
        if message.kind == "reply":
            footprint = footprints.of_reply(client, footprint)
            return Step(client + REPLY, self.words(f"reply: {message.text}"), footprint, cause)
        return Step(client, self.words(message.text), footprint | {("client", client, False)}, cause)

    def _cause(self, *which: object) -> int:
        """Return the index of the step after which this step became possible."""
        return self._causes.setdefault(which, len(self.outcome.steps) - 1)

    def _make(self, choices: dict[str, _Choice]) -> None:
        """Make the step that the order chooses.

        :raises Endless: the run has reached the largest number of steps.
        """
        Stage.made += 1
        if len(self.outcome.steps) >= _MOST_STEPS:
            raise Endless(f"{_MOST_STEPS:,} steps, and the run has not ended")
        steps = {actor: choice.step for actor, choice in choices.items()}
        actor = self._order.pick(steps)
        self.outcome.enabled.append(list(steps.values()))
        text = choices[actor].take()
        self.outcome.steps.append(attrs.evolve(steps[actor], text=text or steps[actor].text))

    # --- how it is made ----------------------------------------------------------------------------------

    def _pass(self, client: str) -> str:
        self._points.pop(client)()
        return ""

    def _take(self, held: Held) -> str:
        """Make the step of a held message; return the step in words, with the reply."""
        message = held.message
        if message.kind != "request":
            self._deliver(held)
            return ""
        client = self._name(held.connection)
        number = self._requests[client] = self._requests.get(client, 0) + 1
        op, _ = held.server.running.gate.request_held(message.number)
        words = message.op or "", without_numbers(message.path or "")
        request = Request(client, number, self.words(message.text), words, op in WRITES)
        self.outcome.requests.append(request)
        cell = self._cell
        if cell is not None and (cell.client, cell.number) == (client, number) and not self.outcome.fired:
            self.outcome.fired = True
            return f"{request.text} !! {FAULTS[cell.fault].do(self, held)}"
        if self._replies:
            replies = self.apply(held)
            return self.words(replies[-1].message.text) if replies else request.text
        return self.words(self.answer(held)) or request.text

    def apply(self, request: Held) -> list[Held]:
        """Let the server handle a request; return the replies to the client of the request. These replies are
        still held."""
        request.release()
        return [
            held
            for held in self.servers.held()
            if held.message.kind == "reply" and held.connection is request.connection
        ]

    def answer(self, request: Held) -> str:
        """Let the server handle and answer a request; return the reply in words, or "" without a reply."""
        replies = self.apply(request)
        self._deliver_replies(request.connection)
        return replies[-1].message.text if replies else ""

    def cut(self, request: Held, why: str) -> None:
        """Cut the connection of a request, after the bytes that the server has sent have arrived."""
        request.server.running.gate.settle(request.connection)
        if not request.connection.close_expected:
            request.connection.abort(why)

    def cut_off(self, request: Held) -> None:
        """Let no byte pass between a client and the servers until the client's session has ended."""
        request.server.running.gate.settle(request.connection)
        session = request.connection.session
        if session is not None and not session.closed:
            for server in self.servers.each:
                server.running.gate.pause(session.id)
        elif not request.connection.close_expected:
            request.connection.abort("the client is cut off")

    def ghost(self, request: Held, *, swap: bool = False) -> None:
        """Force a client to begin a new session while its old session is still alive at the servers.

        :param swap: whether the client asks for the old session and gets the new session.
        """
        connection = request.connection
        if connection.session is not None and not connection.session.closed:
            for server in self.servers.each:
                server.ghost(connection.session_id, swap=swap)

    def _deliver_replies(self, answered: Connection | None = None) -> None:
        """Deliver the replies that are not steps of their own.

        :param answered: a connection whose replies are delivered in any case.
        """
        for held in self.servers.held():
            is_due = not self._replies or held.connection is answered
            if held.message.kind == "reply" and is_due and not held.connection.frozen:
                self._deliver(held)

    def _deliver(self, last: Held) -> None:
        """Deliver a message, after all messages that the server has sent earlier to the same client."""
        before = [
            held.message.number
            for held in self.servers.held()
            if held.connection is last.connection
            and held.message.kind != "request"
            and held.message.number < last.message.number
        ]
        last.server.release(*before, last.message.number)

    # --- names -------------------------------------------------------------------------------------------

    def _name(self, connection: Connection) -> str:
        return connection.endpoint or "other"

    def words(self, text: str) -> str:
        """Replace the parts of a text that differ between processes: ids of sessions, and random names."""
        text = _UUID.sub(lambda match: self._words.setdefault(match[0], f"<{len(self._words) + 1}>"), text)
        return _SESSION.sub("0x..", text)

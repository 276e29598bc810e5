"""Sweeps of programs: each run has its own server, on loopback, and a verdict.

The rules:

1. The first of all runs is a rehearsal, in which all messages pass. The rehearsal shows how to run the
   command: a command that ends is started again for each run. A command that asks for the next run
   (:mod:`.asking`) is kept.
2. A run is over when all programs have ended, or when the kept program asks for the next run. A run hangs if
   no program runs and no step is made for ``patience`` seconds. A run also hangs if a program runs for 6
   times ``patience`` seconds without a request.
3. Exit status 0 means that the run passes. After a fault that ends a session, exit status 75 means that the
   program has given up for that reason. Any other exit status means that the run fails.
4. In the first attempt of a run, a fault that ends a session ends the session at once. So the client learns
   later than the other clients that the session has ended. This never happens with a real server. Therefore a
   failed run is repeated, and the fault then lets the session expire by its timeout. Only a run that fails
   again counts as failed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import trio

from ..dpor import Diverged
from ..faults import FAULTS
from ..judging import innermost, look_at_what_is_left
from ..lab import BaseLab
from ..model import Cell, Endless, NotControlled, Outcome
from ..no_log import no_log
from ..orders import Order, Rounds
from ..servers import Servers, open_servers
from .addresses import open_addresses
from .asking import Desk, Scene
from .processes import Running, start
from .quiet import ByProc, ByTime, detector
from .stage import ProgramClients, ProgramStage, places

GAVE_UP: Final = 75
"""The exit status of a program that ends because its session has ended (EX_TEMPFAIL of sysexits.h)."""
_TICK: Final = 100  # ms
_SILENT: Final = 1.0
"""The seconds without progress after which the sweep writes a line."""
_BETWEEN_LINES: Final = 5.0  # seconds
_MOST_BUSY: Final = 6
"""A program can run without a request for this many times ``patience`` seconds."""
_LOOK: Final = 0.05  # seconds between two checks of the progress of a run


class CannotRun(Exception):
    """The command cannot be run, or the command of ``--before`` fails."""


@attrs.frozen
class Options:
    """The options of a sweep of programs.

    :ivar command: the command to run, with its arguments.
    :ivar clients: the names of the clients.
    :ivar each: whether the command is started once for each client.
    :ivar before: a shell command that runs before each run.
    :ivar after: a shell command that checks each run, when all sessions have ended.
    :ivar session_timeout: the longest session timeout that the server grants, in ms.
    :ivar patience: the seconds after which a run without a step hangs.
    :ivar ensemble: the number of servers in an ensemble; None for a single server.
    :ivar replies: whether each reply is a step of its own.
    """

    command: Sequence[str]
    clients: Sequence[str]
    each: bool = False
    before: str | None = None
    after: str | None = None
    session_timeout: int = 2000
    patience: float = 10.0
    ensemble: int | None = None
    replies: bool = False


class Programs:
    """A :class:`..subject.Subject` whose clients are programs. Its methods run in a thread without trio.

    :param options: the options of the sweep.
    :param desk: the desk that answers the programs.
    :param url: the URL of the desk (:mod:`.asking`).
    :param nursery: the nursery for a program that is kept.
    :param say: a function that shows a line.
    :ivar runs: how many runs have been made.
    """

    is_exact = False
    most_shortening = 40

    def __init__(
        self, options: Options, desk: Desk, url: str, nursery: trio.Nursery, say: Callable[[str], None]
    ) -> None:
        self.runs = 0
        self._options = options
        self._desk = desk
        self._url = url
        self._nursery = nursery
        self._say = say
        self._said = -_BETWEEN_LINES
        self._is_kept = self._starts = self._connects = False
        self._running: list[Running] = []
        self._is_starting = False
        self.quiet: ByProc | ByTime = detector(self._leaders)

    # --- for the sweep, in its thread --------------------------------------------------------------------

    def run(self, order: Order, cell: Cell | None = None) -> Outcome:
        return self._run(order, cell, hurried=True)

    def run_again(self, order: Order, cell: Cell | None = None) -> Outcome:
        return self._run(order, cell, hurried=False)

    def planted(self) -> Programs:
        command = [sys.executable, "-m", "pyzk.server.sweep.programs.planted"]
        options = Options(command, ("a", "b"), ensemble=self._options.ensemble, replies=self._options.replies)
        race = Programs(options, self._desk, self._url, self._nursery, self._say)
        race.rehearse()
        return race

    def rehearse(self) -> None:
        """Make the rehearsal (rule 1).

        :raises CannotRun: the command cannot be run.
        :raises NotControlled: no program connects.
        """
        trio.from_thread.run(self._rehearse)

    # --- in trio -----------------------------------------------------------------------------------------

    def _run(self, order: Order, cell: Cell | None, *, hurried: bool) -> Outcome:
        return trio.from_thread.run(self._perform, order, cell, hurried)

    async def _rehearse(self) -> None:
        outcome = await self._perform(Rounds(), None, hurried=True, rehearse=True)
        if not self._connects:
            raise NotControlled(
                "no program has connected: it must connect to the addresses in ZOOKEEPER_HOSTS, or "
                f"ZOOKEEPER_HOSTS_{self._options.clients[0].upper()}" + _quoted(outcome.written)
            )

    async def _perform(
        self, order: Order, cell: Cell | None, hurried: bool, rehearse: bool = False
    ) -> Outcome:
        self.runs += 1
        await self._desk.serve(self._end_all)
        outcome = Outcome()
        settings: dict[str, Any] = {
            "tick_time": _TICK,
            "min_session_timeout": 2 * _TICK,
            "max_session_timeout": self._options.session_timeout,
            "extended_types": True,
        }
        with no_log():
            async with (
                open_servers(settings, self._options.ensemble) as local,
                trio.open_nursery() as nursery,
            ):
                servers = Servers(local)
                clients = ProgramClients(servers, self._desk, self.quiet)
                stage = ProgramStage(clients, order, cell, outcome, self._options.replies)
                stage.hurried = hurried
                hosts = await open_addresses(servers, self._options.clients, nursery, stage.happened)
                excused = cell.client if cell is not None and FAULTS[cell.fault].ends_session else None
                self._desk.scene = Scene(stage, BaseLab(excused), outcome, hosts)
                try:
                    await self._with_programs(clients, self._desk.scene, rehearse, excused)
                except* Diverged as errors:
                    await self._end_all()
                    raise innermost(errors) from None
                except* Endless as errors:
                    await self._end_all()
                    outcome.judge("hang", str(innermost(errors)))
                nursery.cancel_scope.cancel()
        return outcome

    async def _with_programs(
        self, clients: ProgramClients, scene: Scene, rehearse: bool, excused: str | None
    ) -> None:
        servers, outcome, options = clients.servers, scene.outcome, self._options
        await self._shell(options.before, servers, "--before")
        gave_up = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.stage.run)
            if not rehearse and not self._starts:
                scene.stage.open()
            with trio.CancelScope() as patience:
                nursery.start_soon(self._watch, scene, clients, patience)
                gave_up = await self._act(scene, excused, nursery, rehearse)
            if patience.cancelled_caught:
                outcome.judge("hang", "no client acts any more")
                outcome.waiting.update(places(servers, options.clients))
            if rehearse:
                self._starts = scene.starts
                self._connects = any(server.running.names.all for server in servers.each)
            scene.stage.close()
            if not self._is_kept or outcome.is_bad:
                await self._end_all()
            nursery.cancel_scope.cancel()
        await servers.end_sessions()
        look_at_what_is_left(servers.whole, outcome)
        if not gave_up and not outcome.is_bad and options.after is not None:
            status, written = await self._shell_status(options.after, servers)
            if status:
                outcome.judge("wrong", f"--after ended with exit status {status}")
                outcome.written = written

    async def _act(self, scene: Scene, excused: str | None, nursery: trio.Nursery, rehearse: bool) -> bool:
        """Have the programs make the run. Return True if a program has given up and the fault of the run
        allows this."""
        if self._is_kept:
            if not self._running:
                await self._start(scene, self._nursery)
            return await self._let_kept_act(scene, self._running[0], excused)
        await self._start(scene, self._nursery if rehearse else nursery)
        if rehearse and not self._options.each:
            program = self._running[0]
            async with trio.open_nursery() as first:
                first.start_soon(_then, program.ended.wait, first.cancel_scope)
                first.start_soon(_then, self._desk.waiting.wait, first.cancel_scope)
            if self._desk.waiting.is_set():
                self._is_kept = True
                return await self._let_kept_act(scene, program, excused)
        return await self._let_all_end(scene.outcome, excused)

    async def _let_kept_act(self, scene: Scene, program: Running, excused: str | None) -> bool:
        verdict: str | None = None

        async def act() -> None:
            nonlocal verdict
            verdict = await self._desk.hand_out()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_then, act, nursery.cancel_scope)
            nursery.start_soon(_then, program.ended.wait, nursery.cancel_scope)
        if verdict is None:
            scene.outcome.judge("error", f"the program ended with exit status {program.status}")
            scene.outcome.written = program.written
        elif verdict == "gave up" and excused is not None:
            return True
        elif verdict:
            scene.outcome.judge("wrong", verdict.splitlines()[0])
            scene.outcome.written = verdict
        return False

    async def _let_all_end(self, outcome: Outcome, excused: str | None) -> bool:
        gave_up = False

        async def wait(name: str, program: Running) -> None:
            nonlocal gave_up
            await program.ended.wait()
            if program.status == GAVE_UP and excused is not None:
                gave_up = True
            elif program.status:
                outcome.judge(
                    "wrong" if program.status == 1 else "error",
                    f"{name} ended with exit status {program.status}",
                )
                outcome.written = program.written
                nursery.cancel_scope.cancel()

        names = self._options.clients if self._options.each else ("the command",)
        async with trio.open_nursery() as nursery:
            for name, program in zip(names, self._running, strict=True):
                nursery.start_soon(wait, name, program)
        return gave_up

    async def _start(self, scene: Scene, nursery: trio.Nursery) -> None:
        hosts = scene.hosts
        all_hosts = {f"ZOOKEEPER_HOSTS_{name.upper()}": address for name, address in hosts.items()}
        self._is_starting = True
        try:
            for name in self._options.clients if self._options.each else self._options.clients[:1]:
                environment = os.environ | all_hosts | _environment(hosts[name])
                environment |= {"PYZK_SWEEP": self._url}
                if self._options.each:
                    environment |= {"PYZK_SWEEP_CLIENT": name}
                self._running.append(await start(self._options.command, environment, nursery))
        except OSError as error:
            raise CannotRun(f"{self._options.command[0]}: {error.strerror}") from None
        finally:
            self._is_starting = False

    def _leaders(self) -> list[int] | None:
        return None if self._is_starting else [each.leader for each in self._running]

    async def _end_all(self) -> None:
        """End all programs that still run, and also a kept program."""
        for program in self._running:
            await program.kill()
        self._running.clear()
        self.quiet.close()
        self._desk.forget()

    # --- what comes before and after ---------------------------------------------------------------------

    async def _shell(self, line: str | None, servers: Servers, option: str) -> None:
        """Run a line in the shell, unless the line is None.

        :raises CannotRun: the shell command fails.
        """
        if line is not None:
            status, written = await self._shell_status(line, servers)
            if status:
                raise CannotRun(f"{option} ended with exit status {status}" + _quoted(written))

    async def _shell_status(self, line: str, servers: Servers) -> tuple[int, str]:
        async with trio.open_nursery() as nursery:
            environment = os.environ | _environment(servers.hosts)
            program = await start(["/bin/sh", "-c", line], environment, nursery)
            try:
                with trio.move_on_after(self._options.patience) as patience:
                    await program.ended.wait()
            finally:
                await program.kill()
            nursery.cancel_scope.cancel()
        if patience.cancelled_caught:
            return 124, f"the shell command has not ended in {self._options.patience:g} s"
        return program.status, program.written

    # --- progress ----------------------------------------------------------------------------------------

    async def _watch(self, scene: Scene, clients: ProgramClients, patience: trio.CancelScope) -> None:
        """End a run that makes no progress.

        Before the end, write a line that says where the clients of the run wait.
        """
        servers = clients.servers
        last, since = None, time.monotonic()
        while True:
            await trio.sleep(_LOOK)
            progress = (
                len(scene.outcome.steps),
                self._desk.asked,
                len(servers.held()),
                servers.whole.running.engine.zxid,
            )
            now = time.monotonic()
            runs = _LOOK < clients.busy < _MOST_BUSY * self._options.patience
            if progress != last or runs:
                last, since = progress, now
            elif now - since > self._options.patience:
                patience.cancel()
                return
            elif now - since > _SILENT and now - self._said > _BETWEEN_LINES:
                self._said = now
                found = places(servers, self._options.clients)
                waits = "; ".join(f"{name} {place}" for name, place in found.items())
                self._say(f"run {self.runs}: no request for {now - since:.0f} s: {waits}")


async def _then(wait: Callable[[], Any], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel()


def _environment(hosts: str) -> dict[str, str]:
    # Clients of the program read ZOOKEEPER_HOSTS; the command pyzk reads PYZK_HOSTS.
    return {"ZOOKEEPER_HOSTS": hosts, "PYZK_HOSTS": hosts}


def _quoted(written: str) -> str:
    return f". It wrote:\n{written}" if written else ""

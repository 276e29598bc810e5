"""What an operator asks: four-letter words and the admin server."""

from __future__ import annotations

from collections.abc import Iterator

from .case import State, case
from .scene import Scene, drain
from .states import crowd, sessions, watches


def _word(word: bytes, state: State, what: str) -> None:
    @case(f"{word.decode()}-{state.__name__}", 1, what, quick=1, state=state)
    def run(scene: Scene, size: int) -> Iterator[None]:
        yield
        scene.word(word)


def _admin(command: str, state: State, what: str, count: int = 1) -> None:
    @case(f"admin-{command}-{state.__name__}", count, what, quick=count, state=state)
    def run(scene: Scene, size: int) -> Iterator[None]:
        yield
        drain(scene.http(command, size))


_STATES: dict[State, tuple[str, str, str]] = {
    watches: ("1,000,000 watches", "wchs wchc wchp mntr", "watch_summary watches watches_by_path"),
    crowd: ("10,000 connections", "stat cons dump mntr crst", "connections stats connection_stat_reset"),
    sessions: ("100,000 sessions", "dump mntr", "dump"),
}

for _state, (_many, _words, _commands) in _STATES.items():
    for _name in _words.split():
        _word(_name.encode(), _state, f"the word {_name} with {_many}")
    for _name in _commands.split():
        _admin(_name, _state, f"the admin command {_name} with {_many}")
_admin("monitor", crowd, "N times the admin command monitor on one connection", 200)

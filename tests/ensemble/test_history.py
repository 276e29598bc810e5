"""The checker finds what it is there to find, each violation planted in a history without any."""

from __future__ import annotations

import attrs
import pytest

from .history import History, Read, Write, violations


def history() -> tuple[History, list[Read]]:
    """Two clients; time and zxid grow by one with each step."""
    h = History(
        writes=[
            Write(1, "/a", b"a1", 1, 2, "done", 1, 101),
            Write(2, "/b", b"b1", 1.5, 2.5, "done", 1, 102),
            Write(1, "/a", b"lost", 3, 4, "unknown"),
            Write(2, "/a", b"no", 3, 4, "refused"),
            Write(2, "/a", b"never", 4, 5, "unsent"),
            Write(1, "/a", b"a3", 6, 7, "done", 3, 104),
        ],
        reads=[
            Read(1, "/a", b"", 0, 0.5, 0, 100, None, 100),
            Read(2, "/a", b"a1", 2.6, 2.8, 1, 101, None, 102),
            Read(2, "/a", b"lost", 5, 5.5, 2, 103, None, 103),
            Read(2, "/a", b"lost", 8, 8.5, 2, 103, None, 103),
            Read(2, "/a", b"a3", 10, 11, 3, 104, 9, 104),
        ],
    )
    return h, [Read(3, "/a", b"a3", 20, 21, 3, 104, 19, 104), Read(3, "/b", b"b1", 20, 21, 1, 102, 19, 104)]


def test_a_history_that_is_right() -> None:
    assert list(violations(*history())) == []


@pytest.mark.parametrize(
    ("kind", "index", "change", "message"),
    [
        ("writes", 5, {"version": 1}, "is both"),
        ("reads", 4, {"value": b"a1"}, "is both"),
        ("writes", 5, {"zxid": 99}, "its predecessor"),
        ("writes", 1, {"version": 1, "path": "/a", "zxid": 101}, "is both"),
        ("writes", 5, {"zxid": 104, "begun": 0.1, "ended": 0.2}, "was over before"),
        ("reads", 2, {"value": b"magic", "version": 7, "zxid": 120}, "written by nobody"),
        ("reads", 2, {"value": b"no"}, "was refused"),
        ("reads", 2, {"value": b"never"}, "was unsent"),
        ("reads", 3, {"value": b"a1", "version": 1, "zxid": 101}, "goes back"),
        ("reads", 1, {"client": 1, "value": b"", "version": 0, "zxid": 100}, "goes back"),
        ("reads", 3, {"last_zxid": 102}, "had seen 0x67 before"),
        ("reads", 4, {"value": b"lost", "version": 2, "zxid": 103}, "does not see"),
    ],
)
def test_a_planted_violation_is_found(kind: str, index: int, change: dict[str, object], message: str) -> None:
    h, final = history()
    items = getattr(h, kind)
    items[index] = attrs.evolve(items[index], **change)
    assert any(message in violation for violation in violations(h, final)), list(violations(h, final))


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (0, {"value": b"lost", "version": 2, "zxid": 103}, "is lost"),
        (1, {"value": b"", "version": 0, "zxid": 90}, "is lost"),
    ],
)
def test_a_lost_write_is_found(index: int, change: dict[str, object], message: str) -> None:
    h, final = history()
    final[index] = attrs.evolve(final[index], **change)
    assert any(message in violation for violation in violations(h, final))

"""Whether every thread of the clients waits. Then nothing happens until the server does something.

Linux says of each thread in which system call it waits (``/proc/self/task/N/syscall``). The rules:

1. The question is asked by a thread that holds the interpreter's lock (GIL) meanwhile: no other thread runs
   Python. A thread that Linux calls running is busy.
2. A thread that waits for the GIL itself is busy: it runs as soon as it gets it. It is known by the address
   of the futex, which is learned once, from a thread that does nothing but run.
3. A thread that sleeps in the kernel for a time (``nanosleep``) is busy: it wakes by itself.
4. Any other wait needs somebody else: a lock, a socket, a child.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

_CALLS: Final = {"x86_64": ("202", {"35", "230"}), "aarch64": ("98", {"101", "115"})}
"""The numbers of ``futex``, and of those that sleep."""
_NEAR: Final = 600
"""Bytes: the parts of the GIL are not further apart."""
_SAMPLES: Final = 60
_TURN: Final = 2000
"""Microseconds, within which another thread comes to wait for the GIL."""


def why_not() -> str | None:
    """Say why the question cannot be asked here; None where it can."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return "a sweep of threads needs Linux, on x86-64 or aarch64"
    return None


def are_waiting(threads: Iterable[threading.Thread]) -> bool:
    """Whether all of these wait for somebody else. May be wrong for some microseconds: ask twice."""
    futex, sleeps = _CALLS[platform.machine()]
    locks = _interpreter_lock()
    read = _reader()
    for thread in threads:
        if thread.native_id is None:
            return False  # it is being started
        call, *arguments = read(thread.native_id)
        if call in ("running", "-1") or call in sleeps:
            return False
        if call == futex and any(abs(int(arguments[0], 16) - lock) < _NEAR for lock in locks):
            return False
    return True


@cache
def _reader() -> Callable[[int], list[str]]:
    """Make what reads where a thread is, and keeps the GIL while it reads."""
    libc = ctypes.PyDLL(None)
    buffer = ctypes.create_string_buffer(256)

    def read(native_id: int) -> list[str]:
        descriptor = libc.open(b"/proc/self/task/%d/syscall" % native_id, 0)
        if descriptor < 0:
            return ["gone"]
        size = libc.read(descriptor, buffer, len(buffer))
        libc.close(descriptor)
        return buffer.raw[: max(size, 0)].decode().split() or ["gone"]

    return read


@cache
def _interpreter_lock() -> frozenset[int]:
    """Learn where threads wait for the GIL."""
    futex, _ = _CALLS[platform.machine()]
    read, over = _reader(), threading.Event()
    keep_the_lock_for = ctypes.PyDLL(None).usleep

    def spin() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    found = set()
    assert thread.native_id is not None
    for _ in range(_SAMPLES):
        time.sleep(0.0005)
        keep_the_lock_for(_TURN)
        call, *arguments = read(thread.native_id)
        if call == futex:
            found.add(int(arguments[0], 16))
    over.set()
    thread.join()
    if not found:
        raise RuntimeError(
            "no thread was seen to wait for the interpreter's lock: is the machine overloaded?"
        )
    return frozenset(found)

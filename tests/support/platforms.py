"""Other platforms, as far as Linux can show them: what they lack, pyzk does not find.

The modules of pyzk get stand-ins for some modules of the standard library, without the names that Windows
does not have. Other packages (trio, kazoo) get the real ones. Call :func:`windows` or :func:`macos` before
the first import of pyzk.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from types import ModuleType
from typing import Any

_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "readline"}
_MISSING = {
    "os": """fork forkpty register_at_fork getuid geteuid getgid getegid getpgid getpgrp setpgid setsid killpg
        wait waitid wait3 wait4 WNOHANG WNOWAIT mkfifo fchmod chown fchown lchown getloadavg sysconf statvfs
        sched_getaffinity uname posix_spawn pread pwrite fdatasync nice openpty ttyname O_CLOEXEC O_NONBLOCK
        O_DIRECTORY O_NOCTTY O_NOFOLLOW O_SYNC set_blocking get_blocking eventfd memfd_create pipe2""",
    "signal": """SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGKILL SIGCONT SIGSTOP SIGTSTP SIGALRM
        SIGTTIN SIGTTOU SIGWINCH alarm setitimer pause sigwait sigpending pthread_kill pthread_sigmask""",
    "select": """epoll poll kqueue devpoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP
        POLLIN POLLOUT POLLERR POLLHUP""",
    "socket": """AF_UNIX MSG_MORE MSG_DONTWAIT MSG_NOSIGNAL MSG_CMSG_CLOEXEC SO_REUSEPORT SO_BINDTODEVICE
        TCP_CORK TCP_QUICKACK TCP_USER_TIMEOUT SOCK_NONBLOCK SOCK_CLOEXEC send_fds recv_fds""",
    "mmap": "MAP_PRIVATE MAP_ANONYMOUS MAP_ANON MAP_SHARED PROT_READ PROT_WRITE MADV_DONTNEED",
    "time": "clock_gettime clock_gettime_ns clock_settime CLOCK_MONOTONIC CLOCK_REALTIME CLOCK_BOOTTIME",
}
_OF_LINUX = {"select": "epoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP"}


class _StandIn(ModuleType):
    """A module without some names."""

    def __init__(self, real: ModuleType, missing: str, other: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(real=real, missing=frozenset(missing.split()), **other)
        for name in ("__all__", "__path__"):
            if hasattr(real, name):
                self.__dict__[name] = getattr(real, name)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["missing"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this platform")
        return getattr(self.__dict__["real"], name)


def windows() -> None:
    """Let modules of pyzk that are imported from now on find Windows."""
    import ctypes
    import subprocess

    def no_library(name: str | None) -> object:
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")
        return ctypes.CDLL(name)

    def no_pipe() -> object:
        raise NotImplementedError("it exists on Windows, but no event loop can wait for it")

    def no_dup(number: int) -> int:
        raise OSError(9, "sockets are no file descriptors on Windows")

    def popen(*args: Any, preexec_fn: None = None, **options: Any) -> subprocess.Popen[Any]:
        if preexec_fn is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        return subprocess.Popen(*args, **options)

    others: dict[str, dict[str, Any]] = {
        "os": {"name": "nt", "getlogin": lambda: "somebody", "pipe": no_pipe, "dup": no_dup},
        "sys": {"platform": "win32"},
        "ctypes": {"CDLL": no_library},
        "subprocess": {"Popen": popen},
    }
    _hide(_MISSING, _MODULES, others)
    asyncio.set_event_loop_policy(_Policy())


def macos() -> None:
    """Let modules of pyzk that are imported from now on find a system such as macOS: it has no epoll."""
    _hide(_OF_LINUX, set(), {"sys": {"platform": "darwin"}})


def _hide(missing: dict[str, str], modules: set[str], others: dict[str, dict[str, Any]]) -> None:
    assert not any(name.startswith("pyzk.") for name in sys.modules), "it has seen this platform already"
    names = {*missing, *others}
    stand_ins = {
        name: _StandIn(__import__(name), missing.get(name, ""), others.get(name, {})) for name in names
    }
    real_import = builtins.__import__

    def look(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if not level and globals and str(globals.get("__name__", "")).partition(".")[0] == "pyzk":
            if name in modules:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in stand_ins:
                return stand_ins[name]
        return real_import(name, globals, locals, fromlist, level)

    builtins.__import__ = look


class _Loop(asyncio.SelectorEventLoop):
    """As the default event loop of Windows, which waits for no descriptors of others."""

    def add_reader(self, *args: Any) -> None:
        raise NotImplementedError

    add_writer = remove_reader = remove_writer = add_reader  # type: ignore[assignment]


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return _Loop()

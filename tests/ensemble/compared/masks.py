"""Transcripts that can be compared: values that differ from run to run get names."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from pyzk.protocol.errors import error_for
from pyzk.protocol.jute import Record
from pyzk.protocol.records import GetDataResponse, Stat

_LINE = re.compile(r"server\.(\d+)=[^;]*:(participant|observer)(;.*)?")
_ZXIDS = ("czxid", "mzxid", "pzxid")


class Masks:
    """
    :param base: the last zxid before the script.
    :param roles: the roles of the servers by their numbers.
    """

    def __init__(self, base: int, roles: Mapping[int, str]) -> None:
        self._base = base
        self._roles = roles
        self._epochs = [base >> 32]
        self._sessions: dict[int, str] = {0: "none"}
        self._letters = iter(string.ascii_lowercase)

    def zxid(self, zxid: int) -> str:
        """``+3``: the third transaction of the script; ``0:`` and its counter in the first epoch after a new
        leader, and so on. Epochs may rise by more than one (ensemble.md 3.12)."""
        if zxid <= 0:
            return str(zxid)
        if zxid < self._base:
            return "earlier"
        epoch, counter = zxid >> 32, zxid & 0xFFFFFFFF
        if epoch == self._epochs[0]:
            return f"{zxid - self._base:+d}"
        if epoch not in self._epochs:
            self._epochs.append(epoch)
        return f"{self._epochs.index(epoch)}:{counter}"

    def session(self, session_id: int) -> str:
        """A letter, and the role of the server that has given the id: its top byte (ensemble.md 1.2)."""
        if session_id not in self._sessions:
            given_by = self._roles.get(session_id >> 56 & 0xFF, "?")
            self._sessions[session_id] = f"{next(self._letters)} of {given_by}"
        return self._sessions[session_id]

    def config(self, text: str) -> str:
        """The members by their roles at the start, without their addresses."""
        *lines, version = text.splitlines()
        found = [_LINE.fullmatch(line) for line in lines]
        members = [f"{self._roles.get(int(m[1]), m[1])} {m[2]} {bool(m[3])}" for m in found if m]
        others = [self._of_groups(line) for line in lines[len(members) :]]
        shown = ", ".join([*sorted(members), *sorted(others)])
        return f"[{shown}] of {self.zxid(int(version.removeprefix('version='), 16))}"

    def _of_groups(self, line: str) -> str:
        """A group, or a weight, by roles."""
        key, _, value = line.partition("=")
        kind, _, number = key.partition(".")
        if kind == "weight":
            return f"weight of {self._roles[int(number)]} {value}"
        return f"{key} {''.join(sorted(self._roles[int(server)] for server in value.split(':')))}"

    def show(self, value: Any) -> str:
        """A value of a reply in words."""
        if isinstance(value, Stat):
            shown = [f"{name[0]}{self.zxid(getattr(value, name))}" for name in _ZXIDS]
            shown += [f"v{value.version}.{value.cversion}.{value.aversion}"]
            size = "N" if value.version == -1 else value.dataLength  # the configuration holds ports
            shown += [f"{size} bytes, {value.numChildren} children"]
            if value.ephemeralOwner:
                shown.append(f"owner {self.session(value.ephemeralOwner)}")
            return f"<{' '.join(shown)}>"
        if isinstance(value, GetDataResponse) and (value.data or b"").startswith(b"server."):
            return f"{self.config((value.data or b'').decode())}, {self.show(value.stat)}"
        if isinstance(value, Record):
            return ", ".join(self.show(each) for _, each in value._values())
        if isinstance(value, list | tuple):
            return f"[{', '.join(sorted(map(self.show, value)))}]"
        return repr(value)


def error(code: int) -> str:
    return "ok" if code == 0 else type(error_for(code)).__name__.removesuffix("Error")

"""Sockets of a server that note what they are asked for."""

from __future__ import annotations


class NotingPort:
    """The sockets of a server.

    :ivar asked: what it was asked for, in order.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    def flush(self) -> None:
        self.asked.append("flush")

    def open_port(self) -> None:
        self.asked.append("open")

    def close_port(self) -> None:
        self.asked.append("close")

    def move(self, port: int) -> None:
        self.asked.append(f"move to {port}")

    def take(self) -> list[str]:
        taken, self.asked = self.asked, []
        return taken

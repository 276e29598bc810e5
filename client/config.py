"""The configuration of the ensemble, as ``/zookeeper/config`` holds it: the servers that clients can reach.

Each line ``server.1=host:2888:3888:participant;0.0.0.0:2181`` is a server; what stands behind the semicolon
is the address for clients. Without a host of its own there, or with one that stands for all addresses, the
host of the server counts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..protocol.errors import AuthFailedError, ClosingError, SessionExpiredError, ZooKeeperError
from .hosts import Host
from .repeating import UNANSWERED

if TYPE_CHECKING:
    from .zookeeper import ZooKeeper

logger = logging.getLogger(__name__)

_ALL_ADDRESSES = ("", "0.0.0.0", "::")
_HOST = r"\[[^\]]*\]|[^:;|\]]*"
_SERVER = re.compile(rf"server\.\d+=({_HOST}):[^;]*;(?:({_HOST}):)?(\d+)\s*")


def servers_of(config: bytes | None) -> list[Host]:
    """Return the servers that a configuration names for clients."""
    found = []
    for line in (config or b"").decode("utf-8", "replace").splitlines():
        if match := _SERVER.fullmatch(line):
            host, client_host, port = (part.strip("[]") for part in match.groups(""))
            found.append(Host(host if client_host in _ALL_ADDRESSES else client_host, int(port)))
    return found


async def follow(zk: ZooKeeper, use: Callable[[Sequence[Host]], Awaitable[None]]) -> None:
    """Keep the list of servers equal to the configuration of the ensemble, until the client ends.

    :param use: called with the servers of each configuration that names any.
    """
    with suppress(ClosingError, SessionExpiredError, AuthFailedError):  # by wait_connected: the client ends
        while True:
            await zk.session.wait_connected()
            try:
                data, _, watch = await zk.get_config_and_watch()
            except (*UNANSWERED, SessionExpiredError):
                continue
            except ClosingError:
                return
            except ZooKeeperError as error:
                logger.warning("The list of servers does not follow the ensemble's configuration: %s", error)
                return
            with watch:
                if servers := servers_of(data):
                    await use(servers)
                await watch.wait()

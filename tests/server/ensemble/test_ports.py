"""Where the servers of an ensemble listen."""

from __future__ import annotations

from pyzk.server.config.members import ServerAddress
from pyzk.server.config.settings import Settings
from pyzk.server.ensemble.host import EnsembleHost
from pyzk.server.net.clock import Clock


async def test_lines_that_name_the_ports_of_clients_decide_where_servers_listen() -> None:
    lines = [ServerAddress.parse(str(n), f"127.0.0.1:2888:3888;127.0.0.1:{20_000 + n}") for n in (1, 2, 3)]
    servers = EnsembleHost(Settings(), Clock(), lines).servers
    assert [server.service.settings.port for server in servers.values()] == [20_001, 20_002, 20_003]

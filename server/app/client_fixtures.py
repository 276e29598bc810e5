"""The second half of the pytest plugin: the fixtures for clients of this project."""

from __future__ import annotations

import pytest

from . import clients

zk_blocking = clients.zk_blocking()
zk_trio_server = clients.zk_trio_server()
zk_trio_client = clients.zk_trio_client()
zk_aio = clients.aio_client
_zk_aio_of_anyio = clients.zk_aio(name="zk_aio")


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.register(clients.for_asyncio(), "zk_for_asyncio")

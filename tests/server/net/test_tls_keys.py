"""The keys of zoo.cfg about TLS: which ports have it, and who is let in."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from cryptography.x509 import load_pem_x509_certificates

from pyzk.server.app.serve import make_server
from pyzk.server.config.properties import ConfigError
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret
from pyzk.server.monitoring.server import MonitoredServer
from pyzk.server.net.clock import Clock
from pyzk.server.net.hostnames import check, is_for
from pyzk.server.net.streams import HostNameError

from ...support.network import talk
from ...support.requests import acl
from ...support.wire import StreamClient

pytestmark = pytest.mark.trio


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def stores(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("stores")
    own = ca.issue_cert("localhost", "127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return {"keyStore.location": str(folder / "server.pem"), "trustStore.location": str(folder / "ca.pem")}


@pytest.fixture(scope="module")
def trusting(ca: trustme.CA) -> ssl.SSLContext:
    """A client without a certificate."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def with_certificate(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    ca.issue_cert(*names, common_name="alice").configure_cert(context)
    return context


def settings_of(stores: dict[str, str], prefix: str = "ssl.", **keys: str) -> Any:
    lines = {"clientPort": "0", **{prefix + key: value for key, value in stores.items()}}
    lines |= {key.replace("_", "."): value for key, value in keys.items()}
    configuration = interpret("\n".join(f"{key}={value}" for key, value in lines.items()))
    assert not configuration.warnings
    return build(configuration.values)


@asynccontextmanager
async def serving(settings: Any) -> AsyncIterator[MonitoredServer]:
    server = make_server(settings, Clock())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        with trio.fail_after(10):
            yield server
        nursery.cancel_scope.cancel()


async def over_tls(address: tuple[str, int], context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    return await trio.open_ssl_over_tcp_stream(*address, ssl_context=context, https_compatible=True)


async def ask(address: tuple[str, int], context: ssl.SSLContext, request: bytes) -> bytes:
    """The whole answer over TLS; empty if the server breaks off."""
    stream = await over_tls(address, context)
    answered = b""
    with suppress(trio.BrokenResourceError):
        await stream.send_all(request)
        while data := await stream.receive_some():
            answered += data
    await trio.aclose_forcefully(stream)
    return answered


# --- client.portUnification ---------------------------------------------------------------------------------


async def test_one_port_for_plain_clients_and_tls_and_http(
    stores: dict[str, str], trusting: ssl.SSLContext
) -> None:
    settings = settings_of(stores, client_portUnification="true", ssl_clientAuth="none")
    async with serving(settings) as server:
        assert await talk(server.address, b"ruok") == b"imok"
        assert await ask(server.address, trusting, b"ruok") == b"imok"
        get = b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert b"200 OK" in await talk(server.address, get)
        assert b"200 OK" in await ask(server.address, trusting, get)
        async with await trio.open_tcp_stream(*server.address) as plain:
            client = StreamClient(plain)
            await client.connect()
            assert (await client.create("/a")).err == 0
            secure = StreamClient(await over_tls(server.address, trusting))
            await secure.connect()
            assert (await secure.exists("/a")).err == 0
            assert len(server.service.connections) == 2
            assert len(server.service.secure) == 1
            await trio.aclose_forcefully(secure.stream)


async def test_the_first_bytes_may_come_one_by_one(stores: dict[str, str], trusting: ssl.SSLContext) -> None:
    settings = settings_of(stores, client_portUnification="true", ssl_clientAuth="none")
    async with serving(settings) as server:
        outgoing, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = outgoing.read()
        async with await trio.open_tcp_stream(*server.address) as stream:
            for byte in hello[:6]:
                await stream.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(hello[6:])
            assert (await stream.receive_some())[:1] == b"\x16"


async def test_without_the_key_tls_is_not_served() -> None:
    async with serving(build(interpret("clientPort=0").values)) as server:
        assert await talk(server.address, bytes.fromhex("16030100c8010000c40303")) == b""


# --- ssl.clientHostnameVerification -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_let_in"), [("127.0.0.1", True), ("192.0.2.1", False), ("a.example", False)]
)
async def test_the_host_of_a_client(
    ca: trustme.CA, stores: dict[str, str], name: str, is_let_in: bool
) -> None:
    settings = settings_of(stores, secureClientPort="0", ssl_clientHostnameVerification="true")
    async with serving(settings) as server:
        assert server.secure_address is not None
        answered = await ask(server.secure_address, with_certificate(ca, name), b"ruok")
        assert answered == (b"imok" if is_let_in else b"")


async def test_the_names_of_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        if address[0] == "192.0.2.9":
            raise OSError
        return "host.example.org", "0"

    monkeypatch.setattr(trio.socket, "getnameinfo", getnameinfo)
    wild = {"subjectAltName": (("DNS", "*.example.org"),)}
    common = {"subject": ((("commonName", "host.example.org"),),)}
    await check(wild, "192.0.2.1", True)
    await check(common, "192.0.2.1", True)
    await check({"subjectAltName": (("IP Address", "192.0.2.9"),)}, "::ffff:192.0.2.9", False)
    for certificate, host in (
        (common | {"subjectAltName": (("DNS", "other.example"),)}, "192.0.2.1"),
        (wild, "192.0.2.9"),
        ({}, "192.0.2.1"),
    ):
        with pytest.raises(HostNameError, match="its certificate is not for "):
            await check(certificate, host, True)
    with pytest.raises(HostNameError, match=r"with ssl\.allowReverseDnsLookup=true the name"):
        await check(wild, "192.0.2.1", False)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a.example", "A.EXAMPLE.", True),
        ("*.example.org", "a.example.org", True),
        ("*.example.org", "a.b.example.org", False),
        ("*.example.org", "example.org", False),
        ("*.org", "example.org", False),
        ("*", "example", False),
        ("a*.example.org", "ab.example.org", False),
    ],
)
async def test_wildcards(pattern: str, name: str, matches: bool) -> None:
    assert is_for(pattern, name) is matches


async def test_a_verification_that_could_verify_nothing_is_refused(stores: dict[str, str]) -> None:
    keys = {"secureClientPort": "0", "ssl_clientHostnameVerification": "true", "ssl_clientAuth": "none"}
    with pytest.raises(ConfigError, match=r"ssl\.clientHostnameVerification: with ssl\.clientAuth=none"):
        settings_of(stores, **keys)
    settings = settings_of(stores, **keys, ssl_hostnameVerification="false")  # as in the real server
    assert not settings.verify_client_host


# --- the admin server ---------------------------------------------------------------------------------------

GET = b"GET /commands/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n"
ADMIN = {"admin_enableServer": "true", "admin_serverPort": "0"}


@pytest.mark.parametrize("prefix", ["ssl.quorum.", "ssl."])
async def test_the_admin_server_with_tls_beside_plain_http(
    stores: dict[str, str], trusting: ssl.SSLContext, prefix: str
) -> None:
    settings = settings_of(stores, prefix, admin_portUnification="true", **ADMIN)
    async with serving(settings) as server:
        assert server.admin_address is not None
        assert b"200 OK" in await talk(server.admin_address, GET % (b"ruok", b""))
        answered = await ask(server.admin_address, trusting, GET % (b"monitor", b""))
        assert b'"insecure_admin_count": 1' in answered


async def test_the_admin_server_with_tls_alone(stores: dict[str, str], trusting: ssl.SSLContext) -> None:
    settings = settings_of(stores, "ssl.quorum.", admin_forceHttps="true", **ADMIN)
    async with serving(settings) as server:
        assert server.admin_address is not None
        assert b"200 OK" in await ask(server.admin_address, trusting, GET % (b"ruok", b""))
        assert b"HTTP" not in await talk(server.admin_address, GET % (b"ruok", b""))
        assert b"200 OK" in await ask(server.admin_address, trusting, GET % (b"ruok", b""))


async def test_the_admin_server_knows_clients_by_their_certificates(
    ca: trustme.CA, stores: dict[str, str], trusting: ssl.SSLContext
) -> None:
    keys = {"admin_forceHttps": "true", "admin_needClientAuth": "true", **ADMIN}
    provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
    settings = settings_of(stores, "ssl.quorum.", authProvider_1=provider, **keys)
    async with serving(settings) as server:
        assert server.admin_address is not None
        assert await ask(server.admin_address, trusting, GET % (b"ruok", b"")) == b""
        alice, named = ssl.create_default_context(), ca.issue_cert("127.0.0.1", common_name="alice")
        ca.configure_trust(alice)
        named.configure_cert(alice)
        request = GET % (b"snapshot", b"Authorization: x509\r\n")
        assert b"403 Forbidden" in await ask(server.admin_address, alice, request)
        (certificate,) = load_pem_x509_certificates(named.cert_chain_pems[0].bytes())
        subject = certificate.subject.rfc4514_string().replace("#", "\\#")  # as Java has it
        server.service.engine.tree.nodes["/"].acl = (acl(31, "x509", subject),)
        assert b"200 OK" in await ask(server.admin_address, alice, request)


# --- figures ------------------------------------------------------------------------------------------------


async def test_handshakes_that_fail_are_counted(stores: dict[str, str], trusting: ssl.SSLContext) -> None:
    async with serving(settings_of(stores, secureClientPort="0", ssl_clientAuth="none")) as server:
        assert server.secure_address is not None
        await talk(server.secure_address, b"no TLS at all", half_close=True)
        assert b"zk_unsuccessful_handshake\t1\n" in await ask(server.secure_address, trusting, b"mntr")
        async with await trio.open_tcp_stream(*server.secure_address):
            while not server.service.shaking_hands:
                await trio.testing.wait_all_tasks_blocked()
            answered = await talk(server.address, b"mntr")
            assert b"zk_outstanding_tls_handshake\t1\n" in answered

import logging
import ssl

import pytest
import trio
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates

from pyzk.server.app.serve import serve
from pyzk.server.config.properties import ConfigError
from pyzk.server.config.settings import Settings
from pyzk.server.config.sourced_values import build
from pyzk.server.config.tls import TlsError, server_context, subject_text
from pyzk.server.config.zoocfg import interpret


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


@pytest.fixture(scope="module")
def identity(ca):
    return ca.issue_cert("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def stores(ca, identity, tmp_path_factory):
    """The options of a complete configuration."""
    folder = tmp_path_factory.mktemp("stores")
    identity.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return {
        "ssl.keyStore.location": str(folder / "server.pem"),
        "ssl.trustStore.location": str(folder / "ca.pem"),
    }


@pytest.fixture
def client(ca):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def shake_hands(server, client):
    """A handshake and one byte each way in memory; returns both ends. Raises what either end raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    steps = [step for end in ends for step in (end.do_handshake, lambda end=end: end.write(b"x"))]
    steps += [lambda end=end: end.read(1) for end in ends]
    for _ in range(20):
        for step in steps[:]:
            try:
                step()
            except ssl.SSLWantReadError:
                continue
            steps.remove(step)
        if not steps:
            return ends
    raise AssertionError("the handshake does not come to an end")


def refusal_of(options):
    with pytest.raises(TlsError) as caught:
        server_context(options)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    return caught.value.key, str(caught.value)


# --- who is let in --------------------------------------------------------------------------------------


def test_clients_must_show_a_certificate_by_default(stores, client, ca):
    server = server_context(stores)
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        shake_hands(server, client)
    ca.issue_cert("client@example.org").configure_cert(client)
    _, server_end = shake_hands(server, client)
    assert server_end.getpeercert()["subjectAltName"] == (("email", "client@example.org"),)


def test_clients_may_show_a_certificate(stores, client, ca):
    server = server_context({**stores, "ssl.clientAuth": "WANT"})
    assert not shake_hands(server, client)[1].getpeercert()
    ca.issue_cert("client@example.org").configure_cert(client)
    assert shake_hands(server, client)[1].getpeercert()


@pytest.mark.parametrize("client_auth", ["need", "want"])
def test_a_certificate_of_a_stranger_is_turned_away(stores, client, client_auth):
    trustme.CA().issue_cert("client@example.org").configure_cert(client)
    with pytest.raises(ssl.SSLError):
        shake_hands(server_context({**stores, "ssl.clientAuth": client_auth}), client)


def test_without_client_certificates_no_trust_store_is_needed(stores, client, caplog):
    server = server_context(
        {"ssl.keyStore.location": stores["ssl.keyStore.location"], "ssl.clientAuth": "none"}
    )
    assert shake_hands(server, client)
    assert not caplog.records


def test_without_a_trust_store_the_machines_authorities_count(stores, caplog):
    with caplog.at_level(logging.WARNING):
        context = server_context({"ssl.keyStore.location": stores["ssl.keyStore.location"]})
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert "ssl.trustStore.location" in caplog.text


def test_an_unknown_client_auth(stores):
    assert refusal_of({**stores, "ssl.clientAuth": "maybe"})[0] == "ssl.clientAuth"


# --- the stores -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encrypted(identity, tmp_path_factory):
    key = serialization.load_pem_private_key(identity.private_key_pem.bytes(), None)
    path = tmp_path_factory.mktemp("encrypted") / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
        + b"".join(pem.bytes() for pem in identity.cert_chain_pems)
    )
    return {"ssl.keyStore.location": str(path), "ssl.clientAuth": "none"}


def test_an_encrypted_key(encrypted, client, tmp_path):
    assert shake_hands(server_context({**encrypted, "ssl.keyStore.password": "s3cret"}), client)
    (tmp_path / "password").write_text("s3cret\n")
    assert server_context({**encrypted, "ssl.keyStore.passwordPath": str(tmp_path / "password")})


@pytest.mark.parametrize("password", ["", "not s3cret", "long" * 1000])
def test_a_wrong_password_is_refused_without_asking_the_terminal(encrypted, password):
    key, message = refusal_of({**encrypted, "ssl.keyStore.password": password})
    assert key == "ssl.keyStore.location"
    assert "ssl.keyStore.password does not open it" in message


def test_a_key_store_of_another_kind_says_how_to_convert_it(stores, identity, tmp_path):
    certificate = load_pem_x509_certificates(identity.cert_chain_pems[0].bytes())[0]
    key = serialization.load_pem_private_key(identity.private_key_pem.bytes(), None)
    store = tmp_path / "server.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"a", key, certificate, None, serialization.NoEncryption())
    )
    key, message = refusal_of({**stores, "ssl.keyStore.location": str(store)})
    assert key == "ssl.keyStore.location"
    assert (
        f"server.p12 is PKCS12, and only PEM can be read; convert it: openssl pkcs12 -nodes -in {store}"
        in message
    )
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    key, message = refusal_of({**stores, "ssl.trustStore.location": str(store)})
    assert key == "ssl.trustStore.location"
    assert "is a JKS store" in message
    assert "keytool -importkeystore" in message


def test_a_declared_type(stores):
    assert server_context({**stores, "ssl.keyStore.type": "PEM", "ssl.trustStore.type": "pem"})
    assert refusal_of({**stores, "ssl.keyStore.type": "JKS"})[0] == "ssl.keyStore.type"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"ssl.keyStore.location": ""}, "ssl.keyStore.location"),
        ({"ssl.keyStore.location": "missing.pem"}, "ssl.keyStore.location"),
        ({"ssl.keyStore.location": "."}, "ssl.keyStore.location"),
        ({"ssl.keyStore.location": "nul\0"}, "ssl.keyStore.location"),
        ({"ssl.keyStore.passwordPath": "missing"}, "ssl.keyStore.passwordPath"),
        ({"ssl.trustStore.location": "missing.pem"}, "ssl.trustStore.location"),
    ],
)
def test_a_file_that_cannot_be_read(stores, changed, key):
    assert refusal_of({**stores, **changed})[0] == key


def test_a_key_store_without_a_key(stores):
    key, message = refusal_of({**stores, "ssl.keyStore.location": stores["ssl.trustStore.location"]})
    assert key == "ssl.keyStore.location"
    assert "private key" in message


def test_a_key_that_does_not_belong_to_the_certificate(stores, ca, identity, tmp_path):
    mixed = tmp_path / "mixed.pem"
    other = ca.issue_cert("localhost")
    mixed.write_bytes(other.private_key_pem.bytes() + identity.cert_chain_pems[0].bytes())
    assert "does not belong to its first" in refusal_of({**stores, "ssl.keyStore.location": str(mixed)})[1]


def test_a_trust_store_without_certificates(stores, identity, tmp_path):
    identity.private_key_pem.write_to_path(tmp_path / "key.pem")
    key, _ = refusal_of({**stores, "ssl.trustStore.location": str(tmp_path / "key.pem")})
    assert key == "ssl.trustStore.location"


# --- versions and ciphers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({}, "TLSv1.3"),
        ({"ssl.protocol": "TLS"}, "TLSv1.3"),
        ({"ssl.protocol": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabledProtocols": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl.enabledProtocols": "TLSv1.2, TLSv1.3"}, "TLSv1.3"),
        ({"ssl.ciphersuites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2"),
        ({"ssl.ciphersuites": "TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.3"),
    ],
)
def test_versions(stores, client, options, version):
    ends = shake_hands(server_context({**stores, "ssl.clientAuth": "none", **options}), client)
    assert ends[0].version() == version


def test_a_version_that_is_not_enabled_is_turned_away(stores, client):
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    for options in ({"ssl.enabledProtocols": "TLSv1.3"}, {"ssl.ciphersuites": "TLS_AES_128_GCM_SHA256"}):
        with pytest.raises(ssl.SSLError):
            shake_hands(server_context({**stores, "ssl.clientAuth": "none", **options}), client)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_have_their_java_names(stores, client, suite, name):
    server = server_context({**stores, "ssl.clientAuth": "none", "ssl.ciphersuites": suite})
    assert shake_hands(server, client)[0].cipher()[0] == name


@pytest.mark.parametrize("suite", ["TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"])
def test_other_key_exchanges_are_known_too(stores, suite):
    assert server_context({**stores, "ssl.ciphersuites": suite})


@pytest.mark.parametrize(
    "options",
    [
        {"ssl.protocol": "SSLv3"},
        {"ssl.enabledProtocols": "TLSv1.1,TLSv1.2"},
        {"ssl.ciphersuites": "TLS_NULL_WITH_NULL_NULL"},
        {"ssl.ciphersuites": "ALL"},
        {"ssl.ciphersuites": "@SECLEVEL=0"},
        {"ssl.ciphersuites": "TLS_AES_128_GCM_SHA256", "ssl.enabledProtocols": "TLSv1.2"},
    ],
)
def test_what_is_not_offered_is_refused(stores, options):
    assert refusal_of({**stores, **options})[0] in options


# --- who a client is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ((), ""),
        ((("commonName", "x"),), "CN=x"),
        ((("countryName", "DE"), ("organizationName", "y"), ("commonName", "José")), "CN=José,O=y,C=DE"),
        # what Java 17 prints
        ((("commonName", 'a,b=c#d"e\\f<g>h;i+j'),), 'CN=a\\,b\\=c\\#d\\"e\\\\f\\<g\\>h\\;i\\+j'),
        ((("commonName", " x  "),), "CN=\\ x\\ \\ "),
    ],
)
def test_a_subject_as_text(subject, text):
    assert subject_text({"subject": tuple((pair,) for pair in subject)}) == text
    assert subject_text({}) == ""
    assert subject_text({"subject": ((("commonName", "x"), ("userId", "y")),)}) == "CN=x+UID=y"


# --- in zoo.cfg -----------------------------------------------------------------------------------------


def file_of(options):
    return "\n".join(f"{key}={value}" for key, value in options.items())


def test_a_secure_port(stores):
    text = file_of({"clientPort": "0", "secureClientPort": "0", "secureClientPortAddress": "[::1]", **stores})
    configuration = interpret(text)
    settings = build(configuration.values)
    assert (settings.secure_host, settings.secure_port) == ("::1", 0)
    assert isinstance(settings.ssl_context, ssl.SSLContext)
    assert "x509" in settings.auth_schemes
    assert not configuration.warnings


def test_a_file_without_a_plain_port_says_that_one_is_open(stores):
    text = file_of({"secureClientPort": "0", **stores})
    (warning,) = interpret(text).warnings
    assert "no clientPort: 2181 is open too, without TLS" in warning
    assert build(interpret(text).values).port == Settings().port
    assert not interpret(text, port_given=True).warnings


def test_errors_name_the_line_of_the_key_or_of_the_port(stores):
    text = file_of({"secureClientPort": "0", "ssl.clientAuth": "maybe", **stores})
    with pytest.raises(ConfigError, match=r"zoo.cfg, line 2: ssl.clientAuth"):
        interpret(text)
    with pytest.raises(ConfigError, match=r"zoo.cfg, line 1: secureClientPort: ssl.keyStore.location"):
        interpret("secureClientPort=0")


@pytest.mark.trio
async def test_a_client_on_the_secure_port(stores, client, nursery):
    text = file_of({"clientPort": "0", "secureClientPort": "0", "ssl.clientAuth": "none", **stores})
    server = await nursery.start(serve, build(interpret(text).values))
    host, port = server.secure_address
    async with await trio.open_ssl_over_tcp_stream(host, port, ssl_context=client) as stream:
        await stream.send_all(b"ruok")
        assert await stream.receive_some() == b"imok"
    nursery.cancel_scope.cancel()

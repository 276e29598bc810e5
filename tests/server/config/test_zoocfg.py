from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.server.config import tls, zookeys
from pyzk.server.config.properties import ConfigError, parse
from pyzk.server.config.settings import Settings
from pyzk.server.config.sourced_values import SourcedValue, build
from pyzk.server.config.zoocfg import interpret, read


def settings_of(text, **flags):
    return build(interpret(text).values | flags)


def warnings_of(text):
    return list(interpret(text).warnings)


def refusal_of(text):
    with pytest.raises(ConfigError) as caught:
        settings_of(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- settings -------------------------------------------------------------------------------------------

PROMETHEUS = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

ENSEMBLE = "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"
DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
HONOURED = [
    ("clientPort=0", "port", 0),
    ("emulate=3.8", "emulate", "3.8"),
    ("clientPort=2182\nclientPortAddress=0.0.0.0", "host", "0.0.0.0"),
    ("clientPort=2182\nclientPortAddress=[::1]", "host", "::1"),
    ("clientPortListenBacklog=50", "listen_backlog", 50),
    ("clientPortListenBacklog=0", "listen_backlog", -1),
    ("clientTcpKeepAlive=true", "tcp_keepalive", True),
    ("tickTime=+500", "tick_time", 500),
    ("minSessionTimeout=-1", "min_session_timeout", -1),
    ("minSessionTimeout=100", "min_session_timeout", 100),
    ("maxSessionTimeout=90000", "max_session_timeout", 90_000),
    ("maxClientCnxns=0", "max_client_connections", 0),
    ("maxClientCnxns=-1", "max_client_connections", 0),
    ("maxCnxns=1000", "max_connections", 1000),
    ("jute.maxbuffer=4194304", "max_buffer", 4194304),
    ("jute.maxbuffer=0x400000", "max_buffer", 4194304),
    ("jute.maxbuffer=#ff", "max_buffer", 255),
    ("jute.maxbuffer=010", "max_buffer", 8),
    ("maxUnreadBytes=1000", "max_unread", 1000),
    ("httpOnClientPort=false", "http_on_client_port", False),
    ("control.token=x", "control_token", "x"),
    ("nio.sessionlessCnxnTimeout=500", "sessionless_timeout", 500),
    ("largeRequestThreshold=1000", "large_request_threshold", 1000),
    ("largeRequestMaxBytes=2000", "large_request_max_bytes", 2000),
    ("throttled_op_wait_time=20", "throttled_op_wait_time", 20),
    ("extendedTypesEnabled=TRUE", "extended_types", True),
    ("enforceQuota=true", "enforce_quota", True),
    ("znode.container.checkIntervalMs=100", "container_check_interval", 100),
    ("znode.container.maxPerMinute=600", "container_max_per_minute", 600),
    ("znode.container.maxNeverUsedIntervalMs=300000", "container_max_never_used", 300_000),
    ("skipACL=yes", "skip_acl", True),
    ("skipACL=no", "skip_acl", False),
    ("DigestAuthenticationProvider.enabled=false", "digest_enabled", False),
    ("DigestAuthenticationProvider.digestAlg=SHA3-256", "digest_algorithm", "SHA3-256"),
    (f"DigestAuthenticationProvider.superDigest={DIGEST}", "super_digest", DIGEST),
    ("X509AuthenticationProvider.superUser=CN=root, O=x", "x509_super_user", "CN=root, O=x"),
    (
        "enforce.auth.enabled=true\nenforce.auth.schemes= digest , ip",
        "required_auth_schemes",
        {"digest", "ip"},
    ),
    ("reconfigEnabled=true", "reconfig_enabled", True),
    ("standaloneEnabled=true", "standalone_enabled", True),  # false: in test_members.py
    ("localSessionsEnabled=true", "local_sessions", True),
    ("localSessionsUpgradingEnabled=true", "local_sessions_upgrading", True),
    ("sessionRequireClientSASLAuth=false", "required_auth_schemes", frozenset()),
    ("sessionRequireClientSASLAuth=true\nsasl.user.bob=b", "required_auth_schemes", {"sasl"}),
    (
        "sessionRequireClientSASLAuth=true\nenforce.auth.enabled=true\nenforce.auth.schemes=ip\nsasl.user.bob=b",
        "required_auth_schemes",
        {"sasl"},
    ),
    (
        "enforce.auth.enabled=true\nenforce.auth.schemes=ip,sasl\nsasl.user.bob=b",
        "required_auth_schemes",
        {"ip", "sasl"},
    ),
    ("sasl.user.bob=b\nsasl.user.A\\u0107=c", "sasl_users", {"bob": "b", "A\u0107": "c"}),
    ("sasl.user.bob=b", "sasl_enabled", True),
    (
        "sasl.user.super=a\nSASLAuthenticationProvider.superPassword=b",
        "sasl_users",
        {"super": "b"},
    ),
    ("sasl.user.bob=a\nSASLAuthenticationProvider.superPassword=b", "sasl_users", {"bob": "a"}),
    ("sasl.user.bob=b\nsuperUser=bob\nsuperUser.1=ann", "sasl_super_users", {"bob", "ann"}),
    ("sasl.user.bob=b\nallowSaslFailedClients=true", "allow_sasl_failed_clients", True),
    ("sasl.user.bob=b\nletAnySaslUserDoX=anybody", "sasl_any_user", "anybody"),
    ("sasl.user.bob=b\nsasl.serverconfig=Other", "sasl_users", {"bob": "b"}),
    ("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "sasl_enabled", True),
    ("4lw.commands.whitelist= srvr, mntr ,", "four_letter_words", {"srvr", "mntr"}),
    ("4lw.commands.whitelist=*", "four_letter_words", {"*"}),
    ("4lw.commands.whitelist=", "four_letter_words", frozenset()),
    ("readonlymode.enabled=true", "read_only_mode", True),
    ("snapCount=5000", "snap_count", 5000),
    ("admin.enableServer=true\nadmin.snapshot.enabled=false", "admin_snapshot", False),
    ("admin.enableServer=true\nadmin.restore.enabled=false", "admin_restore", False),
    ("admin.enableServer=true\nadmin.rateLimiterIntervalInMS=1", "admin_rate_interval", 1),
    ("snapCount=0", "snap_count", 2),
    ("digest.enabled=true", "tree_digest", True),
    ("dataLogDir=/logs", "data_log_dir", "/logs"),
    ("snapshot.compression.method=gz", "snapshot_compression", "gz"),
    ("snapSizeLimitInKb=1000", "snap_size_limit", 1000),
    ("autopurge.snapRetainCount=7", "snap_retain_count", 7),
    ("autopurge.snapRetainCount=1", "snap_retain_count", 3),
    ("autopurge.purgeInterval=24", "purge_interval", 86400),
    ("autopurge.purgeInterval=90m", "purge_interval", 5400),
    ("autopurge.purgeInterval=2D", "purge_interval", 172_800),
    ("autopurge.purgeInterval=3h", "purge_interval", 10800),
    ("autopurge.purgeInterval=45s", "purge_interval", 45),
    ("autopurge.purgeInterval=1001ms", "purge_interval", 2),
    ("fips-mode=false", "fips_mode", False),
    ("emulate=3.10", "container_max_never_used", 300_000),
    ("emulate=3.9", "container_max_never_used", 0),
    ("emulate=3.9.4", "reverse_dns", True),
    ("emulate=3.9.5", "reverse_dns", False),
    ("admin.enableServer=true", "admin_port", 8080),
    ("admin.enableServer=true\nadmin.serverPort=0", "admin_port", 0),
    ("admin.enableServer=true\nadmin.serverAddress=0.0.0.0", "admin_host", "0.0.0.0"),
    ("admin.enableServer=true\nadmin.commandURL=/zk", "admin_url", "/zk"),
    ("admin.enableServer=true\nadmin.allowedHosts=zk1, zk2", "admin_allowed_hosts", {"zk1", "zk2"}),
    ("admin.enableServer=true\nadmin.idleTimeout=500", "admin_idle_timeout", 500),
    ("admin.enableServer=true\nadmin.forceHttps=false", "admin_port", 8080),
    (f"{ENSEMBLE}\nensembleAuthName=one, two", "ensemble_names", {"one", "two"}),
    (ENSEMBLE, "ensemble_names", set()),
    ("admin.enableServer=false", "admin_port", None),
    (PROMETHEUS, "metrics_port", 7000),
    (f"{PROMETHEUS}\nmetricsProvider.httpPort=0", "metrics_port", 0),
    (f"{PROMETHEUS}\nmetricsProvider.httpHost=::1", "metrics_host", "::1"),
    (f"{PROMETHEUS}\nmetricsProvider.exportJvmInfo=false", "metrics_of_process", False),
    (
        "metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
        "metrics_port",
        None,
    ),
    ("authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider", "x509_enabled", True),
    ("authProvider.a=org.apache.zookeeper.server.auth.IPAuthenticationProvider", "digest_enabled", True),
    (
        "authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\n"
        "DigestAuthenticationProvider.enabled=false",
        "digest_enabled",
        True,
    ),
]


@pytest.mark.parametrize(("text", "field", "value"), HONOURED)
def test_honoured(text, field, value):
    assert getattr(settings_of(text), field) == value
    assert warnings_of(text) == []


def test_every_key_that_is_a_setting_is_tried_above():
    tried = {key for text, _, _ in HONOURED for key in parse(text)}
    elsewhere = {"secureClientPort", "secureClientPortAddress"}  # in test_tls.py
    in_net = {"client.portUnification", "ssl.hostnameVerification", "ssl.clientHostnameVerification"}
    in_net.add("ssl.allowReverseDnsLookup")
    elsewhere |= {*in_net, "admin.portUnification", "admin.needClientAuth"}  # in test_tls_keys.py
    elsewhere |= {"ssl.authProvider", "ssl.crl", "ssl.ocsp", "ssl.context.supplier.class"}  # refused, below
    elsewhere.add("java.security.auth.login.config")  # in test_sasl.py
    assert {*zookeys.KNOWN, *zookeys.PROPERTIES} - elsewhere <= tried


def test_an_empty_file_is_the_defaults():
    assert settings_of("") == Settings()


def test_flags_win_over_the_file():
    settings = settings_of("clientPort=1\ntickTime=100", port=SourcedValue(2, "--port"))
    assert (settings.port, settings.tick_time) == (2, 100)


def test_the_text_is_kept_for_the_operator():
    assert settings_of("tickTime=100\n").config_text == "tickTime=100\n"


# --- without effect -------------------------------------------------------------------------------------

# The file that the official container image writes.
DOCKER = """
dataDir=/data
dataLogDir=/datalog
tickTime=2000
initLimit=5
syncLimit=2
autopurge.snapRetainCount=3
autopurge.purgeInterval=0
maxClientCnxns=60
standaloneEnabled=true
admin.enableServer=true
server.1=localhost:2888:3888;2183
"""


def test_all_that_has_no_effect_is_one_warning_with_reasons():
    (warning,) = warnings_of(DOCKER)
    assert "\n" not in warning
    assert "only --data sets the directory of the data: dataDir;" in warning
    assert "there is no quorum: initLimit, syncLimit;" in warning
    assert "this server is always standalone: server.1" in warning
    assert "tickTime" not in warning
    assert "admin" not in warning


@pytest.mark.parametrize(
    "text",
    [
        "globalOutstandingLimit=10",
        "observer.reconnectDelayMs=1",
        "ssl.quorum.keyStore.location=/x",
        "nio.numWorkerThreads=8",
        "connection_throttle_tokens=5",
        "request_throttler.shutdownTimeout=1",
        "jute.maxbuffer.extrasize=1",
        "enableEagerACLCheck=true",
        "audit.enable=true",
        "peerType=participant",
        "electionAlg=3",
        "group.1=1",
        "superUser.x=bob",
        "ensembleAuthName=foo",
        "ssl.quorum.clientAuth=need",
        "ssl.clientHostnameVerification=true",
        "ssl.handshakeDetectionTimeoutMillis=100",
        "client.certReload=true",
        "admin.serverPort=9090",  # without admin.enableServer
        "enforce.auth.schemes=digest",  # without enforce.auth.enabled
        "admin.portUnification=true",
        "admin.needClientAuth=true",
        "metricsProvider.httpPort=7001",  # without metricsProvider.className
        "metricsProvider.httpsPort=7002",
        "metricsProvider.numWorkerThreads=4",
        "authProvider.1=com.example.Ours",
        "superUser=bob",  # without users
        "SASLAuthenticationProvider.superPassword=x",
        "kerberos.removeHostFromPrincipal=true",
        "security.auth_to_local=DEFAULT",
        "ssl.keyStore.location=/x.pem",  # without secureClientPort
        "zookeeper.tickTime=1",
        "made.up=x",
    ],
)
def test_ignored_with_a_warning(text):
    (warning,) = warnings_of(text)
    assert warning.count(text.partition("=")[0]) >= 1
    assert attrs.evolve(settings_of(text), config_text="", extra={}) == Settings()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("admin.commandURL=/ops", "admin_url", "/ops"),
        ("admin.snapshot.enabled=false", "admin_snapshot", False),
        ("admin.restore.enabled=false", "admin_restore", False),
        ("admin.rateLimiterIntervalInMS=7", "admin_rate_interval", 7),
        ("metricsProvider.exportJvmInfo=false", "metrics_of_process", False),
    ],
)
def test_keys_of_the_admin_server_that_count_at_the_port_of_clients(text, field, value):
    assert warnings_of(text) == []
    assert getattr(settings_of(text), field) == value
    (warning,) = warnings_of(f"{text}\nhttpOnClientPort=false")
    assert text.partition("=")[0] in warning


VALUES = ("true", "false", "no", "yes", "7", "x", "/x", "gz", "3.8", "50000", "127.0.0.2", "SHA-256")


@pytest.mark.parametrize("key", sorted({*zookeys.KNOWN, *zookeys.PROPERTIES, *tls.OPTIONS, *zookeys.CHECKED}))
def test_no_value_is_taken_in_silence_and_does_nothing(key):
    """A value changes a setting, or is refused, or is warned about: or it is the default, or switches off
    what is off."""
    beside = "" if key == "clientPort" else "clientPort=1\n"
    silent = []
    for value in VALUES:
        text = f"{beside}{key}={value}"
        try:
            changed = attrs.evolve(settings_of(text), config_text="", extra={}) != settings_of(beside)
        except ConfigError:
            continue
        if not changed and not warnings_of(text):
            silent.append(value)
    assert len(silent) <= 1, silent
    assert set(silent) <= {"true", "false", "no", "x509"}


@pytest.mark.parametrize(
    "text",
    [
        "admin.needClientAuth=false",
        "client.portUnification=False",
        "ssl.clientHostnameVerification=false",
        "ssl.hostnameVerification=false",
        "ssl.ocsp=false",
        "ssl.authProvider=x509",
    ],
)
def test_switching_off_what_is_not_there_needs_no_warning(text):
    assert warnings_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "maxCnxns=many",
        "maxCnxns=99999999999",
        "jute.maxbuffer=1MB",
        "jute.maxbuffer=0",
        "jute.maxbuffer=09",
        "skipACL=true",
        "extendedTypesEnabled=yes",
        "admin.enableServer=yes",
        "enforce.auth.enabled=1",
        "largeRequestThreshold=0",
        "nio.sessionlessCnxnTimeout=-5",
    ],
)
def test_a_property_that_is_not_understood_stays_at_its_default(text):
    (warning,) = warnings_of(f"\n{text}")
    assert "not understood" in warning
    assert "line 2" in warning
    assert attrs.evolve(settings_of(text), config_text="") == Settings()


def test_a_boolean_property_that_is_not_understood_is_false_even_where_the_default_is_true():
    assert not settings_of("DigestAuthenticationProvider.enabled=on").digest_enabled


def test_unknown_keys_are_kept_and_guessed_at():
    text = "\nclientport=1\nmade.up=s3cret\nzookeeper.skipACL=yes"
    (warning,) = warnings_of(text)
    assert "unknown: clientport (line 2; perhaps clientPort), made.up (line 3)" in warning
    assert "prefix zookeeper. must be dropped: zookeeper.skipACL" in warning
    assert "s3cret" not in warning
    assert settings_of(text).extra == {"clientport": "1", "made.up": "s3cret", "zookeeper.skipACL": "yes"}


def test_the_tables_do_not_contradict_each_other():
    honoured = {*zookeys.KNOWN, *zookeys.PROPERTIES, *tls.OPTIONS}
    assert not honoured & {*zookeys.IGNORED, *zookeys.NOT_YET}
    assert not set(zookeys.KNOWN) & set(zookeys.PROPERTIES)
    fields = {field.name for field in attrs.fields(Settings)}
    assert set(zookeys.KEY_OF) <= fields
    for key in zookeys.CHECKED:
        assert zookeys.reason_for(key, zookeys.IGNORED) or zookeys.reason_for(key, zookeys.NOT_YET)


def test_every_key_is_in_the_documentation():
    text = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    keys = {*zookeys.KNOWN, *zookeys.PROPERTIES, *tls.OPTIONS, *zookeys.IGNORED, *zookeys.NOT_YET}
    assert not [key for key in sorted(keys) if f"`{key}`" not in text]


# --- servers --------------------------------------------------------------------------------------------


def test_the_client_port_of_the_only_server_line():
    assert settings_of(DOCKER).port == 2183
    assert settings_of("server.1=a:2888:3888:participant;0.0.0.0:2184").host == "0.0.0.0"
    assert settings_of("server.1=a:1:2;[::1]:2184").host == "::1"
    assert settings_of("server.1=a:1:2;2184\nclientPort=2190").port == 2190
    assert settings_of("server.1=a:2888:3888").port == 2181


def test_servers_in_a_file_of_their_own(tmp_path):
    members = tmp_path / "zoo.cfg.dynamic"
    members.write_text("server.1=a:1:2:participant;2184\nversion=0\n")
    assert settings_of(f"dynamicConfigFile={members}").port == 2184
    members.write_text("server.1=a:1:2;2184\nserver.2=b:1:2;2184\n")
    assert "zoo.cfg, line 1: dynamicConfigFile" in refusal_of(f"dynamicConfigFile={members}")
    members.unlink()
    assert "No such file" in refusal_of(f"dynamicConfigFile={members}")
    assert "cannot read" in refusal_of("dynamicConfigFile=\\u0000")


# --- refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "clientPort=abc",
        "clientPort=",
        "clientPort=1_000",
        "clientPort=٣",
        "clientPort=99999999999",
        "clientPort=0x10",
        "clientPort=70000",
        "clientPort=-1",
        "clientPort=1\nclientPortAddress=",
        "clientPortAddress=127.0.0.1",
        "secureClientPortAddress=127.0.0.1",
        "secureClientPort=2281",
        "tickTime=0",
        "tickTime=fast",
        "minSessionTimeout=50000",
        "minSessionTimeout=6000\nmaxSessionTimeout=5000",
        "maxSessionTimeout=0",
        "maxClientCnxns=a",
        "reconfigEnabled=yes",
        "initLimit=ten",
        "autopurge.purgeInterval=never",
        "localSessionsEnabled=1",
        "sslQuorum=",
        "jvm.pause.monitor=on",
        "server.1=a:1:2\nserver.2=b:1:2",
        "server.1=a:1:2\nserver.2=b:1:2:observer",
        "server.1=a:1:2:observer;2181",
        "server.1=a:1:2;port",
        "standaloneEnabled=no",
        "electionAlg=0",
        "peerType=observer",
        "enforce.auth.enabled=true",
        "enforce.auth.enabled=true\nenforce.auth.schemes=,",
        "enforce.auth.enabled=true\nenforce.auth.schemes=sasl",
        "enforce.auth.enabled=true\nenforce.auth.schemes=x509",
        "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false",
        "sessionRequireClientSASLAuth=true",
        "java.security.auth.login.config=/nowhere/jaas.conf",
        "DigestAuthenticationProvider.digestAlg=CRC32",
        "metricsProvider.className=com.example.Ours",
        f"{PROMETHEUS}\nmetricsProvider.httpPort=many",
        f"{PROMETHEUS}\nmetricsProvider.httpPort=70000",
        "admin.enableServer=true\nadmin.forceHttps=true",
        "admin.enableServer=true\nadmin.portUnification=true\nssl.quorum.keyStore.location=/nowhere.pem",
        "client.portUnification=true",
        "ssl.crl=true",
        "ssl.ocsp=true",
        "ssl.authProvider=com.example.Ours",
        "ssl.context.supplier.class=com.example.Ours",
    ],
)
def test_refused_with_the_file_the_line_and_the_key(text):
    message = refusal_of(f"# a comment\n{text}")
    assert "zoo.cfg, line " in message
    assert any(key in message for key in parse(text))


def test_a_contradiction_names_each_side_as_its_giver_does():
    given = interpret("\nminSessionTimeout=6000").values
    with pytest.raises(
        ConfigError, match=r"minSessionTimeout \(zoo.cfg, line 2\) 6000 ms is above --most 5000"
    ):
        build({**given, "max_session_timeout": SourcedValue(5000, "--most")})
    with pytest.raises(ConfigError, match=r"--least 50000 ms is above maxSessionTimeout 40000 ms"):
        build({"min_session_timeout": SourcedValue(50_000, "--least")})
    with pytest.raises(ConfigError, match=r"--least 50000 ms is above --most 40000 ms"):
        build(
            {"min_session_timeout": SourcedValue(50_000, "--least")}, names={"max_session_timeout": "--most"}
        )


def test_a_port_from_elsewhere_completes_an_address():
    assert interpret("clientPortAddress=::1", port_given=True).values["host"].value == "::1"


def test_an_unreadable_file(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*zoo.cfg: No such file"):
        read(str(tmp_path / "zoo.cfg"))
    with pytest.raises(ConfigError, match="directory"):
        read(str(tmp_path))


def test_a_file_is_read_as_java_reads_it(tmp_path):
    path = tmp_path / "zoo.cfg"
    path.write_bytes("# café\r\nX509AuthenticationProvider.superUser=CN=Jos\xe9\r\n".encode("latin-1"))
    assert build(read(str(path)).values).x509_super_user == "CN=José"


# --- values that do not do what they seem to ------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "field", "kept", "words"),
    [
        ("maxClientCnxns", "-5", "max_client_connections", 0, "-5 means that there is no limit"),
        ("maxCnxns", "-60", "max_connections", 0, "-60 means that there is no limit"),
        (
            "4lw.commands.whitelist",
            "srvr, rouk, MNTR",
            "four_letter_words",
            {"srvr", "rouk", "MNTR"},
            "these are not four-letter words: 'MNTR', 'rouk'; delete it",
        ),
        (
            "DigestAuthenticationProvider.superDigest",
            "super",
            "super_digest",
            "super",
            "with this value nobody is a super user",
        ),
        (
            "DigestAuthenticationProvider.superDigest",
            "super:s3cret",
            "super_digest",
            "super:s3cret",
            "with this value nobody is a super user",
        ),
    ],
)
def test_a_value_that_does_not_do_what_it_seems_to(key, value, field, kept, words):
    assert getattr(settings_of(f"tickTime=10\n{key}={value}"), field) == kept
    [warning] = warnings_of(f"tickTime=10\n{key}={value}")
    assert warning.startswith(f"zoo.cfg, line 2: {key}: ")
    assert words in warning
    assert "s3cret" not in warning


# --- secrets, and nonsense ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "DigestAuthenticationProvider.superDigest",
        "digestAuthenticationProvider.superDigest",
        "zookeeper.DigestAuthenticationProvider.superDigest",
        "ssl.keyStore.password",
        "ssl.trustStore.password",
        "ssl.quorum.keyStore.password",
        "SASLAuthenticationProvider.superPassword",
        "sasl.user.bob",
        "zookeeper.sasl.user.bob",
    ],
)
def test_no_secret_is_told(key):
    configuration = interpret(f"{key}=s3cret")
    told = [
        *configuration.warnings,
        repr(configuration),
        repr(build(configuration.values)),
        repr(parse("x=s3cret")),
    ]
    assert not [text for text in told if "s3cret" in text]
    assert "s3cret" not in refusal_of(f"{key}=s3cret\nsecureClientPort=1")


KEYS = [
    *zookeys.KNOWN,
    *zookeys.PROPERTIES,
    *zookeys.CHECKED,
    *zookeys.IGNORED,
    *zookeys.NOT_YET,
    *tls.OPTIONS,
]
LINES = st.tuples(
    st.sampled_from(KEYS), st.one_of(st.text(), st.integers().map(str), st.sampled_from(["true"]))
)


@given(st.text() | st.lists(LINES).map(lambda lines: "\n".join("=".join(line) for line in lines)))
def test_no_text_raises_anything_but_a_refusal_of_one_line(text):
    message = ""
    try:
        settings_of(text)
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message

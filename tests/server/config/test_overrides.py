"""Keys of zoo.cfg in environment variables and in ``--set``."""

import pytest

from pyzk.server.config import overrides, tls, zookeys
from pyzk.server.config.properties import ConfigError
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret


def test_each_key_has_a_variable_of_its_own() -> None:
    keys = [*zookeys.KNOWN, *zookeys.PROPERTIES, *tls.OPTIONS]
    assert len({overrides.variable(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("clientPort", "PYZK_CLIENT_PORT"),
        ("jute.maxbuffer", "PYZK_JUTE_MAXBUFFER"),
        ("4lw.commands.whitelist", "PYZK_4LW_COMMANDS_WHITELIST"),
        ("ssl.keyStore.location", "PYZK_SSL_KEY_STORE_LOCATION"),
        ("skipACL", "PYZK_SKIP_ACL"),
        ("X509AuthenticationProvider.superUser", "PYZK_X509_AUTHENTICATION_PROVIDER_SUPER_USER"),
    ],
)
def test_the_variable_of_a_key(key: str, name: str) -> None:
    assert overrides.variable(key) == name
    (entry,), warnings = overrides.from_environment(
        {name: "1", "HOME": "/", "PYZK_HOSTS": "zk:1", "PYZK_URL": "x"}
    )
    assert (entry.key, entry.value, entry.where) == (key, "1", name)
    assert warnings == []


def test_a_variable_of_no_key_is_warned_about() -> None:
    _, (warning,) = overrides.from_environment({"PYZK_TICKTIME": "1"})
    assert warning == "PYZK_TICKTIME is not the variable of a key, and has no effect; perhaps PYZK_TICK_TIME"


def test_authentication_providers_have_variables() -> None:
    name = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
    beside, _ = overrides.from_environment({"PYZK_AUTH_PROVIDER_1": name})
    assert build(interpret("clientPort=1", beside=beside).values).x509_enabled


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    beside, _ = overrides.from_environment({"PYZK_TICK_TIME": "20", "PYZK_MAX_CNXNS": "20"})
    beside += overrides.from_flags(["tickTime=30", "tickTime=40"])
    text = "clientPort=1\ntickTime=10\nmaxCnxns=10\nenforceQuota=true"
    settings = build(interpret(text, beside=beside).values)
    assert (settings.tick_time, settings.max_connections, settings.enforce_quota) == (40, 20, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tickTime", "--set takes KEY=VALUE, as in --set maxClientCnxns=0"),
        ("=1", "--set takes KEY=VALUE, as in --set maxClientCnxns=0"),
        ("ticktime=1", "--set: there is no key 'ticktime'; perhaps tickTime"),
    ],
)
def test_what_is_no_key_cannot_be_set(given: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overrides.from_flags([given])
    assert str(caught.value) == message


def test_errors_name_the_flag_or_the_variable_and_show_no_secret() -> None:
    with pytest.raises(ConfigError, match=r"^--set: tickTime: 'x' is not a whole number$"):
        interpret("", beside=overrides.from_flags(["tickTime=x"]))
    beside, _ = overrides.from_environment({"PYZK_MIN_SESSION_TIMEOUT": "x"})
    with pytest.raises(ConfigError, match=r"^PYZK_MIN_SESSION_TIMEOUT: minSessionTimeout: "):
        interpret("", beside=beside)
    secret = overrides.from_flags(["DigestAuthenticationProvider.superDigest=s3cret"])
    assert "s3cret" not in repr(secret)
    assert "s3cret" not in repr(interpret("clientPort=1", beside=secret))

import attrs
import pytest

from pyzk.server.config.settings import Settings, SettingsError, check, hashlib_name


def test_the_defaults_are_those_of_the_real_server_but_for_host_and_words():
    settings = Settings()
    assert settings.session_timeout_range == (4000, 40_000)
    assert settings.max_client_connections == 60
    assert settings.max_buffer == 1048575
    assert not settings.extended_types
    assert settings.host == "127.0.0.1"
    assert settings.four_letter_words == {"*"}


def test_session_timeouts_follow_the_tick_unless_given():
    assert Settings(tick_time=100).session_timeout_range == (200, 2000)
    assert Settings(tick_time=100, min_session_timeout=50).session_timeout_range == (50, 2000)
    assert Settings(max_session_timeout=5000).session_timeout_range == (4000, 5000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("port", 65536),
        ("port", -1),
        ("secure_port", 70000),
        ("host", ""),
        ("host", "two words"),
        ("host", "nul\0"),
        ("tick_time", 0),
        ("min_session_timeout", 0),
        ("max_session_timeout", -2),
        ("max_client_connections", -1),
        ("max_buffer", 0),
        ("sessionless_timeout", 0),
        ("container_check_interval", 0),
        ("container_max_per_minute", 0),
        ("large_request_threshold", 0),
        ("digest_algorithm", "SHA-3000"),
        ("admin_port", -1),
        ("admin_url", "commands"),
        ("admin_url", "/a b"),
        ("admin_idle_timeout", 0),
        ("metrics_port", 70000),
    ],
)
def test_a_value_out_of_range_names_its_field(field, value):
    with pytest.raises(ValueError, match=field):
        Settings(**{field: value})
    with pytest.raises(ValueError, match="theKey"):
        check(field, value, "theKey")


def test_checking_a_good_value_or_a_field_without_rules_says_nothing():
    check("port", 0, "clientPort")
    check("skip_acl", True, "skipACL")


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"min_session_timeout": 50_000}, ("min_session_timeout", "max_session_timeout")),
        ({"max_session_timeout": 1000}, ("min_session_timeout", "max_session_timeout")),
        ({"min_session_timeout": 2**31, "max_session_timeout": 2**32}, ("min_session_timeout",)),
        ({"secure_port": 0}, ("secure_port",)),
        ({"port_unification": True}, ("port_unification",)),
        ({"required_auth_schemes": frozenset({"sasl"})}, ("required_auth_schemes",)),
        (
            {"required_auth_schemes": frozenset({"digest"}), "digest_enabled": False},
            ("required_auth_schemes",),
        ),
    ],
)
def test_a_contradiction_names_the_fields_concerned(values, fields):
    with pytest.raises(SettingsError) as caught:
        Settings(**values)
    assert caught.value.fields == fields
    assert all(field in str(caught.value) for field in fields)


def test_the_schemes_a_client_can_authenticate_by():
    assert Settings().auth_schemes == {"ip", "digest"}
    assert Settings(digest_enabled=False).auth_schemes == {"ip"}
    assert Settings(x509_enabled=True).auth_schemes == {"ip", "digest", "x509"}
    assert Settings(required_auth_schemes=frozenset({"ip", "digest"})).required_auth_schemes


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("SHA1", "sha1"),
        ("SHA-1", "sha1"),
        ("SHA", "sha1"),
        ("sha-256", "sha256"),
        ("SHA-512", "sha512"),
        ("SHA-512/256", "sha512_256"),
        ("SHA3-256", "sha3_256"),
        ("MD5", "md5"),
    ],
)
def test_digests_have_their_java_names(java, python):
    assert hashlib_name(java) == python


@pytest.mark.parametrize("name", ["", "SHA-3000", "MD4", "shake_128", "SHAKE128"])
def test_digests_that_java_or_python_lacks(name):
    with pytest.raises(ValueError, match="not a known digest"):
        hashlib_name(name)


def test_no_secret_shows():
    settings = Settings(super_digest="super:s3cret", config_text="x=s3cret", extra={"password": "s3cret"})
    assert "s3cret" not in repr(settings)


def test_settings_are_values():
    assert Settings(extra={"a": "b"}) == Settings(extra={"a": "b"})
    assert hash(Settings()) == hash(Settings())
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().port = 1

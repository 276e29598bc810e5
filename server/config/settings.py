"""All settings of the server. Defaults are the defaults of the real server, except the defaults in
docs/differences.md.

The names are the keys of zoo.cfg in Python's spelling. The comment of each field is its key. Durations are in
ms.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import attrs

from ...protocol.constants import DEFAULT_PORT, INT_MAX, JUTE_MAXBUFFER
from .releases import DEFAULT, Release, ReleaseError, release

MAX_CLIENT_CONNECTIONS = 60
"""The default number of connections from one address that is not a loopback address."""

# Fields that need more than the server itself: the module, and the distribution that holds it.
_NEEDED = {"metrics_port": ("prometheus_client", "prometheus-client")}


_NEVER_USED = 300_000
"""The time in ms after which the server deletes an empty container that never had a child, since release
3.10."""


def hashlib_name(algorithm: str) -> str:
    """Return the name of a digest in hashlib for its name in Java, such as SHA1, SHA-256, SHA-512/256 or
    SHA3-256, in upper or lower case.

    :raises ValueError: hashlib has no such digest.
    """
    if algorithm == "SHA1":  # the default: hashlib need not be loaded for it
        return "sha1"
    name = algorithm.lower()
    name = name.replace("-", "_" if name.startswith("sha3-") else "").replace("/", "_")
    name = "sha1" if name == "sha" else name
    try:
        size = hashlib.new(name).digest_size  # 0 for the shake digests, which Java does not have
    except ValueError:
        size = 0
    if not size:
        raise ValueError(
            f"{algorithm!r} is not a known digest; known are SHA1, SHA-256, SHA-512 and SHA3-256"
        )
    return name


class SettingsError(ValueError):
    """Settings contradict each other, or need a package that is not installed.

    :ivar fields: the names of the fields in the message.
    """

    def __init__(self, message: str, *fields: str) -> None:
        super().__init__(message)
        self.fields = fields


def _count(settings: Settings | None, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} must be at least 0, not {value}")


def _number(default: int, least: int, *also: int) -> int:
    """Declare a field whose value is at least ``least``, or one of the values ``also``."""

    def at_least(settings: Settings | None, attribute: attrs.Attribute[int], value: int) -> None:
        if value < least and value not in also:
            raise ValueError(f"{attribute.name} must be at least {least}, not {value}")

    return attrs.field(default=default, validator=at_least)


def _compression(settings: Settings | None, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in ("", "gz", "snappy"):
        raise ValueError(f"{attribute.name} must be gz or snappy, not {value!r}")
    if value == "snappy" and find_spec("cramjam") is None:
        raise ValueError("snappy needs a package that is not installed: pip install cramjam")


def _port(settings: Settings | None, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and not 0 <= value <= 65535:
        raise ValueError(f"{attribute.name} must be 0 to 65535, not {value}")


def _address(settings: Settings | None, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and (not value.isprintable() or value.split() != [value]):
        raise ValueError(f"{attribute.name} must be a host name or an address, not {value!r}")


def _url_path(settings: Settings | None, attribute: attrs.Attribute[str], value: str) -> None:
    if not value.startswith("/") or not value.isprintable() or not value.isascii() or set(value) & set(" ?#"):
        raise ValueError(f"{attribute.name} must be a path such as /commands, not {value!r}")


def _digest(settings: Settings | None, attribute: attrs.Attribute[str], value: str) -> None:
    try:
        hashlib_name(value)
    except ValueError as error:
        raise ValueError(f"{attribute.name}: {error}") from None


def _release(settings: Settings | None, attribute: attrs.Attribute[str], value: str) -> None:
    try:
        release(value)
    except ReleaseError as error:
        raise ValueError(f"{attribute.name}: {error}") from None


def _has(emulate: str, change: str) -> bool:
    """Return whether a release has a change. The result is False for an invalid release, which its validator
    refuses later."""
    try:
        return release(emulate).has(change)
    except ReleaseError:
        return False


def _users(
    settings: Settings | None, attribute: attrs.Attribute[Any], value: Mapping[str, str] | None
) -> None:
    try:
        for text in (*(value or {}).keys(), *(value or {}).values()):
            text.encode()
    except (AttributeError, UnicodeEncodeError):
        message = f'{attribute.name} must be passwords by user name, as in {{"bob": "secret"}}'
        raise ValueError(message) from None


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of one server.

    Raises :class:`ValueError` for a value out of range, and :class:`SettingsError` if two values contradict
    each other.
    """

    emulate: str = attrs.field(default=DEFAULT, validator=_release)  # emulate: a line, or a release

    # where to listen
    host: str = attrs.field(default="127.0.0.1", validator=_address)  # clientPortAddress
    port: int = attrs.field(default=DEFAULT_PORT, validator=_port)  # clientPort; 0: the kernel chooses
    secure_host: str | None = attrs.field(default=None, validator=_address)  # secureClientPortAddress
    secure_port: int | None = attrs.field(default=None, validator=_port)  # secureClientPort
    ssl_context: ssl.SSLContext | None = None  # ssl.keyStore.*, ssl.trustStore.* ...
    port_unification: bool = False  # client.portUnification: TLS on the other port too
    verify_client_host: bool = False  # ssl.clientHostnameVerification
    reverse_dns: bool = attrs.field()  # ssl.allowReverseDnsLookup: that may ask for the name of an address
    listen_backlog: int = _number(-1, 1, -1)  # clientPortListenBacklog; -1: a large default
    tcp_keepalive: bool = False  # clientTcpKeepAlive

    # sessions
    tick_time: int = _number(2000, 1)  # tickTime
    min_session_timeout: int = _number(-1, 1, -1)  # minSessionTimeout; -1: two ticks
    max_session_timeout: int = _number(-1, 1, -1)  # maxSessionTimeout; -1: twenty ticks
    local_sessions: bool = False  # localSessionsEnabled, of an ensemble
    local_sessions_upgrading: bool = False  # localSessionsUpgradingEnabled
    expire_connected: bool = True  # no key, but --no-expiry: a debugger may have stopped the client

    # limits
    max_client_connections: int = _number(MAX_CLIENT_CONNECTIONS, 0)  # maxClientCnxns; 0: none
    max_loopback_connections: int = attrs.field(validator=_count)  # the same, of this machine's own addresses
    max_connections: int = _number(0, 0)  # maxCnxns; 0: none
    max_buffer: int = _number(JUTE_MAXBUFFER, 1)  # jute.maxbuffer, bytes
    sessionless_timeout: int = _number(10_000, 1)  # nio.sessionlessCnxnTimeout
    max_unsent: int = _number(32 * 2**20, 1)  # bytes: how much output one client may leave unread
    max_unread: int = _number(256 * 2**20, 1)  # maxUnreadBytes: how much all clients together may
    large_request_threshold: int = _number(-1, 1, -1)  # largeRequestThreshold, bytes; -1: off
    large_request_max_bytes: int = _number(100 * 2**20, 1)  # largeRequestMaxBytes
    throttled_op_wait_time: int = 0  # throttled_op_wait_time; 0: off

    # znodes
    extended_types: bool = False  # extendedTypesEnabled: TTL znodes
    enforce_quota: bool = False  # enforceQuota
    container_check_interval: int = _number(60_000, 1)  # znode.container.checkIntervalMs
    container_max_per_minute: int = _number(10_000, 1)  # znode.container.maxPerMinute
    container_max_never_used: int = attrs.field()  # znode.container.maxNeverUsedIntervalMs; 0: never

    # files, with --data
    snap_count: int = _number(100_000, 2)  # snapCount: transactions between two snapshots, at most
    snap_size_limit: int = _number(2**22, 1)  # snapSizeLimitInKb: KiB of logs between two snapshots
    snap_retain_count: int = _number(3, 3)  # autopurge.snapRetainCount
    purge_interval: int = 0  # autopurge.purgeInterval, seconds; 0 or less: nothing is deleted
    data_log_dir: str | None = None  # dataLogDir: another directory for the logs
    snapshot_compression: str = attrs.field(default="", validator=_compression)  # snapshot.compression.method
    tree_digest: bool = False  # digest.enabled: in each entry of the log, for `hash`

    # who may do what
    skip_acl: bool = False  # skipACL
    digest_enabled: bool = True  # DigestAuthenticationProvider.enabled
    digest_algorithm: str = attrs.field(default="SHA1", validator=_digest)  # DigestAuth...Provider.digestAlg
    super_digest: str | None = attrs.field(default=None, repr=False)  # DigestAuth...Provider.superDigest
    x509_enabled: bool = False  # authProvider.N=...X509AuthenticationProvider; a secure port implies it
    x509_super_user: str | None = None  # X509AuthenticationProvider.superUser
    sasl_users: Mapping[str, str] | None = attrs.field(  # sasl.user.NAME, java.security.auth.login.config
        default=None, validator=_users, repr=False, hash=False
    )
    sasl_enabled: bool = attrs.field()  # authProvider.N=...SASLAuthenticationProvider
    sasl_super_users: frozenset[str] = frozenset()  # superUser, superUser.X
    sasl_any_user: str | None = None  # letAnySaslUserDoX
    allow_sasl_failed_clients: bool = False  # allowSaslFailedClients
    fips_mode: bool = True  # fips-mode: from 3.10 on there is no DIGEST-MD5 then
    ensemble_names: frozenset[str] | None = None  # ensembleAuthName, with authProvider.N=...Ensemble...
    required_auth_schemes: frozenset[str] = frozenset()  # enforce.auth.enabled with enforce.auth.schemes
    reconfig_enabled: bool = False  # reconfigEnabled
    standalone_enabled: bool = True  # standaloneEnabled; False: one server that votes is an ensemble, too

    # the operator's view
    four_letter_words: frozenset[str] = frozenset("*")  # 4lw.commands.whitelist
    read_only_mode: bool = False  # readonlymode.enabled: of a single server it only whitelists isro
    admin_host: str = attrs.field(default="127.0.0.1", validator=_address)  # admin.serverAddress
    admin_port: int | None = attrs.field(default=None, validator=_port)  # admin.serverPort; None: off
    admin_ssl_context: ssl.SSLContext | None = None  # ssl.quorum.keyStore.* ...; TLS beside plain HTTP
    admin_force_https: bool = False  # admin.forceHttps: TLS alone
    admin_url: str = attrs.field(default="/commands", validator=_url_path)  # admin.commandURL
    admin_allowed_hosts: frozenset[str] = frozenset()  # admin.allowedHosts: names of this machine; *: any
    admin_idle_timeout: int = _number(30_000, 1)  # admin.idleTimeout
    admin_snapshot: bool = True  # admin.snapshot.enabled
    admin_restore: bool = True  # admin.restore.enabled
    admin_rate_interval: int = _number(300_000, 0)  # admin.rateLimiterIntervalInMS
    metrics_host: str = attrs.field(default="127.0.0.1", validator=_address)  # metricsProvider.httpHost
    metrics_port: int | None = attrs.field(default=None, validator=_port)  # metricsProvider.httpPort
    metrics_of_process: bool = True  # metricsProvider.exportJvmInfo
    http_on_client_port: bool = True  # httpOnClientPort
    control_token: str | None = attrs.field(default=None, repr=False)  # control.token
    config_text: str = attrs.field(default="", repr=False)  # the configuration file, for the admin server
    extra: Mapping[str, str] = attrs.field(factory=dict, repr=False, hash=False)  # the file's unknown keys
    initial_zxid: int | None = None  # None: from the clock, so that a restart never falls behind

    @max_loopback_connections.default
    def _loopback_by_default(self) -> int:
        """When many programs on one machine share a loopback address, only an explicit limit has an
        effect."""
        given = self.max_client_connections
        return 0 if given == MAX_CLIENT_CONNECTIONS else given

    @container_max_never_used.default
    def _never_used_by_default(self) -> int:
        return _NEVER_USED if _has(self.emulate, "container-never-used") else 0

    @reverse_dns.default
    def _names_by_default(self) -> bool:
        return not _has(self.emulate, "no-reverse-dns")

    @sasl_enabled.default
    def _sasl_by_default(self) -> bool:
        """If SASL users exist, SASL is enabled. Users of a JAAS file need an ``authProvider.N`` too."""
        return self.sasl_users is not None

    @property
    def release(self) -> Release:
        """The emulated release. Clients can read it with the four-letter words."""
        return release(self.emulate)

    @property
    def session_timeout_range(self) -> tuple[int, int]:
        """The shortest and the longest session timeout, in ms."""
        least, most = self.min_session_timeout, self.max_session_timeout
        return (2 * self.tick_time if least == -1 else least), (20 * self.tick_time if most == -1 else most)

    @property
    def auth_schemes(self) -> frozenset[str]:
        """The schemes of authentication (semantics.md section 8.4)."""
        offered = {"ip": True, "digest": self.digest_enabled, "sasl": self.sasl_enabled}
        offered["x509"] = self.x509_enabled or self.secure_port is not None or self.port_unification
        offered["ensemble"] = self.ensemble_names is not None
        return frozenset(scheme for scheme, there in offered.items() if there)

    def __attrs_post_init__(self) -> None:
        least, most = self.session_timeout_range
        if least > most:
            raise SettingsError(
                f"min_session_timeout {least} ms is above max_session_timeout {most} ms",
                "min_session_timeout",
                "max_session_timeout",
            )
        if least > INT_MAX:
            raise SettingsError(
                f"min_session_timeout {least} ms is above {INT_MAX}, the most the protocol can tell a client",
                "min_session_timeout",
            )
        for field, is_on in (
            ("secure_port", self.secure_port is not None),
            ("port_unification", self.port_unification),
        ):
            if is_on and self.ssl_context is None:
                raise SettingsError(f"{field} needs an ssl_context", field)
        for field, (module, distribution) in _NEEDED.items():
            if getattr(self, field) is not None and find_spec(module) is None:
                raise SettingsError(f"{field} needs more: pip install {distribution}", field)
        missing = self.required_auth_schemes - self.auth_schemes
        if missing:
            raise SettingsError(
                f"required_auth_schemes names {', '.join(sorted(missing))}, which is not available here; "
                f"available are {', '.join(sorted(self.auth_schemes))}"
                + ("; for sasl give users, as in sasl.user.bob=secret" if "sasl" in missing else ""),
                "required_auth_schemes",
            )


def check(field: str, value: object, name: str) -> None:
    """Run the validator of one field of :class:`Settings`. In the message the field has the name ``name``.

    Raises :class:`ValueError`.
    """
    attribute: attrs.Attribute[Any] = attrs.fields_dict(Settings)[field]
    if attribute.validator is not None:
        attribute.validator(None, attribute.evolve(name=name), value)

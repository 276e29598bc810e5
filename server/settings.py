"""Every knob of the server, with the real server's defaults except where the README's table says otherwise.

The names are those of zoo.cfg in Python's spelling; the comment at each is its key there. Durations are ms.
"""

from __future__ import annotations

import ssl

import attrs

from ..protocol.constants import JUTE_MAXBUFFER

ANNOUNCED_VERSION = "3.9.3"
"""The Apache ZooKeeper release whose behaviour is followed; clients read it from the four-letter words."""


def _not_negative(settings: Settings, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} must not be negative, not {value}")


def _positive(settings: Settings, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value}")


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of one server. Raises :class:`ValueError` where they contradict each other."""

    # where to listen
    host: str = "127.0.0.1"  # clientPortAddress
    port: int = attrs.field(default=2181, validator=_not_negative)  # clientPort; 0: the kernel chooses
    secure_host: str | None = None  # secureClientPortAddress
    secure_port: int | None = None  # secureClientPort
    ssl_context: ssl.SSLContext | None = None  # ssl.keyStore.*, ssl.trustStore.* ...
    listen_backlog: int = -1  # clientPortListenBacklog; -1: a large default
    tcp_keepalive: bool = False  # clientTcpKeepAlive

    # sessions
    tick_time: int = attrs.field(default=2000, validator=_positive)  # tickTime
    min_session_timeout: int = -1  # minSessionTimeout; -1: two ticks
    max_session_timeout: int = -1  # maxSessionTimeout; -1: twenty ticks

    # limits
    max_client_connections: int = attrs.field(default=60, validator=_not_negative)  # maxClientCnxns; 0: none
    max_connections: int = attrs.field(default=0, validator=_not_negative)  # maxCnxns; 0: none
    max_buffer: int = attrs.field(default=JUTE_MAXBUFFER, validator=_positive)  # jute.maxbuffer, bytes
    sessionless_timeout: int = attrs.field(default=10_000, validator=_positive)  # nio.sessionlessCnxnTimeout
    max_unsent: int = attrs.field(
        default=64 * 2**20, validator=_positive
    )  # bytes one slow client may pile up
    large_request_threshold: int = -1  # largeRequestThreshold, bytes; -1: off
    large_request_max_bytes: int = 100 * 2**20  # largeRequestMaxBytes
    throttled_op_wait_time: int = 0  # throttled_op_wait_time; 0: off

    # znodes
    extended_types: bool = False  # extendedTypesEnabled: TTL znodes
    enforce_quota: bool = False  # enforceQuota
    container_check_interval: int = attrs.field(
        default=60_000, validator=_positive
    )  # znode.container.checkIntervalMs
    container_max_per_minute: int = attrs.field(
        default=10_000, validator=_positive
    )  # znode.container.maxPerMinute
    container_max_never_used: int = 0  # znode.container.maxNeverUsedIntervalMs; 0: never

    # who may do what
    skip_acl: bool = False  # skipACL
    digest_enabled: bool = True  # DigestAuthenticationProvider.enabled
    digest_algorithm: str = "SHA1"  # DigestAuthenticationProvider.digestAlg
    super_digest: str | None = attrs.field(
        default=None, repr=False
    )  # DigestAuthenticationProvider.superDigest
    x509_super_user: str | None = None  # X509AuthenticationProvider.superUser
    required_auth_schemes: frozenset[str] = frozenset()  # enforce.auth.enabled with enforce.auth.schemes
    reconfig_enabled: bool = False  # reconfigEnabled

    # the operator's view
    four_letter_words: frozenset[str] = frozenset("*")  # 4lw.commands.whitelist
    read_only_mode: bool = False  # readonlymode.enabled: here it only whitelists isro
    config_text: str = ""  # what the configuration file said, for the admin server
    initial_zxid: int | None = None  # None: from the clock, so that a restart never falls behind

    @property
    def session_timeout_range(self) -> tuple[int, int]:
        """The least and the greatest session timeout in ms."""
        least, most = self.min_session_timeout, self.max_session_timeout
        return (2 * self.tick_time if least == -1 else least), (20 * self.tick_time if most == -1 else most)

    def __attrs_post_init__(self) -> None:
        least, most = self.session_timeout_range
        if least < 1:
            raise ValueError(f"min_session_timeout must be at least 1 ms, not {least}")
        if least > most:
            raise ValueError(f"min_session_timeout {least} ms is above max_session_timeout {most} ms")
        if self.secure_port is not None and self.ssl_context is None:
            raise ValueError("secure_port needs an ssl_context")

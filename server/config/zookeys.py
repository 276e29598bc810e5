"""The meaning of each key of zoo.cfg (operator-surface.md section 4). There are five kinds of keys:

* keys that are settings of the server: ``KNOWN``, ``PROPERTIES``, and the keys of TLS in ``tls.OPTIONS``;
* keys without effect, because this server has nothing that they could set: ``IGNORED``;
* keys that have no effect yet: ``NOT_YET``;
* keys that are refused: a parser in ``KNOWN`` or ``CHECKED``, or a rule in ``rules``, refuses the value;
* unknown keys: they are kept, and are no error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...protocol.constants import INT_MAX, INT_MIN

# --- values: what a parser raises as ValueError becomes part of an error or of the warning ----------------

Parser = Callable[[str], Any]


def _bounded(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"{number} is out of range")
    return number


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f"{text!r} is not a whole number")
    return _bounded(int(text))


def _java_integer(text: str) -> int:
    """Read a number like Java's Integer.decode(): 0x10 and #10 are hexadecimal, 010 is octal."""
    match = re.fullmatch(
        r"([+-]?)(?:(?:0[xX]|#)(?P<b16>[0-9a-fA-F]+)|0(?P<b8>[0-7]+)|(?P<b10>0|[1-9][0-9]*))", text
    )
    if not match or not match.lastgroup:
        raise ValueError(f"{text!r} is not a whole number")
    return _bounded(int(match[1] + match[match.lastgroup], base=int(match.lastgroup[1:])))


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""The units of a time, in seconds."""


def _interval(text: str) -> int:
    """Read a number of hours, or a number with a unit as in release 3.10. Return whole seconds."""
    match = re.fullmatch(r"([+-]?[0-9]+)(ms|[smhd])", text, re.IGNORECASE)
    if match is None:
        return _integer(text) * 3600
    if match[2].lower() == "ms":
        return -(-_integer(match[1]) // 1000)
    return _integer(match[1]) * _UNITS[match[2].lower()]


def _limit(parser: Callable[[str], int]) -> Callable[[str], int]:
    """Make a parser of a limit of connections. 0 and negative numbers, such as the usual -1, mean no
    limit."""
    return lambda text: max(parser(text), 0)


def _backlog(text: str) -> int:
    return _integer(text) if _integer(text) > 0 else -1


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


def address(text: str) -> str:
    """Read a host. An IPv6 address can have brackets, which are removed."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",")) - {""}


def _only(wanted: str, why: str) -> Parser:
    def only(text: str) -> str:
        if text.lower() != wanted:
            raise ValueError(f"{text!r} cannot have an effect: {why}; delete the line")
        return text

    return only


def _refused(why: str) -> Parser:
    def refused(text: str) -> str:
        raise ValueError(f"{why}; delete the line")

    return refused


_METRICS = "org.apache.zookeeper.metrics."
_NO_METRICS = (f"{_METRICS}impl.DefaultMetricsProvider", f"{_METRICS}impl.NullMetricsProvider")
PROMETHEUS: Final = f"{_METRICS}prometheus.PrometheusMetricsProvider"


def _metrics_provider(text: str) -> str:
    if text not in (PROMETHEUS, *_NO_METRICS):
        raise ValueError(f"{text!r} is not a known class; {PROMETHEUS} is")
    return text


# --- secrets ----------------------------------------------------------------------------------------------


_SECRET = re.compile(
    r"\bsasl\.user\..|(passw(or)?d|pwd|passphrase|superdigest|secret|token|credential|(private|api)[._-]?key)[._-]?(key|text|value)?s?$",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Return whether the value of a key is a secret, which must not be shown."""
    return _SECRET.search(key) is not None


# --- keys that are settings -----------------------------------------------------------------------------

Meaning = tuple[str | None, Parser]
"""The field of Settings for each key, and the parser of the value. The field is None if only a rule about
several keys reads the value."""

# A value that cannot be read is an error in the real server, too.
KNOWN: Final[dict[str, Meaning]] = {
    "emulate": ("emulate", str),
    "clientPort": ("port", _integer),
    "clientPortAddress": ("host", address),
    "secureClientPort": ("secure_port", _integer),
    "secureClientPortAddress": ("secure_host", address),
    "clientPortListenBacklog": ("listen_backlog", _backlog),
    "tickTime": ("tick_time", _integer),
    "autopurge.snapRetainCount": ("snap_retain_count", lambda text: max(_integer(text), 3)),
    "autopurge.purgeInterval": ("purge_interval", _interval),
    "minSessionTimeout": ("min_session_timeout", _integer),
    "dataLogDir": ("data_log_dir", str),
    "maxSessionTimeout": ("max_session_timeout", _integer),
    "maxClientCnxns": ("max_client_connections", _limit(_integer)),
    "reconfigEnabled": ("reconfig_enabled", boolean),
    "standaloneEnabled": ("standalone_enabled", boolean),
    "localSessionsEnabled": ("local_sessions", boolean),
    "localSessionsUpgradingEnabled": ("local_sessions_upgrading", boolean),
    "DigestAuthenticationProvider.digestAlg": ("digest_algorithm", str),
    "ssl.authProvider": (None, _only("x509", "certificates are identities of the scheme x509 alone")),
    "ssl.crl": (None, _only("false", "certificates are not looked up in revocation lists")),
    "ssl.ocsp": (None, _only("false", "the server does not check whether a certificate is revoked")),
    "ssl.context.supplier.class": (None, _refused("it names a Java class; ssl.keyStore.location is there")),
    "metricsProvider.className": (None, _metrics_provider),
    "metricsProvider.httpHost": ("metrics_host", address),
    "metricsProvider.httpPort": ("metrics_port", _integer),
}

# Java system properties: for a value that cannot be read the real server takes the default, or false.
PROPERTIES: Final[dict[str, Meaning]] = {
    "snapCount": ("snap_count", lambda text: max(_java_integer(text), 2)),  # as the real server does
    "digest.enabled": ("tree_digest", boolean),
    "snapshot.compression.method": ("snapshot_compression", str),
    "snapSizeLimitInKb": ("snap_size_limit", _java_integer),
    "maxCnxns": ("max_connections", _limit(_java_integer)),
    "clientTcpKeepAlive": ("tcp_keepalive", boolean),
    "jute.maxbuffer": ("max_buffer", _java_integer),
    "maxUnreadBytes": ("max_unread", _java_integer),
    "nio.sessionlessCnxnTimeout": ("sessionless_timeout", _java_integer),
    "largeRequestThreshold": ("large_request_threshold", _java_integer),
    "largeRequestMaxBytes": ("large_request_max_bytes", _java_integer),
    "throttled_op_wait_time": ("throttled_op_wait_time", _java_integer),
    "extendedTypesEnabled": ("extended_types", boolean),
    "enforceQuota": ("enforce_quota", boolean),
    "znode.container.checkIntervalMs": ("container_check_interval", _java_integer),
    "znode.container.maxPerMinute": ("container_max_per_minute", _java_integer),
    "znode.container.maxNeverUsedIntervalMs": ("container_max_never_used", _java_integer),
    "skipACL": ("skip_acl", _yes),
    "DigestAuthenticationProvider.enabled": ("digest_enabled", boolean),
    "DigestAuthenticationProvider.superDigest": ("super_digest", str),
    "X509AuthenticationProvider.superUser": ("x509_super_user", str),
    "enforce.auth.enabled": (None, boolean),
    "enforce.auth.schemes": ("required_auth_schemes", names),
    "sessionRequireClientSASLAuth": (None, boolean),
    "allowSaslFailedClients": ("allow_sasl_failed_clients", boolean),
    "letAnySaslUserDoX": ("sasl_any_user", str),
    "java.security.auth.login.config": (None, str),
    "sasl.serverconfig": (None, str),
    "SASLAuthenticationProvider.superPassword": (None, str),
    "superUser": (None, str),
    "4lw.commands.whitelist": ("four_letter_words", names),
    "readonlymode.enabled": ("read_only_mode", boolean),
    "admin.enableServer": (None, boolean),
    "admin.serverAddress": ("admin_host", address),
    "admin.serverPort": ("admin_port", _java_integer),
    "admin.commandURL": ("admin_url", str),
    "admin.allowedHosts": ("admin_allowed_hosts", names),
    "admin.idleTimeout": ("admin_idle_timeout", _java_integer),
    "admin.forceHttps": (None, boolean),
    "admin.portUnification": (None, boolean),
    "admin.needClientAuth": (None, boolean),
    "admin.snapshot.enabled": ("admin_snapshot", boolean),
    "admin.restore.enabled": ("admin_restore", boolean),
    "admin.rateLimiterIntervalInMS": ("admin_rate_interval", _java_integer),
    "metricsProvider.exportJvmInfo": ("metrics_of_process", boolean),
    "httpOnClientPort": ("http_on_client_port", boolean),
    "control.token": ("control_token", str),
    "client.portUnification": (None, boolean),
    "ssl.hostnameVerification": (None, boolean),
    "ssl.clientHostnameVerification": (None, boolean),
    "ssl.allowReverseDnsLookup": ("reverse_dns", boolean),
    "fips-mode": ("fips_mode", boolean),
    "ensembleAuthName": (None, str),
}

AT_CLIENT_PORT: Final = (
    *("admin.commandURL", "admin.snapshot.enabled", "admin.restore.enabled"),
    *("admin.rateLimiterIntervalInMS", "metricsProvider.exportJvmInfo"),
)
"""The keys of the admin server and of the metrics. These keys also apply to the port for clients, because the
port serves both."""

SASL_USER: Final = "sasl.user."
SUPER_USER: Final = "superUser."
SASL_KEYS: Final = (
    *("java.security.auth.login.config", "sasl.serverconfig", "allowSaslFailedClients", "superUser"),
    *("SASLAuthenticationProvider.superPassword", "letAnySaslUserDoX"),
)
"""The keys that have no effect without users of SASL."""
NUMBERED: Final = ("authProvider.", SASL_USER, SUPER_USER)
"""The prefixes of keys that end with a name that the operator chooses."""

KEY_OF: Final = {field: key for key, (field, _) in (KNOWN | PROPERTIES).items() if field}
"""The key of a field of Settings."""

_AUTH = "org.apache.zookeeper.server.auth."
AUTH_PROVIDERS: Final = {
    f"{_AUTH}IPAuthenticationProvider": None,
    f"{_AUTH}DigestAuthenticationProvider": "digest_enabled",
    f"{_AUTH}X509AuthenticationProvider": "x509_enabled",
    f"{_AUTH}SASLAuthenticationProvider": "sasl_enabled",
    (ENSEMBLE_PROVIDER := f"{_AUTH}EnsembleAuthenticationProvider"): None,
}
"""The field that each class in an authProvider.N sets to true; None for a class without a field."""

# --- keys without effect --------------------------------------------------------------------------------


def _each(keys: str, parser: Parser) -> dict[str, Parser]:
    return dict.fromkeys(keys.split(), parser)


# Keys below whose value the real server checks all the same, and values that nobody could honour here.
CHECKED: Final[dict[str, Parser]] = {
    "electionAlg": _only("3", "there is only one election algorithm"),
    "peerType": _only("participant", "an observer needs an ensemble, but this server is a single process"),
    **_each(
        """initLimit syncLimit connectToLearnerMasterLimit
        observerMasterPort quorum.cnxn.threads.size multiAddress.reachabilityCheckTimeoutMs
        jvm.pause.info-threshold.ms jvm.pause.warn-threshold.ms jvm.pause.sleep.time.ms""",
        _integer,
    ),
    **_each(
        """syncEnabled quorumListenOnAllIPs sslQuorum
        sslQuorumReloadCertFiles portUnification multiAddress.enabled multiAddress.reachabilityCheckEnabled
        quorum.auth.enableSasl quorum.auth.serverRequireSasl quorum.auth.learnerRequireSasl
        jvm.pause.monitor""",
        boolean,
    ),
}


def _reasons(table: Mapping[str, str]) -> dict[str, str]:
    return {pattern: reason for reason, patterns in table.items() for pattern in patterns.split()}


# operator-surface.md section 4.3, and what of 4.2 holds by construction. A final * is any rest of a key.
IGNORED: Final = _reasons(
    {
        "only --data sets the directory of the data": "dataDir",
        "logs are written in one way": """
            preAllocSize txnLogSizeLimitInKb commitLogCount
            snapshotSizeFactor fsync.warningthresholdms
            forceSync flushDelay maxWriteQueuePollTime maxBatchSize
            snapshot.trust.empty serializeLastProcessedZxid.enabled datadir.autocreate
            db.autocreate closeSessionTxn.enabled""",
        "there is no quorum": """
            initLimit syncLimit connectToLearnerMasterLimit electionAlg electionPortBindRetry cnxTimeout
            quorumCnxnTimeoutMs leaderServes peerType syncEnabled observer.* learner.* leader.* follower.*
            fastleader.* quorumListenOnAllIPs multiAddress.* quorum.auth.* quorum.cnxn.threads.size sslQuorum
            ssl.quorum.* portUnification sslQuorumReloadCertFiles observerMasterPort oraclePath
            tcpKeepAlive messageTracker.* group.* weight.* observerMaster.* maxConcurrentDiffSyncs
            maxConcurrentSnapSyncs maxTimeToWaitForEpoch leaderConnectDelayDuringRetryMs forceSnapshotSync
            test.allowDiscontinuousProposals
            forward_learner_requests_to_commit_processor_disabled""",
        "this server is always standalone": "server.* dynamicConfigFile",
        "only the JVM and the transport of the real server need tuning": """
            serverCnxnFactory nio.* netty.* commitProcessor.* intBufferStartingSizeBytes maxResponseCacheSize
            maxGetChildrenResponseCacheSize watchManagerName watcherCleanThreadsNum watcherCleanThreshold
            watcherCleanIntervalInSeconds maxInProcessingDeadWatchers bitHashCacheSize jvm.pause.*
            pathStats.* request_throttler.shutdownTimeout emulate353TTLNodes admin.httpVersion
            metricsProvider.numWorkerThreads metricsProvider.maxQueueSize
            metricsProvider.workerShutdownTimeoutMs
            metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds""",
        "each request is finished before the next one begins": """
            globalOutstandingLimit enableEagerACLCheck request_throttle_max_requests
            request_throttle_stall_time request_throttle_drop_stale request_stale_latency_check
            request_stale_connection_check""",
        "new connections are not throttled": "connection_throttle_*",
        "jute.maxbuffer alone limits a message": "jute.maxbuffer.extrasize",
        "there is no audit log": "audit.enable audit.impl.class",
        "certificates and keys are read once, at the start": "client.certReload",
        "TLS comes from Python's ssl module, which has no such option": "ssl.*",
        "Kerberos is not supported: the mechanism of SASL is "
        "DIGEST-MD5": "kerberos.* security.auth_to_local requireKerberosConfig",
        "no HTTP header identifies a client": "IPAuthenticationProvider.usexforwardedfor",
        "zxids begin with the clock": "testingonly.initialZxid",
    }
)

# What operator-surface.md section 4.2 wants honoured and is still to be built.
NOT_YET: Final = _reasons(
    {
        "the metrics are served over plain HTTP": "metricsProvider.httpsPort metricsProvider.ssl.*",
    }
)


def is_off(value: str) -> bool:
    """Return whether a value of a key in ``NOT_YET`` needs no warning, because the value disables a feature
    that this server lacks."""
    return value.lower() == "false"


def reason_for(key: str, table: Mapping[str, str]) -> str | None:
    """Return the reason that ``IGNORED`` or ``NOT_YET`` gives for a key."""
    beginnings = (f"{key[:end]}*" for end in range(len(key), 0, -1))
    return next((table[pattern] for pattern in (key, *beginnings) if pattern in table), None)

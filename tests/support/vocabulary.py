"""What fuzzers say: values that make sense more or less, and the record that each operation takes."""

from __future__ import annotations

from pyzk.protocol.operations import CLIENTS, CREDENTIALS, OpCode

from .requests import acl, digest_id

PATHS = ["/", "/a", "/a/b", "/a/b/c", "/q", "/q/x", "/e", "/p-", "/a/", "/zookeeper", "/zookeeper/config"]
PATHS += ["/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"]
ODD_PATHS = ["", "a", "//", "/a//b", "/.", "/\0", "/😀", "/\ufffd", "/" + "n" * 300, None]
BUFFERS = [None, b"", b"x", b"u:p", b"super:test", b"countHardLimit=2", b"count=1,bytes=1", b"y" * 1000]
SCHEMES = ["digest", "digest", "ip", "world", "super", "", None]
ENTRIES = [
    *(acl(31), acl(1), acl(0), acl(30), acl(31, "auth", ""), acl(31, "ip", "127.0.0.1")),
    *(acl(31, "digest", digest_id("u:p")), acl(1, "world", None), acl(1, None, None), acl(1, "ip", "::\0")),
]
EXTREMES = [-(2**31), 2**31 - 1]
INTS = [-1, 0, 1, 2, 3, 4, 5, 6, 7, *EXTREMES]
LONGS = [-1, 0, 1, 5, 10**6, -(2**63), 2**63 - 1]

_MORE = (OpCode.MULTI, OpCode.MULTI_READ, OpCode.CLOSE_SESSION)
SINGLE = {op: op.request for op in OpCode if op in CLIENTS | CREDENTIALS and op not in _MORE}

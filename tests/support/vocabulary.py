"""What fuzzers say: values that make sense more or less, and the record that each operation takes."""

from __future__ import annotations

from pyzk.protocol import records as r
from pyzk.protocol.constants import OpCode
from pyzk.protocol.jute import Record

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

SINGLE: dict[OpCode, type[Record] | None] = {
    OpCode.CREATE: r.CreateRequest,
    OpCode.CREATE2: r.CreateRequest,
    OpCode.CREATE_CONTAINER: r.CreateRequest,
    OpCode.CREATE_TTL: r.CreateTTLRequest,
    OpCode.DELETE: r.DeleteRequest,
    OpCode.SET_DATA: r.SetDataRequest,
    OpCode.SET_ACL: r.SetACLRequest,
    OpCode.RECONFIG: r.ReconfigRequest,
    OpCode.EXISTS: r.ExistsRequest,
    OpCode.GET_DATA: r.GetDataRequest,
    OpCode.GET_ACL: r.GetACLRequest,
    OpCode.GET_CHILDREN: r.GetChildrenRequest,
    OpCode.GET_CHILDREN2: r.GetChildren2Request,
    OpCode.GET_ALL_CHILDREN_NUMBER: r.GetAllChildrenNumberRequest,
    OpCode.GET_EPHEMERALS: r.GetEphemeralsRequest,
    OpCode.SYNC: r.SyncRequest,
    OpCode.ADD_WATCH: r.AddWatchRequest,
    OpCode.CHECK_WATCHES: r.CheckWatchesRequest,
    OpCode.REMOVE_WATCHES: r.RemoveWatchesRequest,
    OpCode.SET_WATCHES: r.SetWatches,
    OpCode.SET_WATCHES2: r.SetWatches2,
    OpCode.AUTH: r.AuthPacket,
    OpCode.SASL: r.GetSASLRequest,
    OpCode.PING: None,
    OpCode.WHO_AM_I: None,
}

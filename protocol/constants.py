"""The protocol's numbers: create modes, events, permissions, special xids.

:mod:`.operations` has the op codes.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

DEFAULT_PORT: Final = 2181
JUTE_MAXBUFFER: Final = 0xFFFFF
"""The default limit of a frame's payload in bytes, inclusive."""
CONFIG_PATH: Final = "/zookeeper/config"
"""The znode that holds the ensemble's configuration. The path is absolute: a client's chroot is not put in
front of it."""

# Special xids. A server ignores them in requests, but the reply to a ping always has PING_XID.
WATCH_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

FOUR_LETTER_WORDS: Final = frozenset(
    b"conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs".split()
)
"""The four-letter words, which a client can send in place of the first frame's length (wire.md section 3)."""
TELNET_CLOSE: Final = b"\xff\xf4\xff\xfd"
"""The bytes that telnet sends when it closes. The server treats these bytes as a word with the name ``telnet
close``."""
HTTP_METHODS: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN")
)
"""The first 4 bytes of an HTTP request. As the length of a frame, these bytes would mean more than 1 GiB."""
TLS_HELLO: Final = b"\x16\x03"
"""The first 2 bytes of a client that begins with TLS. As the length of a frame, these bytes would mean 350
MiB."""

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1


class CreateMode(IntEnum):
    """The flags field of a create request. The values 0 to 3 are sets of bits; the values above 3 are single
    numbers."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6

    @property
    def is_sequential(self) -> bool:
        """True if the server appends a number to the name of the znode."""
        return self in (
            CreateMode.PERSISTENT_SEQUENTIAL,
            CreateMode.EPHEMERAL_SEQUENTIAL,
            CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
        )

    @property
    def is_ttl(self) -> bool:
        """True if a create with this mode makes a TTL znode."""
        return self >= CreateMode.PERSISTENT_WITH_TTL


class EventType(IntEnum):
    """The type field of a watch event. A server sends only the types 1 to 4. The other types exist only in
    clients."""

    NONE = -1
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILD = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class KeeperState(IntEnum):
    """The state field of a watch event. A server sends only SYNC_CONNECTED."""

    EXPIRED = -112
    DISCONNECTED = 0
    SYNC_CONNECTED = 3
    AUTH_FAILED = 4
    CONNECTED_READ_ONLY = 5
    SASL_AUTHENTICATED = 6
    CLOSED = 7


class AddWatchMode(IntEnum):
    """The mode field of an addWatch request."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatcherType(IntEnum):
    """The kinds of watches that checkWatches and removeWatches name."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class Perms(IntFlag):
    """The permission bits of an ACL entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31

"""Access control: identities, the check of a permission, and valid ACLs (semantics.md section 8).

The rules:

* A connection has identities: its address (``ip``), the identities of its auth packets (``digest``,
  ``super``), the subject of its TLS certificate (``x509``), and the user of its SASL login (``sasl``).
* An operation needs one bit of permission on one znode. It is allowed if an entry of the ACL has the bit and
  matches one of the identities. The identity ``super`` may do everything. If the settings switch ACLs off,
  every client may do everything.
* An ACL that a client sets must not be empty, and each entry must be valid in a scheme that is switched on.
  Duplicates are dropped. An ``auth`` entry is replaced by the identities of the client that sets the ACL.
* The open ACL (everyone may do everything) is one object: callers compare an ACL with it by ``is`` before
  they call this module.
"""

from __future__ import annotations

import hmac
import re
import socket
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from ...protocol.constants import Perms
from ...protocol.digest import digest_id
from ...protocol.errors import AuthFailedError, InvalidACLError, MarshallingError, NoAuthError
from ...protocol.jute import MALFORMED
from ...protocol.records import ACL, OPEN_ACL, Id
from ..config.settings import Settings, hashlib_name

SUPER: Final = Id("super", "")

MAX_IDENTITIES = 32
MAX_IDENTITIES_SIZE = 2**16
"""The largest number of identities of one connection, and the largest number of characters of all these
identities. Each check reads all identities of the client, and each ``auth`` entry of an ACL stores all
identities of the client."""

_ADMIN = Perms.ADMIN.value
_ALL_SASL = "super"
"""The SASL user that matches every ``sasl`` entry of an ACL (sasl.md section 6)."""
_UNINDEXED = 8
"""The largest number of entries of an ACL without an index: an index does not make a shorter ACL faster."""
_SHOWN = 20
"""The number of entries of an ACL that the text of an error shows."""
_MAX_REMEMBERED = 2**20
"""The largest total size in bytes of the remembered ACLs: znodes with equal ACLs share one object."""
_ENTRY_SIZE = 200
_ENTRY_ON_THE_WIRE = 20
"""The approximate size in bytes of an entry without its id, in memory and in a packet."""


class Denied(NoAuthError):
    """No identity of the client has the permission.

    The text of the error is made only when a caller reads it, and shows no digest.
    """

    def __init__(self, path: str, acl: Sequence[ACL], perm: int, identities: Sequence[Id]) -> None:
        super().__init__(path)
        self._acl, self._perm, self._identities = acl, perm, identities

    def __str__(self) -> str:
        acl = ", ".join(f"{id_text(entry.id)}={_perms_text(entry.perms)}" for entry in self._acl[:_SHOWN])
        if (more := len(self._acl) - _SHOWN) > 0:
            acl += f", and {more:,} more"
        mine = ", ".join(map(id_text, self._identities))
        return (
            f"{_perms_text(self._perm)} is needed for {self.path}; the ACL is [{acl}], the client is [{mine}]"
        )


def id_text(identity: Id) -> str:
    """Show an identity without its digest."""
    name = identity.id or ""
    if identity.scheme == "digest":
        name = f"{name.partition(':')[0]}:***"
    return f"{identity.scheme}:{name}"


def _perms_text(perms: int) -> str:
    return "".join(str(bit.name)[0].lower() for bit in Perms if bit & perms)


class WrongEnsembleError(AuthFailedError):
    """The client looks for another ensemble. The client gets no answer."""


class AccessControl:
    """The access rules of one server: the identities that a client gets by an auth packet, the entries that
    are valid in an ACL, and the permissions of identities."""

    def __init__(self, settings: Settings) -> None:
        self._skip = settings.skip_acl
        self._algorithm = hashlib_name(settings.digest_algorithm)
        self._super_digest = settings.super_digest
        self._x509_super = settings.x509_super_user
        self._max_bytes = settings.max_buffer
        self._known: dict[tuple[tuple[ACL, ...], tuple[Id, ...]], tuple[ACL, ...]] = {}
        self._known_size = 0
        self._schemes = {scheme: _SCHEMES[scheme] for scheme in settings.auth_schemes}
        if not settings.release.has("ipv6-acl"):
            self._schemes["ip"] = _ipv4_valid
        # Schemes whose identities replace an ``auth`` entry; sasl only with a provider (sasl.md section 1).
        self._stored = {"digest", "x509"} | (self._schemes.keys() & {"sasl"})
        self._sasl_super_users = settings.sasl_super_users
        self._sasl_any_user = settings.sasl_any_user

    # --- identities -------------------------------------------------------------------------------

    def authenticate(self, scheme: str | None, auth: bytes | None, peer: str) -> list[Id]:
        """Return the identities that a client gets by an auth packet.

        :raises AuthFailedError: the scheme is unknown or refuses the credentials.
        """
        if scheme == "ip":
            return [Id("ip", peer)]
        if scheme == "digest" and "digest" in self._schemes and auth is not None:
            user = digest_id(auth.decode("utf-8", MALFORMED), self._algorithm)
            identities = [Id("digest", user)]
            if self._super_digest and hmac.compare_digest(user.encode(), self._super_digest.encode()):
                identities.insert(0, SUPER)
            return identities
        raise AuthFailedError(message=f"the auth scheme {scheme!r:.50} is unknown or refused what was sent")

    def certificate_identities(self, subject: str) -> list[Id]:
        """Return the identities of a TLS client.

        :param subject: the subject of the client's certificate, as text in the form of RFC 2253.
        """
        identities = [Id("x509", subject)]
        if self._x509_super is not None and subject == self._x509_super:
            identities.append(Id("super", subject))
        return identities

    def sasl_identities(self, user: str) -> list[Id]:
        """Return the identities of a user who has logged in by SASL (sasl.md section 6)."""
        identities = [Id("sasl", user)]
        if user in self._sasl_super_users:
            identities.append(SUPER)
        return identities

    def user_of(self, identity: Id) -> str:
        """Return the part of an identity that whoAmI shows. The part never has the digest."""
        name = identity.id or ""
        if identity.scheme == "digest":
            return name.partition(":")[0]
        if identity.scheme == "super" or (identity.scheme == "sasl" and "sasl" not in self._schemes):
            return ""  # a sasl identity without a provider has no name to show (sasl.md section 1)
        return name

    # --- checking a permission ---------------------------------------------------------------------------

    def check(self, acl: Sequence[ACL], perm: int, identities: Sequence[Id], path: str) -> None:
        """Check that one of ``identities`` has one of the permissions ``perm``.

        :raises NoAuthError: no identity has one.
        """
        if acl is not OPEN_ACL and not self.allows(acl, perm, identities):
            raise Denied(path, acl, perm, identities)

    def allows(self, acl: Sequence[ACL], perm: int, identities: Sequence[Id]) -> bool:
        """Return whether one of ``identities`` has one of the permissions ``perm``."""
        if self._skip or not acl:
            return True
        for identity in identities:
            if identity.scheme == "super":
                return True
        if isinstance(acl, LongACL):
            return self._granted(acl, perm, identities)
        for entry in acl:
            if not entry.perms & perm:
                continue
            scheme, wanted = entry.id.scheme, entry.id.id
            if scheme == "world" and wanted == "anyone":
                return True
            if scheme in self._schemes:
                for identity in identities:
                    if identity.scheme == scheme and self._matches(scheme, identity.id or "", wanted or ""):
                        return True
        return False

    def _matches(self, scheme: str, who: str, wanted: str) -> bool:
        """Return whether the id of an ACL entry names an identity."""
        if who == wanted:
            return True
        if scheme == "sasl":
            return who == _ALL_SASL or wanted == self._sasl_any_user
        if scheme != "ip":
            return False
        peer, network = _ip_network(who), _ip_network(wanted)
        return (
            peer is not None
            and network is not None
            and network == (peer[0], network[1], peer[2] >> network[1])
        )

    def _granted(self, acl: LongACL, perm: int, identities: Sequence[Id]) -> bool:
        """Do the same as :meth:`allows`, for an ACL with an index."""
        return bool(acl.granted("world", "anyone") & perm) or any(
            acl.granted(scheme, who) & perm
            for identity in identities
            if (scheme := identity.scheme) in self._schemes
            for who in (identity.id or "", self._sasl_any_user if scheme == "sasl" else None)
            if who is not None
        )

    # --- setting an ACL ----------------------------------------------------------------------------------

    def validate(self, acl: Sequence[ACL] | None, identities: Sequence[Id], path: str) -> tuple[ACL, ...]:
        """Return the ACL to store. Duplicates are dropped, and ``auth`` entries are replaced by the
        identities of the client.

        While this object remembers the ACL, the result is the same object for all equal ACLs.

        :raises InvalidACLError: the ACL is empty, or has an entry that is not valid.
        :raises MarshallingError: an entry has a null id, which the real server refuses with this error.
        """
        if not acl:
            raise InvalidACLError(path, "an ACL must not be empty")
        asked = tuple(acl)
        mine: tuple[Id, ...] = ()
        for entry in asked:
            if entry.id.scheme == "auth":
                mine = tuple(i for i in identities if i.scheme in self._stored)
                break
        if len(asked) > _MAX_REMEMBERED // _ENTRY_SIZE:  # too large to be remembered, and its look-up is slow
            return shared_acl(self._resolve(asked, mine, path))
        # An ACL is valid or not by the settings alone, so a remembered result stays right.
        stored = self._known.get((asked, mine))
        if stored is None:
            fixed = self._resolve(asked, mine, path)
            stored = shared_acl(fixed)
            size = sum(_ENTRY_SIZE + len(entry.id.id or "") for entry in (*asked, *fixed))
            if self._known_size + size > _MAX_REMEMBERED:
                self._known.clear()
                self._known_size = 0
            if size <= _MAX_REMEMBERED:
                self._known[asked, mine] = stored
                self._known_size += size
        return stored

    def _resolve(self, acl: tuple[ACL, ...], mine: tuple[Id, ...], path: str) -> tuple[ACL, ...]:
        """Return the same ACL as :meth:`validate`, but not yet in the form for znodes.

        :param mine: the identities that replace an ``auth`` entry.
        """
        _compare_nulls(acl, path)
        fixed: list[ACL] = []
        room, needed = self._max_bytes, sum(_ENTRY_ON_THE_WIRE + len(i.id or "") for i in mine)
        seen: set[ACL] = set()
        for entry in acl:
            if entry in seen:
                continue
            seen.add(entry)
            scheme, wanted = entry.id.scheme, entry.id.id
            if scheme == "auth":
                room -= needed
                if not mine:
                    raise InvalidACLError(path, "an auth entry needs an authenticated client")
                if room < 0:
                    raise InvalidACLError(
                        path,
                        f"with the client's {len(mine)} identities for each auth entry, the ACL does not fit "
                        f"into a packet of {self._max_bytes:,} bytes; use fewer, or raise jute.maxbuffer",
                    )
                fixed += [ACL(entry.perms, identity) for identity in mine]
                continue
            if (scheme == "world" or scheme in self._schemes) and wanted is None:
                raise MarshallingError(path, "an ACL entry without an id")
            if scheme == "world":
                valid = wanted == "anyone"
            else:
                valid = scheme in self._schemes and self._schemes[scheme](wanted or "")
            if not valid:
                raise InvalidACLError(path, f"the ACL entry {id_text(entry.id)} is not valid")
            fixed.append(entry)
        return tuple(fixed)

    def masked(self, acl: Sequence[ACL], identities: Sequence[Id]) -> Sequence[ACL]:
        """Return the ACL as a client may see it. A client without the ADMIN permission sees no digest
        (section 8.6)."""
        if self.allows(acl, _ADMIN, identities):
            return acl
        return [
            ACL(e.perms, Id("digest", e.id.id.partition(":")[0] + ":x"))
            if e.id.scheme == "digest" and e.id.id is not None and ":" in e.id.id
            else e
            for e in acl
        ]


def _compare_nulls(acl: Sequence[ACL], path: str) -> None:
    """Refuse an ACL if the real server fails to compare two of its entries. The real server fails at an entry
    with a null scheme after an entry with the same permissions. It also fails at an entry with a null id
    after an entry with the same permissions and the same scheme.

    :raises MarshallingError: the ACL is refused.
    """
    if all(entry.id.scheme is not None and entry.id.id is not None for entry in acl):
        return
    seen: set[tuple[int, str | None]] = set()
    perms: set[int] = set()
    for entry in acl:
        scheme = entry.id.scheme
        if entry.perms in perms if scheme is None else entry.id.id is None and (entry.perms, scheme) in seen:
            raise MarshallingError(path, "an ACL entry with a null cannot be compared with the others")
        seen.add((entry.perms, scheme))
        perms.add(entry.perms)


def add_identities(known: list[Id], earned: Iterable[Id]) -> None:
    """Add new identities to a connection.

    :raises AuthFailedError: the connection would have too many identities.
    """
    for identity in earned:
        if identity in known:
            continue
        size = len(identity.id or "") + sum(len(other.id or "") for other in known)
        if len(known) == MAX_IDENTITIES or size > MAX_IDENTITIES_SIZE:
            raise AuthFailedError(
                message=f"a connection can have {MAX_IDENTITIES} identities, of {MAX_IDENTITIES_SIZE:,} "
                "characters in all; use another connection for more"
            )
        known.append(identity)


# --- each scheme's rule for ids ---------------------------------------------------------------------------


def _digest_valid(wanted: str) -> bool:
    # Like Java's split(): empty parts at the end do not count.
    return wanted.rstrip(":").count(":") == 1


def _dn_valid(wanted: str) -> bool:
    return all(re.match(r"\s*[\w.]+\s*=", part) for part in re.split(r"(?<!\\),", wanted))


def _ipv4_valid(wanted: str) -> bool:
    return ":" not in wanted and _ip_valid(wanted)


def _ip_valid(wanted: str) -> bool:
    return _PLAIN.fullmatch(wanted) is not None or _ip_network(wanted) is not None


def _ip_network(wanted: str) -> tuple[int, int, int] | None:
    """Return the width of an address in bits, the number of low bits that are ignored, and the address
    without these bits; None if ``wanted`` is not an ``ip`` id. A plain address is a network of one
    address."""
    return _parse_network(wanted) if len(wanted) <= _LONGEST_NETWORK else None


@lru_cache(1024)
def _parse_network(wanted: str) -> tuple[int, int, int] | None:
    address, slash, bits = wanted.partition("/")
    try:
        if ":" not in address:
            quad = _QUAD.fullmatch(address)
            if quad is None:
                return None
            width, number = 32, int.from_bytes(bytes(map(int, quad.groups())))
        elif "." in address or "%" in address:
            return None
        else:
            width, number = 128, int.from_bytes(socket.inet_pton(socket.AF_INET6, address))
    except (OSError, ValueError):
        return None
    if not slash:
        return width, 0, number
    if not re.fullmatch("[0-9]{1,3}", bits) or int(bits) > width:
        return None
    shift = width - int(bits)
    return width, shift, number >> shift


_LONGEST_NETWORK = len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}")
"""An IPv4 address in the form in which servers write client addresses. Two addresses in this form are the
same if their texts are equal."""
_QUAD = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")


def sasl_valid(wanted: str) -> bool:
    """Return whether a name is a valid ``sasl`` id (sasl.md section 7). No user can log in with a name that
    is not valid."""
    return "@" not in wanted or _KERBEROS_NAME.fullmatch(wanted) is not None


_KERBEROS_NAME = re.compile("[^/@]*(/[^/@]*)?@[^/@]*")


def _never_valid(wanted: str) -> bool:
    return False


_SCHEMES = {
    "ip": _ip_valid,
    "digest": _digest_valid,
    "x509": _dn_valid,
    "sasl": sasl_valid,
    "ensemble": _never_valid,
}
"""The check of each scheme: whether an ACL may hold an id."""


_PermsOfIds: TypeAlias = dict[tuple[str | None, str | None], int]
"""The permissions, by scheme and id."""


def shared_acl(entries: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """Return an ACL in the form for znodes. The open ACL is always the same object, and a long ACL has an
    index."""
    if entries == OPEN_ACL:
        return OPEN_ACL
    if len(entries) <= _UNINDEXED:
        return entries
    long = LongACL(entries)
    long.build_index()  # the client that sets the long ACL pays for the index, not the next reader
    return long


class LongACL(tuple[ACL, ...]):
    """An ACL of many entries, with an index.

    The index takes as much memory as the entries. The time of a look-up does not depend on their number.
    """

    def granted(self, scheme: str | None, who: str) -> int:
        """Return the permissions of one identity; the identity ``world``, ``anyone`` is everyone."""
        exact, networks = self._index
        perms = exact.get((scheme, None if scheme == "sasl" and who == _ALL_SASL else who), 0)
        if scheme == "ip" and (peer := _ip_network(who)) is not None:
            if peer[0] == 32 and (plain := socket.inet_ntoa(peer[2].to_bytes(4))) != who:
                perms |= exact.get((scheme, plain), 0)
            for (width, shift), known in networks.items():
                if width == peer[0]:
                    perms |= known.get((peer[2] >> shift).to_bytes(16), 0)
        return perms

    def build_index(self) -> None:
        """Make the index. It takes 0.5 us for a usual entry, and 3 us for an entry that names a network."""
        _ = self._index

    @cached_property
    def _index(self) -> tuple[_PermsOfIds, dict[tuple[int, int], dict[bytes, int]]]:
        """The permissions by scheme and id, and the permissions of networks. The permissions of all ``sasl``
        entries together are listed under the id None.

        The first key of a network is the width of its addresses and the number of low bits that do not
        matter (33 + 129 keys at most). The second key is the address without these bits, as bytes: a client
        can choose many integers with the same hash, but not many such bytes.
        """
        exact: _PermsOfIds = {}
        networks: dict[tuple[int, int], dict[bytes, int]] = {}
        for entry in self:
            scheme, wanted = entry.id.scheme, entry.id.id or ""
            network = _ip_network(wanted) if scheme == "ip" and not _PLAIN.fullmatch(wanted) else None
            if network is None:
                exact[scheme, wanted] = exact.get((scheme, wanted), 0) | entry.perms
                if scheme == "sasl":
                    exact[scheme, None] = exact.get((scheme, None), 0) | entry.perms
            else:
                width, shift, number = network
                known, key = networks.setdefault((width, shift), {}), number.to_bytes(16)
                known[key] = known.get(key, 0) | entry.perms
        return exact, networks

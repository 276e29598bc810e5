"""Access control: identities, the check, and what an ACL may say (semantics.md section 8)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ..protocol.errors import AuthFailedError, InvalidACLError, MarshallingError, NoAuthError
from ..protocol.records import ACL, OPEN_ACL, Id
from .settings import Settings, hashlib_name

SUPER: Final = Id("super", "")


class AccessControl:
    """The rules of one server: who an auth packet makes you, what an ACL may hold, who may do what."""

    def __init__(self, settings: Settings) -> None:
        self._skip = settings.skip_acl
        self._algorithm = hashlib_name(settings.digest_algorithm)
        self._super_digest = settings.super_digest
        self._x509_super = settings.x509_super_user
        self._schemes = {scheme: _SCHEMES[scheme] for scheme in settings.auth_schemes}

    # --- becoming somebody -------------------------------------------------------------------------------

    def authenticate(self, scheme: str | None, auth: bytes | None, peer: str) -> list[Id]:
        """The identities that an auth packet earns; raises :class:`AuthFailedError`."""
        if scheme == "ip":
            return [Id("ip", peer)]
        if scheme == "digest" and "digest" in self._schemes and auth is not None:
            text = auth.decode("utf-8", "replace")
            hashed = hashlib.new(self._algorithm, text.encode()).digest()
            user = f"{text.partition(':')[0]}:{base64.b64encode(hashed).decode()}"
            identities = [Id("digest", user)]
            if self._super_digest and hmac.compare_digest(user.encode(), self._super_digest.encode()):
                identities.insert(0, SUPER)
            return identities
        raise AuthFailedError(message=f"the auth scheme {scheme!r:.50} is unknown or refused what was sent")

    def certificate_identities(self, subject: str) -> list[Id]:
        """The identities of a TLS client, given its certificate's subject as RFC 2253 text."""
        identities = [Id("x509", subject)]
        if self._x509_super is not None and subject == self._x509_super:
            identities.append(Id("super", subject))
        return identities

    # --- being allowed -----------------------------------------------------------------------------------

    def check(self, acl: Sequence[ACL], perm: int, identities: Sequence[Id], path: str) -> None:
        """Raise :class:`NoAuthError` unless one of ``identities`` has a bit of ``perm``."""
        if acl is not OPEN_ACL and not self.allows(acl, perm, identities):
            raise NoAuthError(path)

    def allows(self, acl: Sequence[ACL], perm: int, identities: Sequence[Id]) -> bool:
        if self._skip or not acl or any(identity.scheme == "super" for identity in identities):
            return True
        for entry in acl:
            if not entry.perms & perm:
                continue
            scheme, wanted = entry.id.scheme, entry.id.id
            if scheme == "world" and wanted == "anyone":
                return True
            if scheme in self._schemes:
                matches = self._schemes[scheme].matches
                if any(i.scheme == scheme and matches(i.id or "", wanted or "") for i in identities):
                    return True
        return False

    # --- setting an ACL ----------------------------------------------------------------------------------

    def validate(self, acl: Sequence[ACL] | None, identities: Sequence[Id], path: str) -> tuple[ACL, ...]:
        """The ACL to store: duplicates dropped, ``auth`` entries replaced by who is asking.

        Raises :class:`InvalidACLError`; :class:`MarshallingError` for a null id, as the real server does.
        """
        if not acl:
            raise InvalidACLError(path, "an ACL must not be empty")
        fixed: list[ACL] = []
        for entry in dict.fromkeys(acl):
            scheme, wanted = entry.id.scheme, entry.id.id
            if scheme == "auth":
                mine = [i for i in identities if i.scheme in ("digest", "x509")]
                if not mine:
                    raise InvalidACLError(path, "an auth entry needs an authenticated client")
                fixed += [ACL(entry.perms, identity) for identity in mine]
                continue
            if (scheme == "world" or scheme in self._schemes) and wanted is None:
                raise MarshallingError(path, "an ACL entry without an id")
            if scheme == "world":
                valid = wanted == "anyone"
            else:
                valid = scheme in self._schemes and self._schemes[scheme].valid(wanted or "")
            if not valid:
                raise InvalidACLError(path, f"the ACL entry {scheme}:{wanted} is not valid")
            fixed.append(entry)
        return OPEN_ACL if fixed == list(OPEN_ACL) else tuple(fixed)

    def masked(self, acl: Sequence[ACL], identities: Sequence[Id]) -> Sequence[ACL]:
        """The ACL as a client without ADMIN may see it: digests are hidden (section 8.6)."""
        if self.allows(acl, 16, identities):
            return acl
        return [
            ACL(e.perms, Id("digest", re.sub(":.*", ":x", e.id.id, count=1, flags=re.DOTALL)))
            if e.id.scheme == "digest" and e.id.id is not None
            else e
            for e in acl
        ]


def user_of(identity: Id) -> str:
    """The part of an identity that whoAmI shows: never the digest."""
    if identity.scheme == "super":
        return ""
    return (identity.id or "").partition(":")[0] if identity.scheme == "digest" else identity.id or ""


# --- the schemes' rules for ids ---------------------------------------------------------------------------


def _digest_valid(wanted: str) -> bool:
    # Java's split: trailing empty parts do not count
    return len(wanted.rstrip(":").split(":")) == 2


def _dn_valid(wanted: str) -> bool:
    return all(re.match(r"\s*[\w.]+\s*=", part) for part in re.split(r"(?<!\\),", wanted))


def _ip_number(text: str) -> tuple[int, int] | None:
    """The address as (width in bits, number), or None if it is no literal address."""
    if ":" in text:
        if "." in text or "%" in text:
            return None
        try:
            return 128, int.from_bytes(socket.inet_pton(socket.AF_INET6, text))
        except (OSError, ValueError):
            return None
    parts = text.split(".")
    if len(parts) != 4 or not all(re.fullmatch(r"[0-9]{1,3}", p) and int(p) < 256 for p in parts):
        return None
    a, b, c, d = map(int, parts)
    return 32, a << 24 | b << 16 | c << 8 | d


def _ip_network(wanted: str) -> tuple[int, int, int] | None:
    """The width in bits, the number, and how many low bits do not matter; None if it is no ip id."""
    address, slash, bits = wanted.partition("/")
    number = _ip_number(address)
    if number is None:
        return None
    if not slash:
        return *number, 0
    if not re.fullmatch("[0-9]{1,3}", bits) or int(bits) > number[0]:
        return None
    return *number, number[0] - int(bits)


def _ip_valid(wanted: str) -> bool:
    return _ip_network(wanted) is not None


def _ip_matches(peer: str, wanted: str) -> bool:
    network, number = _ip_network(wanted), _ip_number(peer)
    if network is None or number is None or network[0] != number[0]:
        return False
    return network[1] >> network[2] == number[1] >> network[2]


@attrs.frozen
class _Scheme:
    """
    :ivar valid: whether an ACL may hold this id.
    :ivar matches: whether an identity, first, is one that an ACL's id, second, speaks of.
    """

    valid: Callable[[str], bool]
    matches: Callable[[str, str], bool]


_SCHEMES = {
    "ip": _Scheme(_ip_valid, _ip_matches),
    "digest": _Scheme(_digest_valid, str.__eq__),
    "x509": _Scheme(_dn_valid, str.__eq__),
}

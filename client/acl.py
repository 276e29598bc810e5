"""Access control lists that are needed often, beside ``OPEN_ACL`` and ``READ_ACL``."""

from __future__ import annotations

from ..protocol.constants import Perms
from ..protocol.digest import digest_id
from ..protocol.records import ACL, Id

CREATOR_ALL_ACL: tuple[ACL, ...] = (ACL(Perms.ALL, Id("auth", "")),)
"""Everything for the identities of the client that creates the znode, nothing for others. A client without an
identity gets an :class:`InvalidACLError`."""


def make_digest_acl(
    user: str, password: str, perms: Perms = Perms.ALL, *, algorithm: str = "sha1"
) -> tuple[ACL, ...]:
    """Make an ACL for one user: everybody who has added the identity ``("digest", "user:password")``.

    Join several with ``+``: ``make_digest_acl("ann", "...") + READ_ACL``.

    :param algorithm: hashlib's name of the hash; the servers' ``DigestAuthenticationProvider.digestAlg``.
    :raises ValueError: the name of the user has a colon; or there is no such algorithm.
    """
    if ":" in user:
        raise ValueError(f"the name of a user must not have a colon: {user!r}")
    return (ACL(perms, Id("digest", digest_id(f"{user}:{password}", algorithm))),)

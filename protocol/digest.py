"""The digest scheme of access control (semantics.md section 8)."""

from __future__ import annotations

import base64
import hashlib


def digest_id(credential: str, algorithm: str = "sha1") -> str:
    """Return the identity of ``user:password``: ``user:hash``.

    :param algorithm: the name in hashlib of the hash function that the servers use.
    """
    hashed = hashlib.new(algorithm, credential.encode()).digest()
    return f"{credential.partition(':')[0]}:{base64.b64encode(hashed).decode()}"

"""The role of contenders: their purpose, their names, and the contenders that they wait for.

The rules (recipe-rules.md B.2; :mod:`pyzk.protocol.layouts` reads the names of all libraries):

* The znode of a contender has the name ``<id><marker><number>``. The marker shows the purpose and the library
  of the contender. The number has 10 digits. The server adds the number, and counts separately for each
  parent.
* The lowest number is first.
* Most libraries look only for their own markers. So contenders of two libraries at one path may both hold the
  lock.
* Contenders of this package look for the markers of all libraries, and wait for all of them.
* With ``layout="both"`` a contender creates two znodes in one transaction. So both Curator and kazoo wait for
  it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal

import attrs
from attrs.validators import deep_iterable, instance_of

from ...protocol.layouts import ContenderKind, ContenderName
from ..base.choices import one_of

LockLayout = Literal["curator", "kazoo", "both"]
"""The libraries that see our contenders. ``"curator"``: Curator, the Go client and aiozk. ``"kazoo"``: kazoo,
the Go client and aiozk. ``"both"``: all these libraries; each contender then has two znodes, which are
created in one transaction."""

OURS = "z"
"""The first character in the name of the znode for kazoo, with ``layout="both"``. Curator sorts a name
without a marker of Curator by its first characters. So this character must sort after the digits
(recipe-rules.md B.2.4)."""


DEFAULT_KINDS = frozenset(ContenderKind) - {ContenderKind.CURATOR_LATCH, ContenderKind.CURATOR_LEASE}
"""The kinds of contenders that a lock waits for."""


class LockKind(enum.Enum):
    """The purpose of our contenders. The value has two kinds of contenders: the kind in the names for
    Curator, and the kind in the names for kazoo."""

    LOCK = (ContenderKind.CURATOR_LOCK, ContenderKind.KAZOO_LOCK)
    READ = (ContenderKind.CURATOR_READ, ContenderKind.KAZOO_READ)
    WRITE = (ContenderKind.CURATOR_WRITE, ContenderKind.KAZOO_LOCK)
    LATCH = (ContenderKind.CURATOR_LATCH, ContenderKind.KAZOO_LOCK)

    @property
    def shared(self) -> bool:
        return self is LockKind.READ


@attrs.frozen
class Role:
    """The purpose of our contenders at a path, the layout of their names, and the kinds of contenders that
    they wait for.


    :raises ValueError: ``layout`` is not one of :data:`LockLayout`.
    :raises TypeError: ``recognise`` holds something other than kinds.
    """

    purpose: LockKind = LockKind.LOCK
    layout: LockLayout = attrs.field(default="curator", validator=one_of(LockLayout))
    recognise: frozenset[ContenderKind] = attrs.field(
        default=DEFAULT_KINDS, validator=deep_iterable(instance_of(ContenderKind))
    )

    def prefixes(self, attempt: str) -> list[str]:
        """Return the names of the znodes of one contender, without the number.

        :param attempt: the UUID of one attempt of one contender, in the usual form.
        """
        curator, kazoo = self.purpose.value
        dash = "-" if curator in (ContenderKind.CURATOR_READ, ContenderKind.CURATOR_WRITE) else ""
        names = []
        if self.layout != "kazoo":
            names.append(f"_c_{attempt}{dash}{curator.value}")
        if self.layout != "curator":
            names.append(f"{OURS if self.layout == 'both' else ''}{attempt.replace('-', '')}{kazoo.value}")
        return names

    def waits_for(self, earlier: ContenderName) -> bool:
        """Return whether contenders of this role wait for a contender before them."""
        return earlier.kind in self.recognise and not (self.purpose.shared and earlier.kind.shared)

    def unseen_by(self, contenders: Sequence[ContenderName]) -> str | None:
        """Return the name of a contender that looks only for the other layout, and does not see this
        contender."""
        other = {"curator": ContenderKind.KAZOO_LOCK, "kazoo": ContenderKind.CURATOR_LOCK}.get(self.layout)
        names = [contender.name for contender in contenders]
        if self.layout == "kazoo" and any(name.startswith(OURS) for name in names):
            return None  # a name for Curator may belong to a contender with layout="both"
        blind = (c.name for c in contenders if c.kind is other and not c.name.startswith(OURS))
        return next(blind, None)

"""Decoded requests of reads, by their bytes.

Clients read the same znodes again and again. The look-up of a request takes a third of the time of decoding
it. This and the direct call of the read in :func:`pyzk.server.net.requests.exchange` save 17 % of the time
that the server itself takes for a get.
"""

from __future__ import annotations

from ....protocol import records
from ....protocol.jute import fields_reader

PATH_AND_WATCH = (
    records.ExistsRequest,
    records.GetDataRequest,
    records.GetChildrenRequest,
    records.GetChildren2Request,
)
"""The records that have nothing but a path and a watch."""
_KNOWN, _LONGEST = 4096, 256
"""The largest number of remembered requests, and the largest number of bytes of a remembered request.
Together they take 3 MB at most."""


class _Reads(dict[bytes, tuple[str | None, bool]]):
    """The fields of the records in :data:`PATH_AND_WATCH`, by the bytes of the record.

    A look-up of a record that is not remembered decodes it, and raises a
    :class:`~pyzk.protocol.jute.JuteError` if that is impossible.
    """

    def __init__(self) -> None:
        self._read = fields_reader(records.GetDataRequest)

    def __missing__(self, record: bytes) -> tuple[str | None, bool]:
        fields = self._read(record, 0)
        if len(record) <= _LONGEST:
            if len(self) >= _KNOWN:
                self.clear()
            self[record] = fields
        return fields


READS = _Reads()

"""One record, as seen by a consumer."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CREATE_TIME", "LOG_APPEND_TIME", "Record", "RecordHeaders"]

CREATE_TIME, LOG_APPEND_TIME = 0, 1

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A tuple, because decoding makes millions.

    `timestamp_ms` may be -1 (the producer gave none). `headers` keep order and duplicates. A header name outside of
    UTF-8 holds its bytes as `surrogateescape` text: encoding the text the same way gives the bytes back.
    """

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()

"""One record, as a consumer would see it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CREATE_TIME", "LOG_APPEND_TIME", "Record", "RecordHeaders"]

CREATE_TIME, LOG_APPEND_TIME = 0, 1

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A tuple, because millions are made when records are decoded at all.

    `timestamp_ms` may be -1 (the producer gave none). `headers` keep their order and duplicates; a header name that is
    not UTF-8 holds its bytes as `surrogateescape` text, so that encoding it the same way gives the bytes back.
    """

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()

"""A row as archived, turned back into the record that a producer sent. Pure.

The tool keeps null as empty, header values as Java objects in a map, and, in the summer of 2019, keys and values as
Java objects too. Its restore adds two headers, which are taken off again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offsite.archives.trivadis.avro_row import Row
from offsite.archives.trivadis.java_value import BYTES_PREFIX, plain_bytes
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite.model.choices import EmptyAs

__all__ = ["Restorer", "is_wrapped"]

_NULL = EmptyAs.NULL
RESTORE_HEADERS = ("x-old-offset", "x-restored")


def is_wrapped(rows: Iterable[Row]) -> bool:
    """Whether every key and value of a file is a serialised `byte[]`; looks no further than the first that is not."""
    found = False
    for row in rows:
        if not all(blob is not None and blob.startswith(BYTES_PREFIX) for blob in (row.key, row.value)):
            return False
        found = True
    return found


class Restorer(NamedTuple):
    """For the rows of one file. `empty_as` says what bytes of length 0 stand for; it does not hold for wrapped ones,
    among which nothing was null."""

    empty_as: EmptyAs
    is_wrapped: bool

    def record(self, row: Row) -> tuple[Record, list[str]]:
        """The record, and the names of headers whose value no one can turn back: they keep the Java stream."""
        unknown: list[str] = []
        headers = _without_restore_headers(_headers(row, unknown)) if row.headers else ()
        key, value = self._blob(row.key), self._blob(row.value)
        return Record(row.offset, row.timestamp_ms, CREATE_TIME, key, value, headers), unknown

    def _blob(self, blob: bytes | None) -> bytes | None:
        if blob and self.is_wrapped:
            plain = plain_bytes(blob)
            return blob if plain is None else plain
        return None if not blob and self.empty_as == _NULL else blob


def _headers(row: Row, unknown: list[str]) -> RecordHeaders:
    headers = []
    for name, stream in row.headers.items():
        plain = plain_bytes(stream)
        if plain is None:
            unknown.append(name)
        headers.append((name, stream if plain is None else plain))
    return tuple(headers)


def _without_restore_headers(headers: RecordHeaders) -> RecordHeaders:
    """A restore puts both in front, but a map keeps no order: both have to be there, and to hold numbers."""
    values = dict(headers)
    if not all((values.get(name) or b"").isdigit() for name in RESTORE_HEADERS):
        return headers
    return tuple(header for header in headers if header[0] not in RESTORE_HEADERS)

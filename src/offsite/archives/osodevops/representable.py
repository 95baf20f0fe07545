"""Fits a record into the format: properties beyond the format are refused by name, or reduced and counted when losses
are allowed."""

from __future__ import annotations

from collections import Counter

from offsite.archives.osodevops.added_headers import make_added_headers, strip_added_headers
from offsite.archives.osodevops.segment import MAX_HEADERS, MAX_NAME_BYTES, encode_record
from offsite.log.range import TopicPartition
from offsite.log.records.record import LOG_APPEND_TIME, Record, RecordHeaders
from offsite.model.errors import NotRepresentable

__all__ = ["RecordEncoder"]

APPEND_TIME = "timestamp type LogAppendTime"
NAME_NOT_UTF8 = "a header name that is not UTF-8"
NAME_TOO_LONG = f"a header name of more than {MAX_NAME_BYTES} bytes"
TOO_MANY_HEADERS = f"more than {MAX_HEADERS} headers"

Encoded = tuple[tuple[bytes, bytes | None], ...]


class RecordEncoder:
    """Encodes the records of a partition. `losses`: number of affected records per lost property."""

    def __init__(self, of: TopicPartition, *, is_lossy: bool, offset_headers: bool, cluster_id: str) -> None:
        self.losses: Counter[str] = Counter()
        self._of = of
        self._is_lossy = is_lossy
        self._offset_headers = offset_headers
        self._cluster_id = cluster_id

    def encode(self, record: Record) -> bytes:
        """Encode a record. Raises `NotRepresentable` unless losses are allowed."""
        if record.timestamp_type == LOG_APPEND_TIME:
            self._lose(record, APPEND_TIME)
        if not record.headers and not self._offset_headers:
            return encode_record(record, ())
        return encode_record(record, self._headers(record))

    def _headers(self, record: Record) -> Encoded:
        """Encode headers. A record that already ends with headers like the tool's gets the headers once more, because
        readers remove the last."""
        is_ambiguous = strip_added_headers(record) is not record
        more = make_added_headers(record, self._cluster_id) if self._offset_headers or is_ambiguous else ()
        encoded = tuple(self._encoded(record, record.headers))
        room = MAX_HEADERS - len(more)
        if len(encoded) > room:
            self._lose(record, TOO_MANY_HEADERS)
        return (*encoded[:room], *((name.encode(), value) for name, value in more))

    def _encoded(self, record: Record, headers: RecordHeaders) -> list[tuple[bytes, bytes | None]]:
        representable, lost = [], set()
        for name, value in headers:
            try:
                encoded = name.encode()
            except UnicodeEncodeError:
                lost.add(NAME_NOT_UTF8)
                encoded = name.encode("utf-8", "replace")
            if len(encoded) > MAX_NAME_BYTES:
                lost.add(NAME_TOO_LONG)
            else:
                representable.append((encoded, value))
        for loss in sorted(lost):
            self._lose(record, loss)
        return representable

    def _lose(self, record: Record, loss: str) -> None:
        if not self._is_lossy:
            raise NotRepresentable(
                f"{self._of} offset {record.offset}: an osodevops backup cannot store {loss}",
                hint="drop such data with --lossy, or choose a format that can store it",
            )
        self.losses[loss] += 1

"""A record for people and scripts."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.schemas.framing import FramedReader
from offsite.schemas.shown_bytes import ShownBytes, show_bytes
from offsite.table.scan import MatchingRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHeader:
    name: str
    value: ShownBytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A record as shown. `timestamp_ms`: -1 when the producer gave none. `timestamp_type`: `CreateTime` or
    `LogAppendTime`."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: ShownBytes | None
    value: ShownBytes | None
    headers: tuple[ShownHeader, ...]


_HEADER_BYTES = 16


def record_bytes(record: Record) -> int:
    """The bytes of key, value and headers, with `_HEADER_BYTES` for each header: an empty one costs time."""
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def show_record(found_record: MatchingRecord, framed: FramedReader | None) -> ShownRecord:
    """`framed` None: neither schemas nor JSON are decoded."""
    record: Record = found_record.record
    topic = found_record.partition.topic
    return ShownRecord(
        topic=topic,
        partition=found_record.partition.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type="LogAppendTime" if record.timestamp_type == LOG_APPEND_TIME else "CreateTime",
        key=show_bytes(record.key, framed, topic, is_key=True),
        value=show_bytes(record.value, framed, topic),
        headers=tuple(
            ShownHeader(name=_name(name), value=show_bytes(value, framed, topic)) for name, value in record.headers
        ),
    )


def _name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""The bytes of records inside a batch, read and written record by record in Python: slow, and exact for every input.

`batch_records` uses this module where aiokafka's Cython codec fails: header names outside of UTF-8, and batches with
the base timestamp -1. Owns the record format only; never sees compressed bytes or batch headers. Format: Kafka's Record
of magic 2 (KIP-98): zigzag varints, length -1 for null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offsite.log.buffer import Buffer
from offsite.log.records.record import Record, RecordHeaders
from offsite.log.varint import zigzag
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedBatch

MIN_RECORD_BYTES = 7
"""A record without key, value and headers: seven numbers of one byte."""

_MAX_VARINT_BITS = 70


def read_records(
    body: Buffer, *, count: int, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None
) -> Iterator[Record]:
    """All `count` records of a plain body. With `append_time_ms` (LogAppendTime) every record has the time
    `append_time_ms`.

    Raises `DamagedBatch` unless the body holds exactly `count` records.
    """
    reader = _Reader(body)
    for _ in range(count):
        yield reader.record(base_offset, base_timestamp_ms, append_time_ms)
    if reader.position != len(body):
        raise DamagedBatch(f"{len(body) - reader.position} bytes after the last of {count} records")


def write_records(records: Iterable[Record], *, base_offset: int, base_timestamp_ms: int) -> bytearray:
    """The plain body of a batch; times are written unchanged, whatever their type."""
    body = bytearray()
    for record in records:
        fields = bytearray(1)  # attributes: none are defined
        fields += zigzag(record.timestamp_ms - base_timestamp_ms)
        fields += zigzag(record.offset - base_offset)
        _write_blob(fields, record.key)
        _write_blob(fields, record.value)
        fields += zigzag(len(record.headers))
        for name, value in record.headers:
            _write_blob(fields, name.encode("utf-8", "surrogateescape"))
            _write_blob(fields, value)
        _write_blob(body, fields)
    return body


class _Reader:
    """A position in a body; every read checks for enough bytes."""

    def __init__(self, body: Buffer) -> None:
        self.position = 0
        self._body = memoryview(body)

    def record(self, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None) -> Record:
        size = self._varint()
        end = self.position + size
        self._take(1)  # attributes
        timestamp_ms = base_timestamp_ms + self._varint()
        offset = base_offset + self._varint()
        key, value, headers = self._blob(), self._blob(), self._headers()
        if self.position != end:
            raise DamagedBatch(f"the record at offset {offset} is not {size} bytes long")
        if not 0 <= offset <= MAX_OFFSET or not -MAX_OFFSET <= timestamp_ms <= MAX_OFFSET:
            raise DamagedBatch(f"a record at offset {offset} of time {timestamp_ms}")
        if append_time_ms is not None:
            return Record(offset, append_time_ms, 1, key, value, headers)
        return Record(offset, timestamp_ms, 0, key, value, headers)

    def _headers(self) -> RecordHeaders:
        count = self._varint()
        if count < 0:
            raise DamagedBatch(f"a record with {count} headers")
        return tuple((self._name(), self._blob()) for _ in range(count))

    def _name(self) -> str:
        name = self._blob()
        if name is None:
            raise DamagedBatch("a record header without a name")
        return name.decode("utf-8", "surrogateescape")

    def _blob(self) -> bytes | None:
        size = self._varint()
        return None if size == -1 else self._take(size)

    def _take(self, size: int) -> bytes:
        start, end = self.position, self.position + size
        if size < 0 or end > len(self._body):
            raise DamagedBatch("a record reaches past its batch")
        self.position = end
        return bytes(self._body[start:end])

    def _varint(self) -> int:
        """A zigzag varint of at most 64 bits."""
        value = 0
        for shift in range(0, _MAX_VARINT_BITS, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise DamagedBatch("a number of more than 64 bits in a record")


def _write_blob(out: bytearray, blob: Buffer | None) -> None:
    out += zigzag(-1 if blob is None else len(blob))
    out += b"" if blob is None else blob

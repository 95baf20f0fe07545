"""Small logs for tests: batches made record by record, as chunks."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from offsite.log.batch import scan
from offsite.log.range import Chunk
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record

RECORDS_PER_BATCH = 10
FIRST_TIME_MS = 1_700_000_000_000


def make_batch(base: int, *, value: bytes = b"value", records: int = RECORDS_PER_BATCH, codec: int = 0) -> bytes:
    """A batch of `records` records from offset `base` on; each record's timestamp is its offset past a fixed time."""
    made = [
        Record(
            offset=base + number,
            timestamp_ms=FIRST_TIME_MS + base + number,
            timestamp_type=0,
            key=b"%d" % (base + number),
            value=value,
            headers=(),
        )
        for number in range(records)
    ]
    return bytes(encode(made, codec=codec))


def make_control_batch(base: int, *, producer_id: int, committed: bool, producer_epoch: int = 0) -> bytes:
    """A transaction marker as a broker writes it (one control record)."""
    from crc32c import crc32c

    key = struct.pack(">hh", 0, 1 if committed else 0)
    value = struct.pack(">hi", 0, 0)
    body = b"\x00\x00\x00" + bytes([len(key) << 1]) + key + bytes([len(value) << 1]) + value + b"\x00"
    records = bytes([len(body) << 1]) + body
    tail = struct.pack(">hiqqqhii", 0x30, 0, FIRST_TIME_MS, FIRST_TIME_MS, producer_id, producer_epoch, -1, 1) + records
    return struct.pack(">qiibI", base, 9 + len(tail), 0, 2, crc32c(tail)) + tail


def make_log(start: int, end: int, *, value: bytes = b"value", codec: int = 0) -> bytes:
    """Batches back to back that fill offsets `[start, end)` (a multiple of the records in a batch)."""
    return b"".join(make_batch(base, value=value, codec=codec) for base in range(start, end, RECORDS_PER_BATCH))


def chunk_of(data: bytes) -> Chunk:
    view = memoryview(bytearray(data))
    return Chunk(data=view, batches=scan(view))


def chunks_of(batches: Sequence[bytes], *, per_chunk: int) -> Iterator[Chunk]:
    for start in range(0, len(batches), per_chunk):
        yield chunk_of(b"".join(batches[start : start + per_chunk]))

"""RecordBatch (magic 2) headers: where each batch of a buffer begins, ends, and what it says of itself.

Format: Kafka's RecordBatch, KIP-98. All integers big-endian. Nothing here decodes records or checks the CRC.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER_STRUCT.size  # 61


class BatchHeader(NamedTuple):
    """One batch header and the place of its batch in the buffer it was scanned from. A tuple, because millions are
    made on the hot path. `size_bytes` is the whole batch, header included."""

    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

"""One record, as a consumer sees it. Its key chooses its partition, by the rule of Kafka's own clients:
`toPositive(murmur2(key)) % partitions`.

Source of the rule: `BuiltInPartitioner.partitionForKey` and `Utils.murmur2` of the Java client; librdkafka calls the
rule `murmur2`.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

CREATE_TIME, LOG_APPEND_TIME = 0, 1

RecordHeaders = tuple[tuple[str, bytes | None], ...]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF
_REMEMBERED_KEYS = 1 << 17
"""Keys repeat, and the hash takes longer than the rest of the work on a record; the cache takes some 30 MB."""


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


@lru_cache(maxsize=_REMEMBERED_KEYS)
def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition, of `partitions`, to which a producer with the default partitioner writes `key`."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Austin Appleby's MurmurHash2 with Kafka's seed, as an unsigned number."""
    h = _SEED ^ len(data)
    words = len(data) >> 2
    for word in struct.unpack_from(f"<{words}I", data):
        k = word * _M & _MASK
        h = h * _M & _MASK ^ (k ^ k >> 24) * _M & _MASK
    if tail := data[words << 2 :]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15

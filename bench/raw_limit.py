"""The most that one thread of Python gets out of a broker and onto the disk: the limit that backups are held against.

Fetch over a plain socket with the next request always under way, a walk over the batch headers to know where to go on,
and a write. No CRC, no hash, no index, no commit, no Spark.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.broker_socket import ReceiveBuffer
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.fetch import FetchFormat, FetchQuery
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.units import MIB
from offsite.stores.posix_writer import Writeback

FETCH_BYTES = 8 * MIB  # measured: 4 and 16 MiB are no faster

_FRAME = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_POSITION = 23


def copy_raw(kafka: KafkaConfig, ends: dict[TopicPartition, int], path: Path, *, durable: bool) -> int:
    """Copy `[0, end)` of all partitions into one new file; its size in bytes. `durable`: with fsync, and with the
    same early writing to the disk that offsite's own store does, as fsync alone at the end is several times slower."""
    buffer = ReceiveBuffer(FETCH_BYTES)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    writeback = Writeback(fd) if durable else None
    written = 0
    try:
        for partition, end in ends.items():
            for batches in _read(kafka, partition, end, buffer):
                written += _write(fd, batches)
                if writeback:
                    writeback.advance(written)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    return written


def _read(kafka: KafkaConfig, partition: TopicPartition, end: int, buffer: ReceiveBuffer) -> Iterator[memoryview]:
    shape = FetchFormat(partition, topic_id=None, rack_id="")
    with shared_router(kafka).lease_leader(partition) as connection:
        _ask(connection, shape, 0)
        position = 0
        while position < end:
            records = shape.decode(connection.receive(buffer)).records
            whole, position = _walk(records, position)
            if position < end:
                _ask(connection, shape, position)
            yield records[:whole]


def _ask(connection: Connection, shape: FetchFormat, offset: int) -> None:
    query = FetchQuery(offset=offset, max_bytes=FETCH_BYTES, max_wait_ms=500, min_bytes=1)
    connection.send(Api.FETCH, shape.version, [shape.encode(query)], flexible=shape.flexible)


def _walk(records: memoryview, position: int) -> tuple[int, int]:
    """Bytes of whole batches, and the offset after them."""
    unpack, at, size = _FRAME.unpack_from, 0, len(records)
    last, base = -1, 0
    while at + _FRAME.size <= size:
        next_base, length = unpack(records, at)
        if at + _FRAME.size + length > size:
            break
        last, base = at, next_base
        at += _FRAME.size + length
    if last < 0:
        return 0, position
    (delta,) = _LAST_DELTA.unpack_from(records, last + _LAST_DELTA_POSITION)
    return at, base + delta + 1


def _write(fd: int, data: memoryview) -> int:
    size = len(data)
    while data:
        data = data[os.write(fd, data) :]
    return size

"""What a partition really holds: its batches, byte for byte, asked of the broker without offsite's client."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsite.kafka.config import BrokerAddress
from offsite.kafka.protocol.request import Api
from offsite.log.batch import BatchHeader, scan
from tests.misbehaving_broker.messages import REQUESTS, Request, framed, read_frame

_FETCH_VERSION = 11
_FETCH_BYTES = 1 << 20
_HEADER = struct.Struct(">hhih")


@dataclass(frozen=True, kw_only=True)
class RawBatch:
    """`[start, end)` are the offsets it accounts for."""

    start: int
    end: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class RawLog:
    """Batches by base offset, in order. The first one may begin before `log_start`."""

    log_start: int
    end: int
    batches: Mapping[int, RawBatch]


def read_raw_log(broker: BrokerAddress, topic: str, partition: int, *, log_start: int) -> RawLog:
    """All of one partition, whose log begins at `log_start`."""
    batches: dict[int, RawBatch] = {}
    position, end = log_start, log_start + 1
    with socket.create_connection((broker.host, broker.port), timeout=30) as sock:
        while position < end:
            answer = _fetch(sock, topic, partition, position)
            end = answer.high_watermark
            found = list(_raw(bytes(answer.records or b"")))
            batches |= {each.start: each for each in found}
            if not found:
                break  # compaction took the rest
            position = found[-1].end
    return RawLog(log_start=log_start, end=end, batches=batches)


def _raw(records: bytes) -> Iterator[RawBatch]:
    for header in scan(memoryview(records)):
        yield raw_batch(header, records)


def raw_batch(header: BatchHeader, data: bytes | memoryview) -> RawBatch:
    return RawBatch(start=header.base_offset, end=header.next_offset, data=bytes(header.view(data)))


def _fetch(sock: socket.socket, topic: str, partition: int, offset: int) -> Any:
    kind = REQUESTS[Api.FETCH]
    asked = kind.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    message = kind(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind.FetchTopic(topic=topic, partitions=[asked])],
        forgotten_topics_data=[],
        rack_id="",
    )
    header = _HEADER.pack(Api.FETCH, _FETCH_VERSION, 1, -1)  # correlation id 1, no client id
    payload = header + bytes(message.encode(version=_FETCH_VERSION))
    sock.sendall(framed(payload))
    (found,) = Request(payload, {}).decoded(read_frame(sock)).responses[0].partitions
    assert not found.error_code, found
    return found

"""The APIs about a partition's log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs.

ListOffsets tells start and end of a log, and the offset of a time. OffsetForLeaderEpoch (KIP-101) tells the end of the
log part that leaders up to an epoch wrote. DeleteRecords (KIP-107) moves the log start forward. DescribeLogDirs tells
the bytes on a broker's disks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsite.kafka.protocol.broker_errors import broker_error, error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.log.range import TopicPartition
from offsite.model.journal import decided

LIST_OFFSETS_VERSION = 5
EPOCH_ENDS_VERSION = 3
DELETE_RECORDS_VERSION = 1
LATEST = -1
EARLIEST = -2
READ_UNCOMMITTED = 0  # LATEST is the high watermark
READ_COMMITTED = 1  # LATEST is the last stable offset
_CONSUMER = -1
_NO_EPOCH = _NO_OFFSET = _OF_ANY_LEADER = _NO_TIME = _NOT_KNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset told by a leader. `offset` is -1 when no record is at or after the requested time. `error_code` is 0
    when the answer counts."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    error_code: int


def list_offsets_request(
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> Request[Mapping[TopicPartition, ListedOffset]]:
    """Request offsets. The asked broker must lead all `partitions`, in the given leader epochs, if any; a leader in
    another epoch answers with an error. `timestamp_ms`: a time, `LATEST` or `EARLIEST`. A partition without a start or
    an end counts as unanswered."""
    leader_epochs = epochs or {}

    def put(out: Encoder, partition: TopicPartition) -> None:
        out.i32(partition.partition).i32(leader_epochs.get(partition, _NO_EPOCH)).i64(timestamp_ms)

    def read(answer: Decoder) -> Mapping[TopicPartition, ListedOffset]:
        offsets = answer.topics(_listed_offset)
        if timestamp_ms >= 0:
            return offsets
        return {key: listed for key, listed in offsets.items() if listed.error_code or listed.offset >= 0}

    body = Encoder().i32(_CONSUMER).i8(isolation).topics(partitions, put).done()
    return Request(api=Api.LIST_OFFSETS, version=LIST_OFFSETS_VERSION, body=body, read=read)


def _listed_offset(answer: Decoder, topic: str) -> tuple[TopicPartition, ListedOffset]:
    key = TopicPartition(topic=topic, partition=answer.i32())
    error_code, timestamp_ms, offset, leader_epoch = answer.i16(), answer.i64(), answer.i64(), answer.i32()
    if not error_code and offset < _NO_OFFSET:
        raise UnreadableError(f"offset {offset} of {key}")
    return key, ListedOffset(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=leader_epoch, error_code=error_code)


def epoch_ends_request(
    epochs: Mapping[TopicPartition, int], *, led_in: Mapping[TopicPartition, int] | None = None
) -> Request[Mapping[TopicPartition, ListedOffset]]:
    """Partition → leader epoch. The asked broker must lead all partitions, in the epochs `led_in`, if given. Offset -1:
    the broker does not know the epoch. The answer's `leader_epoch`: the last known epoch up to the requested epoch."""
    leader_epochs = led_in or {}

    def put(out: Encoder, partition: TopicPartition) -> None:
        leader_epoch = leader_epochs.get(partition, _OF_ANY_LEADER)
        out.i32(partition.partition).i32(leader_epoch).i32(epochs[partition])

    return Request(
        api=Api.OFFSET_FOR_LEADER_EPOCH,
        version=EPOCH_ENDS_VERSION,
        body=Encoder().i32(_CONSUMER).topics(epochs, put).done(),
        read=lambda answer: answer.topics(_epoch_end),
    )


def _epoch_end(answer: Decoder, topic: str) -> tuple[TopicPartition, ListedOffset]:
    error_code, key = answer.i16(), TopicPartition(topic=topic, partition=answer.i32())
    leader_epoch, offset = answer.i32(), answer.i64()
    if not error_code and offset < _NOT_KNOWN:
        raise UnreadableError(f"offset {offset} of {key}")
    return key, ListedOffset(offset=offset, timestamp_ms=_NO_TIME, leader_epoch=leader_epoch, error_code=error_code)


def delete_records_request(
    before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> Request[Mapping[TopicPartition, int]]:
    """Delete records below the given offsets. The answer holds the new log starts. The asked broker must lead all
    partitions."""

    def put(out: Encoder, partition: TopicPartition) -> None:
        out.i32(partition.partition).i64(before[partition])

    return Request(
        api=Api.DELETE_RECORDS,
        version=DELETE_RECORDS_VERSION,
        body=Encoder().topics(before, put).i32(timeout_ms).done(),
        read=lambda answer: answer.topics(_log_start),
    )


def _log_start(answer: Decoder, topic: str) -> tuple[TopicPartition, int]:
    key, log_start, code = TopicPartition(topic=topic, partition=answer.i32()), answer.i64(), answer.i16()
    if code:
        raise broker_error(code, f"deleting records of {key}")
    return key, log_start


LOG_DIRS_VERSION = 1


def log_dirs_request(partitions: Iterable[TopicPartition]) -> Request[Mapping[TopicPartition, int]]:
    """Request the sizes of replicas on the asked broker. A replica is absent from the answer when the broker does not
    hold the replica, may not tell the size, or has the replica on a failed disk."""
    body = Encoder().topics(partitions).done()
    return Request(api=Api.DESCRIBE_LOG_DIRS, version=LOG_DIRS_VERSION, body=body, read=_read_sizes)


def _read_sizes(answer: Decoder) -> Mapping[TopicPartition, int]:
    sizes = [size for directory in answer.array(_sizes_of_directory) for size in directory.items()]
    return {key: size_bytes for key, (size_bytes, is_future) in sizes if not is_future}


def _sizes_of_directory(answer: Decoder) -> Mapping[TopicPartition, tuple[int, bool]]:
    code, name = answer.i16(), answer.string()
    sizes = answer.topics(_size)
    if code:
        decided("estimate", why=f"the log directory {name} has failed: {error_name(code)}")
        return {}
    return sizes


def _size(answer: Decoder, topic: str) -> tuple[TopicPartition, tuple[int, bool]]:
    key, size_bytes = TopicPartition(topic=topic, partition=answer.i32()), answer.i64()
    answer.i64()  # lag
    return key, (size_bytes, answer.boolean())

"""Reads the logs of coordinators with no record missing: `__transaction_state` between two vectors of ends.

`__transaction_state` and `__consumer_offsets` are compacted. A record replaced by a later record of its key may be
gone, and with it the evidence that a transaction was about to end. Offsets have no gaps until a cleaner removes
records, so a range is complete if it has as many records as offsets. A cleaner removes nothing from the active segment
and nothing behind the last stable offset: recent records are gone only if a segment was filled and cleaned within
seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.presence import PresenceState
from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.kafka.watermarks import LogEndReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.log.transaction_state import TransactionChange, parse_transaction_change
from offsite.model.errors import KafkaNotAuthorized, OffsiteError, SourceTruncated


def read_dense(reader: PartitionReader, log_range: LogRange) -> Iterator[tuple[Chunk, BatchHeader, list[Record]]]:
    """Yield every batch with its records inside of the range, control records included. Raises `SourceTruncated` at the
    end if records are missing, and the errors of the reader."""
    count = 0
    for item in reader.read_task(ReadTask(range=log_range, was_compacted=True, reach_back=True)):
        if not isinstance(item, Chunk):
            continue
        for header in item.batches:
            inside = [
                record
                for record in iterate(header.view(item.data), header)
                if log_range.start <= record.offset < log_range.end
            ]
            count += len(inside)
            yield item, header, inside
    if count != len(log_range):
        raise SourceTruncated(
            f"of the {len(log_range)} records of {log_range} {len(log_range) - count} are missing: compacted or "
            "deleted",
            hint="run again; if the error stays, check the segment settings of the topic",
        )


STATE_TOPIC = "__transaction_state"
RIGHT = f"grant the principal DESCRIBE and READ on topic {STATE_TOPIC}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLog:
    """The topic's partitions. `is_absent`: the topic does not exist, so no transaction ever began on the cluster, since
    a coordinator leads a partition of the topic. `trouble`: why its ends or records cannot be read; empty if they
    can."""

    ends: LogEndReader
    is_absent: bool = False
    trouble: str = ""


def open_state_log(admin: ClusterAdmin) -> StateLog:
    """Find the topic. Every broker is asked if a broker does not know the topic. Raises `KafkaUnavailable`."""
    presence = admin.presence_now(STATE_TOPIC)
    if presence is PresenceState.THERE:
        topic = admin.topics([STATE_TOPIC])[STATE_TOPIC]
        keys = [TopicPartition(topic=STATE_TOPIC, partition=partition.partition) for partition in topic.partitions]
        return StateLog(ends=admin.log_ends(keys))
    trouble = {
        PresenceState.DELETED: "",
        PresenceState.DENIED: f"the principal may not see {STATE_TOPIC}: {RIGHT}",
        PresenceState.UNCLEAR: f"the brokers do not agree whether topic {STATE_TOPIC} exists",
    }
    return StateLog(ends=admin.log_ends([]), is_absent=presence is PresenceState.DELETED, trouble=trouble[presence])


def by_number(ends: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {key.partition: end for key, end in ends.items()}


def read_changes(reader: PartitionReader, start: Mapping[int, int], end: Mapping[int, int]) -> list[TransactionChange]:
    """Read all records between two vectors of ends, by log and position. A partition outside of `start` starts at 0.

    Raises `SourceTruncated` where a record is gone, `DamagedBatch` for a record of an unknown version, and the errors
    of the reader.
    """
    changes: list[TransactionChange] = []
    for log in sorted(end):
        low = start.get(log, 0)
        if low < end[log]:
            span = LogRange(topic=STATE_TOPIC, partition=log, start=low, end=end[log])
            for _, header, records in read_dense(reader, span):
                if not header.is_control:
                    changes += [parse_transaction_change(record, log) for record in records]
    return changes


def trouble_of(error: OffsiteError) -> str:
    """The message for a person when changes could not be read."""
    todo = RIGHT if isinstance(error, KafkaNotAuthorized) else error.hint
    return f"the states of transactions cannot be read: {error.message}" + (f": {todo}" if todo else "")

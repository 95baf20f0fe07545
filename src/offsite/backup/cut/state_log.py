"""Reads `__transaction_state` as a log: its partitions, and the records between two vectors of ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.backup.cut.dense_reading import read_dense
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.presence import PresenceState
from offsite.kafka.reader import PartitionReader
from offsite.kafka.watermarks import LogEndReader
from offsite.log.range import LogRange, TopicPartition
from offsite.log.transaction_state import TransactionChange, parse_transaction_change
from offsite.model.errors import KafkaNotAuthorized, OffsiteError

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

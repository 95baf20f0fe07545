"""A cluster to which anything happens, without sockets: what `plan_backup` asks of it, and what workers read from it.

It is a fake cluster's topics and logs. Beside each log it keeps the plain truth for the judge: the value at each
offset, as the log has it now. It says what Kafka would say of epochs, offsets and rights; what a reader makes of that
is imitated in `read`, with offsite's own cut of batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from offsite.kafka.evidence import batch_window
from offsite.kafka.log_bounds import ListedBounds, LogBounds
from offsite.kafka.offsets import EpochEnd
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from offsite.kafka.read_task import Item, ReadTask
from offsite.log.batch import BatchHeader, scan
from offsite.log.range import Gap, GapEvidence, Hole, TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.cluster_settings import Acl, ClientQuota, ScramUser
from offsite.model.errors import (
    KafkaNotAuthorized,
    LeaderUnavailable,
    NoAuthorizer,
    NoSuchTopic,
    OffsiteError,
    SourceTruncated,
    TopicReplaced,
)
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.partition_log import PartitionLog

_FETCH_BYTES = 200
"""Little: an answer holds one or two batches."""


@dataclass
class SimLog:
    """One partition. `truth`: the value of each offset below the log's end, None where none ever was."""

    log: PartitionLog = field(default_factory=PartitionLog)
    truth: list[int | None] = field(default_factory=list)
    last_epoch: int = 0

    def borders(self) -> list[int]:
        """Where the log can be cut."""
        return sorted({0, self.log.start, self.log.end, *(each.next_offset for each in self.headers())})

    def headers(self) -> Iterator[BatchHeader]:
        return (header for header, _ in self.log._batches)

    def write(self, values: list[int], *, gap: int, timestamp_ms: int = FIRST_TIME_MS) -> None:
        base = self.log.end + gap
        records = [
            Record(offset=base + n, timestamp_ms=timestamp_ms, timestamp_type=0, key=None, value=b"%d" % value)
            for n, value in enumerate(values)
        ]
        self.log.put(bytes(encode(records)))
        self.truth += [None] * gap + values

    def elect(self, cut_to: int | None) -> None:
        self.log.elect(cut_to=cut_to)
        del self.truth[self.log.end :]
        self._lead_anew()

    def elect_replica(self, replica: SimLog) -> None:
        """An unclean election of a replica that had fallen behind, or out of an older history."""
        self.log, self.truth = deepcopy(replica.log), list(replica.truth)
        self.log.elect()
        self._lead_anew()

    def _lead_anew(self) -> None:
        self.last_epoch += 1
        self.log.epochs[-1] = (self.last_epoch, self.log.end)


@dataclass
class SimTopic:
    topic_id: UUID
    logs: list[SimLog]


class SimAdmin:
    """A source as `plan_backup` asks it."""

    def __init__(self, source: SimSource) -> None:
        self._source = source
        self.groups = None
        self.settings = source

    def topics(self) -> Mapping[str, TopicMetadata]:
        return self._source.listed()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class SimSource:
    """`hidden` topics may not be described, `shut` ones not be read. `failing`: partitions whose workers fail,
    with `answers_nothing` by answers without a record."""

    def __init__(self) -> None:
        self.topics: dict[str, SimTopic] = {}
        self.hidden: set[str] = set()
        self.shut: set[str] = set()
        self.failing: set[TopicPartition] = set()
        self.answers_nothing = False
        self.configs: dict[str, dict[str, str]] = {}
        self._ids = Random(0)

    def make(self, name: str, partitions: int) -> None:
        topic_id = UUID(int=self._ids.getrandbits(128), version=4)
        self.topics[name] = SimTopic(topic_id, [SimLog() for _ in range(partitions)])

    def seen(self) -> dict[str, SimTopic]:
        """The topics that we may describe."""
        return {name: topic for name, topic in self.topics.items() if name not in self.hidden}

    def log(self, key: TopicPartition) -> PartitionLog:
        if key.topic not in self.seen() or key.partition >= len(self.topics[key.topic].logs):
            raise NoSuchTopic(f"{key} is not there")
        return self.topics[key.topic].logs[key.partition].log

    def cluster(self) -> ClusterMetadata:
        return ClusterMetadata(cluster_id="sim", controller_id=1, brokers={}, topics={})

    def check_readable(self) -> None: ...

    def listed(self) -> Mapping[str, TopicMetadata]:
        return {
            name: TopicMetadata(
                name=name,
                topic_id=topic.topic_id,
                internal=False,
                error_code=0,
                partitions=tuple(
                    PartitionMetadata(partition=n, leader=1, leader_epoch=each.log.epoch, replicas=(1,), in_sync=(1,))
                    for n, each in enumerate(topic.logs)
                ),
            )
            for name, topic in self.seen().items()
        }

    def presence(self, names: Collection[str]) -> Mapping[str, PresenceState]:
        return {
            name: PresenceState.DENIED
            if name in self.hidden
            else PresenceState.THERE
            if name in self.topics
            else PresenceState.DELETED
            for name in names
        }

    def presence_now(self, name: str) -> PresenceState:
        raise LeaderUnavailable(f"nobody coordinates transactions here: {name}")

    def bounds(self, partitions: Iterable[TopicPartition], **_: float) -> ListedBounds:
        found: dict[TopicPartition, LogBounds] = {}
        failed: dict[TopicPartition, OffsiteError] = {}
        for key in partitions:
            if key.topic in self.shut:
                failed[key] = KafkaNotAuthorized(f"{key} may not be read")
            else:
                log = self.log(key)
                found[key] = LogBounds(start=log.start, end=log.end, leader_epoch=log.epoch)
        return ListedBounds(bounds=found, failed=failed)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], **_: float) -> Mapping[TopicPartition, EpochEnd]:
        return {key: self.epoch_end_now(key, epoch) for key, epoch in epochs.items()}

    def epoch_end_now(self, partition: TopicPartition, epoch: int) -> EpochEnd:
        found, end = self.log(partition).epoch_end(epoch)
        return EpochEnd(epoch=found, end=end)

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        log = self.log(partition)
        if not log.start <= offset < log.end:
            return None
        first = next(iter(scan(log.read(offset, 1))), None)
        return first if first is not None and first.base_offset <= offset else None

    def readable_topic_configs(self, names: Iterable[str], **_: bool) -> TopicConfigs:
        return TopicConfigs(configs={name: dict(self.configs.get(name, {})) for name in names})

    def sizes_bytes(self, _partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def acls(self) -> tuple[Acl, ...]:
        raise NoAuthorizer("there is none")

    def client_quotas(self) -> tuple[ClientQuota, ...]:
        return ()

    def scram_users(self) -> tuple[ScramUser, ...]:
        return ()

    def dynamic_broker_settings(self, *, max_age_s: float) -> Mapping[str, Sequence[str]]:
        return {}

    def configured(self, *, max_age_s: float) -> Mapping[int, Sequence[str]]:
        return {}

    def read(self, task: ReadTask) -> Iterator[Item]:
        """As `PartitionReader.read_task` does by the evidence that this cluster gives."""
        key, log_range, position = task.range.topic_partition, task.range, task.range.start
        log = self._led(key, task)
        while position < log_range.end:
            if position < log.start:
                hole = Hole(topic=key.topic, partition=key.partition, start=position, end=log.start, reason="retention")
                position = min(log.start, log_range.end)
                yield Hole(topic=key.topic, partition=key.partition, start=hole.start, end=position, reason=hole.reason)
                continue
            data = memoryview(bytearray(b"" if key in self.failing else log.read(position, _FETCH_BYTES)))
            start = position if task.reach_back and position == log_range.start else log.start
            window = batch_window(data, log_range, position, log_start=start)
            if window.next_offset == position:
                raise LeaderUnavailable(f"{key} has nothing at {position}")
            if window.gap_start < window.gap_end:
                yield _gap(task, window.gap_start, window.gap_end)
            if window.chunk:
                yield window.chunk
                if window.beyond >= 0 and window.reaches_to < log_range.end:
                    yield _gap(task, window.reaches_to, log_range.end)
            position = window.next_offset

    def _led(self, key: TopicPartition, task: ReadTask) -> PartitionLog:
        if key in self.failing and not self.answers_nothing:
            raise LeaderUnavailable(f"{key} has no leader")
        if key.topic in self.shut:
            raise KafkaNotAuthorized(f"{key} may not be read")
        log = self.log(key)
        if task.topic_id != self.topics[key.topic].topic_id:
            raise TopicReplaced(f"{key} is another topic")
        end = log.epoch_end(task.planned_epoch)[1] if log.epoch > task.planned_epoch else log.end
        if end < task.range.end:
            raise SourceTruncated(f"{key} was cut back to {end} while it was read")
        return log


def _gap(task: ReadTask, start: int, end: int) -> Gap:
    where = task.range
    return Gap(
        topic=where.topic, partition=where.partition, start=start, end=end, evidence=GapEvidence.BATCH, seen_at=end
    )

"""Where the partitions of a proof begin and end now; those that no broker serves are named, and hold up no other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.net.backoff import LEADERLESS_MAX_S, Backoff
from offsite.kafka.protocol.log_offsets import READ_COMMITTED
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaUnavailable, LeaderUnavailable, OffsiteError
from offsite.services.cluster import LogEnds
from offsite.services.compare.expected import ExpectedBounds, ExpectedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds:
    """`sick` are the partitions without bounds, each with the reason."""

    bounds: Mapping[TopicPartition, ExpectedBounds]
    sick: Mapping[TopicPartition, OffsiteError]


def find_bounds(topics: Sequence[ExpectedTopic], admin: LogEnds, *, clock: Clock | None = None) -> FoundBounds:
    """Ask for all partitions of `topics`, which exist. Waits for leaders as long as an election may take.

    Raises `KafkaUnavailable` when partitions that have leaders are not answered for, `Denied`.
    """
    wanted = [partition for topic in topics for partition in _partitions(topic)]
    sick = _leaderless(wanted, admin, clock or SystemClock())
    led = [topic_partition for topic_partition in wanted if topic_partition not in sick]
    try:
        return FoundBounds(bounds=_ask(topics, set(led), admin), sick=sick)
    except KafkaUnavailable:
        lost = _without_leader(led, admin.topics())
        if not lost:
            raise
        sick |= dict.fromkeys(lost, _no_leader())
        return FoundBounds(bounds=_ask(topics, set(led) - set(lost), admin), sick=sick)


def _leaderless(wanted: Iterable[TopicPartition], admin: LogEnds, clock: Clock) -> dict[TopicPartition, OffsiteError]:
    """Those that still have no leader after all patience."""
    patience = Backoff(clock, limit_s=LEADERLESS_MAX_S)
    while True:
        wanted = _without_leader(wanted, admin.topics())
        if not wanted:
            return {}
        try:
            patience.wait(_no_leader())
        except LeaderUnavailable as error:
            return dict.fromkeys(wanted, error)


def _without_leader(partitions: Iterable[TopicPartition], topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
    led = {(topic.name, each.partition) for topic in topics.values() for each in topic.partitions if each.leader >= 0}
    return [each for each in partitions if (each.topic, each.partition) not in led]


def _ask(
    topics: Sequence[ExpectedTopic], led: Collection[TopicPartition], admin: LogEnds
) -> dict[TopicPartition, ExpectedBounds]:
    """Where the backup's extent is known by offsets the log counts up to its high watermark, whoever writes behind."""
    stable = [t for t in topics if t.read_committed and t.extents is None]
    committed = [each for topic in stable for each in _partitions(topic) if each in led]
    others = [each for topic in topics if topic not in stable for each in _partitions(topic) if each in led]
    starts = admin.start_offsets([*committed, *others])
    ends = {**admin.end_offsets(committed, isolation=READ_COMMITTED), **admin.end_offsets(others)}
    return {each: ExpectedBounds(start=starts[each], end=ends[each]) for each in starts}


def _partitions(topic: ExpectedTopic) -> list[TopicPartition]:
    return [TopicPartition(topic=topic.target, partition=number) for number in range(topic.partitions)]


def _no_leader() -> LeaderUnavailable:
    hint = "bring back a broker that holds it, then compare again"
    return LeaderUnavailable("the partition has no leader", hint=hint)

"""The begins and ends of a proof's partitions now, and a second check where a first answer may be too early.

Partitions that no broker serves are named, and delay no other partition.

Different records are evidence in themselves. Missing records rest on the word of a leader about the end of its log, and
after an election a leader may not know the end yet. A damaged batch rests on one answer. Such a finding counts only
when the leader repeats the same answer several times, and when the damaged batch is damaged the second time too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.evidence import CONFIRMATIONS
from offsite.kafka.net.backoff import LEADERLESS_MAX_S, Backoff
from offsite.kafka.protocol.logs import READ_COMMITTED
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import Damaged, KafkaUnavailable, LeaderUnavailable, OffsiteError
from offsite.model.journal import decided
from offsite.restore.compare.expected import ExpectedBounds, ExpectedTopic, PartitionCheck, plan_checks
from offsite.restore.compare.records import PartitionProof

_AGAIN_AFTER_S = 0.2
_ENDED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofBounds:
    """The bounds of partitions as read. `sick` are the partitions without bounds, with the reason."""

    bounds: Mapping[TopicPartition, ExpectedBounds]
    sick: Mapping[TopicPartition, OffsiteError]


def find_bounds(topics: Sequence[ExpectedTopic], admin: ClusterAdmin, *, clock: Clock | None = None) -> ProofBounds:
    """The bounds of all partitions of `topics`, which exist. Waits for leaders as long as an election may take.

    Raises `KafkaUnavailable` when partitions with leaders get no answer, `Denied`.
    """
    partitions = [partition for topic in topics for partition in _partitions(topic)]
    sick = _leaderless(partitions, admin, clock or SystemClock())
    led = [topic_partition for topic_partition in partitions if topic_partition not in sick]
    try:
        return ProofBounds(bounds=_ask(topics, set(led), admin), sick=sick)
    except KafkaUnavailable:
        lost = _without_leader(led, admin.topics())
        if not lost:
            raise
        sick |= dict.fromkeys(lost, _no_leader())
        return ProofBounds(bounds=_ask(topics, set(led) - set(lost), admin), sick=sick)


def _leaderless(
    partitions: Iterable[TopicPartition], admin: ClusterAdmin, clock: Clock
) -> dict[TopicPartition, OffsiteError]:
    """The partitions that still have no leader after all patience."""
    patience = Backoff(clock, limit_s=LEADERLESS_MAX_S)
    while True:
        partitions = _without_leader(partitions, admin.topics())
        if not partitions:
            return {}
        try:
            patience.wait(_no_leader())
        except LeaderUnavailable as error:
            return dict.fromkeys(partitions, error)


def _without_leader(partitions: Iterable[TopicPartition], topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
    led = {
        TopicPartition(topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions
        if partition.leader >= 0
    }
    return [partition for partition in partitions if partition not in led]


def _ask(
    topics: Sequence[ExpectedTopic], led: Collection[TopicPartition], admin: ClusterAdmin
) -> dict[TopicPartition, ExpectedBounds]:
    """The log counts up to its high watermark when the backup's extent is known by offsets, whoever writes behind."""
    stable = [t for t in topics if t.read_committed and t.extents is None]
    committed = [partition for topic in stable for partition in _partitions(topic) if partition in led]
    uncommitted = [
        partition for topic in topics if topic not in stable for partition in _partitions(topic) if partition in led
    ]
    starts = admin.start_offsets([*committed, *uncommitted])
    ends = {**admin.end_offsets(committed, isolation=READ_COMMITTED), **admin.end_offsets(uncommitted)}
    return {partition: ExpectedBounds(start=starts[partition], end=ends[partition]) for partition in starts}


def _partitions(topic: ExpectedTopic) -> list[TopicPartition]:
    return [TopicPartition(topic=topic.target, partition=number) for number in range(topic.partitions)]


def _no_leader() -> LeaderUnavailable:
    hint = "start a broker that has a replica of the partition, then compare again"
    return LeaderUnavailable("the partition has no leader", hint=hint)


Bounds = Mapping[TopicPartition, ExpectedBounds]


def partition_counts(topics: Sequence[ExpectedTopic], admin: ClusterAdmin, clock: Clock) -> Mapping[str, int]:
    """Number of partitions of every topic of the cluster. Asks again when one of `topics` seems to differ: not every
    broker has heard of a new topic yet."""
    counts: Mapping[str, int] = {}
    for number in range(CONFIRMATIONS + 1):
        clock.sleep(_AGAIN_AFTER_S * number)
        counts = {name: len(topic.partitions) for name, topic in admin.topics().items()}
        if all(is_comparable(topic, counts.get(topic.target, 0)) for topic in topics):
            break
    return counts


def is_comparable(topic: ExpectedTopic, partitions: int) -> bool:
    """Whether a topic with `partitions` partitions can be compared. A restored topic has the number of partitions of
    its restore; the topic of the backup may have more since."""
    return partitions == topic.partitions or (topic.whole_log and partitions > topic.partitions)


def is_doubtful(check: PartitionCheck, outcome: PartitionProof | OffsiteError) -> bool:
    """Whether a second check could find records that the first one did not."""
    if isinstance(outcome, OffsiteError):
        return isinstance(outcome, Damaged)
    ended_early = outcome.difference is not None and outcome.difference.target_offset == _ENDED
    return ended_early or bool(check.truncated or check.wrong_bounds)


def confirm_bounds(
    doubtful: Collection[TopicPartition],
    topics: Sequence[ExpectedTopic],
    first: Bounds,
    admin: ClusterAdmin,
    clock: Clock,
) -> Bounds:
    """The newest bounds of the `doubtful` partitions, all of `topics`, that differ from `first`. Asks their leaders
    `CONFIRMATIONS` times more: whatever moves between, a first sign is not yet the end."""
    moved: dict[TopicPartition, ExpectedBounds] = {}
    for number in range(1, CONFIRMATIONS + 1):
        clock.sleep(_AGAIN_AFTER_S * number)
        try:
            now = find_bounds(topics, admin, clock=clock).bounds
        except KafkaUnavailable as error:
            decided("stands", why=f"the log ends could not be read again: {error.message}")
            break
        moved |= {key: bounds for key, bounds in now.items() if key in doubtful and bounds != first.get(key)}
    return moved


def second_checks(
    topic: ExpectedTopic, bounds: Bounds, again: Collection[TopicPartition], *, exact: bool
) -> Sequence[PartitionCheck]:
    """The checks of the partitions `again`; of all partitions for a topic distributed by key: its partitions are
    compared together."""
    all_checks = list(plan_checks(topic, bounds, exact=exact))
    repeated = [check for check in all_checks if check.target.topic_partition in again]
    return all_checks if repeated and topic.repartition is not None else repeated

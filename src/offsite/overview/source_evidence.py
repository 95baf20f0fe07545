"""What one look at the living source told about the topics of a backup, and what it proves. Pure.

A topic is gone if a run or this look got the answer of all brokers that the topic does not exist; the topic id tells a
topic that was created anew. A topic that may not be described, or on which brokers disagree, is called just that. A log
has shrunk if its leader ends the newest backed-up epoch earlier than the backup (KIP-101; a high watermark proves
nothing, because that of a new leader lags), or if it no longer has records that the topic's retention would still keep.
Records that retention deleted are normal. A look is compared with the state that was read before it: later commits may
hold more than the look saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsite.kafka.log_bounds import LogBounds
from offsite.kafka.presence import PresenceState
from offsite.log.range import PartitionId, TopicIncarnation, TopicPartition
from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, UNLIMITED, Retention
from offsite.overview.comparison import TopicState
from offsite.repository.commit import TopicShape
from offsite.repository.segments.segment import Segment
from offsite.repository.state import FIRST_SEQ, BackupState

STATES = {PresenceState.DELETED: TopicState.GONE, PresenceState.DENIED: TopicState.HIDDEN}
"""What brokers say of a topic that is not listed; anything else is unclear."""
_CLOCKS_MS = 300_000
"""Most by which clocks of brokers and of the store differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeAnew:
    """A topic that a restore of this installation made. `problem`: why it is not back; empty where it is."""

    restore: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """What a cluster told about the topics of a backup. `looked_ms`: before the first question, by the store's clock.
    `listed`: topic → id, empty from brokers without ids. `presence`: topics of the backup that are not listed.
    `failed`: partitions without an answer, with the reason. `changed`: topics whose rules of deletion are not, or not
    surely, those of the newest run. `log_ends`: partitions whose leader ends our newest epoch
    earlier than the backup, and where (-1: the leader does not know the epoch). `new`: selected topics in no commit.
    `restored`: topics that restores of this installation made."""

    looked_ms: int
    listed: Mapping[str, str] = field(default_factory=dict)
    presence: Mapping[str, PresenceState] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    retention: Mapping[str, Retention] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    sizes_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    restored: Mapping[TopicIncarnation, MadeAnew] = field(default_factory=dict)


def find_presence(state: BackupState, shape: TopicShape, look: SourceLook) -> TopicState | None:
    """None: the cluster lists this very topic."""
    listed_id = look.listed.get(shape.topic)
    if listed_id is None:
        presence = PresenceState.DELETED if shape.is_deleted else look.presence.get(shape.topic)
        return TopicState.UNCLEAR if presence is None else STATES.get(presence, TopicState.UNCLEAR)
    is_other = bool(listed_id and shape.topic_id and listed_id != shape.topic_id)
    if not is_other and not shape.is_deleted:
        return None
    listed = TopicIncarnation(topic=shape.topic, topic_id=listed_id)
    if (made := look.restored.get(listed)) is not None and not made.problem:
        return TopicState.RESTORED
    is_known = bool(listed_id) and listed in state.topics  # a lagging broker may list a topic that is deleted
    return TopicState.UNCLEAR if is_known else TopicState.RECREATED


def unanswered(shape: TopicShape, look: SourceLook) -> list[TopicPartition]:
    """The partitions of the topic for which no leader answered."""
    return [key for key in partitions_of(shape, look) if key not in look.bounds]


def is_whole(state: BackupState, shape: TopicShape, look: SourceLook) -> bool:
    """Whether all that tells of a loss was answered, and tells of none."""
    is_judged = shape.topic in look.retention or not may_be_early(state, shape, look)
    return is_judged and not unanswered(shape, look) and loss_of_log(state, shape, look) is None


def loss_of_log(state: BackupState, shape: TopicShape, look: SourceLook) -> TopicState | None:
    is_shrunk = any(cut_ends(shape, look)) or any(early_deletions(state, shape, look))
    return TopicState.SHRUNK if is_shrunk else None


def cut_ends(shape: TopicShape, look: SourceLook) -> Iterator[tuple[PartitionId, int]]:
    for partition_id in shape.partition_ids:
        if (end := look.log_ends.get(partition_id.topic_partition)) is not None:
            yield partition_id, end


def early_deletions(state: BackupState, shape: TopicShape, look: SourceLook) -> Iterator[tuple[PartitionId, Segment]]:
    """The partitions that lack records which the retention in force would keep, each with the newest segment of them.
    By time only: with a limit of size, or where only requests delete, a deletion may be meant. Records from before the
    last change of the settings may have been deleted by other ones."""
    rule = look.retention.get(shape.topic)
    if rule is None or not rule.deletes or rule.retention_bytes != UNLIMITED or shape.topic in look.changed:
        return
    if (kept_ms := rule.retention_ms or 0) > 0:
        kept_from_ms = max(look.looked_ms - kept_ms, _settings_since_ms(state, shape)) + _CLOCKS_MS
        for partition_id, segment in deleted_segments(state, shape, look.bounds):
            if segment.timestamp_max_ms > kept_from_ms:
                yield partition_id, segment


def _settings_since_ms(state: BackupState, shape: TopicShape) -> int:
    """When the topic was first seen with the settings of the newest run. 0: as long as it is backed up."""
    since = state.configs_since.get(shape.incarnation, state.seq)
    point = state.history.find(since)
    return 0 if since <= FIRST_SEQ else point.committed_at_ms if point else state.committed_at_ms


def deleted_segments(
    state: BackupState, shape: TopicShape, bounds: Mapping[TopicPartition, LogBounds]
) -> Iterator[tuple[PartitionId, Segment]]:
    """Of each partition, the newest segment in memory that the source has deleted whole. A loss in older segments alone
    is not seen: a catalog may hold a million."""
    for partition_id in shape.partition_ids:
        segments, log = state.segments.get(partition_id), bounds.get(partition_id.topic_partition)
        if segments and log is not None and log.start > 0:
            in_memory = (*segments.tail, segments.last) if segments.last else segments.tail
            deleted = [segment for segment in in_memory if segment and segment.last_offset < log.start]
            if deleted:
                yield partition_id, max(deleted, key=lambda segment: segment.last_offset)


def may_be_early(state: BackupState, shape: TopicShape, look: SourceLook) -> bool:
    """Whether the source lacks records that are younger than the backed-up retention, or Kafka's: its retention in
    force is worth a question. Not for topics that applications empty by themselves."""
    kept_ms = Retention.of(dict(shape.configs)).retention_ms or KAFKA_RETENTION_MS
    younger = (
        segment.timestamp_max_ms > look.looked_ms - kept_ms
        for _, segment in deleted_segments(state, shape, look.bounds)
    )
    return any(younger) and not any(
        hole.partition_id.incarnation == shape.incarnation and not hole.is_loss for hole in state.holes
    )


def partitions_of(shape: TopicShape, look: SourceLook) -> list[TopicPartition]:
    """The partitions of the backup, and further ones of the source."""
    keys, number = [partition_id.topic_partition for partition_id in shape.partition_ids], shape.partitions
    while (key := TopicPartition(topic=shape.topic, partition=number)) in look.bounds or key in look.failed:
        keys.append(key)
        number += 1
    return keys


def count_lag(state: BackupState, shape: TopicShape, look: SourceLook) -> int:
    """The offsets of a topic in no commit; -1 if a partition did not answer."""
    keys = partitions_of(shape, look)
    if any(key not in look.bounds for key in keys):
        return -1
    return sum(lag_of(state, shape, look, key) for key in keys)


def lag_of(state: BackupState, shape: TopicShape, look: SourceLook, key: TopicPartition) -> int:
    """The offsets of a partition in no commit. The partition has an answer."""
    bounds = look.bounds[key]
    position = state.positions.get(PartitionId(topic=key.topic, topic_id=shape.topic_id, partition=key.partition))
    return max(0, bounds.end - (bounds.start if position is None else position.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """What earlier looks of the process saw (epoch ms). `there_ms`, `whole_ms`, `caught_up_ms`: the last look that saw
    the topic, without a loss, with all of it in commits. `found_ms`: the first look since then that found the loss."""

    there_ms: Mapping[TopicIncarnation, int] = field(default_factory=dict)
    whole_ms: Mapping[TopicIncarnation, int] = field(default_factory=dict)
    caught_up_ms: Mapping[TopicIncarnation, int] = field(default_factory=dict)
    found_ms: Mapping[tuple[TopicIncarnation, TopicState], int] = field(default_factory=dict)

    def after(self, state: BackupState, look: SourceLook) -> Sightings:
        """The sightings with one more look."""
        there_ms, whole_ms, found_ms = dict(self.there_ms), dict(self.whole_ms), dict(self.found_ms)
        caught_up_ms = dict(self.caught_up_ms)
        for shape in state.latest_shapes().values():
            incarnation, loss = shape.incarnation, find_presence(state, shape, look) or loss_of_log(state, shape, look)
            if loss is None or loss is TopicState.SHRUNK:
                there_ms[incarnation] = look.looked_ms
                for gone in (TopicState.GONE, TopicState.RECREATED):
                    found_ms.pop((incarnation, gone), None)
            if loss is None and is_whole(state, shape, look):
                whole_ms[incarnation] = look.looked_ms
                found_ms.pop((incarnation, TopicState.SHRUNK), None)
            if loss is None and count_lag(state, shape, look) == 0:
                caught_up_ms[incarnation] = look.looked_ms
            if loss is not None and loss.is_loss:
                found_ms.setdefault((incarnation, loss), look.looked_ms)
        return Sightings(there_ms=there_ms, whole_ms=whole_ms, caught_up_ms=caught_up_ms, found_ms=found_ms)

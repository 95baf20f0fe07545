"""Whether a source's logs are still those that were backed up: not cut back, and not those of topics made anew.

After an unclean leader election a log is cut back and written anew, and soon it is as long as before. Its leader epochs
give it away (KIP-101), and nothing else does: what leaders up to the one that we read from wrote no longer reaches as
far as what we have of it. What happens while a range is read, its reader sees in the same way.

Brokers before 2.8 give topics no ids, and a topic made anew begins in leader epoch 0 again: its records alone tell it
from the one before. Positions of today know their last batch, and workers compare it (`copy.backup.check_border`); for
positions of earlier versions the last batch of their segments is compared here. Topics that are or were compacted
cannot be told so, because compaction rewrites batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from offsite.copy.plan import PartitionBounds, SickPartition
from offsite.log.batch import BatchHeader, LastBatch
from offsite.log.range import TopicPartition
from offsite.log.stats import MAX_LEADER_EPOCHS
from offsite.model.errors import (
    Damaged,
    Denied,
    KafkaUnavailable,
    NoSuchTopic,
    OffsiteError,
    SourceTruncated,
    TopicReplaced,
)
from offsite.repository.commit import NO_EPOCH, PartitionId
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.store import Store

Known = tuple[int, int]
"""A leader epoch, and the offset up to which the backup has what leaders up to it wrote."""


class EpochEnds(Protocol):
    """The ends of the parts of logs that leaders up to an epoch wrote."""

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]: ...

    def epoch_end_now(self, partition: TopicPartition, epoch: int) -> int: ...


def cut_back(admin: EpochEnds, base: BackupState, bounds: Sequence[PartitionBounds]) -> list[SickPartition]:
    """The partitions of `bounds` whose log no longer is the one that `base` has. Asks one request per broker."""
    known = {TopicPartition(topic=b.topic, partition=b.partition): found for b in bounds if (found := _known(base, b))}
    ends = _epoch_ends(admin, known)
    return list(_judged(known, ends))


def _judged(
    known: Mapping[TopicPartition, Known], ends: Mapping[TopicPartition, int | OffsiteError]
) -> Iterator[SickPartition]:
    for key, end in sorted(ends.items()):
        if isinstance(end, OffsiteError):
            yield SickPartition(topic=key.topic, partition=key.partition, error=end)
        elif end < known[key][1]:
            yield SickPartition(topic=key.topic, partition=key.partition, error=_cut_back(key, known[key], end))


def _epoch_ends(admin: EpochEnds, known: Mapping[TopicPartition, Known]) -> Mapping[TopicPartition, int | OffsiteError]:
    """Of all at once; each on its own where one of them keeps the others from an answer."""
    epochs = {key: epoch for key, (epoch, _) in known.items()}
    try:
        return admin.epoch_ends(epochs) if epochs else {}
    except (KafkaUnavailable, NoSuchTopic, Denied):
        return {key: _epoch_end(admin, key, epoch) for key, epoch in epochs.items()}


def _epoch_end(admin: EpochEnds, key: TopicPartition, epoch: int) -> int | OffsiteError:
    try:
        return admin.epoch_end_now(key, epoch)
    except (KafkaUnavailable, NoSuchTopic, Denied) as error:
        return error


def _cut_back(key: TopicPartition, known: Known, end: int) -> SourceTruncated:
    epoch, reached = known
    now = f"ends at {end} now" if end >= 0 else "is not known to its leader any more"
    return SourceTruncated(
        f"{key} was cut back and written anew: what leaders up to epoch {epoch} wrote reached to {reached} and {now}",
        hint=f"keep this backup, and go on in another: offsite backup run --backup NEW --topics {key.topic}",
    )


def _known(base: BackupState, bounds: PartitionBounds) -> Known | None:
    """What to ask about a partition: nothing when it is new, or when the log has deleted all that we have of it."""
    known = PartitionId(topic=bounds.topic, topic_id=bounds.topic_id, partition=bounds.partition)
    position = base.positions.get(known)
    if position is None or position.end <= bounds.log_start:
        return None
    if position.leader_epoch != NO_EPOCH:
        return position.leader_epoch, position.end
    found = base.segments.get(known)
    segment = found.last if found else None
    return _of_segment(segment) if segment and segment.last_offset >= bounds.log_start else None


def _of_segment(segment: Segment) -> Known | None:
    """As far as commits of earlier versions tell."""
    if not 0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS:
        return None
    return max(segment.leader_epochs), segment.last_offset + 1


_BATCH_OFFSETS_MAX = 100_000
"""More offsets than a batch spans that was never compacted."""


class LogBatches(Protocol):
    """Batches of logs, each by an offset in it."""

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None: ...


def made_anew(
    admin: LogBatches, store: Store, base: BackupState, bounds: Sequence[PartitionBounds]
) -> Iterator[SickPartition]:
    """The partitions of `bounds`, of topics without ids, that go on where another log ended.

    Reads one batch from each end for every partition that has news. Raises what the store raises.
    """
    for each in bounds:
        known = PartitionId(topic=each.topic, topic_id="", partition=each.partition)
        position, found = base.positions.get(known), base.segments.get(known)
        segment = found.last if found else None
        if each.topic_id or position is None or position.last_batch or segment is None or each.was_compacted:
            continue
        if each.log_start <= segment.last_offset and position.end < each.end:
            problem = _identity_problem(admin, store, segment)
            if problem is not None:
                yield SickPartition(topic=each.topic, partition=each.partition, error=problem)


def _identity_problem(admin: LogBatches, store: Store, segment: Segment) -> OffsiteError | None:
    partition = TopicPartition(topic=segment.topic, partition=segment.partition)
    try:
        stored, held = _last_batch(store, segment), admin.batch_at(partition, segment.last_offset)
    except (KafkaUnavailable, Damaged) as error:
        return error
    if held is not None and LastBatch.of(held) == LastBatch.of(stored):
        return None
    return TopicReplaced(
        f"{partition} does not hold the batch that was backed up last, at offset {stored.base_offset}: the topic was "
        "made anew, or its log was cut back",
        hint=f"keep this backup, and go on in another: offsite backup run --backup NEW --topics {segment.topic}",
    )


def _last_batch(store: Store, segment: Segment) -> BatchHeader:
    reader = SegmentReader(store=store, segment=segment)
    near_end = max(segment.lowest_offset, segment.last_offset - _BATCH_OFFSETS_MAX)
    last = [chunk.batches[-1] for chunk in reader.chunks(start=near_end)]
    return (last or [chunk.batches[-1] for chunk in reader.chunks()])[-1]

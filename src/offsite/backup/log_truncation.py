"""Checks whether a source's logs are still the backed-up logs: not cut back, and not logs of recreated topics.

After an unclean leader election a log is cut back and written anew, and soon regains its old length. Only leader epochs
reveal the change (KIP-101): records written by leaders up to the epoch of the backup end earlier than the backup. A
follower that meets a new leader finds the offset up to which both logs agree (KIP-101, KIP-279): it asks for the end of
its newest epoch, and takes the lesser of the answer and its own end of the epoch in the answer; if it lacks that epoch,
it asks again with the next older one. A backup is a follower that never forgets, and applies the same rule. Where
epochs prove such an offset, the old history is closed there and the new history goes on (decision 0020); otherwise the
partition is sick. A reader detects a change during its range in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.backup.copy_plan import PartitionBounds, SickPartition
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.log_bounds import SICK_AFTER_S
from offsite.kafka.offsets import EpochEnd
from offsite.log.batch import BatchHeader, LastBatch
from offsite.log.range import PartitionId, TopicPartition
from offsite.log.stats import MAX_LEADER_EPOCHS
from offsite.model.errors import (
    Damaged,
    Denied,
    KafkaUnavailable,
    OffsiteError,
    SourceTruncated,
    StoreUnavailable,
    TopicReplaced,
)
from offsite.repository.commit import NO_EPOCH, CutBack
from offsite.repository.segments.part import PartedSegment, part_segment
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_BATCH_OFFSETS_MAX = 100_000
"""Larger than the offset span of any batch that was never compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpLog:
    """The backed-up `segments` of a partition, ending at an offset that a leader of `epoch` reported."""

    store: Store
    segments: SegmentList
    epoch: int

    def epoch_up_to(self, epoch: int) -> int | None:
        """The newest epoch of the log up to `epoch`; None where none exists."""
        epochs = {self.epoch, *(leader_epoch for segment in self.segments for leader_epoch in segment.leader_epochs)}
        return max((leader_epoch for leader_epoch in epochs if leader_epoch <= epoch), default=None)

    def names_its_epochs(self) -> bool:
        """Whether the segments name all epochs of their batches. Segments of a broken cluster may not."""
        return all(0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS for segment in self.segments)

    def end_of(self, epoch: int) -> int:
        """The end of the last batch before the first batch of a later epoch, or of the last batch of all. Missing
        offsets behind the end may belong to any epoch. The backup holds none of them, so going back before them loses
        nothing. Raises `DamagedObject` and the errors of the store."""
        reached = 0
        for segment in self.segments:
            if max(segment.leader_epochs) > epoch:
                return self._end_in(segment, epoch, reached)
            reached = segment.last_offset + 1
        return reached

    def parted(self, at: int) -> PartedSegment:
        """The parts of the segment that reaches over `at`, or none, with the last batch before `at`, if any. Raises as
        `part_segment`."""
        below = [segment for segment in self.segments if segment.start < at]
        if below and below[-1].end > at:
            parted = part_segment(below[-1], at, self.store)
            if parted.border is not None:
                return parted
            before = LastBatch.of(last_batch(self.store, below[-2])) if below[1:] else None
            return PartedSegment(below=None, above=parted.above, border=before)
        border = LastBatch.of(last_batch(self.store, below[-1])) if below else None
        return PartedSegment(below=None, above=None, border=border)

    def _end_in(self, segment: Segment, epoch: int, reached: int) -> int:
        for chunk in SegmentReader(store=self.store, segment=segment).chunks():
            for header in chunk.batches:
                if header.leader_epoch > epoch:
                    return reached
                reached = header.next_offset
        return reached


def agreed_end(admin: ClusterAdmin, backed_up: BackedUpLog, key: TopicPartition, leader_end: EpochEnd) -> int | None:
    """The offset up to which the leader's log and `backed_up` agree. `leader_end` is the leader's answer about our
    newest epoch. 0: everything that the leader knows is older than the backup. None: the leader knows none of our
    epochs, or our epochs are unknown. Raises the errors of asking."""
    if not backed_up.names_its_epochs():
        return None
    while leader_end.end >= 0:
        epoch = backed_up.epoch_up_to(leader_end.epoch)
        if epoch is None:
            return 0
        if epoch == leader_end.epoch:
            return min(leader_end.end, backed_up.end_of(epoch))
        leader_end = admin.epoch_end_now(key, epoch)
    return None


def last_batch(store: Store, segment: Segment) -> BatchHeader:
    """The last batch of a segment. Raises `DamagedObject` and the errors of the store."""
    reader = SegmentReader(store=store, segment=segment)
    near_end = max(segment.lowest_offset, segment.last_offset - _BATCH_OFFSETS_MAX)
    last = [chunk.batches[-1] for chunk in reader.chunks(start=near_end)]
    return (last or [chunk.batches[-1] for chunk in reader.chunks()])[-1]


BackedUpEnd = tuple[int, int]
"""A leader epoch, and the end offset of backed-up records from leaders up to the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncations:
    """The partitions whose log differs from the backed-up log. `cuts`: both logs agree up to an offset, and the old
    history can be closed there; `borders`: the last batches before the cuts. `sick`: no evidence exists, or the leader
    cannot be asked."""

    cuts: tuple[CutBack, ...] = ()
    borders: Mapping[PartitionId, LastBatch | None] = field(default_factory=dict)
    sick: tuple[SickPartition, ...] = ()

    def positions(self, base: BackupState) -> dict[PartitionId, int]:
        """The next offset to copy of every partition of `base`."""
        return base.accounted_ends() | {cut.partition_id: cut.at for cut in self.cuts}

    def last_batches(self, base: BackupState) -> dict[PartitionId, LastBatch]:
        """The last batch before the next offset to copy, where known."""
        before = {partition_id: position.last_batch for partition_id, position in base.positions.items()}
        return {partition_id: batch for partition_id, batch in (before | dict(self.borders)).items() if batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAnswer:
    """A leader's answer about the newest backed-up epoch of a partition: the end of the epoch in the leader's log, or
    the reason for no answer."""

    bounds: PartitionBounds
    backed_up_end: BackedUpEnd
    end: EpochEnd | OffsiteError

    def has_diverged(self, base: BackupState) -> bool:
        """Whether the leader's log ends one of our epochs earlier than the backup, or lacks the newest epoch of our
        records although the log may be as long (KIP-279). False without an answer."""
        if isinstance(self.end, OffsiteError):
            return False
        epoch, reached = self.backed_up_end
        last = base.segments.get(self.bounds.partition_id, SegmentList()).last
        newest = max(last.leader_epochs, default=NO_EPOCH) if last and self.end.epoch < epoch else NO_EPOCH
        return self.end.end < reached or newest > self.end.epoch


def ask_leaders(
    admin: ClusterAdmin, base: BackupState, bounds: Sequence[PartitionBounds], *, patience_s: float = SICK_AFTER_S
) -> Iterator[LeaderAnswer]:
    """Ask the leaders of `bounds` for the ends of the newest epochs in `base`, for partitions that the backup and the
    log share. Sends a request per broker."""
    backed_up = {
        partition.topic_partition: (partition, backed_up_end)
        for partition in bounds
        if (backed_up_end := _find_backed_up_end(base, partition))
    }
    epochs = {key: epoch for key, (_, (epoch, _)) in backed_up.items()}
    ends = admin.epoch_ends(epochs, patience_s=patience_s) if epochs else {}
    for key, end in sorted(ends.items()):
        partition, backed_up_end = backed_up[key]
        yield LeaderAnswer(bounds=partition, backed_up_end=backed_up_end, end=end)


def find_truncations(
    admin: ClusterAdmin, store: Store, base: BackupState, bounds: Sequence[PartitionBounds]
) -> Truncations:
    """Find the partitions of `bounds` whose log differs from the log in `base`. Sends a request per broker, and a few
    more for every truncated log. Raises the errors of the store."""
    cuts: list[CutBack] = []
    borders: dict[PartitionId, LastBatch | None] = {}
    sick: list[SickPartition] = []
    for answer in ask_leaders(admin, base, bounds):
        partition = answer.bounds
        try:
            if isinstance(answer.end, OffsiteError):
                raise answer.end
            if answer.has_diverged(base):
                cut, borders[partition.partition_id] = _cut(
                    admin, store, base, partition, answer.backed_up_end, answer.end
                )
                cuts.append(cut)
        except OffsiteError as error:
            if isinstance(error, StoreUnavailable):
                raise
            sick.append(SickPartition(topic=partition.topic, partition=partition.partition, error=error))
    return Truncations(cuts=tuple(cuts), borders=borders, sick=tuple(sick))


def _cut(  # noqa: PLR0913, PLR0917  # the two ends, and what is known of either
    admin: ClusterAdmin,
    store: Store,
    base: BackupState,
    bounds: PartitionBounds,
    backed_up_end: BackedUpEnd,
    end: EpochEnd,
) -> tuple[CutBack, LastBatch | None]:
    """The offset at which the histories part, if provable, and the last batch before the offset. Raises the reason when
    the offset cannot be proven."""
    key, (epoch, _) = bounds.topic_partition, backed_up_end
    log = BackedUpLog(store=store, segments=base.segments.get(bounds.partition_id, SegmentList()), epoch=epoch)
    at = None if _cannot_tell(base, bounds, epoch) else agreed_end(admin, log, key, end)
    if at is None or at <= bounds.log_start != 0:
        raise _cut_back(key, backed_up_end, end.end)
    parted = log.parted(at)
    if (border := parted.border) is not None:
        batch = admin.batch_at(key, border.last_offset)
        if batch is None or LastBatch.of(batch) != border:
            raise _cut_back(key, backed_up_end, end.end)
    cut = CutBack(
        partition_id=bounds.partition_id,
        at=at,
        end=base.positions[bounds.partition_id].end,
        epoch=epoch,
        leader_epoch=bounds.leader_epoch,
        below=parted.below,
        above=parted.above,
    )
    return cut, parted.border


def _cannot_tell(base: BackupState, bounds: PartitionBounds, epoch: int) -> bool:
    """Whether the offset cannot be proven. Without a topic id the log may be of another topic. Compaction rewrites
    batches. Within a single epoch rewritten records cannot be told apart. Earlier versions did not keep the
    evidence."""
    is_exact = base.positions[bounds.partition_id].is_exact
    return not bounds.topic_id or bounds.was_compacted or bounds.leader_epoch <= epoch or not is_exact


def _cut_back(key: TopicPartition, backed_up_end: BackedUpEnd, end: int) -> SourceTruncated:
    epoch, reached = backed_up_end
    now = f"end at offset {end} now" if end >= 0 else "are not known to the leader now"
    return SourceTruncated(
        f"{key} was cut back and written again: the records of leaders up to epoch {epoch} reached offset {reached}, "
        f"but {now}",
        hint=f"keep this backup, and continue in a new one: offsite backup run --backup NEW --topics {key.topic}",
    )


def _find_backed_up_end(base: BackupState, bounds: PartitionBounds) -> BackedUpEnd | None:
    """The epoch to ask the leader about. None when the partition is new, or when the log has deleted everything that
    the backup holds."""
    partition_id = bounds.partition_id
    position = base.positions.get(partition_id)
    if position is None or position.end <= bounds.log_start:
        return None
    if position.leader_epoch != NO_EPOCH:
        return position.leader_epoch, position.end
    segments = base.segments.get(partition_id)
    segment = segments.last if segments else None
    return _of_segment(segment) if segment and segment.last_offset >= bounds.log_start else None


def _of_segment(segment: Segment) -> BackedUpEnd | None:
    """The epoch as far as commits of earlier versions record epochs."""
    if not 0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS:
        return None
    return max(segment.leader_epochs), segment.last_offset + 1


def find_recreated(
    admin: ClusterAdmin, store: Store, base: BackupState, bounds: Sequence[PartitionBounds]
) -> Iterator[SickPartition]:
    """Find the partitions of `bounds`, of topics without ids, whose log continues where another log ended.

    Reads one batch from both ends for every partition with new records. Raises the errors of the store.

    Brokers before 2.8 give topics no ids, and a recreated topic begins in leader epoch 0 again: only its records tell
    both apart. A position of today knows its last batch, and workers compare that batch (`backup.copy.check_border`).
    For positions of earlier versions, the last batch of the segments is compared here. Compacted topics, past or
    present, cannot be compared, because compaction rewrites batches.
    """
    for partition in bounds:
        partition_id = PartitionId(topic=partition.topic, topic_id="", partition=partition.partition)
        position, segments = base.positions.get(partition_id), base.segments.get(partition_id)
        segment = segments.last if segments else None
        if partition.topic_id or position is None or position.last_batch or segment is None or partition.was_compacted:
            continue
        if partition.log_start <= segment.last_offset and position.end < partition.end:
            problem = _identity_problem(admin, store, segment)
            if problem is not None:
                yield SickPartition(topic=partition.topic, partition=partition.partition, error=problem)


def _identity_problem(admin: ClusterAdmin, store: Store, segment: Segment) -> OffsiteError | None:
    partition = TopicPartition(topic=segment.topic, partition=segment.partition)
    try:
        stored, current = last_batch(store, segment), admin.batch_at(partition, segment.last_offset)
    except (KafkaUnavailable, Damaged, Denied) as error:
        return error
    if current is not None and LastBatch.of(current) == LastBatch.of(stored):
        return None
    return TopicReplaced(
        f"{partition} does not have the last batch of the backup, at offset {stored.base_offset}: the topic was "
        "created again, or its log was cut back",
        hint=f"keep this backup, and continue in a new one: offsite backup run --backup NEW --topics {segment.topic}",
    )

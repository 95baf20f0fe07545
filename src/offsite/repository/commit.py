"""A commit: one numbered, immutable JSON object. The chain of commits is the backup.

A commit names the SHA-256 of the bytes of the previous commit, so a removed, swapped or altered commit is noticed. The
byte form is canonical (see `json_form`), so a writer recognises its own commit after a lost answer. Pure data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.bounds import MAX_COMMIT_TIME_MS, MAX_EPOCH
from offsite.model.errors import DamagedCommit, check
from offsite.model.untrusted.json_codec import (
    Count,
    First,
    Form,
    Inline,
    Nullable,
    OptionalFirst,
    PartitionNumber,
    Spare,
    TimeMs,
    TopicName,
)
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.segments.part import PART_FORM, SegmentPart
from offsite.repository.segments.segment import Segment, segment_from_json, segment_to_json

_DAMAGED_HINT = (
    "run offsite verify to see the remaining restore points; restore the object from the store's versions or from a "
    "copy, or continue under another backup name"
)

NO_PREVIOUS = ""
NO_EPOCH = -1
NOT_DELETED = -1
FOR_EVER = 0
LIVE = 0

CONSUMED, DECLARED = "consumed", "declared"
"""Reasons of holes without loss."""
UNACCOUNTED = "unaccounted"
"""The reason of a hole without an explanation: a commit moved a position past the offsets and did not account for them.
No writer of offsite does so."""


def _read_span_end(document: JsonObject, name: str) -> int:
    end = document.count(name)
    if document.count("start") >= end:
        raise document.wrong(name, "an offset behind its start")
    return end


def _check_cut(document: JsonObject, name: str) -> None:
    if document.count(name) >= document.count("end"):
        raise document.wrong(name, "an offset before its end")


def _check_epochs(document: JsonObject, name: str) -> None:
    if document.count("epoch") >= document.count(name):
        raise document.wrong(name, "a later epoch")


def _check_until(document: JsonObject, name: str) -> None:
    if name in document.fields:
        document.count(name)


def _read_commit_time(document: JsonObject, name: str) -> int:
    if (time_ms := document.count(name)) > MAX_COMMIT_TIME_MS:
        raise document.wrong(name, "a time that clocks can show")
    return time_ms


def _read_epoch(document: JsonObject, name: str) -> int:
    if not NO_EPOCH <= (epoch := document.integer(name)) <= MAX_EPOCH:
        raise document.wrong(name, "an epoch of a leader")
    return epoch


_SPAN_END, _COMMIT_TIME, _EPOCH = Form(_read_span_end), Form(_read_commit_time), Form(_read_epoch)
_BEFORE_END, _LATER_EPOCH, _UNTIL = First(_check_cut), First(_check_epochs), First(_check_until)
_SpanEnd = Annotated[int, _SPAN_END]
_SEGMENTS = Form(
    lambda document, name: tuple(map(segment_from_json, document.children(name))),
    lambda segments: list(map(segment_to_json, segments)),
)
_FORGOTTEN = Form(
    lambda document, name: tuple((span.count("start"), span.count("end")) for span in document.children(name)),
    lambda spans: [{"start": start, "end": end} for start, end in spans],
)


def damaged_commit(message: str) -> DamagedCommit:
    return DamagedCommit(message, hint=_DAMAGED_HINT)


def read_partition(document: JsonObject, _: str = "") -> PartitionId:
    return PartitionId(topic=document.topic(), topic_id=document.text("topic_id"), partition=document.partition())


def write_partition(partition_id: PartitionId) -> dict[str, JsonValue]:
    return {"topic": partition_id.topic, "topic_id": partition_id.topic_id, "partition": partition_id.partition}


_PARTITION = Form(read_partition, write_partition)
InlinePartition = Annotated[Inline[PartitionId], _PARTITION]
"""The members of the partition stand in the surrounding object."""
_ENDS = Form(
    lambda document, name: tuple((read_partition(end), end.count("end")) for end in document.children(name)),
    lambda ends: [{**write_partition(partition_id), "end": end} for partition_id, end in ends],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRead:
    """A run read a compacted topic too late: brokers may have removed tombstones that no run saw, and a restore may
    bring deleted keys back.

    The ends of `partitions` partitions were read at `since_ms`, and the copy of the rest had ended at `until_ms` (epoch
    ms by the store's clock). `times`: the number of passes with a late read, this one included.
    """

    since_ms: TimeMs
    until_ms: TimeMs
    partitions: Count
    times: Spare[Count] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """A topic as described by the source.

    `configs`: the non-default settings, sorted by name. `holds_schemas`: the topic holds the data of a schema registry.
    `was_compacted`: the cleanup policy was `compact` in this run or an earlier run, so records at the end may be
    missing. `deleted_ms`: when a run found the topic deleted at the source, by the store's clock (epoch ms); -1 while
    the topic exists or its existence is unknown. `configs_unread`: the run lacked the right to read the settings, and
    `configs` are from the last run with the right. `late`: the newest late read. `read_ms`: when the ends of all
    partitions were last read, if the newest pass did not read all of them (store's clock, epoch ms; 0: that pass did).
    """

    topic: TopicName
    topic_id: str
    partitions: PartitionNumber
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    holds_schemas: Spare[bool] = False
    was_compacted: Spare[bool] = False
    deleted_ms: Nullable[Spare[int]] = NOT_DELETED
    configs_unread: Spare[bool] = False
    late: Spare[LateRead | None] = None
    read_ms: Spare[TimeMs] = 0

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)

    @property
    def is_deleted(self) -> bool:
        """Whether the topic is known to be deleted at the source."""
        return self.deleted_ms != NOT_DELETED

    @property
    def partition_ids(self) -> Iterator[PartitionId]:
        """The ids of the topic's partitions, by number."""
        for number in range(self.partitions):
            yield PartitionId(topic=self.topic, topic_id=self.topic_id, partition=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a partition is backed up: every offset below `end` is in a segment, in a hole, or never existed.

    `log_start`: the first offset in the source's log. `end`: the next offset to read. `leader_epoch`: the epoch of the
    leader that reported the log's end; -1 if unknown. `last_batch`: the last batch in the backup; None if none exists,
    or if an earlier version wrote the commit.
    """

    partition_id: InlinePartition
    log_start: Count
    end: Count
    leader_epoch: Annotated[Nullable[Spare[int]], _EPOCH] = NO_EPOCH
    last_batch: Spare[LastBatch | None] = None

    def __post_init__(self) -> None:
        check(self.log_start >= 0 and self.end >= 0, f"position of {self.partition_id}")

    @property
    def is_exact(self) -> bool:
        """Whether no batch in the backup ends after the position. True for every position with a leader epoch."""
        return self.leader_epoch != NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHole:
    """Offsets `[start, end)` missing at the source when the source was read.

    `reason`: `retention` or `truncation`; `consumed`: all groups of the partition had committed beyond the hole;
    `declared`: the backup was created with the statement that the topic is emptied on purpose; `unaccounted`: unknown
    whether the source had the offsets.
    """

    start: Count
    end: _SpanEnd
    partition_id: InlinePartition
    reason: str

    @property
    def is_loss(self) -> bool:
        return self.reason not in {CONSUMED, DECLARED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehindPartition:
    """A partition that the commit's run could not back up to its end, with the id of the error."""

    partition_id: InlinePartition
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBack:
    """A truncation by a leader of a later epoch: from offset `at` on, the log differs from the backup, which reached to
    `end`.

    The evidence: `epoch` is the last epoch read by the backup. Of the records written by leaders up to `epoch`, the
    leader of `leader_epoch` has none from `at` on. `below`, `above`: the parts of the segment that spans `at`, None for
    a part without batches; both None if no segment spans `at`.
    """

    partition_id: InlinePartition
    at: Annotated[int, _BEFORE_END]
    end: int
    epoch: Annotated[int, _EPOCH]
    leader_epoch: Annotated[int, _LATER_EPOCH, _EPOCH]
    below: Annotated[Nullable[Spare[SegmentPart | None]], PART_FORM] = None
    above: Annotated[Nullable[Spare[SegmentPart | None]], PART_FORM] = None

    def __post_init__(self) -> None:
        check(0 <= self.at < self.end, f"cut of {self.partition_id}")
        check(0 <= self.epoch < self.leader_epoch, f"epochs of the cut of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenGap:
    """Offsets `[start, end)` outside of the segments, proven to hold no record. `evidence` names the proof, `seen_at`
    its offset (see `offsite.log.range.Gap`)."""

    start: Count
    end: _SpanEnd
    partition_id: InlinePartition
    evidence: str
    seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRange:
    """Offsets `[start, end)` of a partition, removed by retention because no remaining restore point needs them.

    The ends are those of segments, or reach beyond all data held on that side; a range at the beginning of the
    partition starts at 0. `branch`: the number of the closed history, `LIVE` for the continuing history.
    """

    start: Count
    end: _SpanEnd
    branch: Spare[Count] = LIVE
    partition_id: InlinePartition

    def __post_init__(self) -> None:
        check(0 <= self.start < self.end and self.branch >= LIVE, f"expired range of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedRange:
    """Offsets `[start, end)` of a partition, compacted in the backup, independently of the source: the segments hold
    the latest record of each key within the range. `until_ms`: the latest record time before the compaction (epoch ms),
    -1 if unknown."""

    start: Count
    end: _SpanEnd
    until_ms: Nullable[Spare[int]] = -1
    partition_id: InlinePartition

    def __post_init__(self) -> None:
        check(0 <= self.start < self.end, f"compacted range of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A user's request to keep restore point `seq`, with the `reason`, until a time by the store's clock (epoch ms;
    `FOR_EVER`). No commit drops a pinned point: the pin is removed before, or in the same commit."""

    seq: Count
    reason: str
    until_ms: Annotated[Spare[Count], _UNTIL] = FOR_EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A restore point with an ordered id and a consistent cut. `ends`: one end offset per partition. `classes` is
    empty, because the commit's cut holds the class of each topic. A state omits `ends` equal to the positions after the
    commit."""

    id: int
    taken_at_ms: int
    ends: Annotated[tuple[tuple[PartitionId, int], ...], _ENDS]
    classes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """The key of an object beside the commits, and the hash of its bytes."""

    key: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress:
    """The progress of a pass over the source, in offsets: `copied` of `planned`. `planned` are the offsets between the
    committed positions and the log ends at the start of the pass. Holes and gaps count as copied, because they are
    accounted for."""

    copied: Count
    planned: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """The content of a commit; number, time and chain are added on append.

    `topics` and `positions` may be full lists: unchanged entries are left out on commit. `segments` are new; `removed`:
    keys of live segments; `forgotten`: half-open ranges of commit numbers that stop being restore points. `groups`: the
    key of a stored group snapshot. `metadata`: the stored cluster settings. `registry`: the stored schema registry.
    `cut`: the stored consistent cut for the ends after the commit; `cut_refused`: the cut must not be used. `gaps`
    account, with `segments` and `holes`, for the offsets of moved positions. `explained`: holes of earlier commits of
    the same run, with a reason found later. `accounted`: the commit accounts for every offset; commits of earlier
    versions gave no such promise. `left_behind`: partitions that the run could not copy to their end, or not at all.
    `incomplete`: the run continues, and ends with a complete commit unless interrupted; `progress`: the run's progress
    at the commit, None in older commits. `read_ago_ms`: how long before the commit the run read the ends of the logs; 0
    if unknown, or without a compacted topic. `cut_back` applies before all other changes: the data above the cut
    becomes a closed branch, and positions continue from the cut.

    `expired`: ranges removed by retention; once the `forgotten` points are gone, no remaining point needs the segments
    inside, of the live history or of a branch. `compacted`: in these ranges `segments` hold fewer records than the
    `removed` segments. `pinned`: restore points to keep; `unpinned`: numbers of restore points without their pin from
    now on. `seal`: the commit only occupies its number; no source was read.
    """

    segments: Annotated[Spare[tuple[Segment, ...]], _SEGMENTS] = ()
    removed: Spare[tuple[str, ...]] = ()
    holes: Spare[tuple[RecordedHole, ...]] = ()
    explained: Spare[tuple[RecordedHole, ...]] = ()
    gaps: Spare[tuple[ProvenGap, ...]] = ()
    cut_back: Spare[tuple[CutBack, ...]] = ()
    left_behind: Spare[tuple[LeftBehindPartition, ...]] = ()
    accounted: Spare[bool] = False
    incomplete: Spare[bool] = False
    seal: Spare[bool] = False
    progress: Spare[PassProgress | None] = None
    read_ago_ms: Spare[Count] = 0
    positions: Spare[tuple[Position, ...]] = ()
    topics: Spare[tuple[TopicShape, ...]] = ()
    forgotten: Annotated[Spare[tuple[tuple[int, int], ...]], _FORGOTTEN] = ()
    expired: Spare[tuple[ExpiredRange, ...]] = ()
    compacted: Spare[tuple[CompactedRange, ...]] = ()
    pinned: Spare[tuple[Pin, ...]] = ()
    unpinned: Spare[tuple[int, ...]] = ()
    groups: Spare[str | None] = None
    metadata: Spare[SnapshotRef | None] = None
    registry: Spare[SnapshotRef | None] = None
    cut: Spare[SnapshotRef | None] = None
    cut_refused: Spare[bool] = False
    checkpoint: Spare[OptionalFirst[Checkpoint]] = None

    @property
    def touches_retention(self) -> bool:
        """Whether a reader without knowledge of retention would misread the commit."""
        return any((self.expired, self.compacted, self.pinned, self.unpinned))

    @property
    def drops_data(self) -> bool:
        """Whether the commit, by its word alone, removes restore points or their records."""
        return bool(self.expired or self.compacted or self.forgotten)

    @property
    def needs_judgement(self) -> bool:
        """Whether the commit removes data, or sets or removes pins. Such a commit is judged before anyone believes it
        (decision 0043)."""
        return self.drops_data or bool(self.pinned or self.unpinned)

    @property
    def is_upkeep(self) -> bool:
        """Whether the commit only maintains stored data (roll-up, compaction, retention, pin). The source was not read,
        so the commit is no sign of life of the backup."""
        says_of_source = (self.accounted, self.positions, self.topics, self.cut_back, self.holes)
        return (self.touches_retention or bool(self.removed or self.forgotten)) and not any(says_of_source)

    @property
    def snapshot_keys(self) -> tuple[str, ...]:
        """The keys of the objects beside the commits that the commit names."""
        refs = (ref.key for ref in (self.metadata, self.registry, self.cut) if ref is not None)
        return (*([self.groups] if self.groups else []), *refs)

    @property
    def outdates_cut(self) -> bool:
        """Whether the previous commit's cut no longer fits: the ends or the groups changed."""
        return bool(self.positions or self.cut_back or self.groups)

    @property
    def entry_count(self) -> int:
        """The number of entries in the long lists: the cost of reading the commit."""
        parts = (self.segments, self.removed, self.holes, self.explained, self.gaps, self.positions, self.expired)
        return sum(map(len, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit as stored. `committed_at_ms` is the store's clock, never below that of the previous commit. `catalog`:
    the hash of the seal of the previous commit's catalog, empty if the writer stored none; None in commits of earlier
    versions."""

    backup: str
    seq: Count
    previous: str
    writer: str
    committed_at_ms: Annotated[int, _COMMIT_TIME]
    changes: Inline[CommitChanges] = field(default_factory=CommitChanges)
    catalog: str | None = ""

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.changes.segments)

    @property
    def raw_bytes(self) -> int:
        return sum(segment.raw_bytes for segment in self.changes.segments)

    @property
    def stored_bytes(self) -> int:
        return sum(segment.stored_bytes for segment in self.changes.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommit:
    """A commit with the hash of its bytes, named by the next commit. `has_digest`: the commit contains a digest of its
    own bytes; commits of earlier versions contain none."""

    commit: Commit
    hash: str
    has_digest: bool = field(default=True, compare=False)

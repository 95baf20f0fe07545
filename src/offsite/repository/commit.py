"""A commit: one numbered, immutable JSON object; the chain of them is the backup.

A commit names the SHA-256 of the bytes of the one before, so that a removed, swapped or altered one is seen. Its byte
form is canonical (see `json_form`), which is how a writer recognises its own work after a lost answer. Pure data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from offsite.log.batch import LastBatch
from offsite.log.range import TopicPartition
from offsite.model.check import check
from offsite.repository.segments.part import SegmentPart
from offsite.repository.segments.segment import Segment

NO_PREVIOUS = ""
NO_EPOCH = -1
NOT_DELETED = -1
FOR_EVER = 0
LIVE = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicIncarnation:
    """A topic and its id: made again under the same name it is another one. The id is empty if the source has none."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionId:
    """One partition of one topic incarnation."""

    topic: str
    topic_id: str
    partition: int

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as Kafka names it."""
        return TopicPartition(topic=self.topic, partition=self.partition)

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """A topic as the source described it: `configs` are the non-default ones, sorted by name. `holds_schemas`: it is
    where a schema registry keeps what it knows. `was_compacted`: its cleanup policy was `compact` in this run or an
    earlier one, so that records at its end may be gone. `deleted_ms`: when a run found it deleted at the source, by the
    store's clock (epoch ms); -1 while it is there, or nobody can say. `configs_unread`: the run was not allowed to read
    its settings, and `configs` are those of the last run that was."""

    topic: str
    topic_id: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    holds_schemas: bool = False
    was_compacted: bool = False
    deleted_ms: int = NOT_DELETED
    configs_unread: bool = False

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)

    @property
    def is_deleted(self) -> bool:
        """Whether it is known to be deleted at the source."""
        return self.deleted_ms != NOT_DELETED

    @property
    def partition_ids(self) -> Iterator[PartitionId]:
        """The ids of its partitions, in the order of their numbers."""
        for number in range(self.partitions):
            yield PartitionId(topic=self.topic, topic_id=self.topic_id, partition=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a partition is backed up: everything below `end` is in segments, in holes, or never existed.

    `log_start` is the first offset the source still had; `end` the next offset to read. `leader_epoch`: that in which
    the source's leader told its end; -1 where it is not known. `last_batch`: the last one that is backed up; None where
    there is none, or an earlier version wrote the commit.
    """

    partition_id: PartitionId
    log_start: int
    end: int
    leader_epoch: int = NO_EPOCH
    last_batch: LastBatch | None = None

    def __post_init__(self) -> None:
        check(self.log_start >= 0 and self.end >= 0, f"position of {self.partition_id}")

    @property
    def is_exact(self) -> bool:
        """Whether nothing that is backed up reaches over it: so it is since positions know their leader epoch."""
        return self.leader_epoch != NO_EPOCH


CONSUMED, DECLARED = "consumed", "declared"
"""Reasons of holes that are no loss."""

UNACCOUNTED = "unaccounted"
"""The reason of a hole that no commit names: a commit moved a position past its offsets, and did not say what is there.
No writer of ours does so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHole:
    """Offsets `[start, end)` that the source no longer had when it was read.

    `reason`: `retention` or `truncation`. `consumed`: all groups that read the partition had committed beyond it.
    `declared`: whoever made the backup said that the topic is emptied on purpose. `unaccounted`: nobody says whether
    the source had them.
    """

    partition_id: PartitionId
    start: int
    end: int
    reason: str

    @property
    def is_loss(self) -> bool:
        return self.reason not in {CONSUMED, DECLARED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """A partition that the commit's run could not back up to its end, and the id of the error that kept it from it."""

    partition_id: PartitionId
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBack:
    """A log that a leader of a later epoch has cut back: from offset `at` on it is another one than what was backed up
    of it, to `end`. The evidence: of what leaders up to `epoch` wrote, the last epoch in which the backup had read, the
    leader of `leader_epoch` has nothing from `at` on. `below`, `above`: the parts of the segment that reaches over
    `at`, None for a part without batches; both None where there is no such segment."""

    partition_id: PartitionId
    at: int
    end: int
    epoch: int
    leader_epoch: int
    below: SegmentPart | None = None
    above: SegmentPart | None = None

    def __post_init__(self) -> None:
        check(0 <= self.at < self.end, f"cut of {self.partition_id}")
        check(0 <= self.epoch < self.leader_epoch, f"epochs of the cut of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenGap:
    """Offsets `[start, end)` outside the segments that hold no record. `evidence` says by what that is known, `seen_at`
    where (see `offsite.log.chunk.Gap`)."""

    partition_id: PartitionId
    start: int
    end: int
    evidence: str
    seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRange:
    """Offsets `[start, end)` of a partition that retention let go: no restore point that is left needs them. Its ends
    are those of segments, or it reaches over all that is held on that side; one that begins where the partition does
    starts at 0. `branch`: the number of the closed history that it is of, `LIVE` for the one that goes on."""

    partition_id: PartitionId
    start: int
    end: int
    branch: int = LIVE

    def __post_init__(self) -> None:
        check(0 <= self.start < self.end and self.branch >= LIVE, f"expired range of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedRange:
    """Offsets `[start, end)` of a partition of which its segments hold the latest record of each key, and not those
    that it superseded within the range: compacted here, whatever the source does. `until_ms`: the latest time of a
    record that they held before (epoch ms), -1 where it is not known."""

    partition_id: PartitionId
    start: int
    end: int
    until_ms: int = -1

    def __post_init__(self) -> None:
        check(0 <= self.start < self.end, f"compacted range of {self.partition_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The wish of a person that restore point `seq` stays, with the `reason`, until a time by the store's clock (epoch
    ms; `FOR_EVER`). No commit drops a point that is pinned: the pin is taken off first, or in the same commit."""

    seq: int
    reason: str
    until_ms: int = FOR_EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A restore point with an ordered id and a consistent cut: `ends` holds one end offset per partition; `classes` is
    empty, for the cut of the commit has the class of each topic. In a state `ends` are left out where they are all the
    positions that its commit leaves."""

    id: int
    taken_at_ms: int
    ends: tuple[tuple[PartitionId, int], ...]
    classes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """An object beside the commits, and the hash of its bytes."""

    key: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress:
    """How far a pass over the source is, in offsets: `copied` of the `planned` ones, which lay between the committed
    positions and the ends of the logs when it began. Holes and gaps count as copied: they are accounted for."""

    copied: int
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a writer wants to commit; number, time and chain are added when it is appended.

    Full lists of `topics` and `positions` may be given: those that did not change are left out.
    `removed` are keys of live segments; `forgotten` are half-open ranges of commit numbers that stop being restore
    points. `groups` is the key of a group snapshot that is already stored; `metadata` names the cluster's settings,
    which are stored already too, `cut` the consistent cut for the ends that the commit leaves. `gaps` complete what
    `segments` and `holes` account for of the moved positions; `explained` are holes of earlier commits of the same run,
    with the reason that was found since; `cut_refused`: the cut must not be used;
    `accounted`: together they account for every offset. Commits of earlier versions did not say so. `left_behind` are
    partitions that this run could not copy, or not to their end. `incomplete`: the run goes on; a commit of it that is
    complete follows, unless it is broken off; `progress` is how far it was then, None in older commits.
    `cut_back` comes before all else: what was backed up behind it becomes a closed branch, and positions go on from
    there.

    `expired` names what retention lets go: the segments inside, of the live history or of a branch, are needed by no
    restore point that is left once `forgotten` ones are gone. `compacted`: `segments` hold less of these ranges than
    the `removed` ones did. `pinned` keeps restore points, `unpinned` are numbers of those that are no longer kept so.
    `seal`: it does nothing but take its number, so that nobody else can; no source was looked at.
    """

    segments: tuple[Segment, ...] = ()
    removed: tuple[str, ...] = ()
    holes: tuple[RecordedHole, ...] = ()
    explained: tuple[RecordedHole, ...] = ()
    gaps: tuple[ProvenGap, ...] = ()
    accounted: bool = False
    cut_back: tuple[CutBack, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    incomplete: bool = False
    seal: bool = False
    progress: PassProgress | None = None
    positions: tuple[Position, ...] = ()
    topics: tuple[TopicShape, ...] = ()
    forgotten: tuple[tuple[int, int], ...] = ()
    expired: tuple[ExpiredRange, ...] = ()
    compacted: tuple[CompactedRange, ...] = ()
    pinned: tuple[Pin, ...] = ()
    unpinned: tuple[int, ...] = ()
    groups: str | None = None
    metadata: SnapshotRef | None = None
    cut: SnapshotRef | None = None
    cut_refused: bool = False
    checkpoint: Checkpoint | None = None

    @property
    def takes_away(self) -> bool:
        """Whether a reader that knows nothing of retention would take what is left for something else."""
        return any((self.expired, self.compacted, self.pinned, self.unpinned))

    @property
    def lets_go(self) -> bool:
        """Whether restore points, or records that they held, are gone with it on its word alone."""
        return bool(self.expired or self.compacted or self.forgotten)

    @property
    def is_to_judge(self) -> bool:
        """Whether it is believed only once it was judged (decision 0043): it lets something go, or sets or takes off
        pins."""
        return self.lets_go or bool(self.pinned or self.unpinned)

    @property
    def is_upkeep(self) -> bool:
        """Whether the commit only looks after what is held (a roll-up, a compaction, retention, a pin): nothing of the
        source was read for it, and it is no sign of life of a backup."""
        says_of_source = (self.accounted, self.positions, self.topics, self.cut_back, self.holes)
        return (self.takes_away or bool(self.removed or self.forgotten)) and not any(says_of_source)

    @property
    def snapshot_keys(self) -> tuple[str, ...]:
        """The keys of the objects beside the commits that it names."""
        refs = (each.key for each in (self.metadata, self.cut) if each is not None)
        return (*([self.groups] if self.groups else []), *refs)

    @property
    def outdates_cut(self) -> bool:
        """Whether the cut of the commit before is another state's afterwards: of other ends, or of other groups."""
        return bool(self.positions or self.cut_back or self.groups)

    @property
    def entries(self) -> int:
        """How many there are of what a commit may hold thousands of: what it costs to read them."""
        parts = (self.segments, self.removed, self.holes, self.explained, self.gaps, self.positions, self.expired)
        return sum(map(len, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit as stored. `committed_at_ms` is the store's clock, never below that of the commit before. `catalog` is
    the hash of the seal of the catalog of the commit before, empty where its writer kept none; None in commits of
    earlier versions, which did not say."""

    backup: str
    seq: int
    previous: str
    writer: str
    committed_at_ms: int
    changes: Changes = field(default_factory=Changes)
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
    """A commit with the hash of its bytes, which the next one names. `has_digest`: it vouches for its bytes itself;
    those of earlier versions do not."""

    commit: Commit
    hash: str
    has_digest: bool = field(default=True, compare=False)

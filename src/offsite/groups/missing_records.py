"""The groups of a restore point that may not get their offsets: their next records are missing, or the records they
have read are not restored. Pure.

A group below records that the backup lacks would continue behind them, and nobody would ever process the missing
records. An exactly-once group that is moved back to the restored end would process records twice: its outputs already
exist. Both are refused by name. A plain group behind the restored end reads some records again: at-least-once never
promised more.

A group is not refused when the *source* had deleted its next records before the group could read them: the backup's cut
names such groups (`CommitCut.behind`). Such a group stands at the next existing record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from offsite.log.range import PartitionId, Span, TopicIncarnation, TopicPartition
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.repository.state import BackupState
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOffset:
    """Group `group` does not get `offset` of a partition of the source, for the reason `why`."""

    group: str
    topic: str
    partition: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierOffsets:
    """Offsets on a topic as of `commit`, an earlier commit than the restore point: of all groups (`group` is empty),
    because the topic was deleted since, or of one group that is gone. `gone_since`: the first commit without the group;
    0 for a deleted topic. `cut`: the cut of the commit; None without one. Time: epoch ms by the store's clock.

    Offsets may be of an earlier commit than the records. An exactly-once group may have read on since, and is refused,
    unless the group had read all existing records.
    """

    incarnation: TopicIncarnation
    group: str
    commit: int
    committed_at_ms: int
    gone_since: int = 0
    cut: CommitCut | None = None

    def covers(self, group: str, incarnation: TopicIncarnation) -> bool:
        """Whether the offsets of the group on the topic are included."""
        return incarnation == self.incarnation and self.group in {"", group}


@dataclass(frozen=True, slots=True)
class EarlierByTopic:
    """Earlier offsets by topic: a backup may have thousands of deleted topics."""

    by_topic: Mapping[TopicIncarnation, Sequence[EarlierOffsets]]

    @classmethod
    def of(cls, earlier: Iterable[EarlierOffsets]) -> EarlierByTopic:
        by_topic: dict[TopicIncarnation, list[EarlierOffsets]] = {}
        for offsets in earlier:
            by_topic.setdefault(offsets.incarnation, []).append(offsets)
        return cls(by_topic)

    def find(self, group: str, incarnation: TopicIncarnation) -> EarlierOffsets | None:
        """The first earlier offsets of the group on the topic."""
        on_topic = self.by_topic.get(incarnation, ())
        return next((offsets for offsets in on_topic if offsets.covers(group, incarnation)), None)


@dataclass(frozen=True, kw_only=True)  # no slots: the tables are made once
class AvailableRecords:
    """The records of a restore point in every restored partition: every record from its begin in `begins` on, except
    `holes` (rising spans). `behind`: group, partition and offset of groups whose source also lacked their next records.
    `exactly_once`: groups seen to commit in transactions. `earlier`: offsets of commits before the point."""

    begins: Mapping[PartitionId, int]
    holes: Mapping[PartitionId, Sequence[Span]]
    behind: frozenset[tuple[str, PartitionId, int]] = frozenset()
    exactly_once: frozenset[str] = frozenset()
    earlier: tuple[EarlierOffsets, ...] = ()

    def why_not(self, group: str, partition_id: PartitionId, offset: int, *, end: int) -> str:
        """Why the group may not get the offset in a partition restored to `end`; empty when allowed."""
        missing = self._missing(partition_id, offset, end)
        if missing and not self.is_behind(group, partition_id, offset):
            first, last = missing[0][0], missing[-1][1] - 1
            count = sum(high - low for low, high in missing)
            return f"{amount(count, 'unread offset is', 'unread offsets are')} missing, from {first:,} to {last:,}"
        if offset > end and group in self.exactly_once:
            return (
                f"the group had read to {offset:,} in transactions, but the restored partition ends at {end:,}: its "
                "outputs would be duplicated"
            )
        of = self._earlier.find(group, partition_id.incarnation) if group in self.exactly_once else None
        if of is not None and offset < end:
            return (
                f"the group had read to {offset:,} in transactions at commit {of.commit}, and may have read more "
                f"before it disappeared: its outputs may be duplicated; restore commit {of.commit}, if it is still a "
                "restore point: it has inputs and outputs"
            )
        return ""

    @cached_property
    def _earlier(self) -> EarlierByTopic:
        return EarlierByTopic.of(self.earlier)

    def _missing(self, partition_id: PartitionId, offset: int, end: int) -> list[Span]:
        """The missing offsets from `offset` on, before `end`."""
        spans = [(offset, min(self.begins[partition_id], end)), *self.holes.get(partition_id, ())]
        cut = [(max(low, offset), min(high, end)) for low, high in spans]
        return [(low, high) for low, high in cut if low < high]

    def partition_id(self, topic: str, partition: int) -> PartitionId | None:
        """The restored partition of a topic name and number; None when not restored."""
        return self._by_name.get(TopicPartition(topic, partition))

    @cached_property
    def _by_name(self) -> Mapping[TopicPartition, PartitionId]:
        return {partition_id.topic_partition: partition_id for partition_id in self.begins}

    def is_behind(self, group: str, partition_id: PartitionId, offset: int) -> bool:
        return (group, partition_id, offset) in self.behind


def find_available_records(
    point: BackupState,
    partitions: Iterable[PartitionId],
    cut: CommitCut | None,
    *,
    earlier: tuple[EarlierOffsets, ...] = (),
) -> AvailableRecords:
    """The records of `point` in `partitions`. `cut`: the cut of the commit, restored or not. `earlier`: offsets of
    other commits, judged by the cut of their own commit."""
    cuts = [(None, cut), *((offsets, offsets.cut) for offsets in earlier)]
    stored_cuts = [(origin, stored_cut) for origin, stored_cut in cuts if stored_cut is not None]
    begins = {partition_id: _begin(point, partition_id) for partition_id in partitions}
    holes: dict[PartitionId, list[Span]] = {}
    for hole in point.holes:
        if hole.partition_id in begins:
            holes.setdefault(hole.partition_id, []).append((hole.start, hole.end))
    return AvailableRecords(
        begins=begins,
        holes={partition_id: sorted(spans) for partition_id, spans in holes.items()},
        behind=frozenset(
            (group.group, group.partition_id, group.offset)
            for origin, stored_cut in stored_cuts
            for group in stored_cut.behind
            if origin is None or origin.covers(group.group, group.partition_id.incarnation)
        ),
        exactly_once=frozenset(name for _, stored_cut in stored_cuts for name in stored_cut.exactly_once),
        earlier=earlier,
    )


def _begin(point: BackupState, partition_id: PartitionId) -> int:
    """The first available record of a partition. Before the first segment, no record of the source is missing:
    compaction removed the records."""
    position = point.positions.get(partition_id)
    return min(point.held_range(partition_id)[0], position.log_start if position else 0)


def read_commit_cut(store: Store, point: BackupState) -> CommitCut | None:
    """The cut of the point's commit; None without a cut, or with an unreadable one."""
    if point.cut is None:
        return None
    try:
        return get_commit_cut(store, point.cut)
    except OffsiteError as error:
        warned("cut_unread", error=error.id, why=error.message)
        return None

"""Which groups of a restore point may not get their offsets, because records that they would read next are missing, or
because what they have read is not restored. Pure.

A group below records that the backup lacks would go on behind them, and nobody would ever do that work. An exactly-once
group that is moved back to the restored end would do its work twice: its outputs are there. Both are refused by name. A
plain group behind the restored end reads again what it has read, which is all that at-least-once ever promised.

Not refused is a group whose next records the *source* had deleted before the group could read them: the backup's cut
tells which (`CommitCut.behind`). That group is where it was, at the next record that there is.

Offsets may be of an earlier commit than the records (`EarlierOffsets`). An exactly-once group may have read on since,
and is refused, unless it had read all that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from offsite.log.range import Span
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.commit import PartitionId, TopicIncarnation
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.repository.state import BackupState
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOffset:
    """Group `group` does not get `offset` of a partition of the source, and `why`."""

    group: str
    topic: str
    partition: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierOffsets:
    """Offsets on a topic that are those of `commit`, an earlier one than the restore point: of all groups (`group` is
    empty), because the topic was deleted since, or of one that is gone. `gone_since`: the commit that misses it first;
    0 for a deleted topic. `cut`: that of the commit; None where it has none. Time: epoch ms by the store's clock."""

    incarnation: TopicIncarnation
    group: str
    commit: int
    committed_at_ms: int
    gone_since: int = 0
    cut: CommitCut | None = None

    def covers(self, group: str, incarnation: TopicIncarnation) -> bool:
        """Whether the offsets of that group on that topic are among them."""
        return incarnation == self.incarnation and self.group in {"", group}


@dataclass(frozen=True, kw_only=True)  # no slots: the table of names is made once
class HeldRecords:
    """What a restore point has of each restored partition: every record from its begin in `begins` on, but for `holes`
    (rising spans). `behind`: group, partition and offset of those whose source had nothing more for them either.
    `exactly_once`: groups that were seen to commit in transactions. `earlier`: offsets of commits before the point."""

    begins: Mapping[PartitionId, int]
    holes: Mapping[PartitionId, Sequence[Span]]
    behind: frozenset[tuple[str, PartitionId, int]] = frozenset()
    exactly_once: frozenset[str] = frozenset()
    earlier: tuple[EarlierOffsets, ...] = ()

    def why_not(self, group: str, partition_id: PartitionId, offset: int, *, end: int) -> str:
        """Why the group may not get that offset in a partition that is restored to `end`; empty where it may."""
        missing = self._missing(partition_id, offset, end)
        if missing and not self.is_behind(group, partition_id, offset):
            first, last = missing[0][0], missing[-1][1] - 1
            count = sum(high - low for low, high in missing)
            return f"{count:,} offsets that it had not read are missing, from {first:,} to {last:,}"
        if offset > end and group in self.exactly_once:
            return f"it had read to {offset:,} in transactions, and {end:,} is the end: its outputs would be doubled"
        of = self._earlier(group, partition_id) if group in self.exactly_once else None
        if of is not None and offset < end:
            return (
                f"it had read to {offset:,} in transactions as of commit {of.commit}, and may have read on before it "
                f"was gone: its outputs might be doubled; commit {of.commit}, while it is a restore point, has both"
            )
        return ""

    def _earlier(self, group: str, partition_id: PartitionId) -> EarlierOffsets | None:
        return next((each for each in self.earlier if each.covers(group, partition_id.incarnation)), None)

    def _missing(self, partition_id: PartitionId, offset: int, end: int) -> list[Span]:
        """What is missing from `offset` on, before `end`."""
        spans = [(offset, min(self.begins[partition_id], end)), *self.holes.get(partition_id, ())]
        cut = [(max(low, offset), min(high, end)) for low, high in spans]
        return [(low, high) for low, high in cut if low < high]

    def partition_id(self, topic: str, partition: int) -> PartitionId | None:
        """The partition of that name, as it is restored; None where it is not."""
        return self._by_name.get((topic, partition))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, int], PartitionId]:
        return {(known.topic, known.partition): known for known in self.begins}

    def is_behind(self, group: str, partition_id: PartitionId, offset: int) -> bool:
        return (group, partition_id, offset) in self.behind


def held_records(
    point: BackupState,
    partitions: Iterable[PartitionId],
    cut: CommitCut | None,
    *,
    earlier: tuple[EarlierOffsets, ...] = (),
) -> HeldRecords:
    """What `point` has of `partitions`. `cut`: that of its commit, whether or not it is restored. `earlier`: offsets
    that are of other commits, each judged by the cut of its own."""
    cuts = [(None, cut), *((each, each.cut) for each in earlier)]
    known = [(each, found) for each, found in cuts if found is not None]
    begins = {partition_id: _begin(point, partition_id) for partition_id in partitions}
    holes: dict[PartitionId, list[Span]] = {}
    for hole in point.holes:
        if hole.partition_id in begins:
            holes.setdefault(hole.partition_id, []).append((hole.start, hole.end))
    return HeldRecords(
        begins=begins,
        holes={partition_id: sorted(spans) for partition_id, spans in holes.items()},
        behind=frozenset(
            (group.group, group.partition_id, group.offset)
            for of, found in known
            for group in found.behind
            if of is None or of.covers(group.group, group.partition_id.incarnation)
        ),
        exactly_once=frozenset(name for _, found in known for name in found.exactly_once),
        earlier=earlier,
    )


def _begin(point: BackupState, partition_id: PartitionId) -> int:
    """Where the records of a partition begin. Before the first segment nothing is missing that the source still has: it
    was compacted away."""
    position = point.positions.get(partition_id)
    return min(point.held_range(partition_id)[0], position.log_start if position else 0)


def commit_cut(store: Store, point: BackupState) -> CommitCut | None:
    """The cut of the point's commit; None where it has none, or none that can be read."""
    if point.cut is None:
        return None
    try:
        return get_commit_cut(store, point.cut)
    except OffsiteError as error:
        warned("cut_unread", error=error.id, why=error.message)
        return None

"""What results say of a restore point: the holes of its logs, truncated logs with the kept parts of their old
histories, and its consistent cut. Claims no more than the weakest class among the topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from offsite.cut.cut import TopicClass
from offsite.model.errors import Damaged
from offsite.model.names import PROTECTED_TOPICS, amount
from offsite.model.options import CutChoice
from offsite.model.units import format_time
from offsite.points.point_cut import NewerCommit, PointCut, choose_cut
from offsite.repository.commit import RecordedHole, TopicShape
from offsite.repository.snapshots.commit_cut import CommitCut, LeftOutTransactions
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_STRENGTH = [topic_class.value for topic_class in TopicClass]
_WEAKEST = _STRENGTH[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleReport:
    """A hole: offsets `[start, end)` that the source no longer had, or that nobody accounts for (`unaccounted`)."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


def hole_reports(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
    """Report every hole that is a loss, in the same order."""
    return _reports(hole for hole in holes if hole.is_loss)


def expected_deletions(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
    """Report every hole that is no loss: a hole behind all readers, or a declared hole."""
    return _reports(hole for hole in holes if not hole.is_loss)


def _reports(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
    return tuple(
        HoleReport(
            topic=hole.partition_id.topic,
            partition=hole.partition_id.partition,
            start=hole.start,
            end=hole.end,
            reason=hole.reason,
        )
        for hole in holes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTopic:
    """A compacted topic with a late read: a restore may bring keys back that were deleted between `since_ms` and
    `until_ms` (store's clock, epoch ms). `partitions`, `times`: see `LateRead`."""

    topic: str
    since_ms: int
    until_ms: int
    partitions: int
    times: int

    def __str__(self) -> str:
        again = f" (the newest of {self.times} times)" if self.times > 1 else ""
        return (
            f"a restore may bring back keys of {self.topic} that were deleted between {format_time(self.since_ms)} and "
            f"{format_time(self.until_ms)}: before {amount(self.partitions, 'partition')} could be copied, the source "
            f"had removed offsets, maybe tombstones{again}"
        )


def late_topics(shapes: Iterable[TopicShape]) -> tuple[LateTopic, ...]:
    """Report the topics with a late read, in the same order."""
    return tuple(
        LateTopic(
            topic=shape.topic,
            since_ms=shape.late.since_ms,
            until_ms=shape.late.until_ms,
            partitions=shape.late.partitions,
            times=shape.late.times,
        )
        for shape in shapes
        if shape.late is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchReport:
    """A closed history of a partition: offsets `[at, end)` as before the source cut its log back to `at`, found by
    commit `found_by`. `last_commit`: the newest restore point with the history; 0 where forgotten. `branch` counts the
    branches of the partition from 1."""

    topic: str
    partition: int
    branch: int
    at: int
    end: int
    records: int
    found_by: int
    last_commit: int

    def __str__(self) -> str:
        hint = (
            f"restore them with --commit {self.last_commit}"
            if self.last_commit
            else "no restore point has them any more"
        )
        return (
            f"the log of {self.topic}/{self.partition} was cut back to offset {self.at} and written again (an unclean "
            f"leader election?), found by commit {self.found_by}; the old records up to offset {self.end} are kept: "
            f"{hint}"
        )


def branch_reports(state: BackupState, *, since: int = 0) -> tuple[BranchReport, ...]:
    """Report every branch found by commit `since` or later, in the order of finding, without branches that retention
    let go."""
    return tuple(
        BranchReport(
            topic=branch.partition_id.topic,
            partition=branch.partition_id.partition,
            branch=branch.number,
            at=branch.at,
            end=branch.end,
            records=sum(segment.records for segment in branch.segments),
            found_by=branch.commit,
            last_commit=0 if state.history.find(branch.last_commit) is None else branch.last_commit,
        )
        for branch in state.branches
        if branch.commit >= since and (branch.segments or not branch.expired)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutReport:
    """Left-out transactions of a producer: their partitions, and a sentence with the reason."""

    name: str
    partitions: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyReport:
    """How far the topics of a restore point belong together. `cut`: consistent, or as-copied with the reason in `why`.
    `weakest`: the weakest of the `classes`, which are by topic. `left_out`: transactions that wrote to the topics, out
    of the first hundred left out; `left_out_count`: of the whole commit. `refused`: why the commit's cut must not be
    used. `notes`: further remarks on the cut. `newer`: the newest commit, if it was passed over for the cut of an
    earlier one; else None."""

    cut: str
    why: str
    weakest: str
    classes: tuple[tuple[str, str], ...]
    left_out_count: int = 0
    left_out: tuple[LeftOutReport, ...] = ()
    refused: str = ""
    notes: tuple[str, ...] = ()
    newer: NewerCommit | None = None


def report_consistency(cut: PointCut, topics: Collection[str]) -> ConsistencyReport:
    """Report on `topics`, by names at the source. A restore as copied is uncoordinated, whatever its writers do."""
    commit_cut = cut.used or CommitCut()
    classes = {
        topic: topic_class if topic_class in _STRENGTH else _WEAKEST for topic, topic_class in commit_cut.classes
    }
    of_topics = tuple((topic, classes.get(topic, _WEAKEST)) for topic in sorted(topics))
    return ConsistencyReport(
        cut=str(cut.choice),
        why=cut.why,
        weakest=max((topic_class for _, topic_class in of_topics), key=_STRENGTH.index, default=_WEAKEST),
        classes=of_topics,
        left_out_count=commit_cut.left_out_count,
        left_out=tuple(_left_out(commit_cut, set(topics))),
        refused=cut.refused,
        notes=(*commit_cut.notes, *(f"participant {participant.described}" for participant in commit_cut.participants)),
        newer=cut.newer,
    )


def consistency_of(store: Store, commit: BackupState, *, head: BackupState) -> ConsistencyReport:
    """The cut of a restore of `commit`, with newest state `head`. A damaged cut is reported, and hides nothing else."""
    try:
        cut = choose_cut(store, commit, CutChoice.AUTO, head=head)
    except Damaged as error:
        cut = PointCut(why=error.message, refused=error.message)
    return report_consistency(cut, commit.latest_shapes().keys() - PROTECTED_TOPICS)


def _left_out(cut: CommitCut, topics: Collection[str]) -> Iterator[LeftOutReport]:
    for transactions in cut.left_out:
        if any(name.rpartition("/")[0] in topics for name in transactions.partitions):
            yield report_left_out(transactions)


def report_left_out(transactions: LeftOutTransactions) -> LeftOutReport:
    return LeftOutReport(name=transactions.name, partitions=transactions.partitions, why=_why(transactions))


def _why(transactions: LeftOutTransactions) -> str:
    because = f": {transactions.because}" if transactions.because else ""
    match transactions.why:
        case "open":
            return "the transaction was still open at the commit"
        case "unfinished":
            return f"its commit marker was not yet in all of its partitions{because}"
        case "order":
            return f"it follows a transaction that is left out{because}"
        case "read":
            return f"it read records that are left out{because}"
        case _:
            return f"{transactions.why}{because}"

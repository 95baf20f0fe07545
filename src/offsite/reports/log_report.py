"""What results say of logs: holes, and truncated logs with the kept parts of their old histories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.repository.commit import RecordedHole
from offsite.repository.state import BackupState


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

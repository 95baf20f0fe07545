"""Values: the summary of a finished pass, and the totals of all passes of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.backup.committable import PartitionFailure
from offsite.backup.copy import BackupReceipt
from offsite.repository.commit import Position, RecordedHole
from offsite.repository.segments.figures import SegmentFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """Everything that a finished pass brought: the positions of its partitions, new holes, and failures. `receipts`: of
    all tasks in the order of the plan if every task succeeded, else None; without segments, holes and gaps of earlier
    commits. `figures`: of all `segments` segments."""

    positions: tuple[Position, ...]
    holes: tuple[RecordedHole, ...]
    failed: tuple[PartitionFailure, ...]
    receipts: tuple[BackupReceipt, ...] | None
    segments: int
    figures: SegmentFigures

    def followed_by(self, later: PassSummary) -> PassSummary:
        """Both passes of a run as one."""
        return replace(
            later,
            holes=(*self.holes, *later.holes),
            segments=self.segments + later.segments,
            figures=SegmentFigures.of((self.figures, later.figures)),
        )


_NOTHING = PassSummary(positions=(), holes=(), failed=(), receipts=(), segments=0, figures=SegmentFigures())


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTotals:
    """Totals of `count` passes of a run, summed up in `summary`. `commits_s`: duration of every commit in seconds.
    `throttled_s`: total seconds for which limits held back tasks."""

    summary: PassSummary = _NOTHING
    count: int = 0
    commits: int = 0
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    worker_peak_rss_bytes: int = 0

    def with_one(self, other: PassTotals) -> PassTotals:
        return PassTotals(
            summary=self.summary.followed_by(other.summary),
            count=self.count + other.count,
            commits=self.commits + other.commits,
            commits_s=(*self.commits_s, *other.commits_s),
            throttled_s=self.throttled_s + other.throttled_s,
            worker_peak_rss_bytes=max(self.worker_peak_rss_bytes, other.worker_peak_rss_bytes),
        )

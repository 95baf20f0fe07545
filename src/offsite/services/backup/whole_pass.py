"""What a pass has brought, once it is over, and what the passes of a run have brought together. Values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.copy.backup import BackupReceipt
from offsite.repository.commit import Position, RecordedHole
from offsite.repository.segments.figures import SegmentFigures
from offsite.services.backup.committable import PartitionFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePass:
    """All that a pass has brought, once it is over: where its partitions stand, the new holes, and what failed.
    `receipts`: of all tasks of the plan, in their order, where every one has ended well; else None. What earlier
    commits have of segments, holes and gaps is no more in them. `figures`: of all `segments`, so many."""

    positions: tuple[Position, ...]
    holes: tuple[RecordedHole, ...]
    failed: tuple[PartitionFailure, ...]
    receipts: tuple[BackupReceipt, ...] | None
    segments: int
    figures: SegmentFigures

    def followed_by(self, later: WholePass) -> WholePass:
        """Both passes of one run as one."""
        return replace(
            later,
            holes=(*self.holes, *later.holes),
            segments=self.segments + later.segments,
            figures=SegmentFigures.of((self.figures, later.figures)),
        )


_NOTHING = WholePass(positions=(), holes=(), failed=(), receipts=(), segments=0, figures=SegmentFigures())


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesSoFar:
    """What `count` passes of a run have brought: as one in `whole`. `commits_s`: seconds that each of their `commits`
    took; `throttled_s`: for which limits held their tasks back, added up."""

    whole: WholePass = _NOTHING
    count: int = 0
    commits: int = 0
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    worker_peak_rss_bytes: int = 0

    def with_one(self, other: PassesSoFar) -> PassesSoFar:
        return PassesSoFar(
            whole=self.whole.followed_by(other.whole),
            count=self.count + other.count,
            commits=self.commits + other.commits,
            commits_s=(*self.commits_s, *other.commits_s),
            throttled_s=self.throttled_s + other.throttled_s,
            worker_peak_rss_bytes=max(self.worker_peak_rss_bytes, other.worker_peak_rss_bytes),
        )

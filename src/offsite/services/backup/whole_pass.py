"""What a pass has brought, once it is over. Values."""

from __future__ import annotations

from dataclasses import dataclass

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

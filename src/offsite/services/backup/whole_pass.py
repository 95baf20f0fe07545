"""What a pass has brought, once it is over. Values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.copy.backup import BackupReceipt
from offsite.repository.commit import Position, RecordedHole
from offsite.repository.segments.segment import Segment
from offsite.services.backup.committable import PartitionFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """Sums over segments: records, bytes of the log, and bytes in the repository."""

    segments: int = 0
    records: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0

    def plus(self, segments: Sequence[Segment]) -> Brought:
        return Brought(
            segments=self.segments + len(segments),
            records=self.records + sum(each.records for each in segments),
            raw_bytes=self.raw_bytes + sum(each.raw_bytes for each in segments),
            stored_bytes=self.stored_bytes + sum(each.stored_bytes for each in segments),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePass:
    """All that a pass has brought, once it is over: where its partitions stand, the new holes, and what failed.
    `receipts`: of all tasks of the plan, in their order, where every one has ended well; else None. What earlier
    commits have of segments, holes and gaps is no more in them."""

    positions: tuple[Position, ...]
    holes: tuple[RecordedHole, ...]
    failed: tuple[PartitionFailure, ...]
    receipts: tuple[BackupReceipt, ...] | None
    brought: Brought

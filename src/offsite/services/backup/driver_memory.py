"""How much memory the driver of a backup needs: reckoned from its plan, by what was measured (`bench.many_ranges`)."""

from __future__ import annotations

from offsite.copy.plan import CopyPlan
from offsite.model.size import MIB
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES
from offsite.services.backup.copy_pass import CommitEvery

IDLE_BYTES = 310 * MIB
"""A driver with little to do: its Python process, and the JVM beside it."""
TASK_BYTES = 900
SEGMENT_BYTES = 550
"""What is held until the end of the run of a segment that was copied and committed: that it ended well, and where its
catalog has it."""
NEW_SEGMENT_BYTES = 5_600
"""And so much more for each segment of the commit that is being written."""
LARGEST_COMMIT = 1 / 3
"""The share of all segments that one commit may have where outcomes come so quickly that finding what is new takes
long: see `CommitEvery`."""


def driver_bytes(plan: CopyPlan) -> int:
    """About so many bytes, whatever the topics hold: it grows with segments, and flattens with large ones."""
    segments = sum(max(1, -(-task.estimated_bytes // TARGET_SEGMENT_BYTES)) for task in plan.tasks)
    at_once = max(min(segments, CommitEvery().segments), int(segments * LARGEST_COMMIT))
    held = len(plan.tasks) * TASK_BYTES + segments * SEGMENT_BYTES
    return IDLE_BYTES + held + at_once * NEW_SEGMENT_BYTES

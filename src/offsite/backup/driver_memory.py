"""Estimates the memory of the driver of a backup from its plan. The figures were measured with `bench.many_ranges`."""

from __future__ import annotations

from offsite.backup.copy_pass import CommitThresholds
from offsite.backup.copy_plan import CopyPlan
from offsite.model.units import MIB
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES

IDLE_BYTES = 310 * MIB
"""A driver with little to do: its Python process and the JVM beside it."""
TASK_BYTES = 900
SEGMENT_BYTES = 550
"""Kept until the end of the run for every copied and committed segment: its success, and its place in the catalog."""
NEW_SEGMENT_BYTES = 5_600
"""In addition for every segment of the commit under way."""
LARGEST_COMMIT = 1 / 3
"""The largest share of all segments in a single commit, when outcomes come faster than the search for new work: see
`CommitThresholds`."""


def driver_bytes(plan: CopyPlan) -> int:
    """The approximate memory in bytes, whatever the topics hold. Grows with the number of segments, and less with large
    segments."""
    segments = sum(max(1, -(-task.estimated_bytes // TARGET_SEGMENT_BYTES)) for task in plan.tasks)
    at_once = max(min(segments, CommitThresholds().segments), int(segments * LARGEST_COMMIT))
    bookkeeping_bytes = len(plan.tasks) * TASK_BYTES + segments * SEGMENT_BYTES
    return IDLE_BYTES + bookkeeping_bytes + at_once * NEW_SEGMENT_BYTES

"""What becomes of a topic's offsets, in the view of a restore's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.choices import OffsetsMode
from offsite.model.time import format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.restore.report.offsets import OffsetsReport, PartitionOffsetsReport
    from offsite.services.restore.report.plan import RestorePlanReport

LINES_MAX = 12
"""Partitions shown for a topic; the JSON has all."""


def describe_mode(offsets: OffsetsReport) -> str:
    """For the plan's table."""
    if offsets.mode == OffsetsMode.TRANSLATE:
        return "new, with a map"
    return f"kept, +{format_duration(offsets.extra_s)}" if offsets.extra_s >= 1 else "kept"


def render_offsets(console: Console, report: RestorePlanReport) -> None:
    """What has to be filled in and replayed, partition by partition, of the topics that keep their offsets."""
    for topic in report.topics:
        partitions = topic.offsets.partitions if topic.offsets.mode == OffsetsMode.PRESERVE else ()
        for each in partitions[:LINES_MAX]:
            console.print(f"  {topic.target}/{each.partition}: {_describe(each)}")
        if len(partitions) > LINES_MAX:
            console.print(f"  {topic.target}: {len(partitions) - LINES_MAX} partitions more, see -o json")


def _describe(each: PartitionOffsetsReport) -> str:
    parts = {
        f"{each.head_offsets:,} offsets used up before the log's start": each.head_offsets,
        f"{each.outcomes:,} outcomes of transactions replayed": each.outcomes,
        f"{each.gap_offsets:,} offsets in gaps filled with {each.filler}": each.gap_offsets,
    }
    took = f", about {format_duration(each.extra_s)}" if each.extra_s >= 1 else ""
    return ", ".join(text for text, count in parts.items() if count) + took

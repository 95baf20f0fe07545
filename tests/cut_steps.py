"""What led to every step of a cut, read from what the search recorded."""

from __future__ import annotations

from offsite.cut.cut import Cut, Hold, LeftOutSpan
from offsite.log.range import PartitionId


def held_back(cut: Cut) -> dict[PartitionId, int]:
    """The number of offsets by which a partition ends before its copied end; only partitions with a difference."""
    gaps = {partition: copied - cut.ends[partition] for partition, copied in cut.copied.items()}
    return {partition: gap for partition, gap in gaps.items() if gap}


def direct_causes(cut: Cut) -> dict[PartitionId, LeftOutSpan | Hold]:
    """For every partition with a changed floor or end: what set the floor, or without a floor the end."""
    causes: dict[PartitionId, LeftOutSpan | Hold] = {hold.partition: hold for hold in cut.holds}
    floors = cut.floors()
    for left_out in cut.left_out:
        for partition, written in left_out.span.written.items():
            if written.first == floors.get(partition):
                causes[partition] = left_out
    return causes


def chain(cut: Cut, step: LeftOutSpan | Hold) -> tuple[LeftOutSpan | Hold, ...]:
    """The steps that led to a step of the cut, beginning with the step itself: a step falls short of a line that the
    next step lowered. The last step is undecided, or short of an end as read."""
    by_source: dict[int, LeftOutSpan | Hold] = {id(left_out.span): left_out for left_out in cut.left_out}
    by_source.update((id(hold.record), hold) for hold in cut.holds)
    steps = [step]
    while steps[-1].cause is not None:
        steps.append(by_source[id(steps[-1].cause)])
    return tuple(steps)

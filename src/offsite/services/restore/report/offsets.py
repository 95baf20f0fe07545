"""What becomes of a topic's offsets in a restore, as people and scripts read it before they agree."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.copy.restore.preserve.plan import Filler, OffsetsVerdict, PreservedPartition, too_slow
from offsite.model.choices import OffsetsMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsetsReport:
    """`head_offsets` below the log's start are used up and deleted; `gap_offsets` without a record are filled with
    `filler` (`markers`, which nobody sees, or `tombstones`); `outcomes` of transactions are replayed. Gaps and
    `extra_s` are estimates."""

    partition: int
    head_offsets: int
    gap_offsets: int
    filler: str
    outcomes: int
    extra_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReport:
    """`mode` is preserve or translate; `reason` says why offsets that might be kept are not. `partitions` are those
    whose offsets cost anything, `extra_s` is how much longer the topic takes for them."""

    mode: OffsetsMode
    reason: str
    extra_s: float
    partitions: tuple[PartitionOffsetsReport, ...]


def report_offsets(offsets: OffsetsVerdict) -> OffsetsReport:
    costs_any = (each for each in offsets.partitions if each.head_offsets or each.gap_offsets or each.outcomes)
    return OffsetsReport(
        mode=OffsetsMode.PRESERVE if offsets.preserve else OffsetsMode.TRANSLATE,
        reason=offsets.reason,
        extra_s=round(offsets.extra_s, 1),
        partitions=tuple(map(_partition, costs_any)),
    )


def offsets_notes(offsets: OffsetsVerdict) -> list[str]:
    """What a person should know before."""
    if not offsets.preserve:
        return [f"{offsets.source} does not keep its offsets: {offsets.reason}"] if offsets.reason else []
    notes = []
    if slow := too_slow(offsets.partitions):
        notes.append(f"{offsets.source} may not get its offsets back: {slow}; --offsets translate has no such limit")
    if any(each.filler is Filler.TOMBSTONES for each in offsets.partitions):
        notes.append(
            f"{offsets.target} gets tombstones in the gaps of its log: consumers see them until it is compacted"
        )
    return notes


def _partition(each: PreservedPartition) -> PartitionOffsetsReport:
    return PartitionOffsetsReport(
        partition=each.chain.source.partition,
        head_offsets=each.head_offsets,
        gap_offsets=each.gap_offsets,
        filler=each.filler.value,
        outcomes=each.outcomes,
        extra_s=round(each.extra_s, 1),
    )

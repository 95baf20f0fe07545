"""Does each commit of a backup account for every offset that it moves a position past? Reads commits, no segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, PartitionId, ProvenGap
from offsite.repository.coverage import unaccounted
from offsite.repository.state import segment_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """Offsets `[start, end)` of which `commit` and every later restore point claim to know, and hold nothing."""

    topic: str
    partition: int
    start: int
    end: int
    commit: int


def passed_over(backup: Backup) -> Iterator[tuple[PassedOver, bool]]:
    """What no segment, hole or proven gap accounts for, and whether its commit promised that there is no such thing.

    Raises `DamagedCommit`.
    """
    before: dict[PartitionId, int] = {}
    for stored in backup.log.read(after=0):
        changes = stored.commit.changes
        judged = changes if changes.accounted else _as_earlier_versions_meant(changes)
        for left in unaccounted(judged, before):
            where = left.partition_id
            found = PassedOver(
                topic=where.topic,
                partition=where.partition,
                start=left.start,
                end=left.end,
                commit=stored.commit.seq,
            )
            yield found, changes.accounted
        for segment in changes.segments:
            known = segment_partition(segment)
            before[known] = max(before.get(known, 0), segment.last_offset + 1)
        for position in changes.positions:
            before[position.partition_id] = max(before.get(position.partition_id, 0), position.end)


def _as_earlier_versions_meant(changes: Changes) -> Changes:
    """They took a segment's whole range for accounted for."""
    meant = tuple(
        ProvenGap(
            partition_id=segment_partition(each),
            start=each.start,
            end=each.end,
            evidence="",
            seen_at=-1,
        )
        for each in changes.segments
    )
    return replace(changes, gaps=(*changes.gaps, *meant))

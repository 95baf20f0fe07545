"""Does each commit of a backup account for every offset that it moves a position past? Reads commits, no segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, PartitionId, Position, ProvenGap
from offsite.repository.coverage import unaccounted


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
    positions: dict[PartitionId, Position] = {}
    for stored in backup.log.read(after=0):
        changes = stored.commit.changes
        judged = changes if changes.accounted else _as_earlier_versions_meant(changes)
        for left in unaccounted(judged, positions):
            where = left.partition_id
            found = PassedOver(
                topic=where.topic,
                partition=where.partition,
                start=left.start,
                end=left.end,
                commit=stored.commit.seq,
            )
            yield found, changes.accounted
        positions.update({position.partition_id: position for position in changes.positions})


def _as_earlier_versions_meant(changes: Changes) -> Changes:
    """They took a segment's whole range for accounted for."""
    meant = tuple(
        ProvenGap(
            partition_id=PartitionId(topic=each.topic, topic_id=each.topic_id, partition=each.partition),
            start=each.start,
            end=each.end,
            evidence="",
            seen_at=-1,
        )
        for each in changes.segments
    )
    return replace(changes, gaps=(*changes.gaps, *meant))

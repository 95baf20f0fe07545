"""Does each commit of a backup account for every offset that it moves a position past? Reads commits, no segments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.repository.commit import Changes, PartitionId, ProvenGap, StoredCommit
from offsite.repository.coverage import Unaccounted, unaccounted
from offsite.repository.state import BackupState, segment_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """Offsets `[start, end)` of which `commit` and every later restore point claim to know, and hold nothing."""

    topic: str
    partition: int
    start: int
    end: int
    commit: int


class Coverage:
    """Takes the commits of a backup in order. `found` is what no segment, hole or proven gap accounts for, and whether
    its commit promised that there is no such thing."""

    def __init__(self) -> None:
        self.found: list[tuple[PassedOver, bool]] = []
        self._before: dict[PartitionId, int] = {}

    def take(self, stored: StoredCommit) -> None:
        changes = stored.commit.changes
        judged = changes if changes.accounted else _as_earlier_versions_meant(changes)
        for left in unaccounted(judged, self._before):
            self.found.append((_passed_over(left, stored.commit.seq), changes.accounted))
        for segment in changes.segments:
            self._reach(segment_partition(segment), segment.last_offset + 1)
        for position in changes.positions:
            self._reach(position.partition_id, position.end)

    def go_on_from(self, state: BackupState) -> None:
        """The commits up to `state` could not be read."""
        self._before = dict(state.reached())

    def _reach(self, known: PartitionId, end: int) -> None:
        self._before[known] = max(self._before.get(known, 0), end)


def _passed_over(left: Unaccounted, seq: int) -> PassedOver:
    where = left.partition_id
    return PassedOver(topic=where.topic, partition=where.partition, start=left.start, end=left.end, commit=seq)


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

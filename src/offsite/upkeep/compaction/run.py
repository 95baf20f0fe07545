"""The compaction of a backup: one commit replaces segments with all records by segments with the latest records.

The replaced objects stay for readers with a plan, and are collected later (see `upkeep.collection`). A crash leaves a
commit or none. If another writer commits meanwhile, the work is committed on top, if the segments read are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from offsite.engine.runner import Done, Failed, OnProgress, Runner, Shuffle, job_named
from offsite.log.range import LogRange
from offsite.model.errors import CommitLost
from offsite.model.journal import decided, warned
from offsite.model.names import amount
from offsite.model.units import GIB
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, CompactedRange
from offsite.repository.leftovers import living_since_ms
from offsite.repository.segments.segment import Segment
from offsite.repository.snapshots.audit_record import RECORDS, Deletion
from offsite.repository.state import BackupState
from offsite.upkeep.compaction.latest import count_buckets, find_latest, report_unreadable, send_latest
from offsite.upkeep.compaction.plan import CompactionPlan, is_unchanged, put_stretches
from offsite.upkeep.compaction.regions import CompactionPart, Region, make_parts
from offsite.upkeep.compaction.rewrite import RewrittenPart, rewrite_part
from offsite.upkeep.deletion import commit_upkeep

JOB_BYTES = 64 * GIB
"""Raw bytes of one job and one commit, about: the most work lost by a crash."""
COMMIT_ATTEMPTS = 20
BY = "compaction"
"""The kind of work named in audit lines."""
_WORTH = 0.95
"""A result above this ratio of the old size is discarded: rewriting would gain nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result: compacted regions, and their segments, records and bytes (as in Kafka) before and after.
    `left_alone`: regions not replaced, because they were unreadable, had changed meanwhile, or a restore began.
    `state`: the newest state."""

    state: BackupState
    regions: int = 0
    left_alone: int = 0
    segments_before: int = 0
    segments_after: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def with_region(self, region: Region, segments: Sequence[Segment]) -> CompactionResult:
        """The result with one more region, now with `segments`."""
        return replace(
            self,
            regions=self.regions + 1,
            segments_before=self.segments_before + len(region.segments),
            segments_after=self.segments_after + len(segments),
            records_before=self.records_before + region.records,
            records_after=self.records_after + sum(segment.records for segment in segments),
            bytes_before=self.bytes_before + region.raw_bytes,
            bytes_after=self.bytes_after + sum(segment.raw_bytes for segment in segments),
        )


def _unguarded() -> None:
    pass


def compact(
    backup: Backup,
    plan: CompactionPlan,
    *,
    runner: Runner,
    on_progress: OnProgress | None = None,
    guard: Callable[[], None] = _unguarded,
) -> CompactionResult:
    """Carry out `plan`, in as many commits as needed. An unreadable region stays unchanged, and is reported. `guard` is
    asked before each commit, behind the reading of the state that it follows: so nothing is added behind a seal. Raises
    `CommitLost` if other writers keep committing first, and the errors of `guard`, of the store and of Spark."""
    result = CompactionResult(state=plan.head)
    for regions in _jobs(plan.regions):
        result = _compact(backup, regions, result, runner=runner, on_progress=on_progress, guard=guard)
    return result


def _jobs(regions: Sequence[Region]) -> Iterator[list[Region]]:
    job: list[Region] = []
    size_bytes = 0
    for region in regions:
        if job and size_bytes + region.raw_bytes > JOB_BYTES:
            yield job
            job, size_bytes = [], 0
        job.append(region)
        size_bytes += region.raw_bytes
    if job:
        yield job


def _compact(  # noqa: PLR0913  # the work, the result so far, the tools
    backup: Backup,
    regions: Sequence[Region],
    result: CompactionResult,
    *,
    runner: Runner,
    on_progress: OnProgress | None,
    guard: Callable[[], None],
) -> CompactionResult:
    parts, routes = make_parts(regions)
    buckets = count_buckets(parts, slots=runner.slots)
    shuffle = Shuffle(
        buckets=buckets,
        find=partial(find_latest, store=backup.store, buckets=buckets),
        send=partial(send_latest, routes=routes),
        give_up=report_unreadable,
    )
    rewriting = partial(rewrite_part, store=backup.store, layout=backup.layout)
    with job_named(f"compact {backup.layout.backup}: {amount(len(regions), 'region')}, {amount(len(parts), 'part')}"):
        outcomes = runner.run_shuffled(parts, rewriting, shuffle, on_progress=on_progress)
    replacements = tuple(_replacements(regions, parts, outcomes))
    state, listed = _committed(backup, result.state, replacements, guard=guard)
    if listed:
        put_stretches(backup, [replacement.region for replacement in listed])
    result = replace(result, state=state, left_alone=result.left_alone + len(regions) - len(listed))
    for replacement in listed:
        result = result.with_region(
            replacement.region, replacement.segments if replacement.pays_off else replacement.region.segments
        )
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    """A region, and the segments to replace its own."""

    region: Region
    segments: tuple[Segment, ...]

    @property
    def pays_off(self) -> bool:
        return sum(segment.raw_bytes for segment in self.segments) <= _WORTH * self.region.raw_bytes


def _replacements(
    regions: Sequence[Region], parts: Sequence[CompactionPart], outcomes: Sequence[Done[RewrittenPart] | Failed]
) -> Iterator[_Replacement]:
    """The replacements of regions with all parts written."""
    for region, (low, high) in zip(regions, sorted({part.region_parts for part in parts}), strict=True):
        error = next((outcome.error for outcome in outcomes[low:high] if isinstance(outcome, Failed)), None)
        if error is None:
            rewritten = (outcome.value for outcome in outcomes[low:high] if isinstance(outcome, Done))
            yield _Replacement(
                region=region,
                segments=tuple(segment for rewritten_part in rewritten for segment in rewritten_part.segments),
            )
        else:
            partition = region.partition
            warned(
                "compaction_failed",
                topic=partition.topic,
                partition=partition.partition,
                error=error.id,
                why=error.message,
            )


def _committed(
    backup: Backup, state: BackupState, replacements: Sequence[_Replacement], *, guard: Callable[[], None]
) -> tuple[BackupState, Sequence[_Replacement]]:
    """The newest state, and the committed part of `replacements`: all that still fit, or none if a restore began
    meanwhile."""
    for attempt in range(COMMIT_ATTEMPTS):
        state = backup.state() if attempt else state
        guard()
        if living_since_ms(backup) is not None:
            decided("compaction_left", why="a running restore still needs the old segments")
            return state, ()
        valid = [replacement for replacement in replacements if is_unchanged(replacement.region, state)]
        try:
            return (_commit(backup, state, valid) if valid else state), valid
        except CommitLost:
            if attempt + 1 == COMMIT_ATTEMPTS:
                raise
    return state, ()


def _commit(backup: Backup, state: BackupState, replacements: Sequence[_Replacement]) -> BackupState:
    """A hardly smaller region keeps its segments. The compaction is recorded all the same: in a compacted range records
    may be missing."""
    replacing = [replacement for replacement in replacements if replacement.pays_off]
    regions = [replacement.region for replacement in replacements]
    changes = CommitChanges(
        segments=tuple(segment for replacement in replacing for segment in replacement.segments),
        removed=tuple(segment.key for replacement in replacing for segment in replacement.region.segments),
        compacted=tuple(
            CompactedRange(
                partition_id=region.partition,
                start=region.start,
                end=region.end,
                until_ms=max(segment.timestamp_max_ms for segment in region.segments),
            )
            for region in regions
        ),
    )
    decided(
        "compaction", regions=len(replacements), removed=len(changes.removed), into=len(changes.segments), why="dirty"
    )
    return commit_upkeep(backup, state, changes, deletions=tuple(map(_deletion, replacing)), by=BY)


def _deletion(replacement: _Replacement) -> Deletion:
    """The audit line for the old segments of a region, which are collected later."""
    region, records_left = replacement.region, sum(segment.records for segment in replacement.segments)
    where = LogRange(
        topic=region.partition.topic, partition=region.partition.partition, start=region.start, end=region.end
    )
    return Deletion(
        kind=RECORDS,
        what=f"{region.records - records_left} of {region.records} records of {where}",
        rule="compaction: replaced by later ones of their keys between restore points, aborted, or expired tombstones",
        bytes=max(0, sum(s.stored_bytes for s in region.segments) - sum(s.stored_bytes for s in replacement.segments)),
    )

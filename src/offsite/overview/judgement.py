"""Judges a backup by its state: problems, and notes that are no problem. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from offsite.model.names import amount, named
from offsite.model.units import format_duration, format_time
from offsite.reports.point_report import BranchReport, branch_reports, late_topics
from offsite.repository.commit import UNACCOUNTED, RecordedHole
from offsite.repository.snapshots.registry_snapshot import registry_commit
from offsite.repository.state import BackupState

STALE_AFTER_S = 24 * 3600
"""Age in seconds from which the newest commit gets attention: the least demanding common schedule is nightly."""

_AHEAD_MAX_S = 60
"""Seconds by which a commit may seem to lie in the future: stores round their clocks, and servers of a store differ a
little."""

_QUIET_S = 1800
"""Seconds without a commit after which a pass no longer counts as under way: a pass commits every 5 minutes."""

_NAMED_MAX = 5
"""Partitions named in a line of the status."""


def age_s(committed_at_ms: int, now_ms: int) -> int:
    """Age of a commit in seconds; negative only if no rounding of clocks explains the difference."""
    found_s = (now_ms - committed_at_ms) // 1000
    return found_s if found_s < -_AHEAD_MAX_S else max(0, found_s)


def problems_of(state: BackupState, now_ms: int, stale_after_s: int | None) -> Iterable[str]:
    """Reasons not to rely on a backup in the given state. `stale_after_s`: the age in seconds from which its newest
    commit is a reason; None: never."""
    if not state.history:
        yield "no restore point yet"
        return
    read_ms = state.completed_at_ms or state.committed_at_ms  # retention commits read nothing
    newest_ms = state.committed_at_ms if state.incomplete else read_ms
    old_s = age_s(newest_ms, now_ms)
    if old_s < 0:
        yield (
            f"commit {state.seq} is dated {format_duration(-old_s)} in the future: a clock was wrong, so the age of "
            "the newest backup is unknown"
        )
    if stale_after_s is not None and old_s > stale_after_s:
        yield f"last backup {format_duration(old_s)} ago"
    yield from _unfinished(state, old_s, now_ms, stale_after_s)
    if state.left_behind:
        lines = [f"{left_behind.partition_id} ({left_behind.error})" for left_behind in state.left_behind]
        yield f"the newest run could not back up {named(lines, most=_NAMED_MAX)}"
    yield from (str(branch) for branch in branch_reports(state) if _is_new(state, branch, now_ms))
    yield from _lost_offsets(state)


def _lost_offsets(state: BackupState) -> Iterable[str]:
    holes = [hole for hole in state.holes if hole.is_loss]
    if losses := [hole for hole in holes if hole.reason != UNACCOUNTED]:
        newest = sum(hole.is_loss and hole.reason != UNACCOUNTED for hole in state.as_point().holes)
        older = len(losses) - newest
        only = f" ({older} of the holes only in older restore points)" if older else ""
        yield (
            f"{amount(len(losses), 'hole')}: {amount(_offsets(losses), 'offset was', 'offsets were')} lost at the "
            f"source before their backup{only}"
        )
    if unaccounted := [hole for hole in holes if hole.reason == UNACCOUNTED]:
        topics = sorted({hole.partition_id.topic for hole in unaccounted})
        yield (
            f"{_offsets(unaccounted):,} offsets of {named(topics, most=_NAMED_MAX)} are in no segment, and the commit "
            "gives no reason: offsite never writes such a commit; offsite verify shows the commit"
        )


def _offsets(holes: Iterable[RecordedHole]) -> int:
    return sum(hole.end - hole.start for hole in holes)


def _unfinished(state: BackupState, old_s: int, now_ms: int, stale_after_s: int | None) -> Iterable[str]:
    """The meaning of an unfinished pass. Its commits only add to the restorable records and take nothing from the
    previous complete pass: the age of that pass decides. Before the end of the first pass no complete pass exists."""
    if not state.incomplete:
        return
    if not state.completed_at_ms and old_s > _QUIET_S:
        yield (
            f"the first pass has not ended{_so_far(state)}, and nothing was committed for {format_duration(old_s)}: "
            "the run ended or is stuck; run the backup again, it continues from there"
        )
    elif not state.completed_at_ms:
        yield f"the first pass is running{_so_far(state)}: the remaining records are not backed up yet"
    elif stale_after_s is not None and (behind_s := (now_ms - state.completed_at_ms) // 1000) > stale_after_s:
        yield f"no complete pass for {format_duration(behind_s)}: the newest pass has not ended{_so_far(state)}"


def _under_way(state: BackupState) -> Iterable[str]:
    if state.incomplete and state.completed_at_ms:
        yield (
            f"the newest pass has not ended{_so_far(state)}; the last complete pass was at "
            f"{format_time(state.completed_at_ms)}"
        )


def _so_far(state: BackupState) -> str:
    progress = state.progress
    return "" if progress is None else f" ({progress.copied:,} of {progress.planned:,} offsets copied)"


def _is_new(state: BackupState, branch: BranchReport, now_ms: int) -> bool:
    """Whether the branch was found so recently that a person may not have heard of it. Nothing is lost, so a branch is
    no problem for ever."""
    commit = state.history.find(branch.found_by)
    return commit is not None and now_ms - commit.committed_at_ms < STALE_AFTER_S * 1000


def notes_on(state: BackupState, now_ms: int) -> Iterable[str]:
    """Facts to know that are no reason against relying on the backup."""
    yield from _under_way(state)
    yield from (str(branch) for branch in branch_reports(state) if not _is_new(state, branch, now_ms))
    yield from _deleted(state)
    yield from _unread_settings(state)
    yield from _expected_deletions(state)
    yield from _late_reads(state)
    if commit := registry_commit(state):
        yield f"the schema registry is held, as of commit {commit}"


def _late_reads(state: BackupState) -> Iterable[str]:
    """Compacted topics of the newest point whose deleted keys may come back."""
    late = late_topics(state.latest_shapes().values())
    if late:
        times = [f"{topic.topic} ({format_time(topic.since_ms)} to {format_time(topic.until_ms)})" for topic in late]
        yield (
            f"a restore may bring back deleted keys of {named(times, most=_NAMED_MAX)}: by then the source had removed "
            "tombstones that no run may have seen; run the backup more often than delete.retention.ms"
        )


def _expected_deletions(state: BackupState) -> Iterable[str]:
    """Deletions that are no loss: applications empty some topics by themselves."""
    topics = sorted({hole.partition_id.topic for hole in state.holes if not hole.is_loss})
    if topics:
        deleted = _offsets(hole for hole in state.holes if not hole.is_loss)
        yield (
            f"{deleted:,} offsets of {named(topics, most=_NAMED_MAX)} were deleted at the source on purpose: all "
            "groups had read them, or --expect-deletes names the topic"
        )


def _deleted(state: BackupState) -> Iterable[str]:
    gone = [shape for shape in state.latest_shapes().values() if shape.is_deleted]
    for shape in gone[:_NAMED_MAX]:
        yield (
            f"topic {shape.topic} was deleted at the source at {format_time(shape.deleted_ms)} or before; the backup "
            "keeps it"
        )
    if gone[_NAMED_MAX:]:
        yield (
            f"{amount(len(gone) - _NAMED_MAX, 'more topic was', 'more topics were')} deleted at the source; the "
            "backup keeps them"
        )


def _unread_settings(state: BackupState) -> Iterable[str]:
    unread = [shape.topic for shape in state.latest_shapes().values() if shape.configs_unread and not shape.is_deleted]
    if unread:
        yield (
            f"the settings of {named(unread, most=_NAMED_MAX)} come from an earlier run: the newest run had no "
            "permission to read them (DESCRIBE_CONFIGS)"
        )

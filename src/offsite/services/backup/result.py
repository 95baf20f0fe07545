"""What a run of a backup tells at its end."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.repository.state import BackupState
from offsite.services.backup.committable import PartitionFailure
from offsite.services.backup.pass_commits import PassCommits
from offsite.services.backup.planned import BackupPlan
from offsite.services.backup.whole_pass import PassesSoFar
from offsite.services.branch_report import BranchReport, branch_reports
from offsite.services.groups.snapshots import GroupsSaved
from offsite.services.hole_report import HoleReport, expected_deletions, hole_reports


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Result of one run: what it added. `bytes` is the size in the log, `stored_bytes` in the repository; `holes` are
    the new ones that are a loss, and `expected_deletions` those that are none. Partitions in `failed` stand where they
    were (or where their first failed range begins): the next run continues. `cut_back` are logs of which this run found
    that a new leader had cut them back: the old history is kept. `not_read` are settings of the cluster that it did not
    let us read, `not_carried` is what it has and no backup holds, `unread_topics` topics whose settings are those of an
    earlier run, since this one was not allowed to read them; `groups` is None when none were asked for. `head_hash` is
    that of the commit's bytes; `no_cut` says why restores of it go to the ends as they were copied, and is empty where
    it has a consistent cut."""

    backup: str
    commit: int
    topics: int
    partitions: int
    segments: int
    records: int
    bytes: int
    stored_bytes: int
    holes: tuple[HoleReport, ...]
    failed: tuple[PartitionFailure, ...]
    cut_back: tuple[BranchReport, ...]
    missing_topics: tuple[str, ...]
    vanished_topics: tuple[str, ...]
    deleted_topics: tuple[str, ...]
    denied_topics: tuple[str, ...]
    not_read: tuple[str, ...]
    groups: GroupsSaved | None
    committed_at_ms: int
    head_hash: str
    worker_peak_rss_bytes: int
    commits: int
    unread_topics: tuple[str, ...] = ()
    no_cut: str = ""
    not_carried: tuple[str, ...] = ()
    expected_deletions: tuple[HoleReport, ...] = ()

    @property
    def complete(self) -> bool:
        of_groups = self.groups.failed if self.groups else ()
        return not any((self.holes, self.failed, self.cut_back, of_groups, self.unread_topics))


def result_of(
    plan: BackupPlan, passes: PassesSoFar, state: BackupState, made: PassCommits, *, since: int
) -> BackupResult:
    """What the run added to commit `since`. `plan`: of its last pass; `made` tells of its last commit, which left
    `state`."""
    whole, figures = passes.whole, passes.whole.figures
    holes = [made.explained.get(hole, hole) for hole in whole.holes]
    return BackupResult(
        backup=plan.backup,
        commit=state.seq,
        topics=len(plan.source.shapes),
        partitions=len(plan.copy.bounds),
        segments=whole.segments,
        records=figures.records,
        bytes=figures.raw_bytes,
        stored_bytes=figures.stored_bytes,
        holes=hole_reports(holes),
        failed=whole.failed,
        cut_back=branch_reports(state, since=since + 1),
        missing_topics=plan.source.missing,
        vanished_topics=plan.gone.vanished,
        deleted_topics=tuple(sorted({each.topic for each in plan.gone.deleted})),
        denied_topics=plan.gone.denied,
        not_read=plan.settings.not_read,
        not_carried=plan.settings.settings.not_carried,
        groups=made.groups,
        committed_at_ms=state.committed_at_ms,
        head_hash=state.head_hash,
        worker_peak_rss_bytes=passes.worker_peak_rss_bytes,
        commits=passes.commits,
        unread_topics=tuple(shape.topic for shape in plan.source.shapes if shape.configs_unread),
        no_cut=made.no_cut,
        expected_deletions=expected_deletions(holes),
    )

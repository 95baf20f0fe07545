"""The result of a backup run."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.backup.committable import PartitionFailure
from offsite.backup.pass_commits import PassCommits
from offsite.backup.planned import BackupPlan
from offsite.backup.whole_pass import PassTotals
from offsite.groups.snapshots import SavedGroups
from offsite.reports.branch_report import BranchReport, branch_reports
from offsite.reports.hole_report import HoleReport, expected_deletions, hole_reports
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Result of a run: what the run added. `bytes`: size in the log; `stored_bytes`: size in the repository. `holes`:
    new holes that are a loss; `expected_deletions`: new holes that are no loss. Partitions in `failed` stay where they
    were, or where their first failed range begins: the next run continues. `cut_back`: logs that a new leader cut back,
    found by the run; the old history is kept. `not_read`: cluster settings that the cluster did not let us read.
    `not_carried`: settings of the cluster that no backup holds. `unread_topics`: topics with the settings of an earlier
    run, because the run was not allowed to read them. `groups`: None when no groups were requested. `head_hash`: hash
    of the commit's bytes. `no_cut`: why restores of the commit go to the ends as copied; empty where the commit has a
    consistent cut."""

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
    groups: SavedGroups | None
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
    plan: BackupPlan, passes: PassTotals, state: BackupState, commits: PassCommits, *, since: int
) -> BackupResult:
    """Summarize what the run added since commit `since`. `plan` and `commits` belong to the last pass; its last commit
    left `state`."""
    whole, figures = passes.summary, passes.summary.figures
    holes = [commits.explained.get(hole, hole) for hole in whole.holes]
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
        deleted_topics=tuple(sorted({incarnation.topic for incarnation in plan.gone.deleted})),
        denied_topics=plan.gone.denied,
        not_read=plan.settings.not_read,
        not_carried=plan.settings.settings.not_carried,
        groups=commits.groups,
        committed_at_ms=state.committed_at_ms,
        head_hash=state.head_hash,
        worker_peak_rss_bytes=passes.worker_peak_rss_bytes,
        commits=passes.commits,
        unread_topics=tuple(shape.topic for shape in plan.source.shapes if shape.configs_unread),
        no_cut=commits.no_cut,
        expected_deletions=expected_deletions(holes),
    )

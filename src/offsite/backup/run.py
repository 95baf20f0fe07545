"""Runs a backup: read the source, plan, copy, commit, and say what came of it.

A run makes a commit, and a long run makes earlier commits. Uncommitted work of a dead run is only garbage. The state
of a backup is its repository: a run continues from the committed positions of any earlier run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.backup.copy import (
    BackupEnds,
    CopyBundle,
    CopyOutcome,
    RangeReads,
    TaskReader,
    copy_bundle,
)
from offsite.backup.copy_pass import CommitThresholds, CopyPass, PartitionFailure, PassSummary
from offsite.backup.copy_plan import CopyTask
from offsite.backup.pass_commits import PassCommits, PassContext, PassMemory
from offsite.backup.plan import BackupPlan, Replan
from offsite.backup.registry import RegistryReport, registry_options
from offsite.backup.source import schemas_options
from offsite.engine.runner import Done, Failed, OnProgress, Runner, RunProgress, job_named
from offsite.groups.history import history_options
from offsite.groups.snapshots import SavedGroups
from offsite.kafka.config import KafkaConfig
from offsite.model.clock import Clock, SystemClock, Wait
from offsite.model.errors import Bug, OffsiteError
from offsite.model.journal import decided, safe_trace, warned
from offsite.model.names import amount, named
from offsite.reports.point_report import (
    BranchReport,
    HoleReport,
    LateTopic,
    branch_reports,
    expected_deletions,
    hole_reports,
    late_topics,
)
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.segment import SegmentFigures
from offsite.repository.state import BackupState

NAMED_MAX = 3
"""At most so many partitions in a line: a broker that leads thousands must not fill the screen."""
PASSES_MAX = 5
"""Passes of a run that reads the ends again. From the second pass on, records about to be deleted are read while ends
are read."""
_NOTHING = PassSummary(positions=(), holes=(), failed=(), receipts=(), segments=0, figures=SegmentFigures())


class LastProgress:
    """Passes progress on and remembers the last one. `wait` names the partitions whose records have not arrived."""

    def __init__(
        self, on_progress: OnProgress | None, *, clock: Clock, open_partitions: Callable[[], Sequence[str]]
    ) -> None:
        self._on_progress, self._clock, self._open_partitions = on_progress, clock, open_partitions
        self._last: RunProgress | None = None
        self.wait = Wait(self._nothing_came, since_s=math.inf)
        self.worker_peak_rss_bytes = 0
        self.throttled_s = 0.0

    def __call__(self, now: RunProgress) -> None:
        # The first report comes before Spark is up: no broker was asked before the second.
        if self._last is not None and (_moved(now) != _moved(self._last) or self.wait.since_s == math.inf):
            self.wait.since_s = self._clock.monotonic_s()
        self._last = now
        self.worker_peak_rss_bytes = max(self.worker_peak_rss_bytes, now.worker_peak_rss_bytes)
        self.throttled_s = now.throttled_s + now.limited_s
        if self._on_progress is not None:
            self._on_progress(now)

    def _nothing_came(self) -> str:
        partitions = self._open_partitions()
        if not partitions:
            return "all partitions are copied, but the Spark job has not ended"
        return f"no progress in {named(partitions, most=NAMED_MAX, of='partitions')}"


def _moved(progress: RunProgress) -> tuple[float, ...]:
    """Figures that change while any work is under way. A pause demanded by a rate limit counts as a change."""
    ended = progress.tasks_done, progress.tasks_failed
    return (*ended, progress.moved_bytes, progress.throttled_s, progress.limited_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTotals:
    """Totals of `count` passes of a run, summed up in `summary`. `commits_s`: duration of every commit in seconds.
    `throttled_s`: total seconds for which limits held back tasks."""

    summary: PassSummary = _NOTHING
    count: int = 0
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    worker_peak_rss_bytes: int = 0

    def with_pass(self, summary: PassSummary, commits: PassCommits, last: LastProgress) -> PassTotals:
        """The totals with one more pass."""
        return PassTotals(
            summary=self.summary.followed_by(summary),
            count=self.count + 1,
            commits_s=(*self.commits_s, *commits.took_s),
            throttled_s=self.throttled_s + last.throttled_s,
            worker_peak_rss_bytes=max(self.worker_peak_rss_bytes, last.worker_peak_rss_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Result of a run: what the run added. `bytes`: size in the log; `stored_bytes`: size in the repository. `holes`:
    new holes that are a loss; `expected_deletions`: new holes that are no loss. Partitions in `failed` stay where they
    were, or where their first failed range begins: the next run continues. `cut_back`: logs that a new leader cut back,
    found by the run; the old history is kept. `not_read`: cluster settings that the cluster did not let us read.
    `not_carried`: settings of the cluster that no backup holds. `unread_topics`: topics with the settings of an earlier
    run, because the run was not allowed to read them. `groups`: None when no groups were requested. `head_hash`: hash
    of the commit's bytes. `no_cut`: why restores of the commit go to the ends as copied; empty where the commit has a
    consistent cut. `late`: compacted topics that the run read too late to see all deletions of keys. `registry`: the
    newest reading of the schema registry; None without one."""

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
    late: tuple[LateTopic, ...] = ()
    registry: RegistryReport | None = None

    @property
    def complete(self) -> bool:
        of_groups = self.groups.failed if self.groups else ()
        of_registry = self.registry.problem if self.registry else ""
        return not any((self.holes, self.failed, self.cut_back, of_groups, self.unread_topics, of_registry))


def result_of(
    plan: BackupPlan, passes: PassTotals, state: BackupState, commits: PassCommits, *, before: BackupState
) -> BackupResult:
    """Summarize what the run added to the state `before`. `plan` and `commits` belong to the last pass; its last commit
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
        cut_back=branch_reports(state, since=before.seq + 1),
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
        commits=len(passes.commits_s),
        unread_topics=tuple(shape.topic for shape in plan.source.shapes if shape.configs_unread),
        no_cut=commits.no_cut,
        expected_deletions=expected_deletions(holes),
        late=late_topics(_with_new_late_read(state, before)),
        registry=commits.registry,
    )


def _with_new_late_read(state: BackupState, before: BackupState) -> Iterator[TopicShape]:
    for incarnation, shape in state.topics.items():
        recorded = before.topics.get(incarnation)
        if shape.late != (None if recorded is None else recorded.late):
            yield shape


def run_backup(  # noqa: PLR0913  # all by keyword but what is done
    plan: BackupPlan,
    *,
    repository: Repository,
    kafka: KafkaConfig,
    runner: Runner,
    on_progress: OnProgress | None = None,
    replan: Replan | None = None,
) -> BackupResult:
    """Copy and commit. The first run makes the backup. `replan`: see `carry_out`.

    Raises `CommitLost` when another writer was first (uncommitted work of the run does not count), and the first error
    when no range could be copied. On an interrupt, commits its work and raises the interrupt.
    """
    backup = make_backup(repository, plan, runner)
    pass_result = carry_out(
        plan, backup, repository=repository, kafka=kafka, runner=runner, on_progress=on_progress, replan=replan
    )
    if pass_result.result is None:
        raise Bug("the run should have made a commit, but made none")
    return pass_result.result


def make_backup(repository: Repository, plan: BackupPlan, runner: Runner) -> Backup:
    """Make the backup of `plan` if absent. `runner` starts first if it has anything to do: otherwise a failed start
    would leave a backup without a commit."""
    if plan.first_selection is None and plan.for_workers:
        runner.await_start()
    return repository.create_backup(
        plan.backup,
        cluster_id=plan.source.cluster_id,
        selection=plan.first_selection or plan.selection,
        options=(
            *schemas_options(plan.schemas_topic),
            *history_options(enabled=plan.group_history),
            *registry_options(plan.recorded_registry),
        ),
        declared_by=plan.request.declared_by,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The result of a finished run, and the state left by the run. `result` None: nothing was new, and no commit was
    made. `checkpoint_problem`: why the run did not complete its checkpoint, apart from its own partitions."""

    result: BackupResult | None
    state: BackupState
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    checkpoint_problem: str = ""


def _job_name(plan: BackupPlan) -> str:
    topics = {task.range.topic for task in plan.copy.tasks}
    return f"backup {plan.backup}: {amount(len(topics), 'topic')}, {amount(len(plan.copy.tasks), 'range')}"


def ends_of(plan: BackupPlan, backup: Backup, kafka: KafkaConfig) -> BackupEnds:
    """The two ends of a run, for its workers."""
    return BackupEnds(kafka=kafka, store=backup.store, layout=backup.layout, compression=plan.request.compression)


def carry_out(  # noqa: PLR0913  # all by keyword but what is done, and into what
    plan: BackupPlan,
    backup: Backup,
    *,
    repository: Repository,
    kafka: KafkaConfig,
    runner: Runner,
    on_progress: OnProgress | None = None,
    thresholds: CommitThresholds | None = None,
    clock: Clock | None = None,
    only_news: bool = False,
    memory: PassMemory | None = None,
    on_commit: Callable[[], None] | None = None,
    participants_complete: Callable[[], None] | None = None,
    replan: Replan | None = None,
) -> PassResult:
    """Carry out `plan` into `backup`. With `only_news`, a commit without news is not made. `memory`: facts about the
    previous commit. `on_commit` is called after every commit. `participants_complete` is called before a commit that
    would complete a checkpoint with participants, and raises `ParticipantFailed` for an incomplete part: the commit
    becomes a plain commit.

    `replan`: plans the rest up to later ends, if the source deleted records before a group had read them at the ends of
    the plan. The run continues with the new plan, up to `PASSES_MAX` passes. A checkpoint keeps the ends of its plan.

    Raises as `run_backup`.
    """
    clock, memory = clock or SystemClock(), memory or PassMemory()
    shared = PassContext(
        repository=repository,
        backup=backup,
        clock=clock,
        memory=memory,
        only_news=only_news,
        on_commit=on_commit,
        participants_complete=participants_complete,
    )
    before, passes = plan.base, PassTotals()
    while True:
        may_go_on = replan is not None and plan.checkpoint is None and passes.count + 1 < PASSES_MAX
        commits = PassCommits(plan, shared, may_go_on=may_go_on)
        copying = CopyPass(
            copy=plan.copy,
            bundles=plan.bundles,
            base=plan.base,
            commit=commits.make,
            thresholds=thresholds or CommitThresholds(),
            clock=clock,
        )
        last = LastProgress(on_progress, clock=clock, open_partitions=copying.open_partitions)
        whole = _copied(plan, copying, ends=ends_of(plan, backup, kafka), runner=runner, last=last)
        passes = passes.with_pass(whole, commits, last)
        memory.note_deletions(hole.partition_id for hole in whole.holes)
        if replan is None or not commits.lost:
            break
        decided("read_again", why="the source deleted records that a group had not read", partitions=len(commits.lost))
        plan = replan(copying.state, commits.lost)
    if not passes.commits_s:
        return PassResult(result=None, state=plan.base, checkpoint_problem=commits.checkpoint_problem)
    return PassResult(
        result=result_of(plan, passes, copying.state, commits, before=before),
        state=copying.state,
        commits_s=passes.commits_s,
        throttled_s=passes.throttled_s,
        checkpoint_problem=commits.checkpoint_problem,
    )


def _copied(
    plan: BackupPlan, copying: CopyPass, *, ends: BackupEnds, runner: Runner, last: LastProgress
) -> PassSummary:
    """Copy the bundles of `plan`: caught bundles here, the rest by workers."""
    copy, workers = partial(copy_bundle, ends=ends, base=plan.base.seq), plan.for_workers
    try:
        for index in range(len(workers), len(plan.bundles)):
            copying.take(index, _copied_here(plan, plan.bundles[index], ends))
        if workers:
            with last.wait, job_named(_job_name(plan)):
                runner.run_each(workers, copy, copying.take, on_progress=last)
    except KeyboardInterrupt:
        _save_if_possible(copying)
        raise
    except OffsiteError:
        copying.save()
        raise
    return copying.complete()


def _copied_here(plan: BackupPlan, bundle: CopyBundle, ends: BackupEnds) -> Done[tuple[CopyOutcome, ...]] | Failed:
    """The outcome of a bundle whose records wait in memory."""
    items = {caught.range: caught.items for caught in plan.caught.values()}

    def open_reads(task: CopyTask, ends: BackupEnds, _: PackWriter | None) -> TaskReader:
        live = RangeReads(task, ends)
        # The batch before the range is read from the cluster as usual.
        return lambda reading: iter(items[reading.range]) if reading.range in items else live(reading)

    try:
        return Done(value=copy_bundle(bundle, ends=ends, base=plan.base.seq, open_reads=open_reads))
    except OffsiteError as error:
        return Failed(error=error, trace=safe_trace(error))


def _save_if_possible(copying: CopyPass) -> None:
    """Commit if possible. An interrupted run has to end, even if the commit fails: a following run would take the error
    for an outage, and wait."""
    try:
        copying.save()
    except OffsiteError as error:
        warned("not_committed", error=error.id, why=error.message)

"""Back up: read the source, plan, copy, commit. A run makes one commit, and some before it when it takes long; what a
run that dies had not committed is only garbage.

The state of a backup is its repository: a run continues from the committed positions, whoever made them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from offsite.copy.backup import BackupEnds
from offsite.copy.bundle import copy_bundle
from offsite.kafka.config.config import KafkaConfig
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import Bug, OffsiteError
from offsite.model.journal import warned
from offsite.model.named import amount
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.services.backup.copy_pass import CommitEvery, CopyPass
from offsite.services.backup.former import Former
from offsite.services.backup.last_progress import LastProgress
from offsite.services.backup.pass_commits import PassCommits
from offsite.services.backup.planned import BackupPlan
from offsite.services.backup.result import BackupResult, result_of
from offsite.services.groups.history import history_options
from offsite.services.records.schemas_topic import schemas_options
from offsite.spark.job_name import job_named
from offsite.spark.runner import OnProgress, Runner


def run_backup(
    plan: BackupPlan,
    *,
    repository: Repository,
    kafka: KafkaConfig,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> BackupResult:
    """Copy and commit; the first run makes the backup.

    Raises `CommitLost` when another writer was first (then what is not committed of this run does not count), and the
    first error when not a single range could be copied. Interrupted, it commits what it has and raises that.
    """
    backup = make_backup(repository, plan)
    ended = carry_out(plan, backup, repository=repository, kafka=kafka, runner=runner, on_progress=on_progress)
    if ended.result is None:
        raise Bug("a run that was to make a commit made none")
    return ended.result


def make_backup(repository: Repository, plan: BackupPlan) -> Backup:
    """The backup that `plan` is for, made if it is not there."""
    return repository.create_backup(
        plan.backup,
        cluster_id=plan.source.cluster_id,
        selection=plan.selection,
        options=(*schemas_options(plan.schemas_topic), *history_options(wanted=plan.group_history)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that has ended: its result, and the state it leaves. Without a result it found nothing new, and made no
    commit. `against`: what spoke against the checkpoint that it was to complete, beside its own partitions."""

    result: BackupResult | None
    state: BackupState
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    against: str = ""


def _job_name(plan: BackupPlan) -> str:
    topics = {task.range.topic for task in plan.copy.tasks}
    return f"backup {plan.backup}: {amount(len(topics), 'topic')}, {amount(len(plan.copy.tasks), 'range')}"


def ends_of(plan: BackupPlan, backup: Backup, kafka: KafkaConfig) -> BackupEnds:
    """The two ends of a run, for its workers."""
    return BackupEnds(kafka=kafka, store=backup.store, layout=backup.layout, compression=plan.compression)


def carry_out(  # noqa: PLR0913  # all by keyword but what is done, and into what
    plan: BackupPlan,
    backup: Backup,
    *,
    repository: Repository,
    kafka: KafkaConfig,
    runner: Runner,
    on_progress: OnProgress | None = None,
    every: CommitEvery | None = None,
    clock: Clock | None = None,
    only_news: bool = False,
    former: Former | None = None,
    on_commit: Callable[[], None] | None = None,
    participants_complete: Callable[[], None] | None = None,
) -> Ended:
    """Carry out `plan` into `backup`. With `only_news`, no commit is made that would say nothing new. `former`: what
    was read of the commit before. `on_commit` is called after each commit; `participants_complete` before the
    one that would complete a checkpoint with participants: it raises `ParticipantFailed` where they have not completed
    theirs, and then that one is a plain commit. Raises as `run_backup`."""
    ends, clock = ends_of(plan, backup, kafka), clock or SystemClock()
    commits = PassCommits(
        repository,
        backup,
        plan,
        clock=clock,
        former=former or Former(),
        only_news=only_news,
        on_commit=on_commit,
        participants_complete=participants_complete,
    )
    copying = CopyPass(
        copy=plan.copy,
        bundles=plan.bundles,
        base=plan.base,
        commit=commits.make,
        every=every or CommitEvery(),
        clock=clock,
    )
    copy = partial(copy_bundle, ends=ends, base=plan.base.seq)
    last = LastProgress(on_progress, clock=clock, open_partitions=copying.open_partitions)
    try:
        if plan.bundles:
            with last.wait, job_named(_job_name(plan)):
                runner.run_each(plan.bundles, copy, copying.take, on_progress=last)
    except KeyboardInterrupt:
        _save_if_possible(copying)
        raise
    except OffsiteError:
        copying.save()
        raise
    whole = copying.complete()
    if not copying.commits:
        return Ended(result=None, state=plan.base, against=commits.against)
    result = result_of(plan, whole, copying, commits, last.worker_peak_rss_bytes)
    return Ended(
        result=result,
        state=copying.state,
        commits_s=tuple(commits.took_s),
        throttled_s=last.throttled_s,
        against=commits.against,
    )


def _save_if_possible(copying: CopyPass) -> None:
    """Whoever interrupts a run wants it to end, also where it cannot commit any more: a run that follows would take the
    error for an outage, and wait."""
    try:
        copying.save()
    except OffsiteError as error:
        warned("not_committed", error=error.id, why=error.message)

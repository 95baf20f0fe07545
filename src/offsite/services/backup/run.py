"""Back up: read the source, plan, copy, commit. A run makes one commit, and some before it when it takes long; what a
run that dies had not committed is only garbage.

The state of a backup is its repository: a run continues from the committed positions, whoever made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.copy.backup import BackupEnds
from offsite.copy.bundle import CopyBundle, bundled, copy_bundle
from offsite.copy.plan import CopyPlan, plan_copy, without
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config.config import KafkaConfig
from offsite.kafka.groups.committed_offsets import FetchedGroups
from offsite.model.choices import CompressionChoice, MissingTopics
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BackupExists, BackupNotFound, BadOption, Bug, OffsiteError, OtherCluster
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.model.selections.selection import ALL_GROUPS, GroupPatterns, TopicSelection, no_topics
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, CutBack, LeftBehind, PartitionId, TopicShape
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.snapshots.cluster_snapshot import put_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.services.backup.cluster_settings import FoundSettings, read_cluster_settings
from offsite.services.backup.committable import Committable, PartitionFailure
from offsite.services.backup.copy_pass import CommitEvery, CopyPass, is_news
from offsite.services.backup.gone_topics import GoneTopics, find_gone
from offsite.services.backup.log_truncation import find_truncations, made_anew
from offsite.services.backup.source import Source, read_source
from offsite.services.branch_report import BranchReport, branch_reports
from offsite.services.groups.history import decide_history, history_options
from offsite.services.groups.snapshots import FormerGroups, GroupsSaved, read_groups, save_groups
from offsite.services.heads import SeenHead, head_of
from offsite.services.hole_report import HoleReport, hole_reports
from offsite.services.import_origin import import_origin
from offsite.services.records.schemas_topic import decide_schemas_topic, schemas_options
from offsite.spark.runner import OnProgress, Runner, RunProgress

PACKED_FROM = 64
"""Small ranges from which on a single run puts them into packs. Fewer are objects that Kafka's own tools read at once;
a run that follows packs from two on, because it will write such objects for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """What to back up. `selection` and `schemas_topic` None: those of the backup's first run (`_schemas` in a new one);
    an empty `schemas_topic` takes none along. `group_history`: back up what groups are known by as well."""

    backup: str
    selection: TopicSelection | None
    missing_topics: MissingTopics = MissingTopics.DEFAULT
    compression: CompressionChoice = CompressionChoice.DEFAULT
    schemas_topic: str | None = None
    groups: GroupPatterns = ALL_GROUPS
    group_history: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlan:
    """A decided run: nothing was written yet. `base` is the state it continues from; `cuts` are of logs that no longer
    are the ones in it; topics that are `gone` are in it, and not on the cluster."""

    backup: str
    selection: TopicSelection
    compression: CompressionChoice
    source: Source
    schemas_topic: str
    settings: FoundSettings
    groups: FetchedGroups | None
    group_history: bool
    base: BackupState
    copy: CopyPlan
    cuts: tuple[CutBack, ...] = ()
    gone: GoneTopics = field(default_factory=GoneTopics)
    bundles: tuple[CopyBundle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Result of one run: what it added. `bytes` is the size in the log, `stored_bytes` in the repository; `holes` are
    the new ones. Partitions in `failed` stand where they were (or where their first failed range begins): the next run
    continues. `cut_back` are logs of which this run found that a new leader had cut them back: the old history is kept,
    `not_read` are settings of the cluster that it did not let us
    read; `groups` is None when none were asked for. `head_hash` is that of the commit's bytes."""

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

    @property
    def complete(self) -> bool:
        return not self.holes and not self.failed and not self.cut_back and not (self.groups and self.groups.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The backup that a run goes on with, None before the first one, and its newest state."""

    backup: Backup | None
    state: BackupState


def find_known(repository: Repository, name: str) -> Known:
    """What the repository knows of backup `name`. Raises `CommitsGone`, `DamagedCommit`, `DamagedObject`."""
    backup = _existing(repository, name)
    state = backup.state() if backup else BackupState(backup=BackupLayout(backup=name).backup)
    seen = SeenHead(repository=repository, backup=name)
    seen.check_absent() if backup is None else seen.check(backup, state)
    return Known(backup=backup, state=state)


def plan_backup(  # noqa: PLR0913  # all by keyword but what is done, and from where
    repository: Repository,
    admin: ClusterAdmin,
    request: BackupRequest,
    *,
    slots: int,
    known: Known | None = None,
    packed_from: int = PACKED_FROM,
) -> BackupPlan:
    """The plan of a run. Changes nothing. `known`: what the repository holds, when that was found before.

    Raises `NoSuchTopic`, `OtherCluster`, `BackupExists` (another selection), `CommitsGone`, and more from the ends. A
    partition that cannot be copied now is listed as sick in the plan, unless all are.
    """
    known = known or find_known(repository, request.backup)
    backup, base = known.backup, known.state
    selection = _selection(request, backup)
    if backup is not None:
        _check_cluster(backup, admin.cluster().cluster_id)
    schemas_topic = decide_schemas_topic(request.schemas_topic, backup.descriptor if backup else None)
    history = decide_history(asked=request.group_history, known=backup.descriptor if backup else None)
    groups = read_groups(admin.groups, request.groups)  # before the end offsets: no commit lies beyond the cut
    source = read_source(
        admin,
        selection,
        missing_topics=request.missing_topics,
        schemas_topic=schemas_topic,
        group_history=history,
        known=base.topics.values(),
    )
    gone = find_gone(admin, base, selection, source)
    if not source.shapes and set(gone.vanished) - _deleted(base, gone) - set(gone.denied):
        raise no_topics(selection)  # none is listed, and nobody can say why
    truncations = find_truncations(admin, repository.store, base, source.bounds)
    known_ends = base.reached() | {cut.partition_id: cut.at for cut in truncations.cuts}
    positions = {(each.topic, each.topic_id, each.partition): end for each, end in known_ends.items()}
    last = {each: position.last_batch for each, position in base.positions.items()} | dict(truncations.borders)
    borders = {(each.topic, each.topic_id, each.partition): batch for each, batch in last.items() if batch}
    sick = [*source.sick, *gone.sick(base), *truncations.sick, *made_anew(admin, repository.store, base, source.bounds)]
    copy = without(plan_copy(source.bounds, positions, slots=slots, borders=borders), sick)
    return BackupPlan(
        backup=request.backup,
        selection=selection,
        compression=request.compression,
        source=source,
        schemas_topic=schemas_topic,
        settings=read_cluster_settings(admin),
        groups=groups,
        group_history=history,
        base=base,
        copy=copy,
        cuts=_of_sound_partitions(truncations.cuts, copy),
        gone=gone,
        bundles=bundled(copy.tasks, slots=slots, packed_from=packed_from),
    )


def _deleted(base: BackupState, gone: GoneTopics) -> set[str]:
    return {each.topic for each in gone.deleted} | {each.topic for each in base.topics.values() if each.is_deleted}


def _of_sound_partitions(cuts: Sequence[CutBack], copy: CopyPlan) -> tuple[CutBack, ...]:
    """Where the new leader does not serve its log to the cut yet, nothing is said of it: the next run finds the
    same."""
    sound = {bounds.partition_id for bounds in copy.bounds}
    found = tuple(cut for cut in cuts if cut.partition_id in sound)
    for cut in found:
        warned(
            "cut_back",
            why=f"leader epoch {cut.leader_epoch} has nothing of epoch {cut.epoch} from there on",
            topic=cut.partition_id.topic,
            partition=cut.partition_id.partition,
            at=cut.at,
            end=cut.end,
        )
    return found


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
    commit."""

    result: BackupResult | None
    state: BackupState
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0


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
    former: FormerGroups | None = None,
    on_commit: Callable[[], None] | None = None,
) -> Ended:
    """Carry out `plan` into `backup`. With `only_news`, no commit is made that would say nothing new. `former`: the
    groups of the backup, as far as they were read before. `on_commit` is called after each commit. Raises as
    `run_backup`."""
    ends, clock = ends_of(plan, backup, kafka), clock or SystemClock()
    last = _LastProgress(on_progress)
    commits = _Commits(
        repository, backup, plan, clock=clock, former=former or FormerGroups(), only_news=only_news, on_commit=on_commit
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
    try:
        if plan.bundles:
            runner.run_all(plan.bundles, copy, on_progress=last, on_outcome=copying.take)
    except KeyboardInterrupt:
        _save_if_possible(copying)
        raise
    except OffsiteError:
        copying.save()
        raise
    committable = copying.complete()
    if not copying.commits:
        return Ended(result=None, state=plan.base)
    result = _result(plan, committable, copying, commits.groups, last.worker_peak_rss_bytes)
    return Ended(result=result, state=copying.state, commits_s=tuple(commits.took_s), throttled_s=last.throttled_s)


def _save_if_possible(copying: CopyPass) -> None:
    """Whoever interrupts a run wants it to end, also where it cannot commit any more: a run that follows would take the
    error for an outage, and wait."""
    try:
        copying.save()
    except OffsiteError as error:
        warned("not_committed", error=error.id, why=error.message)


class _Commits:
    """Makes the commits of one run."""

    def __init__(  # noqa: PLR0913  # all by keyword but what is done, and into what
        self,
        repository: Repository,
        backup: Backup,
        plan: BackupPlan,
        *,
        clock: Clock,
        former: FormerGroups,
        only_news: bool,
        on_commit: Callable[[], None] | None,
    ) -> None:
        self.groups: GroupsSaved | None = None
        self.took_s: list[float] = []
        self._former, self._on_commit = former, on_commit
        self._clock = clock
        self._repository, self._backup, self._plan = repository, backup, plan
        self._only_news = only_news

    def make(self, found: Committable, base: BackupState, is_complete: bool) -> BackupState | None:  # noqa: FBT001
        """One commit, unless nothing is new. The one that completes the pass has the groups and the partitions that
        failed."""
        snapshot = None
        if is_complete:
            snapshot, self.groups = save_groups(
                self._backup, base, self._plan.groups, self._plan.source.shapes, before=self._former
            )
        changes = replace(self._changes(found, base), groups=snapshot, incomplete=not is_complete)
        if base is self._plan.base:
            changes = replace(changes, cut_back=self._plan.cuts)  # the first commit of the pass goes on from there
        if is_complete:
            changes = replace(changes, topics=(*changes.topics, *_marked(self._backup, self._plan)))
        if self._only_news and not is_news(changes, base):
            return None
        began_s = self._clock.monotonic_s()
        with uninterrupted():
            state = self._backup.commit(changes, base=base, writer=random_id(16))
            SeenHead(repository=self._repository, backup=self._plan.backup).remember(head_of(state))
        self.took_s.append(self._clock.monotonic_s() - began_s)
        if self._on_commit is not None:
            self._on_commit()
        return state

    def _changes(self, found: Committable, base: BackupState) -> Changes:
        plan = self._plan
        return Changes(
            segments=found.segments,
            holes=found.holes,
            gaps=found.gaps,
            accounted=True,
            left_behind=tuple(_left_behind(plan, found)),
            positions=found.positions,
            topics=plan.source.shapes,
            metadata=put_cluster_snapshot(self._backup.store, base, plan.settings.settings),
        )


def _marked(backup: Backup, plan: BackupPlan) -> Iterator[TopicShape]:
    if plan.gone.deleted:
        now_ms = backup.store.now_ms()
        yield from (replace(plan.base.topics[each], deleted_ms=now_ms) for each in plan.gone.deleted)


def _left_behind(plan: BackupPlan, committable: Committable) -> Iterator[LeftBehind]:
    shapes = (*plan.base.latest_shapes().values(), *plan.source.shapes)  # those that we may not see, and those we see
    ids = {shape.topic: shape.topic_id for shape in shapes}
    for each in committable.failed:
        known = PartitionId(topic=each.topic, topic_id=ids[each.topic], partition=each.partition)
        yield LeftBehind(partition_id=known, error=each.error)


def _result(
    plan: BackupPlan, committable: Committable, copying: CopyPass, groups: GroupsSaved | None, peak_rss_bytes: int
) -> BackupResult:
    segments, state = committable.segments, copying.state
    return BackupResult(
        backup=plan.backup,
        commit=state.seq,
        topics=len(plan.source.shapes),
        partitions=len(plan.copy.bounds),
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.raw_bytes for segment in segments),
        stored_bytes=sum(segment.stored_bytes for segment in segments),
        holes=hole_reports(committable.holes),
        failed=committable.failed,
        cut_back=branch_reports(state, since=plan.base.seq + 1),
        missing_topics=plan.source.missing,
        vanished_topics=plan.gone.vanished,
        deleted_topics=tuple(sorted({each.topic for each in plan.gone.deleted})),
        denied_topics=plan.gone.denied,
        not_read=plan.settings.not_read,
        groups=groups,
        committed_at_ms=state.committed_at_ms,
        head_hash=state.head_hash,
        worker_peak_rss_bytes=peak_rss_bytes,
        commits=copying.commits,
    )


def _existing(repository: Repository, name: str) -> Backup | None:
    try:
        return repository.backup(name)
    except BackupNotFound:
        return None


def _selection(request: BackupRequest, known: Backup | None) -> TopicSelection:
    if known is None and request.selection is None:
        raise BadOption(f"backup {request.backup} is new: say what it holds", hint="add --topics 'orders,payments-*'")
    if known is not None and request.selection not in (None, known.descriptor.selection):
        raise BackupExists(
            f"backup {request.backup} exists with topics {', '.join(known.descriptor.selection.include)}",
            hint="leave out --topics to continue it, or choose another name with --backup",
        )
    return request.selection or known.descriptor.selection  # type: ignore[union-attr]  # one of the two is there


def _check_cluster(known: Backup, cluster_id: str) -> None:
    """Before the topics: on another cluster they would only seem to be missing."""
    if origin := import_origin(known.descriptor):
        raise OtherCluster(
            f"backup {known.descriptor.name} was imported from {origin}: it goes on with that alone",
            hint="choose another name with --backup",
        )
    if known.descriptor.cluster_id != cluster_id:
        raise OtherCluster(
            f"backup {known.descriptor.name} belongs to cluster {known.descriptor.cluster_id}, this is {cluster_id}",
            hint="check --bootstrap, or choose another name with --backup",
        )


class _LastProgress:
    """Passes progress on and remembers the largest worker."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self.worker_peak_rss_bytes = 0
        self.throttled_s = 0.0

    def __call__(self, now: RunProgress) -> None:
        self.worker_peak_rss_bytes = max(self.worker_peak_rss_bytes, now.worker_peak_rss_bytes)
        self.throttled_s = now.throttled_s + now.limited_s
        if self._on_progress is not None:
            self._on_progress(now)

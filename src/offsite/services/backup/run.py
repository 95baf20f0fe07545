"""Back up: read the source, plan, copy, commit. One run makes one commit; a run that dies leaves only garbage.

The state of a backup is its repository: a run continues from the committed positions, whoever made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.copy.backup import BackupEnds, copy_range
from offsite.copy.plan import CopyPlan, plan_copy, without
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config.config import KafkaConfig
from offsite.kafka.groups.committed_offsets import FetchedGroups
from offsite.model.choices import CompressionChoice, MissingTopics
from offsite.model.errors import BackupExists, BackupNotFound, BadOption, OtherCluster
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.model.selections.selection import ALL_GROUPS, GroupPatterns, TopicSelection, no_topics
from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, CutBack, LeftBehind, PartitionId, TopicShape
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.snapshots.cluster_snapshot import put_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.services.backup.cluster_settings import FoundSettings, read_cluster_settings
from offsite.services.backup.committable import Committable, PartitionFailure, find_committable
from offsite.services.backup.gone_topics import GoneTopics, find_gone
from offsite.services.backup.log_truncation import find_truncations, made_anew
from offsite.services.backup.source import Source, read_source
from offsite.services.branch_report import BranchReport, branch_reports
from offsite.services.groups.history import decide_history, history_options
from offsite.services.groups.snapshots import GroupsSaved, read_groups, save_groups
from offsite.services.heads import SeenHead, head_of
from offsite.services.hole_report import HoleReport, hole_reports
from offsite.services.import_origin import import_origin
from offsite.services.records.schemas_topic import decide_schemas_topic, schemas_options
from offsite.spark.runner import OnProgress, Runner, RunProgress


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Result of one run: what it added. `bytes` is the size in the log, `stored_bytes` in the repository; `holes` are
    the new ones. Partitions in `failed` stand where they were (or where their first failed range begins): the next run
    continues. `cut_back` are logs of which this run found that a new leader had cut them back: the old history is kept,
    X `not_read` are settings of the cluster that it did not let us
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

    @property
    def complete(self) -> bool:
        return not self.holes and not self.failed and not self.cut_back and not (self.groups and self.groups.failed)


def plan_backup(repository: Repository, admin: ClusterAdmin, request: BackupRequest, *, slots: int) -> BackupPlan:
    """The plan of a run. Changes nothing.

    Raises `NoSuchTopic`, `OtherCluster`, `BackupExists` (another selection), `CommitsGone`, and more from the ends. A
    partition that cannot be copied now is listed as sick in the plan, unless all are.
    """
    known = _existing(repository, request.backup)
    selection = _selection(request, known)
    if known is not None:
        _check_cluster(known, admin.cluster().cluster_id)
    schemas_topic = decide_schemas_topic(request.schemas_topic, known.descriptor if known else None)
    history = decide_history(asked=request.group_history, known=known.descriptor if known else None)
    groups = read_groups(admin.groups, request.groups)  # before the end offsets: no commit lies beyond the cut
    base = known.state() if known else BackupState(backup=BackupLayout(backup=request.backup).backup)
    seen = SeenHead(repository=repository, backup=request.backup)
    seen.check_absent() if known is None else seen.check(known, base)
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

    Raises `CommitLost` when another writer was first (then nothing of this run counts), and the first error when not a
    single range could be copied.
    """
    backup = repository.create_backup(
        plan.backup,
        cluster_id=plan.source.cluster_id,
        selection=plan.selection,
        options=(*schemas_options(plan.schemas_topic), *history_options(wanted=plan.group_history)),
    )
    ends = BackupEnds(kafka=kafka, store=repository.store, layout=backup.layout, compression=plan.compression)
    last = _LastProgress(on_progress)
    outcomes = (
        runner.run_all(plan.copy.tasks, partial(copy_range, ends=ends), on_progress=last) if plan.copy.tasks else []
    )
    committable = find_committable(plan.copy, outcomes)
    snapshot, saved = save_groups(backup, plan.base, plan.groups, plan.source.shapes)
    state = _commit(backup, plan, committable, snapshot)
    SeenHead(repository=repository, backup=plan.backup).remember(head_of(state))
    return _result(plan, committable, state, saved, last.worker_peak_rss_bytes)


def _commit(backup: Backup, plan: BackupPlan, committable: Committable, group_snapshot: str | None) -> BackupState:
    changes = Changes(
        segments=committable.segments,
        holes=committable.holes,
        gaps=committable.gaps,
        accounted=True,
        cut_back=plan.cuts,
        left_behind=tuple(_left_behind(plan, committable)),
        positions=committable.positions,
        topics=(*plan.source.shapes, *_marked(backup, plan)),
        groups=group_snapshot,
        metadata=put_cluster_snapshot(backup.store, plan.base, plan.settings.settings),
    )
    return backup.commit(changes, base=plan.base, writer=random_id(16))


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
    plan: BackupPlan, committable: Committable, state: BackupState, groups: GroupsSaved | None, peak_rss_bytes: int
) -> BackupResult:
    segments = committable.segments
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
        cut_back=branch_reports(state, since=state.seq),
        missing_topics=plan.source.missing,
        vanished_topics=plan.gone.vanished,
        deleted_topics=tuple(sorted({each.topic for each in plan.gone.deleted})),
        denied_topics=plan.gone.denied,
        not_read=plan.settings.not_read,
        groups=groups,
        committed_at_ms=state.committed_at_ms,
        head_hash=state.head_hash,
        worker_peak_rss_bytes=peak_rss_bytes,
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

    def __call__(self, now: RunProgress) -> None:
        self.worker_peak_rss_bytes = max(self.worker_peak_rss_bytes, now.worker_peak_rss_bytes)
        if self._on_progress is not None:
            self._on_progress(now)

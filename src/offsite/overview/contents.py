"""What a repository holds: its backups, their details, and the commits of a stopped run. Reads only commits, no
data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.cluster_settings import ClusterSettings
from offsite.model.errors import (
    BackupNotFound,
    Damaged,
    FormatTooNew,
    ObjectArchived,
    OffsiteError,
    StoreDenied,
    UnlistableName,
)
from offsite.model.names import amount
from offsite.model.schema_registry import RegistrySnapshot
from offsite.model.selection import join_patterns
from offsite.model.units import format_time
from offsite.points.point_cut import DefaultPoint, default_point
from offsite.reports.point_report import (
    BranchReport,
    ConsistencyReport,
    HoleReport,
    LateTopic,
    branch_reports,
    consistency_of,
    expected_deletions,
    hole_reports,
    late_topics,
)
from offsite.repository.backup import Backup
from offsite.repository.commit import NOT_DELETED, Pin, TopicShape
from offsite.repository.commit_history import CommitSummary
from offsite.repository.coverage import REMOVED
from offsite.repository.descriptor import import_origin
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import SegmentFigures
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot, registry_commit
from offsite.repository.state import BackupState

_NONE = "no commit was made"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    """A line of `list`. Times are epoch ms by the store's clock, 0 without a commit. `problem`: why the backup cannot
    be read, or not to its end."""

    backup: str
    cluster_id: str
    topics: int
    restore_points: int
    first_commit_ms: int
    last_commit_ms: int
    records: int
    bytes: int
    stored_bytes: int
    holes: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupList:
    repository: str
    repository_id: str
    backups: tuple[BackupSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetail:
    """Offsets `[start, end)` that are backed up, apart from holes."""

    partition: int
    start: int
    end: int
    records: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail:
    """An incarnation of a topic. Times are epoch ms, -1 for none: `oldest_record_ms` is the beginning of its oldest
    batch, `deleted_ms` is when a run found the topic deleted at the source."""

    topic: str
    topic_id: str
    holds_schemas: bool
    configs: dict[str, str]
    records: int
    bytes: int
    stored_bytes: int
    newest_record_ms: int
    partitions: tuple[PartitionDetail, ...]
    deleted_ms: int = NOT_DELETED
    oldest_record_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDetail:
    """Details of a backup. `settings`: cluster settings, if requested and backed up. `origin`: the archive of an
    imported backup; `fidelity`: facts about the source missing in the archive. `branches`: old histories of logs cut
    back at the source. `restore_points` are read on access, because millions may exist. `consistency`: the cut for a
    restore of the commit. `default`: the commit for a restore without a commit; None: no commit yet, or its cut is
    damaged. `expected_deletions`: harmless holes. `not_carried`: settings of the source outside of the backup. `late`:
    compacted topics whose deleted keys a restore may bring back. `registry_commit`: the commit that stored the schema
    registry as of here, 0 without one; `registry`: its contents, if requested."""

    summary: BackupSummary
    selection: str
    commit: int
    topics: tuple[TopicDetail, ...]
    holes: tuple[HoleReport, ...]
    branches: tuple[BranchReport, ...]
    restore_points: Sequence[CommitSummary]
    settings: ClusterSettings | None = None
    origin: str = ""
    fidelity: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    consistency: ConsistencyReport | None = None
    expected_deletions: tuple[HoleReport, ...] = ()
    default: DefaultPoint | None = None
    not_carried: tuple[str, ...] = ()
    late: tuple[LateTopic, ...] = ()
    registry_commit: int = 0
    registry: RegistrySnapshot | None = None


def list_backups(repository: Repository) -> BackupList:
    """Summarize every backup. An unreadable backup has a `problem`."""
    return BackupList(
        repository=repository.store.url,
        repository_id=repository.descriptor.repository_id,
        backups=tuple(_summary_or_problem(repository, name) for name in repository.backups()),
    )


def _summary_or_problem(repository: Repository, name: str) -> BackupSummary:
    """Summarize a backup. Damage to a backup, or denied reading of a backup, hides no other backup."""
    try:
        backup = repository.backup(name)
        state = backup.readable_state()
        return _summary(backup.descriptor.cluster_id, state, _holding(state))
    except (Damaged, FormatTooNew, ObjectArchived, StoreDenied, UnlistableName) as error:
        return replace(_summary("", BackupState(backup=name), {}), problem=f"{error.id}: {error.message}")


def show_backup(
    backup: Backup, *, commit: int | None = None, with_settings: bool = False, with_registry: bool = False
) -> BackupDetail:
    """Show a backup as of a commit (the newest by default). Raises `NoSuchRestorePoint`, and with settings or the
    registry `DamagedObject`."""
    head = backup.readable_state()
    seq = head.seq if commit is None else commit
    state = backup.state_at(seq, head=head) if seq else head
    holding = _holding(state, then=_as_it_was(backup, state))
    return BackupDetail(
        summary=_summary(backup.descriptor.cluster_id, state, holding),
        selection=join_patterns(backup.descriptor.selection.include),
        commit=state.seq,
        topics=tuple(_topic(shape, holding.get(shape.incarnation, {})) for shape in state.topics.values()),
        holes=hole_reports(state.holes),
        expected_deletions=expected_deletions(state.holes),
        branches=branch_reports(state),
        restore_points=state.history,
        settings=get_cluster_snapshot(backup.store, state.metadata) if with_settings and state.metadata else None,
        origin=import_origin(backup.descriptor),
        fidelity=backup.descriptor.fidelity,
        pins=head.pins,
        consistency=consistency_of(backup.store, state, head=head) if seq else None,
        default=find_default(backup, head),
        not_carried=_not_carried(backup, state),
        late=late_topics(state.latest_shapes().values()),
        registry_commit=registry_commit(state),
        registry=get_registry_snapshot(backup.store, state.registry) if with_registry and state.registry else None,
    )


def show_topics(state: BackupState, names: Iterable[str]) -> dict[str, TopicDetail]:
    """Details of topics as of `state`, the newest incarnation of each: of a few among thousands."""
    shapes = state.latest_shapes()
    return {name: _topic(shapes[name], _ranges(state, shapes[name])) for name in names}


def _ranges(state: BackupState, shape: TopicShape) -> dict[int, _Held]:
    held = (key for key in shape.partition_ids if key in state.positions or key in state.segments)
    return {partition_id.partition: _Held.of(state, partition_id) for partition_id in held}


def find_default(backup: Backup, head: BackupState) -> DefaultPoint | None:
    """The commit for a restore without a commit; None: no commit yet, or its cut is damaged."""
    return _default(backup, head) if head.seq else None


def _default(backup: Backup, head: BackupState) -> DefaultPoint | None:
    try:
        return default_point(backup.store, head)
    except OffsiteError:  # the report of the commit with the cut says so
        return None


def _not_carried(backup: Backup, state: BackupState) -> tuple[str, ...]:
    try:
        return () if state.metadata is None else get_cluster_snapshot(backup.store, state.metadata).not_carried
    except Damaged:  # a request for the settings reports the damage
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The backed-up part of a partition: offsets, apart from holes, and figures."""

    start: int
    end: int
    figures: SegmentFigures

    @classmethod
    def of(cls, state: BackupState, partition_id: PartitionId) -> _Held:
        """The part of a partition as `state` lists the partition."""
        start, end = state.held_range(partition_id)
        segments = state.segments.get(partition_id)
        return cls(start=start, end=end, figures=segments.figures() if segments else SegmentFigures())


_Holding = Mapping[TopicIncarnation, Mapping[int, _Held]]
"""By incarnation and partition."""


def _holding(state: BackupState, *, then: BackupState | None = None) -> _Holding:
    """All backed-up partitions, visited in catalog order. Counted as `then` listed a partition, if nothing of the
    partition was removed since."""
    ranges: defaultdict[TopicIncarnation, dict[int, _Held]] = defaultdict(dict)
    lacking = {hole.partition_id for hole in state.holes if hole.reason == REMOVED}
    for partition_id in sorted(state.positions.keys() | state.segments.keys()):
        ranges[partition_id.incarnation][partition_id.partition] = _Held.of(
            state if partition_id in lacking else then or state, partition_id
        )
    return ranges


def _as_it_was(backup: Backup, state: BackupState) -> BackupState | None:
    """The restore point with the segments listed by its commits. None unless a roll-up has merged later records into
    the segments, with wrong figures for the point."""
    is_mixed = any(
        segments.end > state.positions[partition_id].end for partition_id, segments in state.segments.items()
    )
    return backup.catalog.state(upto=state.seq) if is_mixed else None


def _sum(ranges: Iterable[_Held]) -> SegmentFigures:
    return SegmentFigures.of(backed_up.figures for backed_up in ranges)


def _summary(cluster_id: str, state: BackupState, holding: _Holding) -> BackupSummary:
    figures = _sum(chain.from_iterable(partitions.values() for partitions in holding.values()))
    return BackupSummary(
        backup=state.backup,
        cluster_id=cluster_id,
        topics=len(state.topics),
        restore_points=len(state.history),
        first_commit_ms=state.history.first_ms,
        last_commit_ms=state.committed_at_ms,
        records=figures.records,
        bytes=figures.raw_bytes,
        stored_bytes=figures.stored_bytes,
        holes=sum(hole.is_loss for hole in state.holes),
        problem=state.unreadable,
    )


def _topic(shape: TopicShape, ranges: Mapping[int, _Held]) -> TopicDetail:
    """Details of all partitions of the topic, including backed-up partitions that the topic no longer has."""
    figures, nothing = _sum(ranges.values()), _Held(start=0, end=0, figures=SegmentFigures())
    numbers = sorted(ranges.keys() | set(range(shape.partitions)))
    return TopicDetail(
        topic=shape.topic,
        topic_id=shape.topic_id,
        holds_schemas=shape.holds_schemas,
        configs=dict(shape.configs),
        records=figures.records,
        bytes=figures.raw_bytes,
        stored_bytes=figures.stored_bytes,
        oldest_record_ms=figures.base_timestamp_min_ms,
        newest_record_ms=figures.timestamp_max_ms,
        partitions=tuple(_partition(number, ranges.get(number, nothing)) for number in numbers),
        deleted_ms=shape.deleted_ms,
    )


def _partition(number: int, backed_up: _Held) -> PartitionDetail:
    return PartitionDetail(
        partition=number,
        start=backed_up.start,
        end=backed_up.end,
        records=backed_up.figures.records,
        stored_bytes=backed_up.figures.stored_bytes,
    )


def describe_new_commits(repository: Repository, name: str, *, since: int | None) -> str:
    """How many commits of backup `name` follow commit `since` (None: nothing was begun), the newest commit, and the
    commit that a restore goes to. A store that does not answer is reported and is no error."""
    if since is None:
        return _NONE
    try:
        backup = repository.backup(name)
        state = backup.sound_state()
        if state.seq <= since:
            return _NONE
        return f"{amount(state.seq - since, 'commit')}, the newest is {_describe_newest(backup, state)}"
    except BackupNotFound:  # the backup was not made yet
        return _NONE
    except OffsiteError as error:
        return f"the newest commit could not be read: {error.message}"


def _describe_newest(backup: Backup, state: BackupState) -> str:
    amid = ", made during a run" if state.incomplete else ""
    commit = f"commit {state.seq} of {format_time(state.committed_at_ms)}{amid}"
    default = default_point(backup.store, state)
    if default.newer is not None:
        return f"{commit}, without a consistent cut: a restore uses commit {default.commit}, which has one"
    return f"{commit}, {'without a' if state.cut is None else 'with its'} consistent cut"

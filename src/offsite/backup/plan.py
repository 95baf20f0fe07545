"""Decides a run before anything is written: the recorded state, the state of the source, and the ranges to copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from offsite.backup.cluster_settings import ObservedSettings, read_cluster_settings, with_not_carried
from offsite.backup.copy import CopyBundle, bundle_copies
from offsite.backup.copy_plan import CopyPlan, CopyTask, PartitionBounds, plan_copy, without_partitions
from offsite.backup.cut.caught_records import PARTITIONS_MAX, CaughtRange, CaughtRecords
from offsite.backup.cut.observed_ends import ObservedEnds, begin_if_possible, observe_ends
from offsite.backup.log_truncation import find_recreated, find_truncations
from offsite.backup.options import BackupRequest
from offsite.backup.registry import decide_registry, recorded_registry
from offsite.backup.source import GoneTopics, Source, decide_schemas_topic, find_gone, read_source, with_new_bounds
from offsite.backup.stamps import StampWindows, with_stamps
from offsite.groups.history import decide_history
from offsite.groups.snapshots import read_groups
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.groups import FetchedGroups
from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.clock import Stopwatch
from offsite.model.errors import BackupExists, BackupNotFound, BadOption, OtherCluster
from offsite.model.journal import warned
from offsite.model.names import PROTECTED_TOPICS, named
from offsite.model.selection import TopicSelection, drill_copies, no_topics
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import TakenCheckpoint
from offsite.repository.commit import CommitChanges, CutBack
from offsite.repository.descriptor import import_origin
from offsite.repository.heads import RememberedHead
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.schemas.registry_client import RegistryAddress

PACKED_FROM = 64
"""From so many small ranges on, a single run writes packs. Fewer ranges become objects that Kafka's own tools read at
once. A run that follows packs from two on, because its small objects never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlan:
    """A decided run; nothing is written yet. `selection`, `schemas_topic` and `group_history` as `request` and the
    backup's first run decide. `base`: the state to continue from. `cuts`: logs that differ from the logs
    in `base`. `gone`: topics in `base` that the cluster lacks. `observed_ends`: evidence for a cut. `first_selection`:
    the selection of the backup's first run, None for a new backup. `checkpoint`: the checkpoint to complete, taken at
    the ends of the plan. `stamps`: where to look for stamps of participants; None: the checkpoint was not opened to
    participants. `caught`: ranges that were already read, by task number. `since_read`: started before the source was
    read. `registry`: the schema registry to read before the commit. `recorded_registry`: the address in the options of
    the backup, empty without one."""

    request: BackupRequest
    selection: TopicSelection
    source: Source
    schemas_topic: str
    settings: ObservedSettings
    groups: FetchedGroups | None
    group_history: bool
    base: BackupState
    copy: CopyPlan
    cuts: tuple[CutBack, ...] = ()
    gone: GoneTopics = field(default_factory=GoneTopics)
    observed_ends: ObservedEnds = field(default_factory=ObservedEnds)
    bundles: tuple[CopyBundle, ...] = ()
    first_selection: TopicSelection | None = None
    checkpoint: TakenCheckpoint | None = None
    stamps: StampWindows | None = None
    caught: Mapping[int, CaughtRange] = field(default_factory=dict)
    registry: RegistryAddress | None = None
    recorded_registry: str = ""
    since_read: Stopwatch = field(default_factory=Stopwatch, compare=False)

    @property
    def backup(self) -> str:
        """The name of the backup."""
        return self.request.backup

    @property
    def unseen(self) -> frozenset[TopicIncarnation]:
        """The topics of the backup that the run did not see, without topics known to be deleted."""
        return (
            self.base.live_incarnations() - {shape.incarnation for shape in self.source.shapes} - set(self.gone.deleted)
        )

    @property
    def for_workers(self) -> tuple[CopyBundle, ...]:
        """The bundles without any caught range. They come first."""
        return tuple(bundle for bundle in self.bundles if not self.caught.keys() & set(bundle.numbers))


OpenCheckpoint = Callable[[Sequence[PartitionBounds]], StampWindows | None]
"""Opens a checkpoint to participants, given the ends of the logs before the opening. On return, everything that
participants wrote before they had the checkpoint's number is readable. None: nobody takes part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBackup:
    """The backup that a run continues, None before the first run, and its newest state."""

    backup: Backup | None
    state: BackupState


def open_existing_backup(repository: Repository, name: str) -> OpenedBackup:
    """Open backup `name` as far as the repository holds it. Raises `CommitsGone`, `DamagedCommit`, `DamagedObject`."""
    backup = _existing(repository, name)
    state = backup.state() if backup else BackupState(backup=BackupLayout(backup=name).backup)
    remembered = RememberedHead(repository=repository, backup=name)
    remembered.check_absent() if backup is None else remembered.check(backup, state)
    return OpenedBackup(backup=backup, state=state)


def plan_backup(  # noqa: PLR0913  # all by keyword but what is done, and from where
    repository: Repository,
    admin: ClusterAdmin,
    request: BackupRequest,
    *,
    slots: int,
    opened: OpenedBackup | None = None,
    packed_from: int = PACKED_FROM,
    open_checkpoint: OpenCheckpoint | None = None,
    catching: Collection[PartitionId] | None = None,
) -> BackupPlan:
    """Plan a run. Changes nothing. `opened`: the backup, if opened before. `open_checkpoint` is called after groups and
    ends were read for the first time, and before the readings of a cut. `catching`: partitions to read while ends are
    read; None: the partitions in which the newest commit has holes.

    Raises `NoSuchTopic`, `OtherCluster`, `BackupExists` (another selection), `CommitsGone`, and errors of both ends. A
    partition that cannot be copied now is listed as sick in the plan, unless all are sick.
    """
    opened = opened or open_existing_backup(repository, request.backup)
    backup, base = opened.backup, opened.state
    # 1. Check the request against the recorded backup, before the cluster is read.
    selection = _selection(request, backup)
    if backup is not None:
        check_cluster(backup, admin.cluster().cluster_id)
    schemas_topic = decide_schemas_topic(request.schemas_topic, backup.descriptor if backup else None)
    recorded = recorded_registry(backup.descriptor if backup else None)
    registry = decide_registry(request.registry, request.registry_access, recorded)
    history = decide_history(requested=request.group_history, descriptor=backup.descriptor if backup else None)
    # 2. Read in the order of a cut: baseline, groups, topics.
    since_read = Stopwatch()
    settings = read_cluster_settings(admin.settings)
    baseline = begin_if_possible(admin)
    groups = read_groups(admin.groups, request.groups)  # before the end offsets: no commit lies beyond the cut
    # And not later: settings that are read late may be gone by that time.
    settings = with_not_carried(settings, admin.settings, groups)
    source = read_source(
        admin,
        selection,
        missing_topics=request.missing_topics,
        schemas_topic=schemas_topic,
        group_history=history,
        recorded=base.topics.values(),
    )
    # 3. Compare the topics with the backup.
    gone = find_gone(admin, base, selection, source)
    if not source.shapes and set(gone.vanished) - _deleted(base, gone) - set(gone.denied):
        raise no_topics(selection)  # no topic is listed, and nobody can say why
    # 4. Open a checkpoint, and take the readings of the ends.
    stamps = open_checkpoint(source.bounds) if open_checkpoint is not None else None
    if stamps is not None:
        source = with_new_bounds(admin, source)  # an opening takes long enough for leaders to change
    catching = _emptied_lately(opened) if catching is None else catching
    caught = CaughtRecords(admin, base.accounted_ends(islice(catching, PARTITIONS_MAX)))
    observed_ends, bounds = observe_ends(admin, baseline, source.bounds, caught)
    if stamps is not None:
        stamps = _doubting(stamps, _grown(observed_ends, selection, source))
    # 5. Compare the logs with the backup: truncated or recreated logs.
    truncations = find_truncations(admin, repository.store, base, bounds)
    recreated = find_recreated(admin, repository.store, base, bounds)
    sick = [*source.sick, *gone.sick(base), *truncations.sick, *recreated]
    # 6. Plan the ranges of sound partitions, without the caught ranges.
    planned = plan_copy(
        bounds,
        truncations.positions(base),
        slots=slots,
        borders=truncations.last_batches(base),
        window_starts=observed_ends.window_starts,
    )
    copy = without_partitions(planned if stamps is None else with_stamps(planned, stamps), sick)
    ranges = caught.of(copy.tasks)
    return BackupPlan(
        request=request,
        selection=selection,
        first_selection=backup.descriptor.selection if backup is not None else None,
        source=source,
        schemas_topic=schemas_topic,
        settings=settings,
        groups=groups,
        group_history=history,
        base=base,
        copy=copy,
        cuts=_of_sound_partitions(truncations.cuts, copy),
        gone=gone,
        observed_ends=observed_ends,
        bundles=_bundles(copy.tasks, ranges, slots=slots, packed_from=packed_from),
        stamps=stamps,
        caught=ranges,
        registry=registry,
        recorded_registry=recorded if backup is not None or registry is None else registry.url,
        since_read=since_read,
    )


Replan = Callable[[BackupState, Collection[PartitionId]], BackupPlan]
"""Plans the rest of a run: from a state that the run has left, with the given partitions caught."""


def make_replan(
    repository: Repository, admin: ClusterAdmin, request: BackupRequest, *, slots: int, packed_from: int = PACKED_FROM
) -> Replan:
    """Make the function with which the same run plans again."""

    def plan(state: BackupState, catching: Collection[PartitionId]) -> BackupPlan:
        opened = OpenedBackup(backup=repository.backup(request.backup), state=state)
        return plan_backup(
            repository, admin, request, slots=slots, opened=opened, packed_from=packed_from, catching=catching
        )

    return plan


def _emptied_lately(opened: OpenedBackup) -> list[PartitionId]:
    """The partitions in which the newest run found records deleted at the source before the copy."""
    stored = opened.backup.log.get(opened.state.seq) if opened.backup is not None and opened.state.seq else None
    changes = stored.commit.changes if stored is not None else CommitChanges()
    return list(dict.fromkeys(hole.partition_id for hole in (*changes.explained, *changes.holes)))


def _bundles(
    tasks: Sequence[CopyTask], caught: Collection[int], *, slots: int, packed_from: int
) -> tuple[CopyBundle, ...]:
    """Bundle the tasks: bundles for workers, and at the end one bundle with the caught tasks."""
    numbers = [number for number in range(len(tasks)) if number not in caught]
    bundles = bundle_copies([tasks[number] for number in numbers], slots=slots, packed_from=packed_from)
    renumbered = (replace(bundle, numbers=tuple(numbers[n] for n in bundle.numbers)) for bundle in bundles)
    caught_tasks = [tasks[number] for number in sorted(caught)]
    alone = bundle_copies(caught_tasks, slots=1, packed_from=min(packed_from, 2)) if caught_tasks else ()
    return (
        *renumbered,
        *(replace(bundle, numbers=tuple(sorted(caught)[n] for n in bundle.numbers)) for bundle in alone),
    )


def _doubting(stamps: StampWindows, grown: Sequence[str]) -> StampWindows:
    """`stamps`, with the doubt that topics `grown` raise, if any."""
    if not grown:
        return stamps
    doubt = (
        f"{named(grown, most=3)} got new partitions while the checkpoint was opened; the checkpoint does not "
        "contain the new partitions"
    )
    return replace(stamps, doubts=(doubt,))


def _grown(observed_ends: ObservedEnds, selection: TopicSelection, source: Source) -> list[str]:
    """New topics of the backup, and topics with partitions outside of all readings. A participant may have read from
    them and written records inside the cut."""
    partition_counts = observed_ends.series.partition_counts if observed_ends.series else {}
    new = (
        set(selection.select(partition_counts, hidden=drill_copies(partition_counts)))
        - source.ids.keys()
        - PROTECTED_TOPICS
    )
    return sorted(new | (observed_ends.series.partial - PROTECTED_TOPICS if observed_ends.series else frozenset()))


def _deleted(base: BackupState, gone: GoneTopics) -> set[str]:
    return {incarnation.topic for incarnation in gone.deleted} | {
        shape.topic for shape in base.topics.values() if shape.is_deleted
    }


def _of_sound_partitions(cuts: Sequence[CutBack], copy: CopyPlan) -> tuple[CutBack, ...]:
    """The cuts in sound partitions. Where the new leader does not yet serve its log up to the cut, nothing is recorded:
    the next run finds the same cut."""
    sound = {bounds.partition_id for bounds in copy.bounds}
    sound_cuts = tuple(cut for cut in cuts if cut.partition_id in sound)
    for cut in sound_cuts:
        warned(
            "cut_back",
            why=f"leader epoch {cut.leader_epoch} has no records of epoch {cut.epoch} from that offset on",
            topic=cut.partition_id.topic,
            partition=cut.partition_id.partition,
            at=cut.at,
            end=cut.end,
        )
    return sound_cuts


def _existing(repository: Repository, name: str) -> Backup | None:
    try:
        return repository.backup(name)
    except BackupNotFound:
        return None


def _selection(request: BackupRequest, backup: Backup | None) -> TopicSelection:
    if backup is None and request.selection is None:
        raise BadOption(f"backup {request.backup} is new: name its topics", hint="add --topics 'orders,payments-*'")
    is_same = backup is None or request.selection in {None, backup.descriptor.selection}
    if backup is not None and not is_same and not request.reselects:
        raise BackupExists(
            f"backup {request.backup} exists with topics {', '.join(backup.descriptor.selection.include)}",
            hint="omit --topics to continue this backup, or choose another name with --backup",
        )
    return request.selection or backup.descriptor.selection  # type: ignore[union-attr]  # one of the two is there


def check_cluster(backup: Backup, cluster_id: str) -> None:
    """Check that the backup belongs to the cluster. Asked before the topics: on another cluster, all topics would only
    seem to be missing. Raises `OtherCluster`."""
    if origin := import_origin(backup.descriptor):
        raise OtherCluster(
            f"backup {backup.descriptor.name} was imported from {origin}: only that archive can continue it",
            hint="choose another name with --backup",
        )
    if backup.descriptor.cluster_id != cluster_id:
        raise OtherCluster(
            f"backup {backup.descriptor.name} belongs to cluster {backup.descriptor.cluster_id}, but this cluster is "
            f"{cluster_id}",
            hint="check --bootstrap, or choose another name with --backup",
        )

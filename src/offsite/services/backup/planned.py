"""Decides a run before anything is written: the recorded state, the state of the source, and the ranges to copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from offsite.copy.bundle import CopyBundle, bundled
from offsite.copy.plan import CopyPlan, CopyTask, PartitionBounds, PositionKey, plan_copy, without
from offsite.copy.stamps import StampWindows, with_stamps
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.groups.committed_offsets import FetchedGroups
from offsite.model.choices import CompressionChoice
from offsite.model.errors import BackupExists, BackupNotFound, BadOption, OtherCluster
from offsite.model.journal import warned
from offsite.model.named import named
from offsite.model.selections.selection import GroupPatterns, TopicSelection, drill_copies, no_topics
from offsite.model.untrusted.names import PROTECTED_TOPICS
from offsite.repository.backup import Backup
from offsite.repository.checkpoints.marker import TakenCheckpoint
from offsite.repository.commit import Changes, CutBack, PartitionId, TopicIncarnation
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.services.backup.cluster_settings import FoundSettings, read_cluster_settings, with_not_carried
from offsite.services.backup.gone_topics import GoneTopics, find_gone
from offsite.services.backup.log_truncation import find_truncations, made_anew
from offsite.services.backup.request import BackupRequest
from offsite.services.backup.source import Source, read_source, with_new_bounds
from offsite.services.cut.caught_records import PARTITIONS_MAX, CaughtRange, CaughtRecords
from offsite.services.cut.seen_ends import SeenEnds, begin, see_ends
from offsite.services.groups.history import decide_history
from offsite.services.groups.snapshots import read_groups
from offsite.services.heads import SeenHead
from offsite.services.import_origin import import_origin
from offsite.services.records.schemas_topic import decide_schemas_topic

PACKED_FROM = 64
"""From so many small ranges on, a single run writes packs. Fewer ranges become objects that Kafka's own tools read at
once. A run that follows packs from two on, because its small objects never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlan:
    """A decided run; nothing is written yet. `base`: the state to continue from. `cuts`: logs that differ from the logs
    in `base`. `gone`: topics in `base` that the cluster lacks. `observed_ends`: evidence for a cut. `first_selection`:
    the selection of the backup's first run, None for a new backup. `checkpoint`: the checkpoint to complete, taken at
    the ends of the plan. `stamps`: where to look for stamps of participants; None: the checkpoint was not opened to
    participants. `caught`: ranges that were already read, by task number."""

    backup: str
    selection: TopicSelection
    compression: CompressionChoice
    source: Source
    schemas_topic: str
    settings: FoundSettings
    groups: FetchedGroups | None
    group_patterns: GroupPatterns
    expect_deletes: TopicSelection | None
    group_history: bool
    base: BackupState
    copy: CopyPlan
    cuts: tuple[CutBack, ...] = ()
    gone: GoneTopics = field(default_factory=GoneTopics)
    seen: SeenEnds = field(default_factory=SeenEnds)
    bundles: tuple[CopyBundle, ...] = ()
    begun_with: TopicSelection | None = None
    declared_by: str = ""
    checkpoint: TakenCheckpoint | None = None
    stamps: StampWindows | None = None
    caught: Mapping[int, CaughtRange] = field(default_factory=dict)

    @property
    def unseen(self) -> frozenset[TopicIncarnation]:
        """The topics of the backup that the run did not see, without topics known to be deleted."""
        return self.base.alive() - {shape.incarnation for shape in self.source.shapes} - set(self.gone.deleted)

    @property
    def for_workers(self) -> tuple[CopyBundle, ...]:
        """The bundles without any caught range. They come first."""
        return tuple(bundle for bundle in self.bundles if not self.caught.keys() & set(bundle.numbers))


Opening = Callable[[Sequence[PartitionBounds]], StampWindows | None]
"""Opens a checkpoint to participants, given the ends of the logs before the opening. On return, everything that
participants wrote before they had the checkpoint's number is readable. None: nobody takes part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The backup that a run continues, None before the first run, and its newest state."""

    backup: Backup | None
    state: BackupState


def find_known(repository: Repository, name: str) -> Known:
    """Open backup `name` as far as the repository holds it. Raises `CommitsGone`, `DamagedCommit`, `DamagedObject`."""
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
    opening: Opening | None = None,
    catching: Collection[PartitionId] | None = None,
) -> BackupPlan:
    """Plan a run. Changes nothing. `opened`: the backup, if opened before. `open_checkpoint` is called after groups and
    ends were read for the first time, and before the readings of a cut. `catching`: partitions to read while ends are
    read; None: the partitions in which the newest commit has holes.

    Raises `NoSuchTopic`, `OtherCluster`, `BackupExists` (another selection), `CommitsGone`, and errors of both ends. A
    partition that cannot be copied now is listed as sick in the plan, unless all are sick.
    """
    known = known or find_known(repository, request.backup)
    backup, base = known.backup, known.state
    # 1. Check the request against the recorded backup, before the cluster is read.
    selection = _selection(request, backup)
    if backup is not None:
        check_cluster(backup, admin.cluster().cluster_id)
    schemas_topic = decide_schemas_topic(request.schemas_topic, backup.descriptor if backup else None)
    history = decide_history(asked=request.group_history, known=backup.descriptor if backup else None)
    # 2. Read in the order of a cut: baseline, groups, topics.
    settings = read_cluster_settings(admin)
    begun = begin(admin)
    groups = read_groups(admin.groups, request.groups)  # before the end offsets: no commit lies beyond the cut
    settings = with_not_carried(settings, admin, groups)  # and not later: what is read late may be gone by that time
    source = read_source(
        admin,
        selection,
        missing_topics=request.missing_topics,
        schemas_topic=schemas_topic,
        group_history=history,
        known=base.topics.values(),
    )
    # 3. Compare the topics with the backup.
    gone = find_gone(admin, base, selection, source)
    if not source.shapes and set(gone.vanished) - _deleted(base, gone) - set(gone.denied):
        raise no_topics(selection)  # no topic is listed, and nobody can say why
    # 4. Open a checkpoint, and take the readings of the ends.
    stamps = opening(source.bounds) if opening is not None else None
    if stamps is not None:
        source = with_new_bounds(admin, source)  # an opening takes long enough for leaders to change
    caught = CaughtRecords(admin, _to_catch(base, _emptied_lately(known) if catching is None else catching))
    seen, bounds = see_ends(admin, begun, source.bounds, caught)
    if stamps is not None and (grown := _grown(seen, selection, source)):
        doubt = f"{named(grown, most=3)} got partitions while the checkpoint was opened, which are not in it"
        stamps = replace(stamps, doubts=(doubt,))
    # 5. Compare the logs with the backup: truncated or recreated logs.
    truncations = find_truncations(admin, repository.store, base, bounds)
    known_ends = base.reached() | {cut.partition_id: cut.at for cut in truncations.cuts}
    positions = {(each.topic, each.topic_id, each.partition): end for each, end in known_ends.items()}
    last = {each: position.last_batch for each, position in base.positions.items()} | dict(truncations.borders)
    borders = {(each.topic, each.topic_id, each.partition): batch for each, batch in last.items() if batch}
    sick = [*source.sick, *gone.sick(base), *truncations.sick, *made_anew(admin, repository.store, base, bounds)]
    # 6. Plan the ranges of sound partitions, without the caught ranges.
    planned = plan_copy(bounds, positions, slots=slots, borders=borders, window_starts=seen.window_starts)
    copy = without(planned if stamps is None else with_stamps(planned, stamps), sick)
    ranges = caught.of(copy.tasks)
    return BackupPlan(
        backup=request.backup,
        selection=selection,
        begun_with=backup.descriptor.selection if backup is not None else None,
        declared_by=request.declared_by,
        compression=request.compression,
        source=source,
        schemas_topic=schemas_topic,
        settings=settings,
        groups=groups,
        group_patterns=request.groups,
        expect_deletes=request.expect_deletes,
        group_history=history,
        base=base,
        copy=copy,
        cuts=_of_sound_partitions(truncations.cuts, copy),
        gone=gone,
        seen=seen,
        bundles=_bundles(copy.tasks, ranges, slots=slots, packed_from=packed_from),
        stamps=stamps,
        caught=ranges,
    )


PlanAgain = Callable[[BackupState, Collection[PartitionId]], BackupPlan]
"""Plans the rest of a run: from a state that the run has left, with the given partitions caught."""


def planning_again(
    repository: Repository, admin: ClusterAdmin, request: BackupRequest, *, slots: int, packed_from: int = PACKED_FROM
) -> PlanAgain:
    """Make the function with which the same run plans again."""

    def plan(state: BackupState, catching: Collection[PartitionId]) -> BackupPlan:
        known = Known(backup=repository.backup(request.backup), state=state)
        return plan_backup(
            repository, admin, request, slots=slots, known=known, packed_from=packed_from, catching=catching
        )

    return plan


def _to_catch(base: BackupState, catching: Collection[PartitionId]) -> dict[PositionKey, int]:
    """The end offsets of the backup in the partitions to catch."""
    reached = base.reached(islice(catching, PARTITIONS_MAX))
    return {(known.topic, known.topic_id, known.partition): end for known, end in reached.items()}


def _emptied_lately(known: Known) -> list[PartitionId]:
    """The partitions in which the newest run found records deleted at the source before the copy."""
    stored = known.backup.log.get(known.state.seq) if known.backup is not None and known.state.seq else None
    changes = stored.commit.changes if stored is not None else Changes()
    return list(dict.fromkeys(hole.partition_id for hole in (*changes.explained, *changes.holes)))


def _bundles(
    tasks: Sequence[CopyTask], caught: Collection[int], *, slots: int, packed_from: int
) -> tuple[CopyBundle, ...]:
    """Bundle the tasks: bundles for workers, and at the end one bundle with the caught tasks."""
    numbers = [number for number in range(len(tasks)) if number not in caught]
    bundles = bundled([tasks[number] for number in numbers], slots=slots, packed_from=packed_from)
    renumbered = (replace(each, numbers=tuple(numbers[n] for n in each.numbers)) for each in bundles)
    own = [tasks[number] for number in sorted(caught)]
    alone = bundled(own, slots=1, packed_from=min(packed_from, 2)) if own else ()
    return (*renumbered, *(replace(each, numbers=tuple(sorted(caught)[n] for n in each.numbers)) for each in alone))


def _grown(seen: SeenEnds, selection: TopicSelection, source: Source) -> list[str]:
    """New topics of the backup, and topics with partitions outside of all readings. A participant may have read from
    them and written records inside the cut."""
    there = seen.taken.there if seen.taken else {}
    new = set(selection.select(there, hidden=drill_copies(there))) - source.ids.keys() - PROTECTED_TOPICS
    return sorted(new | (seen.taken.partial - PROTECTED_TOPICS if seen.taken else frozenset()))


def _deleted(base: BackupState, gone: GoneTopics) -> set[str]:
    return {each.topic for each in gone.deleted} | {each.topic for each in base.topics.values() if each.is_deleted}


def _of_sound_partitions(cuts: Sequence[CutBack], copy: CopyPlan) -> tuple[CutBack, ...]:
    """The cuts in sound partitions. Where the new leader does not yet serve its log up to the cut, nothing is recorded:
    the next run finds the same cut."""
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


def _existing(repository: Repository, name: str) -> Backup | None:
    try:
        return repository.backup(name)
    except BackupNotFound:
        return None


def _selection(request: BackupRequest, known: Backup | None) -> TopicSelection:
    if known is None and request.selection is None:
        raise BadOption(f"backup {request.backup} is new: say what it holds", hint="add --topics 'orders,payments-*'")
    is_same = known is None or request.selection in {None, known.descriptor.selection}
    if known is not None and not is_same and not request.reselects:
        raise BackupExists(
            f"backup {request.backup} exists with topics {', '.join(known.descriptor.selection.include)}",
            hint="leave out --topics to continue it, or choose another name with --backup",
        )
    return request.selection or known.descriptor.selection  # type: ignore[union-attr]  # one of the two is there


def check_cluster(known: Backup, cluster_id: str) -> None:
    """Check that the backup belongs to the cluster. Asked before the topics: on another cluster, all topics would only
    seem to be missing. Raises `OtherCluster`."""
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

"""Restore points: the request of a user, and the point of a backup that the request means.

A commit is named by number, by time (`committed_at`) or through a checkpoint; otherwise the newest commit is meant, or
for a consistent cut the newest commit with a cut. `at` (a time of records), `ends` (an offset for every partition) and
`before` (an offset for some partitions) take only a part of the commit. Of a topic that was deleted and created again
one incarnation is taken: the requested one, the one of `at`, or the newest. All offsets belong to the taken
incarnation.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.offset_vector import OffsetVector
from offsite.log.range import PartitionId, TopicIncarnation, TopicPartition
from offsite.model.errors import BadOption, NoSuchRestorePoint
from offsite.model.names import PROTECTED_TOPICS, amount
from offsite.model.options import CutChoice, Isolation
from offsite.model.selection import TopicSelection
from offsite.model.topic_choices import PartitionSelection
from offsite.model.units import parse_time
from offsite.points.incarnations import (
    IncarnationCriteria,
    IncarnationSummary,
    drop_other_incarnations,
    emptied_incarnations,
    find_incarnations,
)
from offsite.points.point_cut import choose_cut, default_point
from offsite.points.point_in_time import PointInTime, check_exact, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, TopicShape
from offsite.repository.coverage import find_needed_but_expired
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.state import BackupState

ALL_TOPICS = TopicSelection(include=("*",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRequest:
    """A requested restore point, and the part to read. At most one of `commit`, `committed_at` and `checkpoint` names
    the commit; none means the newest commit, or the newest with a consistent cut.

    Of the commit, `at` takes the records dated then or before, `ends` the records below an offset in every partition,
    `before` the same in some partitions. `incarnations` names, by topic, the incarnation to take when the backup holds
    several (see `parse_incarnations`); otherwise the time selects, or the newest is taken. Times are texts as people
    write them. `accept_rollback`: proceed even if this machine has seen a newer state of the backup. `as_of_head`: the
    backup as of the given commit, ignoring all later commits.
    """

    selection: TopicSelection = ALL_TOPICS
    partitions: PartitionSelection = field(default_factory=PartitionSelection)
    commit: int | None = None
    committed_at: str | None = None
    checkpoint: int | None = None
    at: str | None = None
    ends: OffsetVector = field(default_factory=dict)
    before: OffsetVector = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation = Isolation.DEFAULT
    accept_rollback: bool = False
    as_of_head: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether the request names its commit by number: no later commit can be meant."""
        return self.commit is not None or self.checkpoint is not None

    @property
    def read_committed(self) -> bool:
        """Whether records of aborted and undecided transactions are left out."""
        return self.isolation == Isolation.READ_COMMITTED

    def means_cut(self, choice: CutChoice) -> bool:
        """Whether the request leaves the choice of the commit to the consistent cut."""
        names = (self.commit, self.committed_at, self.checkpoint, self.at)
        is_open = all(name is None for name in names) and not self.ends and not self.before
        return is_open and choice is not CutChoice.AS_COPIED and not _reads_all(self, choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPoint:
    """A restore point in numbers that never change their meaning: a commit, and a time of records (epoch ms).

    `incarnations` are the topics taken then, name and id; None when the request selects. `cut`: whether the commit's
    consistent cut was used; None when the request decides.
    """

    commit: int
    until_ms: int | None = None
    incarnations: tuple[tuple[str, str], ...] | None = None
    cut: CutChoice | None = None

    @classmethod
    def of_restore(cls, record: RestoreRecord) -> FixedPoint:
        """The point of a restore's begin, for a continued restore: a time like `2h-ago` means another point a moment
        later."""
        return cls(commit=record.commit, until_ms=record.until_ms, incarnations=record.incarnations, cut=record.cut)


def find_point(
    backup: Backup,
    request: PointRequest,
    fixed: FixedPoint | None = None,
    *,
    partitions_exist: bool = True,
    cut: CutChoice = CutChoice.AS_COPIED,
) -> PointInTime:
    """The point that `request` means: now, or as `fixed` before. With `partitions_exist`, a requested partition that
    the topic does not have is an error; otherwise the partition is empty. `cut`: whether to use the consistent cut of
    the commit, unless already fixed.

    Raises `NoSuchRestorePoint`, `NoConsistentCut`, `IncarnationUnclear`, `DamagedObject` for a damaged cut, and
    `BadOption` for an invalid time or for missing partitions.
    """
    backup = backup.for_reading(is_named=request.is_named or fixed is not None, as_of=request.as_of_head)
    # 1. The commit: fixed before, named by the request, or the default with a consistent cut.
    head = backup.sound_state()
    default = default_point(backup.store, head) if fixed is None and request.means_cut(cut) else None
    fixed = fixed or (fix_point(backup, request, head) if default is None else FixedPoint(commit=default.commit))
    commit_state = backup.state_at(fixed.commit, head=head)
    # 2. One incarnation of every topic.
    incarnations = _incarnations(backup, commit_state, request, head, fixed)
    state = _with_taken(commit_state, incarnations, head)
    shapes = state.latest_shapes()
    for topic in request.partitions.chosen if partitions_exist else ():
        request.partitions.check_exists(topic, shapes[topic].partitions if topic in shapes else 0)
    # 3. The ends of partitions, and the cut.
    ends = _ends(state, request, head, incarnations)
    choice = fixed.cut or cut
    chosen_cut = choose_cut(
        backup.store,
        commit_state,
        choice,
        head=head,
        ends_elsewhere=_ends_elsewhere(commit_state, request, ends) or _reads_all(request, choice),
        unasked="" if choice is cut else "the unfinished restore began without a cut",
    )
    # 4. The point, refused if it lies inside a compacted range.
    point = point_in_time(
        state,
        ends={**ends, **chosen_cut.ends()},
        until_ms=fixed.until_ms,
        partitions=request.partitions,
        incarnations=incarnations,
    )
    point = replace(point, cut=chosen_cut if default is None else replace(chosen_cut, newer=default.newer))
    check_exact(point, head, request.selection.select(shapes, internal=PROTECTED_TOPICS))
    return point


def _with_taken(
    commit_state: BackupState, incarnations: Sequence[IncarnationSummary], head: BackupState
) -> BackupState:
    """The state with the taken one of `incarnations` alone. The commit itself needs no data of earlier ones: data that
    retention removed since is a hole."""
    latest = {shape.incarnation for shape in commit_state.latest_shapes().values()}
    earlier = {incarnation.incarnation for incarnation in incarnations if incarnation.taken} - latest
    lost = find_needed_but_expired(commit_state, head=head, incarnations=earlier)
    return drop_other_incarnations(replace(commit_state, holes=(*commit_state.holes, *lost)), incarnations)


def fix_point(backup: Backup, request: PointRequest, head: BackupState) -> FixedPoint:
    """The point that `request` means now without a cut, when `head` is the newest state. Raises `NoSuchRestorePoint`,
    `DamagedCommit`, `BadOption` for an invalid time."""
    commit = find_commit(backup, request, head)
    if request.commit is not None:  # without any commit there is no newest one: the reader of the backup reports that
        backup.check_point(commit, head=head)
    until_ms = None if request.at is None else parse_time(request.at, now_ms=backup.reference_now_ms())
    return FixedPoint(commit=commit, until_ms=until_ms)


def _ends_elsewhere(commit: BackupState, request: PointRequest, ends: Mapping[PartitionId, int]) -> str:
    """Why the point has other ends than its commit; empty for equal ends."""
    if request.at is not None:
        return "--at selects records by timestamp, and timestamps make no consistent cut"
    named = {"--checkpoint": request.checkpoint, "--offsets-file": request.ends, "--before": request.before}
    options = [option for option, value in named.items() if value]
    commit_ends = {partition_id: position.end for partition_id, position in commit.positions.items()}
    if not options or all(commit_ends.get(partition_id, 0) == end for partition_id, end in ends.items()):
        return ""
    return f"{options[0]} sets the ends of partitions itself, and they differ from the ends of the commit"


def _reads_all(request: PointRequest, choice: CutChoice) -> str:
    """Why the request does not want a cut that nobody asked for; empty when a cut is fine."""
    is_all = request.isolation == Isolation.READ_UNCOMMITTED and choice is CutChoice.AUTO
    return "--isolation read_uncommitted also restores records of undecided transactions" if is_all else ""


def find_commit(
    backup: Backup, request: PointRequest, head: BackupState, *, cut: CutChoice = CutChoice.AS_COPIED
) -> int:
    """The number of the commit that `request` means now. Does not check whether a commit named by number exists. Raises
    `NoSuchRestorePoint`, `BadOption` for an invalid time, `DamagedObject` for a damaged cut."""
    if request.commit is not None:
        return request.commit
    if request.committed_at is not None:
        return backup.commit_at_time(parse_time(request.committed_at, now_ms=backup.reference_now_ms()), head=head)
    if request.checkpoint is not None:
        checkpoint = _checkpoint(head, request.checkpoint)
        if backup.store.head(backup.layout.checkpoint_key(checkpoint.id, "deleted")) is not None:
            raise NoSuchRestorePoint(
                f"checkpoint {checkpoint.id} of backup {head.backup} was deleted",
                hint="see the remaining checkpoints with: offsite checkpoint list",
            )
        seq = next((commit.seq for commit in head.history if commit.checkpoint == checkpoint.id), None)
        if seq is None:
            raise NoSuchRestorePoint(
                f"checkpoint {checkpoint.id} of backup {head.backup} is no longer a restore point: retention deleted "
                "it",
                hint=f"see its commits with: offsite show {head.backup}",
            )
        return seq
    return default_point(backup.store, head).commit if request.means_cut(cut) else head.seq


def _incarnations(
    backup: Backup, state: BackupState, request: PointRequest, head: BackupState, fixed: FixedPoint
) -> tuple[IncarnationSummary, ...]:
    topics = request.selection.select({incarnation.topic for incarnation in state.topics}, internal=PROTECTED_TOPICS)
    criteria = IncarnationCriteria(
        named=request.incarnations, until_ms=fixed.until_ms, emptied=emptied_incarnations(state, head)
    )
    if fixed.incarnations is not None:
        newest = {incarnation.topic: incarnation.topic_id for incarnation in state.topics}  # as older versions chose
        criteria = replace(criteria, ids=newest | dict(fixed.incarnations), ids_because="the restore began with it")
    elif request.checkpoint is not None:
        ends = _checkpoint(head, request.checkpoint).ends
        latest = state.latest_shapes().values()
        cut = {
            incarnation.topic: incarnation.topic_id
            for incarnation in ([partition_id for partition_id, _ in ends] if ends else latest)
        }
        ids = {topic: topic_id for topic, topic_id in cut.items() if topic not in request.incarnations}
        criteria = replace(criteria, ids=ids, ids_because=f"checkpoint {request.checkpoint} belongs to it")
    return find_incarnations(backup, state, topics, criteria)


def _ends(
    state: BackupState, request: PointRequest, head: BackupState, incarnations: Sequence[IncarnationSummary]
) -> dict[PartitionId, int]:
    if request.checkpoint is not None:
        ends = dict(_checkpoint(head, request.checkpoint).ends)
        return {
            partition_id: ends.get(partition_id, 0) if ends else position.end
            for partition_id, position in state.positions.items()
        }
    shapes = state.latest_shapes()
    if request.ends:
        selected = set(request.selection.select(shapes, internal=PROTECTED_TOPICS)) - PROTECTED_TOPICS
        vector = {partition: end for partition, end in request.ends.items() if partition.topic in selected}
        _check_complete(state, request, {shapes[topic].incarnation for topic in selected})
    else:
        vector = dict(request.before)
        _check_selected(request.selection, shapes, vector)
    return dict(_resolved(state, shapes, vector, incarnations))


def _resolved(
    state: BackupState,
    shapes: Mapping[str, TopicShape],
    vector: OffsetVector,
    incarnations: Sequence[IncarnationSummary],
) -> Iterator[tuple[PartitionId, int]]:
    for requested, end in vector.items():
        shape = shapes[requested.topic]
        if requested.partition >= shape.partitions:
            raise BadOption(f"there is no partition {requested}: the topic has {amount(shape.partitions, 'partition')}")
        partition = PartitionId(topic=requested.topic, topic_id=shape.topic_id, partition=requested.partition)
        committed = state.positions[partition].end if partition in state.positions else 0
        if end > committed:
            raise NoSuchRestorePoint(
                f"commit {state.seq} of backup {state.backup} has {requested} up to offset {committed}, not to {end}",
                hint="; ".join(["choose a later commit or a smaller offset", *_reaching(incarnations, requested, end)]),
            )
        yield partition, end


def _reaching(incarnations: Iterable[IncarnationSummary], partition: TopicPartition, end: int) -> Iterator[str]:
    """Offsets begin at 0 again in every incarnation: suggests incarnations left aside that hold the requested
    offset."""
    for other in incarnations:
        ranges = {offset_range.partition: offset_range for offset_range in other.ranges}
        if other.topic == partition.topic and partition.partition in ranges and ranges[partition.partition].end >= end:
            yield f"or use {other} with --incarnation {other.topic}={other.number}"


def _check_complete(state: BackupState, request: PointRequest, selected: Container[TopicIncarnation]) -> None:
    """An offsets file without some partitions is not a cut."""
    missing = [
        str(partition)
        for partition in sorted(state.segments)
        if partition.incarnation in selected
        and request.partitions.includes(partition.topic, partition.partition)
        and partition.topic_partition not in request.ends
    ]
    if missing:
        raise BadOption(
            f"the offsets file does not name {', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}",
            hint="add these partitions, or leave them out of the restore with --topics or --partitions",
        )


def _check_selected(selection: TopicSelection, shapes: Mapping[str, TopicShape], vector: OffsetVector) -> None:
    selected = selection.select(shapes, internal=PROTECTED_TOPICS)
    if unselected := sorted({partition.topic for partition in vector} - set(selected)):
        raise BadOption(
            f"--before names {', '.join(unselected)}, which is not restored", hint="select it with --topics"
        )


def _checkpoint(head: BackupState, number: int) -> Checkpoint:
    checkpoint = head.checkpoint(number)
    if checkpoint is None:
        newest_ids = ", ".join(str(recent.id) for recent in head.checkpoints[-10:]) or "none yet"
        raise NoSuchRestorePoint(
            f"backup {head.backup} has no checkpoint {number} (checkpoints: {newest_ids})",
            hint=f"see its commits with: offsite show {head.backup}",
        )
    return checkpoint

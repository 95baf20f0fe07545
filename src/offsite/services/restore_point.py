"""Finds the restore point that a request means: which commit it goes by, and what of that commit is taken.

A commit is named by number, by time (`committed_at`) or through a checkpoint, else it is the newest. `at` (a time of
records), `ends` (an offset for each partition) and `before` (an offset for some) then take only a part of it. Of a
topic that was deleted and made anew one incarnation is taken: the one asked for, the one of `at`, or the newest; all
offsets are of that one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from offsite.log.offset_vector import OffsetVector
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, NoSuchRestorePoint
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.selection import TopicSelection
from offsite.model.time import parse_time
from offsite.pipeline.incarnations import KnownIncarnation, Wanted, find_incarnations, without_others
from offsite.pipeline.point_in_time import PointInTime, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, PartitionId, TopicIncarnation, TopicShape
from offsite.repository.restore_record import RestoreRecord
from offsite.repository.state import BackupState
from offsite.services.restore_request import RestoreRequest


def find_point(backup: Backup, request: RestoreRequest, unfinished: RestoreRecord | None) -> PointInTime:
    """The point that `request` means now; that of `unfinished`, a restore of the same request, when there is one: a
    time like `2h-ago` was read once, when that began.

    Raises `NoSuchRestorePoint`, `IncarnationUnclear`, and `BadOption` for a time that is none or partitions that are
    not there.
    """
    head = backup.sound_state()
    known = _commit(backup, request, head) if unfinished is None else backup.state_at(unfinished.commit, head=head)
    until_ms = _until_ms(backup, request) if unfinished is None else unfinished.until_ms
    incarnations = _incarnations(backup, known, request, head, until_ms=until_ms, unfinished=unfinished)
    state = without_others(known, incarnations)
    shapes = _latest_shapes(state)
    for topic in request.partitions.chosen:
        request.partitions.check_exists(topic, shapes[topic].partitions if topic in shapes else 0)
    return point_in_time(
        state,
        ends=_ends(state, request, head, incarnations),
        until_ms=until_ms,
        partitions=request.partitions,
        incarnations=incarnations,
    )


def commit_meant(backup: Backup, request: RestoreRequest) -> int:
    """The number of the commit that `request` means now. Raises `NoSuchRestorePoint`."""
    return _commit(backup, request, backup.sound_state()).seq


def _incarnations(  # noqa: PLR0913  # all that says which one is meant
    backup: Backup,
    state: BackupState,
    request: RestoreRequest,
    head: BackupState,
    *,
    until_ms: int | None,
    unfinished: RestoreRecord | None,
) -> tuple[KnownIncarnation, ...]:
    topics = request.selection.select({each.topic for each in state.topics}, internal=PROTECTED_TOPICS)
    wanted = Wanted(named=request.incarnations, until_ms=until_ms)
    if unfinished is not None:
        newest = {each.topic: each.topic_id for each in state.topics}  # what older versions took
        wanted = replace(wanted, ids=newest | dict(unfinished.incarnations), ids_because="the restore began with it")
    elif request.checkpoint is not None:
        cut = {each.topic: each.topic_id for each, _ in _checkpoint(head, request.checkpoint).ends}
        ids = {topic: topic_id for topic, topic_id in cut.items() if topic not in request.incarnations}
        wanted = replace(wanted, ids=ids, ids_because=f"checkpoint {request.checkpoint} is of it")
    return find_incarnations(backup, state, topics, wanted)


def _commit(backup: Backup, request: RestoreRequest, head: BackupState) -> BackupState:
    if request.commit is not None:
        return backup.state_at(request.commit, head=head)
    if request.committed_at is not None:
        return backup.state_at_time(parse_time(request.committed_at, now_ms=backup.store.now_ms()), head=head)
    if request.checkpoint is not None:
        taken = _checkpoint(head, request.checkpoint)
        return backup.state_at(next(each.seq for each in head.history if each.checkpoint == taken.id), head=head)
    return backup.state_at(head.seq, head=head)


def _until_ms(backup: Backup, request: RestoreRequest) -> int | None:
    return None if request.at is None else parse_time(request.at, now_ms=backup.store.now_ms())


def _ends(
    state: BackupState, request: RestoreRequest, head: BackupState, incarnations: Sequence[KnownIncarnation]
) -> dict[PartitionId, int]:
    if request.checkpoint is not None:
        ends = dict(_checkpoint(head, request.checkpoint).ends)
        return {partition: ends.get(partition, 0) for partition in state.positions}
    shapes = _latest_shapes(state)
    if request.ends:
        selected = set(request.selection.select(shapes, internal=PROTECTED_TOPICS)) - PROTECTED_TOPICS
        vector = {each: end for each, end in request.ends.items() if each.topic in selected}
        _check_complete(state, request, {shapes[topic].incarnation for topic in selected})
    else:
        vector = dict(request.before)
        _check_selected(request.selection, shapes, vector)
    return dict(_resolved(state, shapes, vector, incarnations))


def _resolved(
    state: BackupState,
    shapes: Mapping[str, TopicShape],
    vector: OffsetVector,
    incarnations: Sequence[KnownIncarnation],
) -> Iterator[tuple[PartitionId, int]]:
    for each, end in vector.items():
        shape = shapes[each.topic]
        if each.partition >= shape.partitions:
            raise BadOption(f"there is no partition {each}, the topic has {shape.partitions}")
        partition = PartitionId(topic=each.topic, topic_id=shape.topic_id, partition=each.partition)
        known = state.positions[partition].end if partition in state.positions else 0
        if end > known:
            raise NoSuchRestorePoint(
                f"commit {state.seq} of backup {state.backup} holds {each} to offset {known}, not to {end}",
                hint="; ".join(["choose a later commit or a smaller offset", *_reaching(incarnations, each, end)]),
            )
        yield partition, end


def _reaching(incarnations: Iterable[KnownIncarnation], wanted: TopicPartition, end: int) -> Iterator[str]:
    """Offsets count anew in each incarnation: those that were left aside and hold this one."""
    for other in incarnations:
        ranges = {each.partition: each for each in other.ranges}
        if other.topic == wanted.topic and wanted.partition in ranges and ranges[wanted.partition].end >= end:
            yield f"or take {other} with --incarnation {other.topic}={other.number}"


def _check_complete(state: BackupState, request: RestoreRequest, selected: Container[TopicIncarnation]) -> None:
    """A cut that says nothing of some partitions is no cut."""
    missing = [
        str(partition)
        for partition in sorted(state.segments)
        if partition.incarnation in selected
        and request.partitions.includes(partition.topic, partition.partition)
        and TopicPartition(topic=partition.topic, partition=partition.partition) not in request.ends
    ]
    if missing:
        raise BadOption(
            f"the offsets file does not name {', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}",
            hint="add them, or leave them out of the restore with --topics or --partitions",
        )


def _check_selected(selection: TopicSelection, shapes: Mapping[str, TopicShape], vector: OffsetVector) -> None:
    selected = selection.select(shapes, internal=PROTECTED_TOPICS)
    if others := sorted({each.topic for each in vector} - set(selected)):
        raise BadOption(f"--before names {', '.join(others)}, which is not restored", hint="select it with --topics")


def _checkpoint(head: BackupState, number: int) -> Checkpoint:
    taken = head.checkpoint(number)
    if taken is None:
        known = ", ".join(str(each.id) for each in head.checkpoints[-10:]) or "none yet"
        raise NoSuchRestorePoint(
            f"backup {head.backup} has no checkpoint {number} (checkpoints: {known})",
            hint=f"see its commits with: offsite show {head.backup}",
        )
    return taken


def _latest_shapes(state: BackupState) -> dict[str, TopicShape]:
    """The latest incarnation of each topic: they are in order of first appearance."""
    return {incarnation.topic: shape for incarnation, shape in state.topics.items()}

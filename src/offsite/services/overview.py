"""An overview of a repository, and whether it is in good shape: lists, details, status. Reads no data, only
commits and records; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from offsite.model.cluster_settings import ClusterSettings
from offsite.model.errors import Damaged, FormatTooNew, OffsiteError
from offsite.model.time import format_duration, format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import NOT_DELETED, PartitionId, TopicShape
from offsite.repository.history import CommitSummary
from offsite.repository.repository import Repository
from offsite.repository.snapshots.cluster_snapshot import get_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.services.branch_report import BranchReport, branch_reports
from offsite.services.heads import SeenHead, vanished
from offsite.services.hole_report import HoleReport, hole_reports
from offsite.services.import_origin import import_origin
from offsite.services.last_checks import LastChecks, read_last_checks
from offsite.services.restore.set_aside import unfinished_asides

STALE_AFTER_S = 24 * 3600
"""Age in seconds from which the newest commit gets attention: the least demanding schedule people have is a nightly
one."""

_AHEAD_MAX_S = 60
"""Seconds by which a commit may seem to lie in the future: stores round their clocks, and servers of one differ a
little."""

_QUIET_S = 1800
"""Seconds without a commit from which on a pass no longer counts as under way: it commits every 5 minutes."""

_NAMED_MAX = 5
"""Partitions named in one line of the status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    """One line of `list`. Times are epoch ms by the store's clock, 0 when there is no commit yet. `problem`: why it
    cannot be read, or not to its end."""

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
    """Offsets `[start, end)` that are backed up, holes aside."""

    partition: int
    start: int
    end: int
    records: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail:
    """One incarnation of a topic. `deleted_ms`: when a run found that it is deleted at the source, -1 if none did."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDetail:
    """Details of one backup. `settings` are those of the cluster, when they were asked for and are in the backup. Of an
    imported backup `origin` names the archive, and `fidelity` says what that did not hold of its source. `branches` are
    the old histories of logs that were cut back at the source."""

    summary: BackupSummary
    selection: str
    commit: int
    topics: tuple[TopicDetail, ...]
    holes: tuple[HoleReport, ...]
    branches: tuple[BranchReport, ...]
    restore_points: tuple[CommitSummary, ...]
    settings: ClusterSettings | None = None
    origin: str = ""
    fidelity: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """Whether one backup is safe to rely on. `safe` is the answer, `problems` the reasons when it is no. `notes` are
    about restores that did not end, which do not harm the backup. `age_s` is negative for a commit dated in the future.
    `damaged`: what is stored is not what was written, or is gone. `head_commit` and `head_hash` are the newest commit
    that can be used. `completed_ms`: when a pass was last complete, so that all that the source held then is backed up
    or named (epoch ms by the store's clock, 0: never, or not known)."""

    backup: str
    safe: bool
    problems: tuple[str, ...]
    restorable_from_ms: int
    restorable_to_ms: int
    age_s: int
    notes: tuple[str, ...] = ()
    damaged: bool = False
    head_commit: int = 0
    head_hash: str = ""
    checks: LastChecks | None = None
    completed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    repository: str
    safe: bool
    backups: tuple[BackupStatus, ...]


def list_backups(repository: Repository) -> BackupList:
    """One summary for each backup; for a backup that cannot be read it says why."""
    return BackupList(
        repository=repository.store.url,
        repository_id=repository.descriptor.repository_id,
        backups=tuple(_summary_or_problem(repository, name) for name in repository.backups()),
    )


def _summary_or_problem(repository: Repository, name: str) -> BackupSummary:
    """Damage to one backup hides no other."""
    try:
        backup = repository.backup(name)
        return _summary(backup.descriptor.cluster_id, backup.sound_state())
    except (Damaged, FormatTooNew) as error:
        return replace(_summary("", BackupState(backup=name)), problem=f"{error.id}: {error.message}")


def show_backup(backup: Backup, *, commit: int | None = None, with_settings: bool = False) -> BackupDetail:
    """Everything of one backup, as of a commit (the newest by default). Raises `NoSuchRestorePoint`, and with settings
    `DamagedObject`."""
    head = backup.sound_state()
    state = head if commit is None else backup.state_at(commit, head=head)
    return BackupDetail(
        summary=_summary(backup.descriptor.cluster_id, state),
        selection=",".join(backup.descriptor.selection.include),
        commit=state.seq,
        topics=tuple(_topic(state, shape) for shape in state.topics.values()),
        holes=hole_reports(state.holes),
        branches=branch_reports(state),
        restore_points=tuple(state.history),
        settings=get_cluster_snapshot(backup.store, state.metadata) if with_settings and state.metadata else None,
        origin=import_origin(backup.descriptor),
        fidelity=backup.descriptor.fidelity,
    )


def read_status(repository: Repository, *, stale_after_s: int = STALE_AFTER_S) -> Status:
    """Is each backup safe to rely on? A backup that cannot be read is a problem, not an error; so is one that this
    machine saw here before, and that is gone."""
    now_ms, names = repository.store.now_ms(), repository.backups()
    there = (_status(repository, name, now_ms, stale_after_s) for name in names)
    backups = (*there, *(_gone(seen, now_ms) for seen in vanished(repository, names)))
    safe = bool(backups) and all(backup.safe for backup in backups)
    return Status(repository=repository.store.url, safe=safe, backups=backups)


def _status(repository: Repository, name: str, now_ms: int, stale_after_s: int) -> BackupStatus:
    try:
        backup = repository.backup(name)
        state = backup.sound_state()
    except OffsiteError as error:
        unread = _judged(name, [f"{error.id}: {error.message}"], BackupState(backup=name), now_ms)
        return replace(unread, damaged=isinstance(error, Damaged))
    fresh_for_s = None if import_origin(backup.descriptor) else stale_after_s  # an archive may be as old as it likes
    damage = list(_damage(repository, backup, state))
    checks, unchecked = _checks(backup, now_ms)
    problems = [*damage, *_found_by(checks), *_problems(state, now_ms, fresh_for_s)]
    found = _judged(name, problems, state, now_ms)
    told = tuple(str(each) for each in branch_reports(state) if not _is_new(state, each, now_ms))
    notes = (*_under_way(state), *told, *_deleted(state), *_unread_settings(state), *_notes(backup), *unchecked)
    return replace(found, notes=notes, damaged=bool(damage), checks=checks)


def _gone(seen: SeenHead, now_ms: int) -> BackupStatus:
    problems = [seen.absent(), seen.forgotten_by()]
    return replace(_judged(seen.backup, problems, BackupState(backup=seen.backup), now_ms), damaged=True)


def _damage(repository: Repository, backup: Backup, state: BackupState) -> Iterable[str]:
    if state.unreadable:
        yield f"nothing behind commit {state.seq} can be used: {state.unreadable}"
    elif lost := backup.lost_commit(state):
        yield f"commits {state.seq + 1} to {lost} are missing, a catalog of them is there"
    if gone := SeenHead(repository=repository, backup=state.backup).problem(backup, state):
        yield gone


def _deleted(state: BackupState) -> Iterable[str]:
    gone = [shape for shape in state.latest_shapes().values() if shape.is_deleted]
    for shape in gone[:_NAMED_MAX]:
        yield f"topic {shape.topic} is deleted at the source since {format_time(shape.deleted_ms)} or before, and kept"
    if gone[_NAMED_MAX:]:
        yield f"{len(gone) - _NAMED_MAX} more topics are deleted at the source, and kept"


def _unread_settings(state: BackupState) -> Iterable[str]:
    unread = [shape.topic for shape in state.latest_shapes().values() if shape.configs_unread and not shape.is_deleted]
    if unread:
        more = f" and {len(unread) - _NAMED_MAX} more" if unread[_NAMED_MAX:] else ""
        yield (
            f"the settings of {', '.join(unread[:_NAMED_MAX])}{more} are those of an earlier run: the newest one was "
            "not allowed to read them (DESCRIBE_CONFIGS)"
        )


def _notes(backup: Backup) -> Iterable[str]:
    try:
        yield from map(str, unfinished_asides(backup))
    except OffsiteError as error:
        yield f"unfinished restores cannot be read: {error.message}"


def _checks(backup: Backup, now_ms: int) -> tuple[LastChecks | None, tuple[str, ...]]:
    try:
        found = read_last_checks(backup, now_ms=now_ms)
    except OffsiteError as error:
        return None, (f"the last checks cannot be read: {error.message}",)
    return found, found.problems


def _found_by(checks: LastChecks | None) -> Iterable[str]:
    for each in checks.damage if checks is not None else ():
        found = f"{each.damaged} {'object' if each.damaged == 1 else 'objects'} damaged or gone"
        yield f"the {each.depth} check of {format_time(each.verified_at_ms)} found {found}"


def _judged(name: str, problems: list[str], state: BackupState, now_ms: int) -> BackupStatus:
    return BackupStatus(
        backup=name,
        safe=not problems,
        problems=tuple(problems),
        restorable_from_ms=state.history.first_ms,
        restorable_to_ms=_restorable_to_ms(state),
        age_s=_age_s(_restorable_to_ms(state), now_ms),
        head_commit=state.seq,
        head_hash=state.head_hash,
        completed_ms=state.completed_at_ms,
    )


def _restorable_to_ms(state: BackupState) -> int:
    """While a pass is under way, that of the complete one before: the newest commit does not reach as far in every
    partition."""
    return state.completed_at_ms if state.incomplete and state.completed_at_ms else state.committed_at_ms


def _age_s(committed_at_ms: int, now_ms: int) -> int:
    """Below 0 only when no rounding of clocks explains it."""
    age_s = (now_ms - committed_at_ms) // 1000
    return age_s if age_s < -_AHEAD_MAX_S else max(0, age_s)


def _problems(state: BackupState, now_ms: int, stale_after_s: int | None) -> Iterable[str]:
    if not state.history:
        yield "no restore point yet"
        return
    age_s = _age_s(state.committed_at_ms, now_ms)
    if age_s < 0:
        yield (
            f"commit {state.seq} is dated {format_duration(-age_s)} in the future: a clock was wrong, "
            "and nobody knows how old the newest backup is"
        )
    if stale_after_s is not None and age_s > stale_after_s:
        yield f"last backup {format_duration(age_s)} ago"
    yield from _unfinished(state, age_s, now_ms, stale_after_s)
    if state.left_behind:
        told = ", ".join(f"{each.partition_id} ({each.error})" for each in state.left_behind[:_NAMED_MAX])
        more = "" if len(state.left_behind) <= _NAMED_MAX else f" and {len(state.left_behind) - _NAMED_MAX} more"
        yield f"the newest run could not back up {told}{more}"
    yield from (str(each) for each in branch_reports(state) if _is_new(state, each, now_ms))
    if state.holes:
        lost = sum(hole.end - hole.start for hole in state.holes)
        yield f"{len(state.holes)} holes: {lost:,} offsets were gone before they were backed up"


def _unfinished(state: BackupState, age_s: int, now_ms: int, stale_after_s: int | None) -> Iterable[str]:
    """What a pass that has not ended means. Each of its commits only adds to what is restorable, so it takes nothing
    from the complete pass before it: how old that one is decides. Before the first one has ended there is none."""
    if not state.incomplete:
        return
    if not state.completed_at_ms and age_s > _QUIET_S:
        yield (
            f"the first pass has not ended{_so_far(state)}, and nothing was committed for {format_duration(age_s)}: "
            "its run died, or is stuck; run it again, it goes on from there"
        )
    elif not state.completed_at_ms:
        yield f"first pass under way{_so_far(state)}: what it has not reached is not backed up yet"
    elif stale_after_s is not None and (behind_s := (now_ms - state.completed_at_ms) // 1000) > stale_after_s:
        yield f"no pass was completed for {format_duration(behind_s)}, the newest one has not ended{_so_far(state)}"


def _under_way(state: BackupState) -> Iterable[str]:
    if state.incomplete and state.completed_at_ms:
        yield (
            f"the newest pass has not ended{_so_far(state)}; the one before was complete at "
            f"{format_time(state.completed_at_ms)}"
        )


def _so_far(state: BackupState) -> str:
    known = state.progress
    return "" if known is None else f" ({known.copied:,} of the {known.planned:,} offsets that it found)"


def _is_new(state: BackupState, branch: BranchReport, now_ms: int) -> bool:
    """Found so lately that a person may not have heard of it: nothing is lost, so it is no problem for ever."""
    found = state.history.find(branch.found_by)
    return found is not None and now_ms - found.committed_at_ms < STALE_AFTER_S * 1000


def _summary(cluster_id: str, state: BackupState) -> BackupSummary:
    segments = tuple(state.all_segments())
    return BackupSummary(
        backup=state.backup,
        cluster_id=cluster_id,
        topics=len(state.topics),
        restore_points=len(state.history),
        first_commit_ms=state.history.first_ms,
        last_commit_ms=state.committed_at_ms,
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.raw_bytes for segment in segments),
        stored_bytes=sum(segment.stored_bytes for segment in segments),
        holes=len(state.holes),
        problem=state.unreadable,
    )


def _topic(state: BackupState, shape: TopicShape) -> TopicDetail:
    ids = _partitions(state, shape)
    segments = [segment for partition_id in ids for segment in state.segments.get(partition_id, ())]
    return TopicDetail(
        topic=shape.topic,
        topic_id=shape.topic_id,
        holds_schemas=shape.holds_schemas,
        configs=dict(shape.configs),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.raw_bytes for segment in segments),
        stored_bytes=sum(segment.stored_bytes for segment in segments),
        newest_record_ms=max((segment.timestamp_max_ms for segment in segments), default=-1),
        partitions=tuple(_partition(state, partition_id) for partition_id in ids),
        deleted_ms=shape.deleted_ms,
    )


def _partitions(state: BackupState, shape: TopicShape) -> list[PartitionId]:
    """All that the topic has, and whatever else was backed up of it."""
    held = {each for each in (*state.positions, *state.segments) if each.incarnation == shape.incarnation}
    known = (PartitionId(topic=shape.topic, topic_id=shape.topic_id, partition=n) for n in range(shape.partitions))
    return sorted(held.union(known))


def _partition(state: BackupState, partition_id: PartitionId) -> PartitionDetail:
    segments = tuple(state.segments.get(partition_id, ()))
    start, end = state.held_range(partition_id)
    return PartitionDetail(
        partition=partition_id.partition,
        start=start,
        end=end,
        records=sum(segment.records for segment in segments),
        stored_bytes=sum(segment.stored_bytes for segment in segments),
    )

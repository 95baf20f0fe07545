"""The restore point that a table shows, and which commit listed each of its segments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from offsite.model.errors import NoSuchRestorePoint
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.time import parse_time
from offsite.pipeline.incarnations import Wanted, find_incarnations
from offsite.pipeline.point_in_time import PointInTime, point_in_time
from offsite.pipeline.table.options import TableOptions
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint
from offsite.repository.commit_json import damaged_commit
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState


def open_backup(options: TableOptions) -> Backup:
    """Raises `RepositoryNotFound`, `BackupNotFound`, `BadRepositoryUrl`, and what the store raises."""
    return Repository.open(open_store(options.repo)).backup(options.backup)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePoint:
    """A restore point in numbers that never change their meaning: commit, the checkpoint whose cut counts, dates."""

    commit: int
    checkpoint: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def find_table_point(options: TableOptions, backup: Backup) -> TablePoint:
    """What the options mean now: the newest commit, or a time like `2h-ago`, is another one a moment later.

    Raises `NoSuchRestorePoint`, `BadOption` for a time that is none.
    """
    now_ms = backup.store.now_ms()
    return TablePoint(
        commit=_commit(options, backup, _newest(options, backup)).seq,
        checkpoint=options.checkpoint,
        since_ms=None if options.since is None else parse_time(options.since, now_ms=now_ms),
        until_ms=None if options.at is None else parse_time(options.at, now_ms=now_ms),
    )


def restore_point(point: TablePoint, backup: Backup, options: TableOptions) -> PointInTime:
    """What of it the options select. Raises `NoSuchRestorePoint` when it is none any more, `IncarnationUnclear`."""
    head = backup.sound_state()
    taken = None if point.checkpoint is None else _checkpoint(head, point.checkpoint)
    state = backup.state_at(point.commit, head=head)
    wanted = Wanted(named=options.incarnations, until_ms=point.until_ms)
    if taken is not None:
        ids = {each.topic: each.topic_id for each, _ in taken.ends if each.topic not in options.incarnations}
        wanted = replace(wanted, ids=ids, ids_because=f"checkpoint {taken.id} is of it")
    topics = options.selection.select({each.topic for each in state.topics}, internal=PROTECTED_TOPICS)
    return point_in_time(
        state,
        ends=None if taken is None else dict.fromkeys(head.positions, 0) | dict(taken.ends),
        until_ms=point.until_ms,
        partitions=options.partitions,
        incarnations=find_incarnations(backup, state, topics, wanted),
    )


def commits_of(backup: Backup, keys: Collection[str], *, upto: int) -> Mapping[str, int]:
    """The number of the commit that listed each segment. Reads the commit log from the start until all are found."""
    found: dict[str, int] = {}
    wanted = set(keys)
    if not wanted:
        return found
    for stored in backup.log.read(after=0, upto=upto):
        listed = wanted & {segment.key for segment in stored.commit.changes.segments}
        found |= dict.fromkeys(listed, stored.commit.seq)
        if len(found) == len(wanted):
            break
    return found


def _newest(options: TableOptions, backup: Backup) -> BackupState:
    """Nobody sees a warning in a query: damage behind what is read is passed over only where a commit is named."""
    state = backup.sound_state()
    if state.unreadable and options.commit is None:
        raise damaged_commit(f"{state.unreadable}; option commit reads up to {state.seq}")
    return state


def _commit(options: TableOptions, backup: Backup, head: BackupState) -> BackupState:
    if options.commit is not None:
        return backup.state_at(options.commit, head=head)
    if options.as_of is not None:
        return backup.state_at_time(parse_time(options.as_of, now_ms=backup.store.now_ms()), head=head)
    if options.checkpoint is not None:
        taken = _checkpoint(head, options.checkpoint)
        return backup.state_at(next(each.seq for each in head.history if each.checkpoint == taken.id), head=head)
    return backup.state_at(head.seq, head=head)


def _checkpoint(head: BackupState, number: int) -> Checkpoint:
    taken = head.checkpoint(number)
    if taken is None:
        raise NoSuchRestorePoint(
            f"backup {head.backup} has no checkpoint {number}", hint=f"see its commits with: offsite show {head.backup}"
        )
    return taken

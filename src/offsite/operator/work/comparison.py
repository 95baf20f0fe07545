"""Reads the inputs for a comparison of two low-level backups (see `decide.succession`) from repositories, and all data
of a backup before another backup is deleted in its favour. Changes no backup.

Read objects are noted in the repository: so the next job continues where an interrupted job stopped. A note is
believed for an object with the same size and time, at the same place, as at the time of reading. In a copy of a
repository all objects are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from offsite.log.range import PartitionId
from offsite.model.errors import BackupNotFound, Damaged, DamagedObject, FormatTooNew, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.model.selection import TopicSelection, stored_patterns
from offsite.operator.decide.succession import Successor, may_be_rewritten, must_have_batch
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit, damaged_commit
from offsite.repository.commit_history import CommitSummary
from offsite.repository.declared.entry import LastCommit
from offsite.repository.declared.history import LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import get_agent_report
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import own_objects
from offsite.repository.repository import Repository
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo, Store
from offsite.upkeep.retention.kept_points import Reckoning, explain_clock_behind, explain_clock_jump, reckon
from offsite.upkeep.verification.segments import verify_segment

_HEADS_AT_ONCE = 16
"""Objects looked up in parallel: hides the latency of an object store."""
_NOTE_SEGMENTS = 256
_NOTE_BYTES = 256 * 1024 * 1024
"""A note is written after so many segments or bytes: a killed job reads at most so much again."""

_ReadObject: TypeAlias = tuple[str, int, int]
"""Key of a segment, size and time of its object."""
_NAMED_MAX = 5


@dataclass(slots=True, kw_only=True)
class ResumableRead:
    """The reading of low-level backup `number` of the resource `uid`, in one job."""

    store: Store
    uid: str
    number: int
    _noted: set[_ReadObject] | None = field(default=None, init=False)
    _new: list[_ReadObject] = field(default_factory=list, init=False)

    def find_problem(self, segments: Iterable[Segment]) -> str:
        """Return the problem of the first damaged segment; empty: all segments were read, and are intact. Raises the
        errors of the store."""
        listed = tuple(segments)
        infos = self._look_up(listed)
        for segment in listed:
            if not segment.is_all_in(infos[segment.object_key]):
                return f"{segment.object_key} is missing, or truncated"
        noted = self._read_notes()
        unread = [segment for segment in listed if (segment.key, *_figures(infos[segment.object_key])) not in noted]
        read_bytes = 0
        for segment in unread:
            if problem := verify_segment(segment, store=self.store).problem:
                return f"{segment.key}: {problem}"
            self._new.append((segment.key, *_figures(infos[segment.object_key])))
            read_bytes += segment.stored_bytes
            if len(self._new) >= _NOTE_SEGMENTS or read_bytes >= _NOTE_BYTES:
                self._note()
                read_bytes = 0
        self._note()
        if unread:
            decided("read", why="an older backup will be deleted because of it", uid=self.uid, segments=len(unread))
        return ""

    def forget(self) -> None:
        """Delete the notes. No data depend on the notes."""
        for info in list(own_objects(self.store.list(self._prefix))):
            self.store.delete(info.key)

    @property
    def _prefix(self) -> str:
        return DeclaredLayout(uid=self.uid).read_prefix(self.number)

    def _look_up(self, segments: tuple[Segment, ...]) -> Mapping[str, ObjectInfo | None]:
        keys = sorted({segment.object_key for segment in segments})
        with ThreadPoolExecutor(max_workers=_HEADS_AT_ONCE, thread_name_prefix="look-up") as pool:
            return dict(zip(keys, pool.map(partial(_head, self.store), keys), strict=True))

    def _read_notes(self) -> set[_ReadObject]:
        if self._noted is None:
            self._noted = set(self._notes())
        return self._noted

    def _notes(self) -> Iterator[_ReadObject]:
        for info in own_objects(self.store.list(self._prefix)):
            try:
                document = parse_json_object(self.store.get(info.key) or b"", source=info.key, damaged=DamagedObject)
                if document.text("place") == self.store.url:
                    for line in document.children("read"):
                        yield line.text("key"), line.count("bytes"), line.count("modified_ms")
            except (Damaged, OffsiteError) as error:
                warned("note", why=error.message, uid=self.uid)  # then the object is read again

    def _note(self) -> None:
        if not self._new:
            return
        lines = [{"key": key, "bytes": size_bytes, "modified_ms": at_ms} for key, size_bytes, at_ms in self._new]
        fields = {"format": FORMAT, "place": self.store.url, "read": lines}
        self.store.put_if_absent(f"{self._prefix}{random_id(16)}.json", encode_object(fields))  # type: ignore[arg-type]
        self._read_notes().update(self._new)
        self._new = []


def has_batch(store: Store, state: BackupState, partition: PartitionId, *, last_offset: int, crc: int) -> bool:
    """Whether `state` holds a batch that ends at `last_offset` with this checksum. Raises `DamagedObject`, and the
    errors of the store."""
    for segment in state.segments.get(partition, ()):
        if segment.lowest_offset <= last_offset <= segment.last_offset:
            for chunk in SegmentReader(store=store, segment=segment).chunks():
                for header in chunk.batches:
                    if header.last_offset == last_offset:
                        return header.crc == crc
    return False


def _head(store: Store, key: str) -> ObjectInfo | None:
    try:
        return store.head(key)
    except Damaged:  # another kind of object lies at the key
        return None


def _figures(info: ObjectInfo | None) -> tuple[int, int]:
    return (info.size_bytes, info.modified_ms) if info is not None else (0, 0)


def has_commit(backup: Backup, last: LastCommit) -> bool:
    """Whether `last` is a commit of the backup: so the backup is neither an older copy nor another backup."""
    if not last.commit:
        return True
    stored = backup.log.get(last.commit)
    return stored is not None and stored.hash == last.hash


def read_successor(
    repository: Repository, uid: str, low: LowLevelBackup, ledger: Sequence[LowLevelBackup], *, older: BackupState
) -> Successor:
    """Read the facts about a backup that may replace `older`. `ledger`: all backups of its ledger. Raises the errors of
    the store."""
    name = low.beginning.backup
    try:
        return _successor(repository, uid, low, ledger, older)
    except BackupNotFound:
        return Successor(name=name)
    except (Damaged, FormatTooNew) as error:
        return Successor(name=name, problem=f"cannot be read: {error.message}")


def same_batches(store: Store, older: BackupState, point: BackupState) -> Mapping[PartitionId, bool]:
    """For every partition of which `point` must have the last batch of `older`: whether `point` has the batch. Raises
    `DamagedObject`, and the errors of the store."""
    matches = {}
    for partition, position in older.positions.items():
        last = position.last_batch
        if last is not None and must_have_batch(older, point, partition):
            matches[partition] = has_batch(store, point, partition, last_offset=last.last_offset, crc=last.crc)
    return matches


def rewritten(store: Store, older: BackupState, point: BackupState) -> frozenset[PartitionId]:
    """Return the partitions of compacted topics with a batch in `point` that a later leader wrote at offsets below
    the end of `older`: normally a new leader continues after the end. Raises `DamagedObject`, and the errors of the
    store."""
    return frozenset(
        partition
        for partition, end in older.accounted_ends().items()
        if may_be_rewritten(older, point, partition)
        and any(
            _has_later_batch(store, segment, end=end, epoch=older.positions[partition].leader_epoch)
            for segment in point.segments.get(partition, ())
            if segment.start < end
        )
    )


def _has_later_batch(store: Store, segment: Segment, *, end: int, epoch: int) -> bool:
    if max(segment.leader_epochs, default=epoch) <= epoch:
        return False
    chunks = SegmentReader(store=store, segment=segment).chunks(end=end)
    return any(header.leader_epoch > epoch for chunk in chunks for header in chunk.batches)


def _successor(
    repository: Repository, uid: str, low: LowLevelBackup, ledger: Sequence[LowLevelBackup], older: BackupState
) -> Successor:
    name, backup = low.beginning.backup, repository.backup(low.beginning.backup)
    start_commit = _begun_behind(low, ledger)
    if start_commit is None:
        why = "was started several times in its place by an earlier version: its contents since then are unknown"
        return Successor(name=name, problem=why)
    if not has_commit(backup, start_commit):
        why = f"does not have commit {start_commit.commit}, after which it began: there may be a copy in its place"
        return Successor(name=name, problem=why)
    head = backup.sound_state()
    if head.unreadable:
        return Successor(name=name, problem=f"cannot be read: {head.unreadable}")
    newest = next(_complete(backup, head, behind=start_commit.commit, newest_first=True), None)
    if newest is None:
        return Successor(name=name)
    point = replace(backup.state_at(newest.seq, head=head), expired=head.expired)
    before = _last_without(backup, start_commit.commit, older.positions.keys() & point.positions.keys())
    oldest = next(_complete(backup, head, behind=before, newest_first=False), newest)
    errors = {
        str(partition.partition_id): partition.error for state in (point, head) for partition in state.left_behind
    }
    now_ms = repository.store.now_ms()
    return Successor(
        name=name,
        point=point,
        since_ms=oldest.committed_at_ms,
        until_ms=min(now_ms, newest.committed_at_ms),
        clock_step=_clock_step(backup, head, oldest, reckon(point, newest, now_ms=now_ms)),
        left_behind=named([f"{where} ({error})" for where, error in errors.items()], most=_NAMED_MAX),
        missing=_missing(repository.store, uid, low, point),
        began=_began(backup, start_commit.commit, point),
    )


def _begun_behind(low: LowLevelBackup, ledger: Sequence[LowLevelBackup]) -> LastCommit | None:
    """Return the newest commit at the place when the backup started. Earlier versions did not record the commit: then
    no commit, if no other backup started at the place."""
    if low.origin is not None:
        return low.origin.last
    in_place = [candidate for candidate in ledger if candidate.beginning.backup == low.beginning.backup]
    return LastCommit() if in_place == [low] else None


def _complete(backup: Backup, head: BackupState, *, behind: int, newest_first: bool) -> Iterator[CommitSummary]:
    """Yield the restore points after commit `behind` that completed a pass over the whole source."""
    lines = reversed(head.history) if newest_first else iter(head.history)
    for line in lines:
        if line.seq <= behind:
            if newest_first:
                return
            continue
        changes = _commit(backup, line.seq).changes
        if not (changes.incomplete or changes.is_upkeep or changes.seal):
            yield line


def _last_without(backup: Backup, behind: int, partitions: Collection[PartitionId]) -> int:
    """Return the last commit, from `behind` on, without all of `partitions`: a topic may have been added in place, or
    may have been unreadable for long."""
    missing = set(partitions) - (backup.catalog.state(upto=behind).positions.keys() if behind else set())
    before = behind
    for stored in backup.log.read(after=behind) if missing else ():
        missing -= {position.partition_id for position in stored.commit.changes.positions}
        if not missing:
            break
        before = stored.commit.seq
    return before


def _commit(backup: Backup, seq: int) -> Commit:
    """Return the commit. Raises `DamagedCommit`."""
    stored = backup.log.get(seq)
    if stored is None:
        raise damaged_commit(f"{backup.layout.commit_key(seq)} is missing")
    return stored.commit


def _clock_step(backup: Backup, head: BackupState, oldest: CommitSummary, reckoning: Reckoning) -> str:
    """Return why the times of the restore points may not be elapsed times: the same judgement of clocks as in
    retention."""
    read = partial(_commit, backup)
    return explain_clock_jump(head.history, oldest.seq, reckoning) or explain_clock_behind(
        head.history, oldest.seq, read
    )


def _missing(store: Store, uid: str, low: LowLevelBackup, point: BackupState) -> str:
    """Return topics that are declared by name and are not in the point, or that the agent does not find."""
    selection = TopicSelection(include=tuple(stored_patterns(low.beginning.topics)))
    word = get_agent_report(store, DeclaredLayout(uid=uid))
    said = word.missing if word is not None and word.number == low.number else ""
    return (
        named(selection.missing(incarnation.topic for incarnation in point.live_incarnations()), most=_NAMED_MAX)
        or said
    )


def _began(backup: Backup, behind: int, point: BackupState) -> Mapping[PartitionId, int]:
    """Return the log starts of partitions with expired records, at the first copy of every partition."""
    partitions, log_starts = set(point.expired), dict[PartitionId, int]()
    for stored in backup.log.read(after=behind) if partitions else ():
        for position in stored.commit.changes.positions:
            log_starts.setdefault(position.partition_id, position.log_start)
        if partitions <= log_starts.keys():
            break
    return log_starts

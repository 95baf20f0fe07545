"""One backup of a repository: reads its state and commits to it; a seal ends its log.

A seal is a commit without changes that takes the next number. A process about to commit has read the log before it
asked for permission. Either the permission was denied; or the log had no seal yet, and the number behind its reading is
taken by the seal or by a commit before the seal. A process stopped anywhere, for any time, therefore adds nothing
behind a seal but a second seal. The seal of a backup without a commit completes no pass: an empty backup would become
restorable.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from offsite.model.errors import (
    Bug,
    CommitLost,
    CommitsGone,
    DamagedCommit,
    DamagedObject,
    FormatTooNew,
    NoSuchRestorePoint,
    OffsiteError,
    check,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.uninterrupted import uninterrupted
from offsite.model.units import format_time
from offsite.repository.catalog import Catalog, WrittenCatalog
from offsite.repository.commit import UNACCOUNTED, Commit, CommitChanges, RecordedHole, damaged_commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.coverage import find_needed_but_expired, find_removed
from offsite.repository.descriptor import BackupDescriptor, check_records_of
from offsite.repository.fold import fold
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.segment import Segment
from offsite.repository.state import FIRST_SEQ, BackupState
from offsite.stores.store import Store
from offsite.stores.wrapped_store import ClockFallbackStore, display_now_ms

UNFINISHED_AFTER_MS = 24 * 3_600_000
"""A temporary file is abandoned when nothing was written to the file for this time, by the store's clock. A living
writer writes every moment."""

_CHECKERS = 16

OnDamage = Callable[[str], None]
"""Takes a sentence about a problem of a backup that remains usable."""

_SEALS_MAX = 100
"""Attempts at a seal: a process ahead commits once or twice more."""


def log_problem(problem: str) -> None:
    """Log the problem, for callers without a handler of their own."""
    warned("damaged", why=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One backup in a store.

    `allows_newer_format`: the reader named a restore point, so a later commit of a newer format is no error. `as_of`:
    the reader trusts no commit after this number; None: trusts all. `records_at`: the store for restore records, if
    separate from `store`.
    """

    store: Store
    descriptor: BackupDescriptor
    on_damage: OnDamage = log_problem
    allows_newer_format: bool = False
    as_of: int | None = None
    records_at: Store | None = None

    @property
    def record_store(self) -> Store:
        """The store for records of restores, drills and group changes. Its clock dates the records."""
        return self.store if self.records_at is None else self.records_at

    def reference_now_ms(self) -> int:
        """The time (epoch ms) from which relative times such as `2h-ago` count back: the clock of the backup's own
        store, wherever records lie. With a separate record store the backup's store may deny the write behind a reading
        of its clock. In such a case this machine's clock counts."""
        return self.store.now_ms() if self.records_at is None else display_now_ms(self.store)

    @property
    def layout(self) -> BackupLayout:
        return BackupLayout(backup=self.descriptor.name)

    @property
    def log(self) -> CommitLog:
        return CommitLog(store=self.store, layout=self.layout)

    @property
    def catalog(self) -> Catalog:
        return Catalog(log=self.log)

    def with_records_at(self, place: Store) -> Backup:
        """This backup with its restore records in `place`, a store for records alone. Raises `RestoreRefused`,
        `DamagedObject`, and errors of the store."""
        check_records_of(place, self.descriptor)
        return replace(
            self, records_at=ClockFallbackStore(place) if isinstance(self.store, ClockFallbackStore) else place
        )

    def read_only(self) -> Backup:
        """This backup for callers that change nothing. Works on a store without write access."""
        return replace(self, store=ClockFallbackStore(self.store))

    def for_reading(self, *, is_named: bool, as_of: int | None = None) -> Backup:
        """This backup, for reading a restore point.

        `is_named`: the user named the restore point by number or id. `as_of`: the backup as of this commit; later
        commits are ignored, no matter who wrote them.
        """
        backup = self if as_of is None else replace(self, as_of=as_of)
        return replace(backup, allows_newer_format=True) if is_named else backup

    def sound_state(self) -> BackupState:
        """The newest state for reading.

        If a commit is damaged: the state of the last commit before the damage. `on_damage` is called, and `unreadable`
        of the state holds the reason. Raises `DamagedCommit` if no commit is usable, and `FormatTooNew` at a commit of
        a newer format, unless a restore point was named (`for_reading`).
        """
        if self.as_of is not None:
            return self._state_as_of(self.as_of)
        state = self.catalog.sound_state()
        if state.is_outdated and not self.allows_newer_format:
            raise self._too_new(state)
        self._tell(state)
        return state

    def _state_as_of(self, commit: int) -> BackupState:
        state = self.catalog.state(upto=commit)
        if commit < FIRST_SEQ or state.seq != commit:
            raise self._no_such(f"commit {commit}", state)
        state = replace(state, unreadable="it is ignored, as requested")
        self._tell(state)
        return state

    def readable_state(self) -> BackupState:
        """As `sound_state`, for listings: a later commit of a newer format is no error (`is_outdated`). Raises
        `DamagedCommit` and `FormatTooNew` if no commit is usable."""
        state = self.catalog.sound_state()
        self._tell(state)
        return state

    def state(self) -> BackupState:
        """The newest state, to commit to. Raises `DamagedCommit`, `FormatTooNew`."""
        return self.catalog.state()

    def state_at(self, seq: int, *, head: BackupState | None = None) -> BackupState:
        """Restore point `seq`, with the segments that hold its data now. Data of the point without a segment today
        becomes a hole of the point. Raises `NoSuchRestorePoint`, `DamagedCommit`."""
        head = head or self.sound_state()
        self.check_point(seq, head=head)
        if seq == head.seq:
            served = head.as_point()
            return replace(served, holes=(*served.holes, *find_needed_but_expired(head, head=head)))
        point = self.catalog.state(upto=seq)
        if point.seq != seq:
            raise damaged_commit(f"{self.layout.commit_key(point.seq + 1)} is missing")
        if self.log.previous_named_by(seq + 1) not in {None, point.head_hash}:
            raise damaged_commit(f"commit {seq} of {point.backup} differs from the commit that commit {seq + 1} names")
        served = point.served_by(head)
        lost = (*find_needed_but_expired(point, head=head), *find_removed(point, served, head=head))
        return replace(served, holes=(*served.holes, *lost))

    def check_point(self, seq: int, *, head: BackupState) -> None:
        """Return if `seq` is a restore point of `head`. Raises `NoSuchRestorePoint`, `DamagedCommit`."""
        if head.history.find(seq) is None:
            if head.is_outdated and seq > head.seq:
                raise self._too_new(head)
            if head.unreadable and seq > head.seq:
                raise damaged_commit(f"commit {seq} of {self.descriptor.name} cannot be used: {head.unreadable}")
            if 0 < seq <= head.seq:
                raise NoSuchRestorePoint(
                    f"commit {seq} of backup {self.descriptor.name} is no longer a restore point: retention deleted it",
                    hint=f"see the remaining restore points with: offsite show {self.descriptor.name}, and the reason "
                    "of the deletion with: offsite retention log. If no rule or command of yours deleted it, "
                    f"--as-of-head {seq} reads the backup as it was then",
                )
            raise self._no_such(f"commit {seq}", head)

    def commit_at_time(self, time_ms: int, *, head: BackupState) -> int:
        """The number of the newest restore point of `head` committed at or before `time_ms` (store's clock, epoch ms).
        Raises `NoSuchRestorePoint`."""
        point = head.history.latest_at(time_ms)
        if point is None:
            raise self._no_such(f"commit at or before {format_time(time_ms)}", head)
        return point.seq

    def commit(self, changes: CommitChanges, *, base: BackupState, writer: str) -> BackupState:
        """Append one commit to `base`, the newest state known to the caller. Returns the state after the commit.

        Topics, positions and settings already in `base` are left out. `writer` must be unique to the run. The store is
        asked for every segment first: a segment invisible from here (in a folder that is not shared) must not be
        listed. Raises `CommitLost` if another writer committed first, and `PutOutcomeUnknown` if the outcome is
        unknown; both require a new run. Raises `DamagedCommit` if commits after `base` were lost, because their numbers
        must not be reused, and `CommitsGone` if `base` itself was lost. A crash before the commit leaves orphans (see
        `leftovers`); a crash after the commit leaves nothing. At the end, temporary files of killed processes are
        removed.
        """
        # 1. No commit behind `base` may be lost: its number must not be used twice.
        if not base.is_own and (lost := self.lost_commit(base)):
            seal = self.layout.seal_key(lost)
            raise DamagedCommit(
                f"commit {lost} of {self.descriptor.name} is missing, but its catalog exists; the log ends at commit "
                f"{base.seq}",
                hint="restore the commits from the store's versions or from a copy. If the backup never had so many "
                f"commits, somebody else wrote {seal}: check the object, and delete it",
            )
        # 2. `base` itself must still be there.
        if base.is_own and self.store.head(self.layout.commit_key(base.seq)) is None:  # maybe months old
            raise CommitsGone(
                f"commit {base.seq} of {self.descriptor.name} was made by this run and is missing now: there is "
                "another store in its place, or an older state of the store",
                hint="restore the commits or mount the right store, then run again",
            )
        # 3. The store must show every new segment.
        self._check_stored(changes.segments)
        # 4. Write a catalog of `base` if due: the commit names its seal.
        catalog = self.catalog.write(base) if self.catalog.is_due(base) else WrittenCatalog(seal="", state=base)
        base = catalog.state
        now_ms = self.store.now_ms()
        commit = Commit(
            backup=self.descriptor.name,
            seq=base.seq + 1,
            previous=base.head_hash,
            writer=writer,
            committed_at_ms=max(now_ms, base.committed_at_ms),
            changes=without_unchanged(changes, base),
            catalog=catalog.seal,
        )
        # 5. Fold the new commit before it is written, and refuse what a reader would refuse.
        encoded = self.log.encode(commit)
        state = fold(base, [encoded.stored])  # never write a commit that readers would refuse
        for hole in _unaccounted(state) - _unaccounted(base):
            where = f"{hole.partition_id} [{hole.start}, {hole.end})"
            raise Bug(f"commit {commit.seq} of {commit.backup} would skip {where} without a reason")
        # 6. Append: from here on the commit counts.
        check(self.log.append(encoded).hash == state.head_hash, f"the hash of commit {commit.seq}")
        self._sweep(before_ms=now_ms - UNFINISHED_AFTER_MS)
        return replace(state, is_own=True)

    def lost_commit(self, head: BackupState) -> int | None:
        """The newest lost commit after `head`, the end of the log, as proven by a sealed catalog. The end of the log
        alone cannot show a loss. None also if the log has continued."""
        lost = max(self.catalog.sealed(after=head.seq), default=None)
        return None if lost is None or self.store.head(self.layout.commit_key(head.seq + 1)) else lost

    def _sweep(self, *, before_ms: int) -> None:
        """Remove temporary files of killed processes. A failure is logged and ignored."""
        try:
            swept = self.store.sweep_unfinished(before_ms=before_ms)
        except OffsiteError as error:
            warned("sweep_failed", error=error.id, why=error.message)
            return
        if swept:
            decided("sweep", files=swept, why="temporary files without a write for 24 h")

    def _check_stored(self, segments: tuple[Segment, ...]) -> None:
        keys = {segment.object_key for segment in segments}
        with ThreadPoolExecutor(max_workers=_CHECKERS, thread_name_prefix="check-stored") as pool:
            infos = dict(zip(keys, pool.map(self.store.head, keys), strict=True))
        for segment in segments:
            if not segment.is_all_in(infos[segment.object_key]):
                info = infos[segment.object_key]
                actual = "is missing" if info is None else f"has {info.size_bytes} bytes"
                raise DamagedObject(
                    f"{segment.object_key} was written with {segment.object_end} bytes and {actual}",
                    hint="Spark workers and this machine must see the same repository; use shared storage or a URL",
                )

    def _tell(self, state: BackupState) -> None:
        if not (why := state.unreadable):
            return
        message = f"backup {state.backup} can be used only up to commit {state.seq}: {why}"
        since = "; later commits may have deleted data, and reads will report the missing data"
        self.on_damage(message + (since if state.is_outdated else ""))

    def _too_new(self, head: BackupState) -> FormatTooNew:
        newest = head.history[-1].seq if head.history else None
        point = f"; to read a restore point up to commit {newest} anyway, use --commit {newest}"
        whose = "upgrade offsite; if you never used a newer version, somebody else wrote that object"
        return FormatTooNew(head.unreadable, hint=whose if newest is None else whose + point)

    def _no_such(self, description: str, head: BackupState) -> NoSuchRestorePoint:
        commits = f"{head.history[0].seq} to {head.history[-1].seq}" if head.history else "none yet"
        return NoSuchRestorePoint(
            f"backup {self.descriptor.name} has no {description} (commits: {commits})",
            hint=f"see them with: offsite show {self.descriptor.name}",
        )


def _unaccounted(state: BackupState) -> set[RecordedHole]:
    return {hole for hole in state.holes if hole.reason == UNACCOUNTED}


def without_unchanged(changes: CommitChanges, base: BackupState) -> CommitChanges:
    """`changes` without the topics, positions and settings already in `base`."""
    return replace(
        changes,
        metadata=None if changes.metadata == base.metadata else changes.metadata,
        registry=None if changes.registry == base.registry else changes.registry,
        topics=tuple(shape for shape in changes.topics if base.topics.get(shape.incarnation) != shape),
        positions=tuple(p for p in changes.positions if base.positions.get(p.partition_id) != p),
    )


def seal_backup(backup: Backup) -> None:
    """Take the next number. Raises `CommitLost` if other writers commit again and again, and as `Backup.commit`."""
    for attempts_left in reversed(range(_SEALS_MAX)):
        state = backup.state()
        changes = replace(state.carry_over(CommitChanges(seal=True)), incomplete=state.incomplete or not state.seq)
        try:
            with uninterrupted():
                backup.commit(changes, base=state, writer=random_id(16))
        except CommitLost:
            if not attempts_left:
                raise
        else:
            return

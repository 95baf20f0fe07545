"""An older backup of a resource, and the last backup as its replacement: whether the older one may go.

The last backup must have been compared with the older one, hold all of its data, have been read completely, and reach
back as far as `minimumRestorable` (see `decide.succession`); or a person released the older backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import BackupNotFound, Damaged, FormatTooNew
from offsite.operator.decide.succession import judge_coverage, judge_successor
from offsite.operator.work.comparison import ResumableRead, has_commit, read_successor, rewritten, same_batches
from offsite.operator.work.release import is_released, release_doubt
from offsite.repository.backup import Backup
from offsite.repository.declared.entry import Predecessor
from offsite.repository.declared.history import (
    BackupPhase,
    DeclaredHistory,
    Located,
    LowLevelBackup,
    is_older,
)
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.leftovers import readers_of
from offsite.repository.removal import (
    unopened_backup,
)
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from offsite.upkeep.collection.agreement import RetentionInForce, find_disputed
from offsite.upkeep.retention.kept_points import pin_holds
from offsite.upkeep.retention.pins import pinned_points
from offsite.upkeep.retention.policy import RetentionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringBackup:
    """A low-level backup of an expiry job. `place`: index of its repository. `ledger`: state of its ledger.
    `is_continued`: a later backup continues at the same place, because their names have no time: the data belong to the
    later backup.
    `is_ours`: the resource has claimed the name, and its agent started the backup; a ledger alone proves nothing,
    because any process that can create objects can write a ledger."""

    place: int
    repository: Repository
    low: LowLevelBackup
    ledger: DeclaredHistory
    is_continued: bool = False
    is_ours: bool = True

    @property
    def name(self) -> str:
        return self.low.beginning.backup

    @property
    def store(self) -> Store:
        return self.repository.store

    @property
    def layout(self) -> BackupLayout:
        return BackupLayout(backup=self.name)

    @property
    def located(self) -> Located:
        return Located(ledger=str(self.place), low=self.low)

    def opened(self) -> Backup | None:
        """Open the backup; None without a descriptor."""
        try:
            return self.repository.backup(self.name)
        except BackupNotFound:
            return None

    def as_it_lies(self) -> Backup:
        """Open the backup even if its descriptor is missing or damaged."""
        try:
            backup = self.opened()
        except Damaged:
            backup = None
        return backup or unopened_backup(self.store, self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """An older backup, and the last backup as its replacement, among all `lows` of the job. `policy` and `minimum_ms`:
    as requested (see `ExpiryRequest`)."""

    uid: str
    policy: RetentionPolicy | None
    minimum_ms: int
    clock: Clock
    older: ExpiringBackup
    last: ExpiringBackup | None
    lows: Sequence[ExpiringBackup]

    def why_kept(self) -> str:
        """Return why the older backup stays; empty: may be deleted. Cheap checks come first, and reading the last
        backup comes at the end. A `removing` entry in the ledger is no reason to delete: any process that can create
        objects can write one."""
        older = self.older
        if older.low.phase is BackupPhase.REMOVING and older.store.head(older.layout.descriptor_key) is None:
            return ""  # its removal goes on: without a right to delete nobody gets it there
        try:
            return "" if is_released(older.repository, self.uid, older.low) else self._why_unreleased()
        except (Damaged, FormatTooNew) as error:
            return f"it cannot be judged: {error.message}"

    def _why_unreleased(self) -> str:
        backup = self.older.opened()
        state = backup.sound_state() if backup is not None else None
        if state is not None and state.unreadable:
            return f"it cannot be read: {state.unreadable}"
        why = next(self._reasons(state), "") or self._why_disputed(backup)
        doubt = release_doubt(self.older.repository, self.uid, self.older.low) if why else ""
        return f"{doubt}; {why}" if doubt else why

    def _why_disputed(self, backup: Backup | None) -> str:
        """Return why the last backup does not hold the data from before disbelieved commits."""
        policy = RetentionInForce(policy=self.policy)
        for dispute in find_disputed(backup, in_force=policy, clock=self.clock) if backup is not None else ():
            if why := next(self._why_unequal(dispute.before), ""):
                return f"{why}; {dispute}"
        return ""

    def _reasons(self, state: BackupState | None) -> Iterator[str]:
        is_empty = state is None or not (state.positions or state.topics or state.branches)
        if is_empty and self.older.low.phase.is_live:
            yield "it is not stopped"
        yield from self._why_not_itself(state)
        if state is not None and not is_empty:
            yield from filter(None, [why_in_use(self.uid, self.older, self.clock)])
            yield from self._why_unequal(state)

    def _why_not_itself(self, state: BackupState | None) -> Iterator[str]:
        """Yield why the data at the place may not be the recorded backup: another backup, or a part, may lie at the
        place. Without any commit, any remaining object shows former commits."""
        older, last = self.older, self.last
        for named in (
            (predecessor for predecessor in _predecessors(last) if predecessor.word == older.low.word)
            if last is not None
            else ()
        ):
            if named.last.commit and (state is None or not has_commit(older.repository.backup(older.name), named.last)):
                yield f"its commit {named.last.commit} is missing: there may be a copy, or a part, in its place"
        if (state is None or not state.seq) and (key := _rest_of(older)):
            yield f"its commits are missing, but {key} exists: a part of the backup may be missing"

    def _why_unequal(self, state: BackupState) -> Iterator[str]:
        """Yield why the last backup does not replace the older one. The caller takes the first."""
        last, older, uid = self.last, self.older, self.uid
        if last is None:
            yield "it is unknown which backup is the last one"
            return
        if older.low.phase.is_live:
            yield "it is not stopped"
        if not is_older(older.located, last.located, tuple(low.located for low in self.lows)):
            yield f"no ledger shows whether it is older than {last.name}"
        successor = read_successor(last.repository, uid, last.low, last.ledger.backups, older=state)
        if not (judged := judge_successor(successor, minimum_ms=self.minimum_ms)).may_go:
            yield str(judged)
        if (point := successor.point) is None:
            return
        same, cut_back = same_batches(last.store, state, point), rewritten(last.store, state, point)
        if not (judged := judge_coverage(state, successor, same_batch=same, rewritten=cut_back)).may_go:
            yield str(judged)
        if problem := ResumableRead(store=last.store, uid=uid, number=last.low.number).find_problem(
            point.all_segments()
        ):
            yield f"{last.name} is damaged: {problem}"
        if not _is_as_judged(uid, last):
            yield f"{last.name} changed in the ledger during the check"


def _predecessors(low: ExpiringBackup) -> tuple[Predecessor, ...]:
    return low.low.origin.predecessors if low.low.origin is not None else ()


def _is_as_judged(uid: str, low: ExpiringBackup) -> bool:
    backups = declared_ledger(low.store, uid).read().backups
    return len(backups) == len(low.ledger.backups) and backups[low.low.number - 1] == low.low


def why_in_use(uid: str, low: ExpiringBackup, clock: Clock) -> str:
    """Return why the backup cannot be deleted now: a restore reads the backup, or a point is pinned. A release also
    allows the deletion of pinned points, and of abandoned restores; not of a running restore. A restore that registered
    after the decision was refused, or died earlier: the restore reads nothing."""
    if low.low.phase is BackupPhase.REMOVING and low.store.head(low.layout.descriptor_key) is None:
        return ""  # its removal goes on: it was asked before
    try:
        released = is_released(low.repository, uid, low.low)
        for reader in readers_of(low.store, low.layout):
            if reader.is_live or not (released or low.low.phase is BackupPhase.REMOVING):
                return str(reader)
        return "" if released else _why_pinned(low.as_it_lies(), clock)
    except (Damaged, FormatTooNew) as error:
        return f"it is unknown whether it is pinned or read: {error.message}"


def _why_pinned(backup: Backup, clock: Clock) -> str:
    if pin := next((pin for pin in pinned_points(backup) if pin.holds), None):
        return f"its commit {pin.commit} is pinned: {pin.reason}"
    now_ms = backup.store.now_ms()
    for dispute in find_disputed(backup, in_force=RetentionInForce(), clock=clock):
        if taken_off := next((pin for pin in dispute.pins if pin_holds(pin, now_ms=now_ms)), None):
            return f"its commit {taken_off.seq} was pinned: {taken_off.reason}; {dispute}"
    return ""


def _rest_of(low: ExpiringBackup) -> str:
    """Return an object of a backup without commits; empty: none."""
    layout = low.layout
    marks = {layout.descriptor_key, layout.collected_key, layout.removing_key, layout.removed_key}
    return next((info.key for info in own_objects(low.store.list(layout.prefix)) if info.key not in marks), "")

"""A job of the expiry queue: deletes old data of one declared backup, or all of its data.

The retention applies to the last low-level backup. An older backup is deleted as a whole after the last backup was
compared with it, holds all of its data, was read completely, and reaches back as far as `minimumRestorable` (see
`decide.succession`); or after a person released the older backup (see `work.release`). Ledgers tell which backup is the
last. All backups of a deleted resource are stopped and deleted. A backup that a restore reads, or with a pinned point,
stays in either case, and is reported.

One such job of a backup runs at a time, over all operators: a lease in every repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import BackupNotFound, Damaged, DamagedObject, ExpiryNotDone, FormatTooNew, LeaseHeld
from offsite.model.journal import decided, warned
from offsite.operator.decide.succession import judge_coverage, judge_successor
from offsite.operator.work.comparison import ResumableRead, has_commit, read_successor, rewritten, same_batches
from offsite.operator.work.release import is_released, release_doubt
from offsite.operator.work.removed_backups import sweep_removed
from offsite.operator.world.ledger_entry import ProposedEntry, enter
from offsite.operator.world.membership import list_present
from offsite.repository.backup import Backup, seal_backup
from offsite.repository.declared.entry import DeclaredEntryKind, Predecessor
from offsite.repository.declared.history import (
    BackupPhase,
    DeclaredHistory,
    Located,
    LowLevelBackup,
    find_last,
    is_older,
    rank,
)
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger, is_begun_by, owner_of
from offsite.repository.declared.members import differing, find_member, member_id
from offsite.repository.declared.notes import KeptBackup, put_kept_backups
from offsite.repository.heads import RememberedHead
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.lease import ProcessIdentity
from offsite.repository.leftovers import readers_of
from offsite.repository.removal import (
    begin_removal,
    remove_backup,
    unopened_backup,
    was_brought_back,
    withdraw_removal,
)
from offsite.repository.repository import Repository
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from offsite.upkeep.collection.agreement import RetentionInForce, find_disputed
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.kept_points import pin_holds
from offsite.upkeep.retention.pins import pinned_points
from offsite.upkeep.retention.policy import RetentionPolicy

BY = "expiry"
_NOT_OURS = (
    "the ledger names the backup, but it does not belong to this resource: the entry is from somebody else, or the "
    "claim of its name or its backup.json is missing or unreadable"
)
_BROUGHT_BACK = "somebody restored the backup, or its removal was interrupted at the start: jobs no longer touch it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRequest:
    """The request of a job. `policy`: the retention of the last backup; None keeps everything. `minimum_ms`: the time
    span that must be restorable from the last backup before older backups are deleted. `is_deletion`: delete all
    backups. `member`: the uid of the deleted resource, if other resources may share the backup: nothing is deleted
    while another member exists. `declared`: a hash of each part of the declared expiry."""

    uid: str
    repositories: Sequence[Repository]
    policy: RetentionPolicy | None
    minimum_ms: int
    is_deletion: bool
    member: str = ""
    declared: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """The result of a job. `points`: number of restore points deleted from the last backup. `removed`: names of the
    completely deleted backups. `kept`: kept older backups, with the reasons. `left_to`: the other running job of the
    backup, which does the work."""

    uid: str
    points: int = 0
    removed: tuple[str, ...] = ()
    kept: tuple[KeptBackup, ...] = ()
    left_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Low:
    """A low-level backup of the job. `place`: index of its repository. `ledger`: state of its ledger. `is_continued`: a
    later backup continues at the same place, because their names have no time: the data belong to the later backup.
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


def expire(request: ExpiryRequest, *, clock: Clock) -> ExpiryResult:
    """Do one job, and record the kept backups in the repositories. If another job of this backup runs, that job does
    the work; for a deletion this raises `LeaseHeld`, because every deletion must be tried again. Raises
    `ExpiryNotDone` if a backup to delete is still read, copied or pinned, or if a member declares another expiry;
    `CommitsGone` if the last backup lacks commits that this machine saw before; and the errors of the retention and of
    the stores."""
    layout = DeclaredLayout(uid=request.uid)
    with ExitStack() as stack:
        try:
            for repository in request.repositories:
                stack.enter_context(layout.expiry(repository.store).renewed(ProcessIdentity.current()))
        except LeaseHeld as error:
            if request.is_deletion:
                raise
            return ExpiryResult(uid=request.uid, left_to=error.message)
        result = _delete(request, clock) if request.is_deletion else _expire(request, clock)
        stores = [repository.store for repository in request.repositories]
        for store in stores:
            put_kept_backups(store, layout, result.kept)
        if request.is_deletion and result.kept:
            reasons = "; ".join(map(str, result.kept))
            raise ExpiryNotDone(f"not all may be deleted yet: {reasons}", hint="the operator tries again")
        for store in stores:
            sweep_removed(store, by=BY)
        return result


def _delete(request: ExpiryRequest, clock: Clock) -> ExpiryResult:
    """Delete all backups, except pinned or read ones."""
    removed, kept_backups = list[str](), list[KeptBackup]()
    for low in _lows(request):
        if not low.is_ours:
            warned("left_alone", why=_NOT_OURS, uid=request.uid, backup=low.name)
            continue
        in_use = "" if low.is_continued else _why_in_use(request.uid, low, clock)
        if why := in_use or _remove(request, low, clock):
            kept_backups.append(_kept(low, why))
        else:
            removed.append(low.name)
    return ExpiryResult(uid=request.uid, removed=tuple(removed), kept=tuple(kept_backups))


def _expire(request: ExpiryRequest, clock: Clock) -> ExpiryResult:
    for low in _lows(request):
        if low.is_continued and low.is_ours:
            _forget(request, low)
    listed = _lows(request)
    lows = [low for low in listed if low.is_ours]
    last = _last(lows)
    backup = _opened(last) if last is not None else None
    if last is not None and backup is not None:
        RememberedHead(repository=last.repository, backup=last.name).check(backup, backup.sound_state())
    points = 0 if backup is None or request.policy is None else _let_go(backup, request.policy, clock)
    removed, kept_backups = list[str](), [_kept(low, _NOT_OURS) for low in listed if not low.is_ours]
    for low in lows:
        if low is last:
            continue
        if why := _Case(request=request, clock=clock, older=low, last=last, lows=lows).why_kept():
            if low.low.phase is not BackupPhase.REMOVING:
                withdraw_removal(low.store, low.layout)
        else:
            why = _remove(request, low, clock)
        if why:
            kept_backups.append(_kept(low, why))
        else:
            removed.append(low.name)
    if last is not None and not kept_backups:
        ResumableRead(store=last.store, uid=request.uid, number=last.low.number).forget()
    return ExpiryResult(uid=request.uid, points=points, removed=tuple(removed), kept=tuple(kept_backups))


def _let_go(backup: Backup, policy: RetentionPolicy, clock: Clock) -> int:
    """Apply the retention with its guards; return the number of expired restore points."""
    plan = plan_retention(backup, policy, clock=clock)
    return apply_retention(backup, plan, clock=clock).plan.points


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """An older backup, and the last backup as its replacement."""

    request: ExpiryRequest
    clock: Clock
    older: _Low
    last: _Low | None
    lows: Sequence[_Low]

    def why_kept(self) -> str:
        """Return why the older backup stays; empty: may be deleted. Cheap checks come first, and reading the last
        backup comes at the end. A `removing` entry in the ledger is no reason to delete: any process that can create
        objects can write one."""
        older = self.older
        if older.low.phase is BackupPhase.REMOVING and older.store.head(older.layout.descriptor_key) is None:
            return ""  # its removal goes on: without a right to delete nobody gets it there
        try:
            return "" if is_released(older.repository, self.request.uid, older.low) else self._why_unreleased()
        except (Damaged, FormatTooNew) as error:
            return f"it cannot be judged: {error.message}"

    def _why_unreleased(self) -> str:
        backup = _opened(self.older)
        state = backup.sound_state() if backup is not None else None
        if state is not None and state.unreadable:
            return f"it cannot be read: {state.unreadable}"
        why = next(self._reasons(state), "") or self._why_disputed(backup)
        doubt = release_doubt(self.older.repository, self.request.uid, self.older.low) if why else ""
        return f"{doubt}; {why}" if doubt else why

    def _why_disputed(self, backup: Backup | None) -> str:
        """Return why the last backup does not hold the data from before disbelieved commits."""
        policy = RetentionInForce(policy=self.request.policy)
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
            yield from filter(None, [_why_in_use(self.request.uid, self.older, self.clock)])
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
        last, older, uid = self.last, self.older, self.request.uid
        if last is None:
            yield "it is unknown which backup is the last one"
            return
        if older.low.phase.is_live:
            yield "it is not stopped"
        if not is_older(_located(older), _located(last), tuple(map(_located, self.lows))):
            yield f"no ledger shows whether it is older than {last.name}"
        successor = read_successor(last.repository, uid, last.low, last.ledger.backups, older=state)
        if not (judged := judge_successor(successor, minimum_ms=self.request.minimum_ms)).may_go:
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


def _predecessors(low: _Low) -> tuple[Predecessor, ...]:
    return low.low.origin.predecessors if low.low.origin is not None else ()


def _is_as_judged(uid: str, low: _Low) -> bool:
    backups = declared_ledger(low.store, uid).read().backups
    return len(backups) == len(low.ledger.backups) and backups[low.low.number - 1] == low.low


def _why_in_use(uid: str, low: _Low, clock: Clock) -> str:
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
        return "" if released else _why_pinned(_as_it_lies(low), clock)
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


def _rest_of(low: _Low) -> str:
    """Return an object of a backup without commits; empty: none."""
    layout = low.layout
    marks = {layout.descriptor_key, layout.collected_key, layout.removing_key, layout.removed_key}
    return next((info.key for info in own_objects(low.store.list(layout.prefix)) if info.key not in marks), "")


def _kept(low: _Low, why: str) -> KeptBackup:
    return KeptBackup(backup=low.name, repository=low.store.url, reason=why)


def _opened(low: _Low) -> Backup | None:
    try:
        return low.repository.backup(low.name)
    except BackupNotFound:
        return None


def _as_it_lies(low: _Low) -> Backup:
    """Open the backup even if its descriptor is missing or damaged."""
    try:
        backup = _opened(low)
    except Damaged:
        backup = None
    return backup or unopened_backup(low.store, low.layout)


def _last(lows: Sequence[_Low]) -> _Low | None:
    located = tuple(map(_located, lows))
    last = find_last(located)
    return None if last is None else next(low for low in lows if _located(low) == last)


def _located(low: _Low) -> Located:
    return Located(ledger=str(low.place), low=low.low)


def _lows(request: ExpiryRequest) -> list[_Low]:
    """All that is left of the resource's backups, older ones first. Raises as `_check_members`."""
    lows = [low for place in range(len(request.repositories)) for low in _lows_in(request, place)]
    located = tuple(map(_located, lows))
    return sorted(lows, key=lambda low: rank(_located(low), located))


def _lows_in(request: ExpiryRequest, place: int) -> Iterator[_Low]:
    repository = request.repositories[place]
    ledger = declared_ledger(repository.store, request.uid).read()
    _check_members(request, repository.store, ledger)
    newest = {low.beginning.backup: low.number for low in ledger.remaining}
    for low in ledger.remaining:
        yield _Low(
            place=place,
            repository=repository,
            low=low,
            ledger=ledger,
            is_continued=low.number != newest[low.beginning.backup],
            is_ours=_is_ours(repository.store, low.beginning.backup, request.uid),
        )


def _is_ours(store: Store, backup: str, uid: str) -> bool:
    try:
        return owner_of(store, backup) == uid and is_begun_by(store, backup, uid)
    except (DamagedObject, FormatTooNew) as error:
        warned("left_alone", why=f"its owner is unknown: {error.message}", uid=uid, backup=backup)
        return False


def _check_members(asked: ExpiryRequest, store: Store, history: DeclaredHistory) -> None:
    """Check the members of a shared backup. For a deletion, the resource itself and all other members must have left.
    Otherwise all members must declare the expiry of this job, also members that joined after the start of the job.
    Raises `ExpiryNotDone`, and the errors of the store."""
    if not asked.is_deletion:
        others = [other for other in list_present(store, history) if differing(other.fields, asked.declared)]
        if others:
            raise ExpiryNotDone(
                f"{others[0]} declares another expiry", hint="expiry continues when all declare the same"
            )
        return
    if not asked.member:
        return
    mine = find_member(history.members, member_id(asked.uid, asked.member))
    if mine is None or not mine.is_gone:
        raise ExpiryNotDone(
            f"this resource has not left the shared backup {asked.uid}",
            hint="see who shares it: offsite operator members",
        )
    if others := list_present(store, history):
        raise ExpiryNotDone(f"{len(others)} others share {asked.uid}, as {others[0]}")


def _forget(request: ExpiryRequest, low: _Low) -> None:
    """Record that a continued backup has no data of its own. Deletes nothing."""
    if low.low.phase is BackupPhase.STOPPED:
        _decide(request, low, DeclaredEntryKind.REMOVING)
    _decide(request, low, DeclaredEntryKind.REMOVED)
    decided(
        "expired", why="a later backup continues in its place", uid=request.uid, backup=low.name, number=low.low.number
    )


def _remove(request: ExpiryRequest, low: _Low, clock: Clock) -> str:
    """Stop and seal the backup, and delete the backup as a whole; or return why the backup stays. Readers are checked
    while no process can start to read, and pins right before the ledger entry `removing`; after that entry the deletion
    is final."""
    if low.is_continued:
        _forget(request, low)
        return ""
    phase, uid = low.low.phase, request.uid
    if phase is BackupPhase.REMOVING and was_brought_back(low.store, low.layout):
        _decide(request, low, DeclaredEntryKind.REMOVED)
        warned("left_alone", why=_BROUGHT_BACK, uid=uid, backup=low.name)
        return _BROUGHT_BACK
    if phase.is_live:
        _decide(request, low, DeclaredEntryKind.STOPPED)
        phase = BackupPhase.STOPPED
    if phase is BackupPhase.STOPPED and not low.low.is_sealed and (backup := _opened(low)) is not None:
        seal_backup(backup)
    if phase is BackupPhase.STOPPED:
        _check_idle(uid, low)
    why = list[str]()

    def is_used() -> bool:
        why.extend(filter(None, [_why_in_use(uid, low, clock)]))
        return bool(why)

    if not begin_removal(low.store, low.layout, is_read=is_used, is_decided=phase is BackupPhase.REMOVING):
        return why[0]
    if phase is BackupPhase.STOPPED:
        _decide(request, low, DeclaredEntryKind.REMOVING)
    announce = _announced(uid, low)
    if not remove_backup(low.store, low.layout, is_read=is_used, announce=announce, is_decided=True):
        return why[0]
    _decide(request, low, DeclaredEntryKind.REMOVED)
    decided("expired", why="an older backup, or a resource that is deleted", uid=uid, backup=low.name)
    return ""


def _check_idle(uid: str, low: _Low) -> None:
    """Refuse while an agent still holds the backup: an agent reads a stop within seconds."""
    terms = DeclaredLayout(uid=uid).agent(low.store)
    newest = declared_ledger(low.store, uid).read().backups[-1].number
    if low.low.number == newest and terms.holder(asking=ProcessIdentity.current()) is not None:
        raise ExpiryNotDone(f"an agent still works on {low.name}", hint="the operator tries again")


def _announced(uid: str, low: _Low) -> Callable[[int], None]:
    """Return a function that records the deletion in advance."""
    layout, store = DeclaredLayout(uid=uid), low.store

    def announce(size_bytes: int) -> None:
        line = Deletion(
            kind=GENERATION,
            what=low.name,
            rule="a newer backup was compared with it, or a person said so",
            bytes=size_bytes,
        )
        seq = declared_ledger(store, layout.uid).read().seq
        note_deletions(store, layout, [line], by=BY, commit=seq)

    return announce


def _decide(request: ExpiryRequest, low: _Low, kind: DeclaredEntryKind) -> None:
    """Enter a decision about a backup. Raises `ExpiryNotDone` if another backup started at its place meanwhile."""

    def said(history: DeclaredHistory) -> ProposedEntry:
        _check_members(request, low.store, history)
        later = history.backups[low.low.number :]
        if not low.is_continued and any(newer.beginning.backup == low.name for newer in later):
            raise ExpiryNotDone(f"another backup began in the place of {low.name}", hint="the operator tries again")
        return ProposedEntry(kind=kind, number=low.low.number)

    enter(low.store, request.uid, said, by=ProcessIdentity.current())
